// What `run` and `chat` share: sampling flags and an answer streamed to stdout.
#pragma once

#include "session.h"

#include <atomic>
#include <string>

namespace CLI {
class App;
}

namespace scoria::cli {

struct GenerationFlags {
    uint32_t max_tokens = 0;  // 0: until the model ends or the context is full
    SamplingOptions sampling{.temperature = 0.7f};
    bool seeded = false;  // --seed was given
};

/// Registers -n, --temp, --top-k, --top-p, --min-p, --repeat-penalty, --repeat-window and --seed.
void add_generation_flags(CLI::App& app, GenerationFlags& flags);

struct Answer {
    std::string text;
    GenerateResult result;
    double first_token_seconds = 0;  // from the call to the first token
    uint64_t seed = 0;
};

/// Generates after what `session` holds; writes text to stdout as it becomes whole UTF-8, if `stream`.
/// Throws ClosedPipe once stdout is closed. Cancelling ends the answer; it is no error.
Answer stream_answer(Session& session, const Tokenizer& tokenizer, const GenerationFlags& flags,
                     const std::atomic<bool>& cancel, bool stream);

/// Says on stderr why an answer ended, when the reader could not know.
void note_stop(const Answer& answer, const Session& session);

const char* stop_name(StopReason reason);

}  // namespace scoria::cli
