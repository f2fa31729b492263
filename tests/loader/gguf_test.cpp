// Files that lie, are cut or are damaged: each is refused with a text that names the fault.
#include "fail.h"
#include "gguf.h"
#include "gguf_builder.h"
#include "model.h"
#include "safetensors.h"
#include "test_env.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cstring>
#include <functional>
#include <random>

using namespace scoria;
using namespace scoria::test;

namespace {

/// "" if the file opens, else what was said.
std::string open_error(const std::string& path) {
    try {
        if (path.ends_with(".safetensors"))
            Safetensors file(path);
        else
            open_model(path);
        return "";
    } catch (const Error& error) {
        return error.what();
    }
}

}  // namespace

TEST_CASE("the corpus of malformed files behaves as its manifest says" * needs_fixtures()) {
    const std::string folder = fixtures() + "/malformed/";
    const auto manifest = nlohmann::json::parse(read_file(folder + "manifest.json"));
    REQUIRE(manifest.size() == 17);
    for (const auto& entry : manifest) {
        const std::string file = entry["file"], expect = entry["expect"];
        CAPTURE(file);
        const std::string error = open_error(folder + file);
        if (expect == "load") CHECK(error == "");
        if (expect == "reject") CHECK(error != "");
    }
}

TEST_CASE("a damaged field is named") {
    struct Case {
        const char* name;
        std::function<void(GgufFile&)> damage;
        const char* expected;  // part of the error; "" means that the file opens
    };
    const auto set = [](const char* key, GgufPart value) {
        return [=](GgufFile& file) { file.metadata[key] = value; };
    };
    const auto without = [](const char* key) { return [=](GgufFile& file) { file.metadata.erase(key); }; };
    const Case cases[] = {
        {"nothing", [](GgufFile&) {}, ""},
        {"version 2", [](GgufFile& file) { file.version = 2; }, ""},
        {"version 1", [](GgufFile& file) { file.version = 1; }, "version: expected 2 or 3, got 1"},
        {"big-endian", [](GgufFile& file) { file.version = 3u << 24; }, "big-endian"},
        {"no architecture", without("general.architecture"), "general.architecture is missing"},
        {"unknown architecture", set("general.architecture", "lloma"), "got lloma (nearest: llama)"},
        {"split file", set("split.count", 2u), "split.count"},
        {"alignment", set("general.alignment", 24u), "general.alignment: expected a power of two"},
        {"no layers", set("llama.block_count", 0u), "llama.block_count: expected 1 to"},
        {"a missing layer", set("llama.block_count", 2u), "blk.1.attn_norm.weight is missing"},
        {"too many layers", set("llama.block_count", 5000u), "llama.block_count: expected 1 to 4096"},
        {"no context", without("llama.context_length"), "llama.context_length is missing"},
        {"a string for a number", set("llama.context_length", "many"),
         "llama.context_length: expected an integer, got a string"},
        {"head count", set("llama.attention.head_count", 3u), "llama.attention.head_count"},
        {"key/value heads", set("llama.attention.head_count_kv", 4u), "expected a divisor of 2 heads, got 4"},
        {"as many sizes as layers", set("llama.feed_forward_length", std::vector<int32_t>{12, 13}),
         "llama.feed_forward_length: expected 1 numbers, got 2"},
        {"a size below 0", set("llama.feed_forward_length", std::vector<int32_t>{12, 13, -1}),
         "llama.feed_forward_length: expected 0 to 268435456 in every place, got [12,13,-1]"},
        {"no heads", set("llama.attention.head_count_kv", std::vector<int32_t>{0}),
         "llama.attention.head_count_kv: expected 1 to 65536, got 0"},
        {"value length", set("llama.attention.value_length", 5u),
         "llama.attention.value_length: expected at most 4, got 5"},
        {"rope width", set("llama.rope.dimension_count", 3u),
         "llama.rope.dimension_count: expected an even number"},
        {"rope wider than a head", set("llama.rope.dimension_count", 6u),
         "llama.rope.dimension_count: expected 1 to 4"},
        {"epsilon 0", set("llama.attention.layer_norm_rms_epsilon", 0.0f),
         "layer_norm_rms_epsilon: expected a finite"},
        {"epsilon NaN", set("llama.attention.layer_norm_rms_epsilon", std::nanf("")),
         "layer_norm_rms_epsilon: expected a finite"},
        {"base infinite", set("llama.rope.freq_base", std::numeric_limits<float>::infinity()),
         "rope.freq_base: expected a finite"},
        {"YaRN without factor", set("llama.rope.scaling.type", "yarn"), "rope.scaling.factor is missing"},
        {"unknown scaling", set("llama.rope.scaling.type", "spiral"),
         "rope.scaling.type: expected none, linear, yarn or longrope, got spiral"},
        {"linear without factor", set("llama.rope.scaling.type", "linear"), "rope.scaling.factor is missing"},
        {"a factor of no scaling",
         [](GgufFile& file) {
             file.metadata["llama.rope.scaling.type"] = "none";
             file.metadata["llama.rope.scaling.factor"] = 1.0f;
         },
         ""},
        {"experts", set("llama.expert_count", 8u), "llama.expert_used_count is missing"},
        {"more rows of experts than kernels count",
         [](GgufFile& file) {
             file.metadata["llama.expert_count"] = 1u << 16;
             file.metadata["llama.expert_used_count"] = 2u;
             file.metadata["llama.expert_feed_forward_length"] = 1u << 14;
         },
         "experts: expected fewer than 2^30 rows"},
        {"no experts", set("llama.expert_count", 0u), ""},
        {"unknown key", set("llama.attention.colour", "blue"),
         "llama.attention.colour: this build does not know it"},
        {"soft cap", set("llama.attn_logit_softcapping", 30.0f), "attn_logit_softcapping"},
        {"bidirectional", set("llama.attention.causal", false), "attention.causal"},
        {"shape",
         [](GgufFile& file) {
             file.add("blk.0.attn_q.weight", {8, 6});
         },
         "tensor blk.0.attn_q.weight: expected [8, 8], got [6, 8]"},
        {"vector shape", [](GgufFile& file) { file.add("output_norm.weight", {4}); },
         "output_norm.weight: expected [8], got [4]"},
        {"tensor missing", [](GgufFile& file) { file.tensors.erase("output_norm.weight"); },
         "output_norm.weight is missing"},
        {"dimension 0", [](GgufFile& file) { file.add("extra", {0}); }, "tensor extra: dimension 0 is 0"},
        {"5 dimensions",
         [](GgufFile& file) {
             file.add("extra", {1, 1, 1, 1, 1});
         },
         "tensor extra: expected 1 to 4 dimensions, got 5"},
        {"type unsupported", [](GgufFile& file) { file.tensors["blk.0.ffn_up.weight"].type = 15; },
         "tensor blk.0.ffn_up.weight: type Q8_K is not supported"},
        {"type unknown", [](GgufFile& file) { file.tensors["blk.0.ffn_up.weight"].type = 99; },
         "type 99 is not supported"},
        {"partial block", [](GgufFile& file) { file.tensors["blk.0.ffn_up.weight"].type = 2; },
         "expected rows of a multiple of 32 weights (Q4_0), got 8"},
        {"frequency divisor 0", [](GgufFile& file) { file.add("rope_freqs.weight", {2}, 0); },
         "rope_freqs.weight: expected finite"},
        {"frequency divisors", [](GgufFile& file) { file.add("rope_freqs.weight", {3}); },
         "rope_freqs.weight: expected F32 [2]"},
        {"unclaimed tensor",
         [](GgufFile& file) {
             file.add("extra", {3, 5});
         },
         ""},
    };
    for (const Case& c : cases) {
        CAPTURE(c.name);
        GgufFile file = tiny_llama();
        c.damage(file);
        const std::string error = open_error(TemporaryFile(file.bytes()).path());
        if (*c.expected == 0)
            CHECK(error == "");
        else
            CHECK_MESSAGE(error.find(c.expected) != error.npos, error);
    }
}

