// The C interface: turns exceptions into statuses and C++ values into C ones, and nothing else.
#include "scoria.h"

#include "fail.h"
#include "json_schema.h"
#include "lora.h"
#include "session.h"

#include <algorithm>
#include <cstring>
#include <new>

using namespace scoria;

struct scoria_engine {
    std::shared_ptr<const Model> model;
    Engine engine;
};

struct scoria_session {
    scoria_engine& owner;
    Session session;
    std::atomic<bool> cancel{false};
};

namespace {

static_assert(uint32_t(Status::bad_file) == SCORIA_BAD_FILE && uint32_t(Status::timeout) == SCORIA_TIMEOUT);

thread_local char last_error[512] = "";

scoria_status report(Status status, const char* text) {
    std::strncpy(last_error, text, sizeof last_error - 1);
    return scoria_status(status);
}

/// Runs `call`; whatever it throws becomes a status.
template <class Call> scoria_status guarded(Call call) {
    try {
        call();
        return SCORIA_OK;
    } catch (const Error& error) {
        return report(error.status(), error.what());
    } catch (const std::bad_alloc&) {
        return report(Status::out_of_host_memory, "[host] out of memory");
    } catch (const std::exception& error) {
        return report(Status::failed, error.what());
    } catch (...) {
        return report(Status::failed, "[scoria] unknown failure");
    }
}

void require(bool condition, const char* what) {
    if (!condition) fail(Status::bad_argument, "scoria.h", "expected ", what);
}

/// A caller's struct of any version: members it does not have yet keep their defaults.
template <class T> T versioned(const T* options, const T& defaults) {
    require(options && options->size >= sizeof(size_t), "options with `size` set");
    T result = defaults;
    std::memcpy(static_cast<void*>(&result), options, std::min(options->size, sizeof(T)));
    return result;
}

const Tokenizer& tokenizer_of(const Model& model) {
    require(model.tokenizer != nullptr, "a model with a vocabulary");
    return *model.tokenizer;
}

}  // namespace

const char* scoria_last_error(void) { return last_error; }
const char* scoria_version(void) { return SCORIA_VERSION; }

scoria_status scoria_engine_create(const scoria_engine_options* given, scoria_engine** engine) {
    return guarded([&] {
        require(engine != nullptr, "a place for the engine");
        *engine = nullptr;
        const auto options = versioned(given, {.size = sizeof(scoria_engine_options), .precision = 1});
        require(options.model_path != nullptr, "a model_path");
        require(options.precision <= 2, "a precision from 0 to 2");
        EngineOptions engine_options;
        if (options.device) engine_options.device.select = options.device;
        engine_options.context = options.context;
        engine_options.precision = Precision(options.precision);
        if (options.progress)
            engine_options.progress = [&](uint64_t done, uint64_t total) {
                options.progress(options.user, done, total);
            };
        const auto model = std::make_shared<Model>(open_model(options.model_path));
        std::vector<AdapterChoice> adapters;
        for (size_t i = 0; options.adapters && i < options.adapter_count; ++i) {
            require(options.adapters[i].path != nullptr, "a path for every adapter");
            adapters.push_back({options.adapters[i].path, double{options.adapters[i].scale}});
        }
        attach_adapters(*model, adapters);
        *engine = new scoria_engine{model, Engine(model, engine_options)};
    });
}

void scoria_engine_destroy(scoria_engine* engine) { delete engine; }

scoria_status scoria_tokenize(const scoria_engine* engine, const char* text, size_t bytes, int special,
                              int32_t* ids, size_t capacity, size_t* count) {
    return guarded([&] {
        require(engine && count && (text || !bytes) && (ids || !capacity),
                "an engine, a text, and a place for ids and count");
        const EncodeOptions options{special != 0, special != 0};
        const std::vector<TokenId> all = tokenizer_of(*engine->model).encode({text, bytes}, options);
        std::copy_n(all.begin(), std::min(capacity, all.size()), ids);
        *count = all.size();
    });
}

scoria_status scoria_chat_prompt(const scoria_engine* engine, const char* user_message, char* text,
                                 size_t capacity, size_t* length) {
    return guarded([&] {
        require(engine && user_message && length && (text || !capacity),
                "an engine, a message, and a place for the text");
        const Message message{"user", user_message};
        const std::string prompt = engine->model->chat_template.render({&message, 1}).text;
        if (prompt.size() < capacity) std::memcpy(text, prompt.c_str(), prompt.size() + 1);
        *length = prompt.size();
    });
}

scoria_status scoria_session_create(scoria_engine* engine, scoria_session** session) {
    return guarded([&] {
        require(engine && session, "an engine and a place for the session");
        *session = nullptr;
        *session = new scoria_session{*engine, Session(engine->engine)};
    });
}

