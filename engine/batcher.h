// Sessions of one engine computed together: a pass reads the weights once, for the next token of every answer
// and for pieces of prompts beside them, so that nobody waits for another's prompt (Yu et al. 2022, "Orca";
// Agrawal et al. 2023, "Sarathi").
//
// Where the shared cache is too small for all, those that came last give way and are computed again once
// there is room; an answer is not changed by it.
//
// Together are computed sessions that share a cache (EngineOptions::sequences). Others take turns, as do
// answers with speculation or on_attention, and models whose passes know one sequence only: encoder-decoders,
// prefix language models, compressed memories, rotations by length, recurrences whose states no binding holds
// for all sequences, and such as are shared by several devices.
#pragma once

#include "session.h"

#include <exception>

namespace scoria {

class Batcher {
  public:
    /// Called once per answer, from inside step(), which it may not call; add() it may. An error is one of
    /// this answer alone; what came before it stays in the session.
    using Done = std::function<void(GenerateResult, std::exception_ptr error)>;

    explicit Batcher(Engine& engine);
    Batcher(Batcher&& other) noexcept;
    ~Batcher();  // answers that are not done end without a word

    /// Appends `ids` to the session's tokens and answers them, from the next step on; until then, and until
    /// it is done, the session and all that `options` point to are the batcher's. Errors: bad_argument (an id
    /// outside the vocabulary, no token at all, a session of another engine or one that is in here already,
    /// options out of range), context_full, unsupported (an encoder).
    void add(Session& session, std::span<const TokenId> ids, GenerateOptions options, Done done = {});
    /// One pass, of one token of each answer and at most a chunk of prompts; calls what it has to. Where
    /// sessions take turns, it is a whole answer. Whether there is more to do. Errors: device_lost,
    /// out_of_device_memory, timeout: nothing was lost, and a step may be tried again; busy, inside a
    /// callback.
    bool step();
    size_t size() const;  // answers that are not done

    struct Impl;

  private:
    std::unique_ptr<Impl> impl_;
};

}  // namespace scoria