TEST_CASE("tensors that share bytes are refused") {
    const std::string bytes = tiny_llama().bytes(), name = "output_norm.weight";
    const size_t offset = bytes.find(name) + name.size() + 4 + 8 + 4;  // behind dimensions and type
    uint64_t stored = 0;
    std::memcpy(&stored, bytes.data() + offset, sizeof stored);
    REQUIRE(open_error(TemporaryFile(bytes).path()) == "");
    for (const uint64_t lie : {uint64_t{0}, stored - 32}) {
        CAPTURE(lie);
        std::string damaged = bytes;
        std::memcpy(damaged.data() + offset, &lie, sizeof lie);
        const std::string error = open_error(TemporaryFile(damaged).path());
        CHECK_MESSAGE(error.find("or more, behind ") != error.npos, error);
    }
}

TEST_CASE("a vocabulary that contradicts itself is refused") {
    const std::vector<std::string> letters = {"a", "b", "c", "d", "e", "f",  "g",   "h",
                                              "i", "j", "k", "l", "m", "ab", "<s>", "n"};
    struct Case {
        const char* name;
        std::function<void(GgufFile&)> damage;
        const char* expected;
    };
    const auto set = [](const char* key, GgufPart value) {
        return [=](GgufFile& file) { file.metadata[key] = value; };
    };
    const Case cases[] = {
        {"nothing", [](GgufFile&) {}, ""},
        {"no tokens", [](GgufFile& file) { file.metadata.erase("tokenizer.ggml.tokens"); },
         "tokenizer.ggml.tokens is missing"},
        {"too few tokens", set("tokenizer.ggml.tokens", std::vector<std::string>{"a"}),
         "expected 16 tokens, got 1"},
        {"tokens are numbers", set("tokenizer.ggml.tokens", std::vector<int32_t>{1}),
         "expected an array of strings"},
        {"types too few", set("tokenizer.ggml.token_type", std::vector<int32_t>{1}),
         "token_type: expected 16 values, got 1"},
        {"type out of range", set("tokenizer.ggml.token_type", std::vector<int32_t>(16, 9)),
         "token_type: expected 0 to 6, got 9"},
        {"end id", set("tokenizer.ggml.eos_token_id", 16u), "eos_token_id: expected an id below 16, got 16"},
        {"merge of no token", set("tokenizer.ggml.merges", std::vector<std::string>{"a z"}),
         "got \"a z\" at 0"},
        {"merge to no token", set("tokenizer.ggml.merges", std::vector<std::string>{"a c"}),
         "got \"a c\" at 0"},
        {"merge of one", set("tokenizer.ggml.merges", std::vector<std::string>{"ab"}), "got \"ab\" at 0"},
    };
    for (const Case& c : cases) {
        CAPTURE(c.name);
        GgufFile file = tiny_llama();
        add_vocabulary(file, letters, {"a b"});
        c.damage(file);
        const std::string error = open_error(TemporaryFile(file.bytes()).path());
        if (*c.expected == 0)
            CHECK(error == "");
        else
            CHECK_MESSAGE(error.find(c.expected) != error.npos, error);
    }
    GgufFile unknown = tiny_llama();
    add_vocabulary(unknown, letters, {"a b"});
    unknown.metadata["tokenizer.ggml.pre"] = "unheard-of";
    const Model model = open_model(TemporaryFile(unknown.bytes()).path());
    CHECK(model.tokenizer == nullptr);
    CHECK(model.tokenizer_problem.find("unheard-of") != std::string::npos);
}