void scoria_session_destroy(scoria_session* session) { delete session; }

scoria_status scoria_session_append(scoria_session* session, const int32_t* ids, size_t count) {
    return guarded([&] {
        require(session && (ids || !count), "a session and ids");
        session->cancel = false;
        session->session.append({ids, count}, &session->cancel);
    });
}

scoria_status scoria_session_encode(scoria_session* session, const int32_t* ids, size_t count) {
    return guarded([&] {
        require(session && (ids || !count), "a session and ids");
        session->session.encode({ids, count});
    });
}

scoria_status scoria_decoder_start(const scoria_engine* engine, int32_t* id) {
    return guarded([&] {
        require(engine && id, "an engine and a place for the id");
        const Architecture& architecture = engine->engine.model().architecture;
        if (architecture.encoder.empty())
            fail(Status::unsupported, "c", "expected an encoder-decoder, got ", architecture.family);
        *id = TokenId(architecture.decoder_start);
    });
}

scoria_status scoria_session_truncate(scoria_session* session, size_t length) {
    return guarded([&] {
        require(session != nullptr, "a session");
        session->session.truncate(uint32_t(std::min<size_t>(length, UINT32_MAX)));
    });
}

size_t scoria_session_length(const scoria_session* session) {
    return session ? session->session.tokens().size() : 0;
}

scoria_status scoria_session_generate(scoria_session* session, const scoria_generate_options* given) {
    return guarded([&] {
        require(session != nullptr, "a session");
        const SamplingOptions defaults;
        const auto options = versioned(given, {.size = sizeof(scoria_generate_options),
                                               .top_k = defaults.top_k,
                                               .top_p = defaults.top_p,
                                               .min_p = defaults.min_p,
                                               .repetition_penalty = defaults.repetition_penalty,
                                               .repetition_window = defaults.repetition_window,
                                               .typical_p = defaults.typical_p,
                                               .xtc_threshold = defaults.xtc_threshold,
                                               .mirostat_eta = defaults.mirostat_eta,
                                               .dry_base = defaults.dry_base,
                                               .dry_allowed_length = defaults.dry_allowed_length});
        require(options.logit_bias || !options.logit_bias_count, "logit_bias for its count");
        require(options.stop || !options.stop_count, "stop for its count");
        session->cancel = false;
        GenerateOptions generate;
        generate.sampling = {.temperature = options.temperature,
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
        if (options.dry_breakers) generate.sampling.dry_breakers.clear();
        for (size_t i = 0; options.dry_breakers && i < options.dry_breaker_count; ++i) {
            require(options.dry_breakers[i] != nullptr, "a text for every DRY breaker");
            generate.sampling.dry_breakers.emplace_back(options.dry_breakers[i]);
        }
        for (size_t i = 0; i < options.logit_bias_count; ++i)
            generate.sampling.logit_bias.push_back({options.logit_bias[i].token, options.logit_bias[i].bias});
        for (size_t i = 0; i < options.stop_count; ++i) {
            require(options.stop[i] != nullptr, "a text for every stop");
            generate.stop.emplace_back(options.stop[i]);
        }
        generate.max_tokens = options.max_tokens;
        generate.cancel = &session->cancel;
        (void)tokenizer_of(*session->owner.model);
        if (options.on_token)
            generate.on_text = [&](TokenId id, std::string_view text) {
                return options.on_token(options.user, id, text.data(), text.size()) != 0;
            };
        require(!options.grammar || !options.json_schema, "a grammar or a json_schema, not both");
        if (options.grammar)
            generate.output_grammar =
                std::make_shared<const grammar::Program>(grammar::parse_gbnf(options.grammar));
        if (options.json_schema)
            generate.output_grammar =
                std::make_shared<const grammar::Program>(grammar::json_schema_grammar(options.json_schema));
        if (options.on_logprobs) {
            generate.logprobs = options.logprobs;
            generate.on_logprobs = [&](const TokenLogprobs& token) {
                std::vector<int32_t> ids;
                std::vector<float> logprobs;
                for (const auto& [id, logprob] : token.best) {
                    ids.push_back(id);
                    logprobs.push_back(logprob);
                }
                options.on_logprobs(options.user, token.token, token.logprob, ids.data(), logprobs.data(),
                                    ids.size());
            };
        }
        if (session->session.generate(generate).reason == StopReason::cancelled)
            fail(Status::cancelled, "generate", "cancelled by the caller");
    });
}

void scoria_session_cancel(scoria_session* session) {
    if (session) session->cancel = true;
}
