// Sampling flags and the streamed answer.
#include "generation.h"

#include "io.h"

#include <CLI/CLI.hpp>

#include <chrono>
#include <cmath>
#include <exception>
#include <random>

namespace scoria::cli {
namespace {

/// CLI11's own Range lets NaN through.
CLI::Validator finite_in(double least, double most) {
    const auto check = [least, most](std::string& text) -> std::string {
        double value = 0;
        if (!CLI::detail::lexical_cast(text, value) || !(value >= least && value <= most))
            return cat("expected a number from ", least, " to ", most, ", got '", text, "'");
        return {};
    };
    return CLI::Validator(check, "");
}

}  // namespace

void add_generation_flags(CLI::App& app, GenerationFlags& flags) {
    SamplingOptions& sampling = flags.sampling;
    app.add_option("-n,--tokens", flags.max_tokens,
                   "most tokens to generate (default: until the model ends)");
    app.add_option("--temp", sampling.temperature, "temperature; 0 is greedy (default: 0.7)")
        ->check(finite_in(0, 100));
    app.add_option("--top-k", sampling.top_k, "keep the K likeliest tokens; 0: off (default: 40)");
    app.add_option("--top-p", sampling.top_p,
                   "keep the likeliest tokens of this mass; 1: off (default: 0.95)")
        ->check(finite_in(0, 1));
    app.add_option("--min-p", sampling.min_p,
                   "keep tokens this likely beside the best; 0: off (default: 0.05)")
        ->check(finite_in(0, 1));
    app.add_option("--repeat-penalty", sampling.repetition_penalty,
                   "weakens tokens seen lately; 1: off (default: 1)")
        ->check(finite_in(0.01, 100));
    app.add_option("--repeat-window", sampling.repetition_window,
                   "how many tokens back that looks (default: 64)");
    app.add_option_function<uint64_t>(
        "--seed",
        [&flags](uint64_t seed) {
            flags.sampling.seed = seed;
            flags.seeded = true;
        },
        "seed of the sampler (default: another one each time)");
}

Answer stream_answer(Session& session, const Tokenizer& tokenizer, const GenerationFlags& flags,
                     const std::atomic<bool>& cancel, bool stream) {
    using Clock = std::chrono::steady_clock;
    Answer answer;
    answer.seed = flags.seeded ? flags.sampling.seed : std::random_device()();
    StreamDecoder decoder(tokenizer);
    const auto emit = [&](const std::string& text) {
        answer.text += text;
        if (stream && !text.empty()) write_out(text);
    };
    const auto start = Clock::now();
    std::exception_ptr write_error;
    GenerateOptions options;
    options.sampling = flags.sampling;
    options.sampling.seed = answer.seed;
    options.max_tokens = flags.max_tokens;
    options.cancel = &cancel;
    options.on_token = [&](TokenId id) {
        if (answer.first_token_seconds == 0)
            answer.first_token_seconds = std::chrono::duration<double>(Clock::now() - start).count();
        if (tokenizer.ends_generation(id)) return true;
        // The engine is asked to stop rather than unwound through.
        try {
            emit(decoder.push(id));
        } catch (...) {
            write_error = std::current_exception();
            return false;
        }
        return true;
    };
    answer.result = session.generate(options);
    if (write_error) std::rethrow_exception(write_error);
    emit(decoder.finish());
    return answer;
}

void note_stop(const Answer& answer, const Session& session) {
    if (answer.result.reason == StopReason::context_full)
        note("scoria: stopped: the context of ", session.capacity(), " tokens is full (--ctx)");
}

const char* stop_name(StopReason reason) {
    switch (reason) {
    case StopReason::end_of_generation:
        return "end";
    case StopReason::token_limit:
        return "length";
    case StopReason::context_full:
        return "context";
    case StopReason::cancelled:
        return "cancelled";
    }
    return "?";
}

}  // namespace scoria::cli
