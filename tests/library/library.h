// What tests of the C interface share. They link libscoria.so as a host would, and nothing else of ours.
#pragma once

#include "scoria.h"
#include "test_env.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <random>
#include <string>
#include <vector>

namespace scoria::test {

inline const std::string& tiny_model() {
    static const std::string path = fixtures() + "/gguf/llama1.gguf";
    return path;
}

#define REQUIRE_OK(call) REQUIRE_MESSAGE((call) == SCORIA_OK, scoria_last_error())

scoria_engine_options engine_options(std::string&& model) = delete;  // the options point into it
inline scoria_engine_options engine_options(const std::string& model) {
    scoria_engine_options options;
    REQUIRE_OK(scoria_engine_options_init(&options, sizeof options));
    options.model_path = model.c_str();
    options.precision = SCORIA_STRICT;
    return options;
}

/// Equal bits however tokens are batched: recomputed ones have the bits that they had.
inline scoria_engine_options deterministic(const std::string& model = tiny_model()) {
    scoria_engine_options options = engine_options(model);
    options.deterministic = 1;
    return options;
}

/// An engine with a session, destroyed in order.
struct Loaded {
    scoria_engine* engine = nullptr;
    scoria_session* session = nullptr;

    explicit Loaded(const scoria_engine_options& options) {
        REQUIRE_OK(scoria_engine_create(&options, &engine));
        REQUIRE_OK(scoria_session_create(engine, &session));
    }
    explicit Loaded(const std::string& model = tiny_model()) : Loaded(engine_options(model)) {}
    ~Loaded() {
        CHECK(scoria_session_destroy(session) == SCORIA_OK);
        CHECK(scoria_engine_destroy(engine) == SCORIA_OK);
    }
    Loaded(const Loaded&) = delete;
};

inline scoria_generate_options greedy(uint32_t tokens) {
    scoria_generate_options options;
    REQUIRE_OK(scoria_generate_options_init(&options, sizeof options));
    options.max_tokens = tokens;
    options.temperature = 0;
    options.ignore_end = 1;
    return options;
}

/// The sequence after `prompt` and `count` greedy tokens.
inline std::vector<int32_t> generated(scoria_session* session, const std::vector<int32_t>& prompt,
                                      uint32_t count) {
    REQUIRE_OK(scoria_session_replace(session, prompt.data(), prompt.size()));
    const scoria_generate_options options = greedy(count);
    REQUIRE_OK(scoria_session_generate(session, &options, nullptr));
    std::vector<int32_t> ids(prompt.size() + count);
    size_t length = 0;
    REQUIRE_OK(scoria_session_tokens(session, ids.data(), ids.size(), &length));
    REQUIRE(length == ids.size());
    return ids;
}

inline scoria_engine_info info_of(scoria_engine* engine) {
    scoria_engine_info info{};
    info.size = sizeof info;
    REQUIRE_OK(scoria_engine_get_info(engine, &info));
    return info;
}

inline scoria_memory memory_of(scoria_engine* engine) {
    scoria_memory memory{};
    memory.size = sizeof memory;
    REQUIRE_OK(scoria_engine_memory(engine, &memory));
    return memory;
}

/// Of the next token.
inline std::vector<float> logits_of(scoria_session* session) {
    size_t count = 0;
    REQUIRE_OK(scoria_session_logits(session, nullptr, 0, &count));
    std::vector<float> logits(count);
    REQUIRE_OK(scoria_session_logits(session, logits.data(), logits.size(), &count));
    return logits;
}

inline const std::vector<int32_t> some_prompt = {3, 40, 114, 7, 19};

/// A fresh folder, removed with everything in it.
struct Scratch {
    const std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("scoria-library-" + std::to_string(std::random_device()()));
    Scratch() { REQUIRE(std::filesystem::create_directory(path)); }
    ~Scratch() {
        std::error_code ignored;
        std::filesystem::remove_all(path, ignored);
    }
    Scratch(const Scratch&) = delete;
};

}  // namespace scoria::test
