// run: one prompt, one answer, streamed.
#include "beam_search.h"
#include "clock.h"
#include "io.h"
#include "run_many.h"
#include "values.h"
#include "verbs.h"

#include "console.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace scoria::cli {
namespace {

struct RunOptions {
    std::string text, file;
    PromptForm form;
    ManyPrompts many;
    uint32_t beams = 1;
    float length_penalty = 1;
    std::string early_stopping = "no";
    GenerationFlags generation;
};

struct Timing {
    double load = 0, prompt = 0;  // seconds
    size_t prompt_tokens = 0;
};

// Times are the caller's: load to engine ready, prompt to its last logits.
void report(const Answer& answer, const std::vector<Beam>& beams, const Timing& timing, const Common& common,
            const Engine& engine) {
    const double per_second =
        answer.result.seconds > 0 ? double(answer.result.tokens.size()) / answer.result.seconds : 0;
    const double prompt_per_second = timing.prompt > 0 ? double(timing.prompt_tokens) / timing.prompt : 0;
    if (common.json) {
        nlohmann::json report{
            {"text", answer.text},
            {"ids", answer.result.tokens},
            {"stop", stop_name(answer.result.reason)},
            {"seed", answer.seed},
            {"precision", precision_name(engine.options().precision)},
            {"prompt_tokens", timing.prompt_tokens},
            {"load_seconds", timing.load},
            {"prompt_seconds", timing.prompt},
            {"first_token_seconds", timing.load + timing.prompt + answer.first_token_seconds},
            {"prompt_tokens_per_second", prompt_per_second},
            {"tokens_per_second", per_second},
            {"proposed", answer.result.proposed},
            {"accepted", answer.result.accepted}};
        for (const Beam& beam : beams)
            report["beams"].push_back(
                {{"ids", beam.tokens}, {"score", beam.score}, {"logprob", beam.log_probability}});
        if (!answer.result.logprobs.empty())
            report["logprobs"] = logprobs_json(answer.result.logprobs, *engine.model().tokenizer);
        print(json_text(report, 1), '\n');
    }
    if (common.verbose)
        note("load ", fixed(timing.load, 2), " s, prompt ", timing.prompt_tokens, " tokens at ",
             fixed(prompt_per_second, 1), " tok/s, answer ", answer.result.tokens.size(), " tokens at ",
             fixed(per_second, 1), " tok/s, first token after ",
             fixed(timing.load + timing.prompt + answer.first_token_seconds, 2),
             " s, stop: ", stop_name(answer.result.reason), ", seed ", answer.seed,
             answer.result.proposed
                 ? cat(", ", speculation_text(answer.result.proposed, answer.result.accepted))
                 : "");
}

/// Errors: bad_argument, for flags that another makes mean nothing.
void check_flags(const CLI::App& app, const RunOptions& options) {
    check_generation_flags(app);
    for (const char* guesses : {"--lookup", "--mtp", "--draft"}) check_alone(app, {{guesses, {"--prompts"}}});
    if (options.beams == 1) return;
    // Nothing but the model's own probabilities, and its end, make the answer. --temp 0 says as much.
    std::vector<const char*> others{"--top-k",
                                    "--top-p",
                                    "--min-p",
                                    "--typical",
                                    "--xtc-probability",
                                    "--mirostat-tau",
                                    "--seed",
                                    "--repeat-penalty",
                                    "--frequency-penalty",
                                    "--presence-penalty",
                                    "--dry-multiplier",
                                    "--logit-bias",
                                    "--logprobs",
                                    "--grammar",
                                    "--json-schema",
                                    "--stop",
                                    "--lookup",
                                    "--mtp",
                                    "--draft"};
    if (options.generation.sampling.temperature != 0) others.push_back("--temp");
    check_alone(app, {{"--beams", others}});
}

/// The answer by beam search; other answers only show in `all`.
Answer beam_answer(Engine& engine, std::span<const TokenId> source, std::span<const TokenId> prompt,
                   const RunOptions& options, const std::atomic<bool>& interrupted, std::vector<Beam>& all) {
    const Model& model = engine.model();
    BeamOptions search{.width = options.beams, .length_penalty = options.length_penalty};
    search.stop = options.early_stopping == "yes"     ? BeamOptions::Stop::enough
                  : options.early_stopping == "never" ? BeamOptions::Stop::never
                                                      : BeamOptions::Stop::hopeless;
    // A prompt that fills the context still says what comes next; what is longer is Session's to refuse.
    const uint32_t context = engine.memory_plan().context;
    const uint32_t room = std::max(context - std::min(context, uint32_t(prompt.size())), 1u);
    search.max_tokens = options.generation.max_tokens ? std::min(options.generation.max_tokens, room) : room;
    search.suppressed = model.suppressed;
    const uint32_t known = std::min(model.tokenizer->size(), model.architecture.logits());
    for (uint32_t id = 0; id < known; ++id)
        if (model.tokenizer->ends_generation(TokenId(id))) search.ends.push_back(TokenId(id));
    const auto start = Clock::now();
    all = beam_search(engine, source, prompt, search, &interrupted);
    Answer answer;
    answer.result.seconds = seconds_since(start);
    answer.result.tokens = all.front().tokens;
    const bool ended = model.tokenizer->ends_generation(answer.result.tokens.back());
    const bool limited = answer.result.tokens.size() == options.generation.max_tokens;
    answer.result.reason = interrupted ? StopReason::cancelled
                           : ended     ? StopReason::end_of_generation
                           : limited   ? StopReason::token_limit
                                       : StopReason::context_full;
    const std::span<const TokenId> tokens(answer.result.tokens);
    answer.text = model.tokenizer->decode(tokens.first(tokens.size() - (ended ? 1 : 0)), false);
    return answer;
}

int run(RunOptions& options, const Common& common) {
    const auto start = Clock::now();
    if (options.generation.logprobs && !common.json)
        fail(Status::bad_argument, "run", "expected --json beside --logprobs, got none");
    const SpeculationFlags& speculation = options.generation.speculation;
    const std::shared_ptr<const Model> model = load_model(common, options.form);
    const std::string text = prompt_text("run", options.text, options.file);
    note_form(*model, options.form);
    const std::vector<TokenId> ids = prompt_ids(*model, text, options.form);
    open_draft(options.generation.speculation, model, common);
    EngineOptions engine_flags = engine_options(common);
    engine_flags.shows = speculation.takes();
    engine_flags.rehearse = {uint32_t(ids.size()), options.generation.sampling.temperature == 0};
    const std::unique_ptr<Engine> engine = load_engine(model, engine_flags, common);
    std::optional<Session> session;  // beams bring their own
    if (options.beams == 1) {
        session.emplace(*engine);
        load_proposer(options.generation.speculation, *engine, common);
    }
    Timing timing{.load = seconds_since(start), .prompt_tokens = ids.size()};

    const std::atomic<bool>& interrupted = install_interrupt_flag();
    const auto prompt_start = Clock::now();
    std::vector<Beam> beams;
    Answer answer;
    if (!session) {
        const bool encodes = !model->architecture.encoder.empty();  // then the prompt is the encoder's
        answer =
            beam_answer(*engine, ids, encodes ? decoder_begin(*model) : ids, options, interrupted, beams);
        if (!common.json) write_out(answer.text);
    } else {
        session->append(session->begin(ids), &interrupted);
        timing.prompt = seconds_since(prompt_start);
        answer = stream_answer(*session, options.generation, interrupted, [&](std::string_view piece) {
            if (!common.json) write_out(piece);
        });
    }
    if (!common.json && !answer.text.ends_with('\n')) write_out("\n");
    note_stop(answer, engine->memory_plan().context);
    report(answer, beams, timing, common, *engine);
    if (answer.result.reason == StopReason::cancelled && answer.result.tokens.empty())
        throw Error(Status::cancelled, "[run] interrupted before the first token");
    return finish(*engine);
}

}  // namespace

