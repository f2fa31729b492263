// The C options of an answer as C++ ones, and scoria_session_generate.
#include "grammar/json_schema.h"
#include "objects.h"
#include "scoria_vulkan.h"

using namespace scoria;
using namespace scoria::c_api;

namespace {

static_assert(offsetof(scoria_generate_options, on_attention) + sizeof(void*) ==
              sizeof(scoria_generate_options));
static_assert(offsetof(scoria_generate_result, reserved) + 4 == sizeof(scoria_generate_result));
static_assert(uint32_t(StopReason::stop_string) == SCORIA_STOP_TEXT);

scoria_generate_options generate_defaults() {
    const SamplingOptions defaults;
    return {.size = sizeof(scoria_generate_options),
            .temperature = 0.7f,  // as the program's --temp
            .top_k = defaults.top_k,
            .top_p = defaults.top_p,
            .min_p = defaults.min_p,
            .typical_p = defaults.typical_p,
            .repetition_penalty = defaults.repetition_penalty,
            .repetition_window = defaults.repetition_window,
            .xtc_threshold = defaults.xtc_threshold,
            .mirostat_eta = defaults.mirostat_eta,
            .dry_base = defaults.dry_base,
            .dry_allowed_length = defaults.dry_allowed_length};
}

std::vector<std::string> texts_of(const char* const* texts, size_t count, const char* what) {
    require(texts || !count, what);
    std::vector<std::string> result;
    for (size_t i = 0; i < count; ++i) {
        require(texts[i] != nullptr, what);
        result.emplace_back(texts[i]);
    }
    return result;
}

SamplingOptions sampling_of(const scoria_generate_options& options) {
    SamplingOptions sampling{.temperature = options.temperature,
                             .top_k = options.top_k,
                             .top_p = options.top_p,
                             .min_p = options.min_p,
                             .repetition_penalty = options.repetition_penalty,
                             .repetition_window = options.repetition_window,
                             .frequency_penalty = options.frequency_penalty,
                             .presence_penalty = options.presence_penalty,
                             .logit_bias = {},
                             .typical_p = options.typical_p,
                             .xtc_probability = options.xtc_probability,
                             .xtc_threshold = options.xtc_threshold,
                             .mirostat_tau = options.mirostat_tau,
                             .mirostat_eta = options.mirostat_eta,
                             .dry_multiplier = options.dry_multiplier,
                             .dry_base = options.dry_base,
                             .dry_allowed_length = options.dry_allowed_length,
                             .dry_range = options.dry_range,
                             .seed = options.seed};
    require(options.logit_bias || !options.logit_bias_count, "logit_bias for its count");
    for (size_t i = 0; i < options.logit_bias_count; ++i)
        sampling.logit_bias.push_back({options.logit_bias[i].token, options.logit_bias[i].bias});
    if (options.dry_breakers)
        sampling.dry_breakers = texts_of(options.dry_breakers, options.dry_breaker_count, "DRY breakers");
    return sampling;
}

std::shared_ptr<const grammar::Program> grammar_of(const scoria_generate_options& options) {
    require(!options.grammar || !options.json_schema, "a grammar or a json_schema, not both");
    if (options.grammar)
        return std::make_shared<const grammar::Program>(grammar::parse_gbnf(options.grammar));
    if (options.json_schema)
        return std::make_shared<const grammar::Program>(grammar::json_schema_grammar(options.json_schema));
    return nullptr;
}

/// The draft model of the session, made when it is first asked for.
Proposer& draft_of(SessionObject& session, const scoria_engine* handle) {
    if (session.draft_handle == handle && session.draft) return *session.draft;
    session.draft.reset();
    const auto use = std::make_shared<EngineUse>(handle);
    session.draft.emplace(std::shared_ptr<Engine>(use, &(*use)->engine), session.owner->engine.model());
    session.draft_handle = handle;
    return *session.draft;
}

void set_callbacks(GenerateOptions& generate, const scoria_generate_options& options) {
    void* const user = options.user;
    if (options.on_token)
        generate.on_text = [on = options.on_token, user](TokenId id, std::string_view text) {
            return on(user, id, std::string(text).c_str(), text.size()) != 0;
        };
    if (options.on_attention)
        generate.on_attention = [on = options.on_attention, user](const SharedView& view) {
            const scoria_shared weights = shared_of(view);
            on(user, &weights);
        };
    if (!options.on_logprobs) return;
    generate.logprobs = options.logprobs;
    generate.on_logprobs = [on = options.on_logprobs, user](const TokenLogprobs& token) {
        std::vector<int32_t> ids;
        std::vector<float> logprobs;
        for (const auto& [id, logprob] : token.best) {
            ids.push_back(id);
            logprobs.push_back(logprob);
        }
        on(user, token.token, token.logprob, ids.data(), logprobs.data(), ids.size());
    };
}

}  // namespace

scoria_generate_options c_api::all_options(const scoria_generate_options* given) {
    return versioned(given, generate_defaults());
}

GenerateOptions c_api::generate_options_of(SessionObject& session, const scoria_generate_options& options,
                                           PromptLookup& lookup) {
    require(options.ignore_end <= 1, "an ignore_end of 0 or 1");
    GenerateOptions generate;
    generate.sampling = sampling_of(options);
    generate.max_tokens = options.max_tokens;
    generate.ignore_end = options.ignore_end;
    generate.cancel = &session.cancel;
    generate.stop = texts_of(options.stop, options.stop_count, "a text for every stop");
    generate.output_grammar = grammar_of(options);
    set_callbacks(generate, options);
    require(options.lookup <= 1 && !(options.lookup && options.draft), "a draft or a lookup of 1, not both");
    if (options.lookup) generate.proposer = &lookup;
    if (options.draft) generate.proposer = &draft_of(session, options.draft);
    generate.draft_tokens = options.draft_tokens;
    return generate;
}

scoria_generate_result c_api::result_of(const GenerateResult& generated) {
    return {.size = sizeof(scoria_generate_result),
            .stop = uint32_t(generated.reason),
            .tokens = uint32_t(generated.tokens.size()),
            .seconds = generated.seconds,
            .proposed = generated.proposed,
            .accepted = generated.accepted,
            .reused = generated.reused};
}

void c_api::check_cancelled(const GenerateResult& generated) {
    if (generated.reason == StopReason::cancelled)
        fail(Status::cancelled, "generate", "cancelled by the caller");
}

scoria_status scoria_generate_options_init(scoria_generate_options* options, size_t size) {
    return guarded([&] { initialise(options, size, generate_defaults()); });
}

scoria_status scoria_session_generate(scoria_session* session, const scoria_generate_options* given,
                                      scoria_generate_result* result) {
    return guarded([&] {
        const SessionUse use(session);
        if (result) check_size<scoria_generate_result>(result->size);
        PromptLookup lookup;
        const GenerateOptions options = generate_options_of(use.object(), all_options(given), lookup);
        const GenerateResult generated = use->session.generate(options);
        if (result) fill(result, result_of(generated));
        check_cancelled(generated);
    });
}
