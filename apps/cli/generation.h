// What `run` and `chat` share: sampling flags and an answer streamed to stdout.
#pragma once

#include "proposers.h"
#include "session.h"

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace scoria::cli {

struct GenerationFlags {
    uint32_t max_tokens = 0;  // 0: until the model ends or the context is full
    SamplingOptions sampling{.temperature = 0.7f};
    bool seeded = false;  // --seed was given
    std::vector<std::string> stop;
    std::optional<uint32_t> logprobs;
    std::string grammar_file;
    std::string json_schema;  // a file, or the text itself, which begins with a brace
    std::shared_ptr<const grammar::Program> output_grammar;  // of these two
    SpeculationFlags speculation;
};

/// Registers -n, --temp and everything else that says how tokens are chosen and where an answer ends.
void add_generation_flags(CLI::App& app, GenerationFlags& flags);

/// Errors: bad_argument, for a flag that means nothing without another, where no request may bring that.
void check_generation_flags(const CLI::App& app);

/// Reads and compiles what the grammar flags name; to be called once, before the model is loaded.
void compile_grammar(GenerationFlags& flags);

/// What the flags say, with this seed, but for speculation and callbacks.
GenerateOptions generate_options(const GenerationFlags& flags, uint64_t seed,
                                 const std::atomic<bool>& cancel);

struct Answer {
    std::string text;
    GenerateResult result;
    double first_token_seconds = 0;  // from the call to the first token
    uint64_t seed = 0;
};

/// Generates after what `session` holds, whose model has a vocabulary; shows text as it becomes whole UTF-8.
/// special: control tokens, too, as they are spelled. What `show` throws ends the answer and is thrown again.
/// Cancelling ends it, too; it is no error.
Answer stream_answer(Session& session, const GenerationFlags& flags, const std::atomic<bool>& cancel,
                     const std::function<void(std::string_view)>& show, bool special = false);

/// Says on stderr why an answer ended, when the reader could not know.
void note_stop(const Answer& answer, uint32_t context);

const char* stop_name(StopReason reason);

}  // namespace scoria::cli