Action define_run(CLI::App& app, const Common& common) {
    auto options = std::make_shared<RunOptions>();
    CLI::Option* text = app.add_option("-p,--prompt", options->text, "the prompt (-: stdin)");
    CLI::Option* file = app.add_option("-f,--file", options->file, "a file with the prompt");
    CLI::Option* prompts =
        app.add_option("--prompts", options->many.file,
                       "a file with a prompt per line, text or a JSON string (-: stdin): a line of JSON for "
                       "each answer, as they end")
            ->excludes(text)
            ->excludes(file);
    app.add_option("--parallel", options->many.parallel, "answers of --prompts at a time (default: 8)")
        ->check(CLI::Range(1, 64))
        ->needs(prompts);
    app.add_option("--system", options->form.system, "the system message (default: the template's own)");
    app.add_flag("--raw", options->form.raw, "continue the text itself, without the chat template");
    app.add_option(
        "--from", options->form.from,
        "of translators the token of the language to translate from, such as eng_Latn (default: what the "
        "tokenizer says)");
    app.add_option(
        "--begin", options->form.begin,
        "what the answer begins with, which is not printed again; of translators the token of the language "
        "to translate into, such as fra_Latn");
    add_generation_flags(app, options->generation);
    CLI::Option* beams = app.add_option("--beams", options->beams,
                                        "beam search of this width in place of sampling (default: 1)")
                             ->check(CLI::Range(1, 64))
                             ->excludes(prompts);
    app.add_option("--length-penalty", options->length_penalty,
                   "of beams: scores are divided by length to this power (default: 1)")
        ->check(CLI::Range(-10.0, 10.0))
        ->needs(beams);
    app.add_option("--early-stopping", options->early_stopping,
                   "of beams: yes, no (when no beam can become better at its length) or never (at any "
                   "length); default: no")
        ->check(CLI::IsMember({"yes", "no", "never"}))
        ->needs(beams);
    app.add_option(
           "--logprobs", options->generation.logprobs,
           "with --json or --prompts: log-probabilities of each token and of the N likeliest (at most 64)")
        ->check(CLI::Range(0, 64));
    app.footer("Ctrl-C ends the answer with what is there (exit code 0; 130 if there is nothing yet).");
    return [options, &app, &common] {
        check_flags(app, *options);
        compile_grammar(options->generation);
        if (!options->many.file.empty())
            return run_many(options->many, options->form, options->generation, common);
        return run(*options, common);
    };
}

}  // namespace scoria::cli