TEST_CASE("every truncation and many flipped bytes are refused or harmless") {
    GgufFile file = tiny_llama();
    add_vocabulary(file, std::vector<std::string>(16, "a"), {});
    const std::string bytes = file.bytes();
    for (size_t length = 0; length < bytes.size(); length += 64) {
        CAPTURE(length);
        CHECK(open_error(TemporaryFile(bytes.substr(0, length)).path()) != "");
    }
    const size_t header = bytes.size() - 12 * 8 * 4;  // flips inside weights prove nothing
    std::mt19937 random(1);
    for (int round = 0; round < (deep() ? 20000 : 1000); ++round) {
        std::string damaged = bytes;
        for (int flips = 1 + static_cast<int>(random() % 4); flips > 0; --flips) {
            damaged[random() % header] = static_cast<char>(random() % 3 == 0 ? 0xFF : random());
        }
        open_error(TemporaryFile(damaged).path());  // must return, and cleanly under the sanitizers
    }
}

TEST_CASE("tensor data is read where the table says, and not past its end") {
    GgufFile file = tiny_llama();
    file.add("output.weight", {8, 16}, 3.25f);
    const TemporaryFile on_disk(file.bytes());
    for (const Reads reads : {Reads::positioned, Reads::mapped}) {
        const Model model = open_model(on_disk.path(), reads);
        CHECK_FALSE(model.architecture.tied_embeddings);
        const TensorView& view = model.weights.at({Role::output, -1});
        std::vector<float> values(8);
        const auto read = [&](uint64_t first) {
            model.tensors->read(view, first, std::as_writable_bytes(std::span(values)));
        };
        read(view.bytes() - 32);
        CHECK(values == std::vector<float>(8, 3.25f));
        CHECK_THROWS_AS(read(view.bytes() - 28), Error);
        CHECK_THROWS_AS(read(~uint64_t{0}), Error);
    }
}
