// Sampling flags and the streamed answer.
#include "generation.h"
#include "clock.h"

#include "grammar/json_schema.h"
#include "io.h"
#include "values.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cfloat>
#include <charconv>
#include <chrono>
#include <cmath>
#include <exception>
#include <random>

namespace scoria::cli {
namespace {

/// "ID=VALUE"; -inf bans.
LogitBias parse_bias(const std::string& text) {
    LogitBias bias;
    const size_t equals = std::min(text.find('='), text.size());
    const char* const end = text.data() + equals;
    // CLI11 reads 010 as 8.
    const auto [rest, error] = std::from_chars(text.data(), end, bias.token);
    const std::string_view value = std::string_view(text).substr(std::min(equals + 1, text.size()));
    const std::optional<double> number = value == "-inf" ? -INFINITY : decimal_number(value);
    const bool fits = number && (*number == -INFINITY || std::fabs(*number) <= FLT_MAX);
    if (error != std::errc() || rest != end || !fits)
        throw CLI::ValidationError("--logit-bias", cat("expected ID=VALUE, got '", text, "'"));
    bias.bias = float(*number);
    return bias;
}

void add_rarer_flags(CLI::App& app, SamplingOptions& sampling) {
    app.add_option("--frequency-penalty", sampling.frequency_penalty,
                   "weakens tokens each time they were seen lately (default: 0)")
        ->check(CLI::Range(-100.0, 100.0));
    app.add_option("--presence-penalty", sampling.presence_penalty,
                   "weakens tokens seen lately at all (default: 0)")
        ->check(CLI::Range(-100.0, 100.0));
    app.add_option_function<std::vector<std::string>>(
           "--logit-bias",
           [&sampling](const std::vector<std::string>& given) {
               for (const std::string& each : given) sampling.logit_bias.push_back(parse_bias(each));
           },
           "ID=VALUE: adds to a token's logit; -inf bans it; may be repeated")
        ->expected(1)
        ->take_all();
    app.add_option("--typical", sampling.typical_p,
                   "keep the tokens of this mass whose surprise is most typical; 1: off (default: 1)")
        ->check(CLI::Range(0.0, 1.0));
    app.add_option("--xtc-probability", sampling.xtc_probability,
                   "how often all top choices but the last are excluded; 0: off (default: 0)")
        ->check(CLI::Range(0.0, 1.0));
    app.add_option("--xtc-threshold", sampling.xtc_threshold,
                   "the probability that makes a top choice (default: 0.1)")
        ->check(CLI::Range(0.0, 1.0));
    app.add_option("--dry-multiplier", sampling.dry_multiplier,
                   "weakens tokens that make repetitions longer; 0: off (default: 0)")
        ->check(CLI::Range(0.0, 100.0));
    app.add_option("--dry-base", sampling.dry_base, "its growth per token repeated (default: 1.75)")
        ->check(CLI::Range(1.0, 100.0));
    app.add_option("--dry-allowed-length", sampling.dry_allowed_length,
                   "repetitions up to this long cost nothing (default: 2)");
    app.add_option("--dry-range", sampling.dry_range, "how many tokens back it looks; 0: all (default: 0)");
    app.add_option("--dry-breaker", sampling.dry_breakers,
                   "text that ends a repetition; may be repeated (default: newline, colon, quote, asterisk)")
        ->expected(1)
        ->take_all();
    app.add_option("--mirostat-tau", sampling.mirostat_tau,
                   "mirostat 2 instead of the filters: bits of surprise aimed at; 0: off (default: 0)")
        ->check(CLI::Range(0.0, 100.0));
    app.add_option("--mirostat-eta", sampling.mirostat_eta, "its learning rate (default: 0.1)")
        ->check(CLI::Range(0.0, 1.0));
}

}  // namespace

void add_generation_flags(CLI::App& app, GenerationFlags& flags) {
    SamplingOptions& sampling = flags.sampling;
    app.add_option("-n,--tokens", flags.max_tokens,
                   "most tokens to generate (default: until the model ends)");
    app.add_option("--temp", sampling.temperature, "temperature; 0 is greedy (default: 0.7)")
        ->check(CLI::Range(0.0, 100.0));
    app.add_option("--top-k", sampling.top_k, "keep the K likeliest tokens; 0: off (default: 40)");
    app.add_option("--top-p", sampling.top_p,
                   "keep the likeliest tokens of this mass; 1: off (default: 0.95)")
        ->check(CLI::Range(0.0, 1.0));
    app.add_option("--min-p", sampling.min_p,
                   "keep tokens this likely beside the best; 0: off (default: 0.05)")
        ->check(CLI::Range(0.0, 1.0));
    app.add_option("--repeat-penalty", sampling.repetition_penalty,
                   "weakens tokens seen lately; 1: off (default: 1)")
        ->check(CLI::Range(0.01, 100.0));
    app.add_option("--repeat-window", sampling.repetition_window,
                   "how many tokens back the penalties look (default: 64)");
    add_rarer_flags(app, sampling);
    CLI::Option* grammar =
        app.add_option("--grammar", flags.grammar_file, "the answer is one of this GBNF file's words");
    app.add_option("--json-schema", flags.json_schema, "the answer is JSON of this schema (a file, or {...})")
        ->excludes(grammar);
    app.add_option("--stop", flags.stop, "ends the answer at this text; may be repeated")
        ->expected(1)
        ->take_all();
    add_speculation_flags(app, flags.speculation);
    app.add_option_function<uint64_t>(
        "--seed",
        [&flags](uint64_t seed) {
            flags.sampling.seed = seed;
            flags.seeded = true;
        },
        "seed of the sampler (default: another one each time)");
}

void check_generation_flags(const CLI::App& app) {
    check_speculation_flags(app);
    check_company(app,
                  {{"--repeat-window", {"--repeat-penalty", "--frequency-penalty", "--presence-penalty"}},
                   {"--xtc-threshold", {"--xtc-probability"}},
                   {"--dry-base", {"--dry-multiplier"}},
                   {"--dry-allowed-length", {"--dry-multiplier"}},
                   {"--dry-range", {"--dry-multiplier"}},
                   {"--dry-breaker", {"--dry-multiplier"}},
                   {"--mirostat-eta", {"--mirostat-tau"}}});
}

void compile_grammar(GenerationFlags& flags) {
    const auto compile = [&](const grammar::Grammar& rules) {
        flags.output_grammar = std::make_shared<const grammar::Program>(rules);
    };
    if (!flags.grammar_file.empty())
        compile(grammar::parse_gbnf(without_mark(read_text(flags.grammar_file))));
    if (flags.json_schema.empty()) return;
    const size_t first = flags.json_schema.find_first_not_of(" \t\r\n");
    const bool is_text = first != std::string::npos && flags.json_schema[first] == '{';
    compile(grammar::json_schema_grammar(is_text ? flags.json_schema : read_text(flags.json_schema)));
}

GenerateOptions generate_options(const GenerationFlags& flags, uint64_t seed,
                                 const std::atomic<bool>& cancel) {
    GenerateOptions options;
    options.sampling = flags.sampling;
    options.sampling.seed = seed;
    options.max_tokens = flags.max_tokens;
    options.cancel = &cancel;
    options.stop = flags.stop;
    options.output_grammar = flags.output_grammar;
    options.logprobs = flags.logprobs;
    return options;
}

Answer stream_answer(Session& session, const GenerationFlags& flags, const std::atomic<bool>& cancel,
                     const std::function<void(std::string_view)>& show, bool special) {
    Answer answer;
    answer.seed = flags.seeded ? flags.sampling.seed : std::random_device()();
    const auto start = Clock::now();
    std::exception_ptr write_error;
    GenerateOptions options = generate_options(flags, answer.seed, cancel);
    flags.speculation.apply(options);
    options.special_text = special;
    options.on_text = [&](TokenId, std::string_view text) {
        if (answer.first_token_seconds == 0) answer.first_token_seconds = seconds_since(start);
        answer.text += text;
        // The engine is asked to stop rather than unwound through.
        try {
            if (!text.empty()) show(text);
        } catch (...) {
            write_error = std::current_exception();
            return false;
        }
        return true;
    };
    answer.result = session.generate(options);
    if (write_error) std::rethrow_exception(write_error);
    return answer;
}

void note_stop(const Answer& answer, uint32_t context) {
    if (answer.result.reason == StopReason::context_full)
        note("scoria: stopped: the context of ", context, " tokens is full (--ctx)");
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
    case StopReason::stop_string:
        return "stop";
    }
    return "?";
}

}  // namespace scoria::cli
