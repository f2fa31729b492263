// Every model of fixtures/models that opens, from its folder, on both executors. $SCORIA_ONLY=NAME runs one.
#include "fail.h"
#include "reference/executor.h"
#include "support/compare.h"
#include "support/device.h"
#include "support/families.h"
#include "support/golden.h"

using namespace scoria;
using namespace scoria::test;

namespace {

constexpr double reference_error = 1e-5;  // of the goldens themselves, rounded to float32

/// Every family at one subgroup size; the others run the ops' tables, and a few models, at theirs.
doctest::skip needs_families() {
    const bool few = few_models();
    return doctest::skip(few || floor_tier() || !have_fixtures());
}

const char* const encoders[] = {"bert", "roberta", "modernbert", "longformer"};

std::vector<TokenId> optional_ids(const Safetensors& golden, const std::string& key) {
    return golden.has(key) ? read_ids(golden, key) : std::vector<TokenId>{};
}

/// One result against the golden of a case.
template <class Result>
void check_result(const Safetensors& golden, const std::string& name, const Result& result, double bound) {
    const double error = largest_error(golden.read<float>(name + ".logits"), result.logits);
    CHECK(error <= bound);
    for (size_t i = 0; i < result.hidden.size() && golden.has(name + ".hidden.0"); ++i) {
        const std::string key = cat(name, ".hidden.", i);
        CAPTURE(key);
        CHECK(largest_error(golden.read<float>(key), result.hidden[i]) <= bound);
    }
}

/// The encoder's part of a case.
template <class Result>
void check_encoder(const Safetensors& golden, const std::string& name, const Result& result, double bound) {
    const std::string last = name + ".encoder_last_hidden_state";
    if (golden.has(last)) CHECK(largest_error(golden.read<float>(last), result.last_hidden) <= bound);
    for (size_t i = 0; i < result.hidden.size() && golden.has(name + ".encoder_hidden.0"); ++i) {
        const std::string key = cat(name, ".encoder_hidden.", i);
        CAPTURE(key);
        CHECK(largest_error(golden.read<float>(key), result.hidden[i]) <= bound);
    }
}

/// Greedy tokens after what the session holds.
void check_greedy(Session& session, const std::vector<TokenId>& expected) {
    GenerateOptions options;
    options.max_tokens = uint32_t(expected.size());
    options.ignore_end = true;
    CHECK(session.generate(options).tokens == expected);
}

/// Both executors, whole and token by token.
void check_encoder_decoder(const std::shared_ptr<const Model>& model, const Safetensors& golden,
                           double bound) {
    Engine engine(model, engine_options(Precision::strict));
    Session session(engine);
    reference::Executor executor(*model);
    CHECK_THROWS_WITH_AS(session.append(std::vector<TokenId>{3}), doctest::Contains("a source"), Error);
    for (const std::string name : {"short", "long", "long_global"}) {
        CAPTURE(name);
        if (!golden.has(name + ".encoder_input_ids")) continue;
        const std::vector<TokenId> global = optional_ids(golden, name + ".global_attention_mask");
        executor.set_global({global.begin(), global.end()});
        const std::vector<TokenId> source = read_ids(golden, name + ".encoder_input_ids"),
                                   ids = read_ids(golden, name + ".decoder_input_ids");
        check_encoder(golden, name, executor.encode(source), bound);
        check_result(golden, name, executor.forward(ids), bound);
        check_encoder(golden, name, session.encode(source, true, global), strict_error);
        check_result(golden, name, session.forward(ids, true), strict_error);
        if (!golden.has(name + ".greedy")) continue;  // GGUF's own goldens
        const std::vector<TokenId> greedy = read_ids(golden, name + ".greedy");
        session.truncate(0);
        for (const TokenId id : ids) session.append({&id, 1});
        check_greedy(session, greedy);
        if (name != "short") continue;
        executor.encode(source);
        CHECK(executor.greedy(ids, uint32_t(greedy.size())) == greedy);
    }
    CHECK(engine.device().validation_errors() == 0);
}

}  // namespace

TEST_CASE("reference: decoders from their folders reproduce their goldens" * needs_fixtures()) {
    for (const std::string& family : chosen(decoder_fixtures)) {
        CAPTURE(family);
        const std::string folder = fixtures() + "/models/" + family;
        const Model model = open_model(folder);
        const Safetensors golden(folder + "/golden.safetensors");
        for (const std::string name : golden_cases) {
            CAPTURE(name);
            const std::vector<TokenId> ids = read_ids(golden, name + ".input_ids");
            const std::vector<TokenId> prefix = optional_ids(golden, name + ".prefix_length");
            reference::Executor executor(model);
            if (!prefix.empty()) executor.set_prefix(size_t(prefix[0]));
            check_result(golden, name, executor.forward(ids), reference_error);
            if (name != "short") continue;
            executor.reset();
            const std::vector<TokenId> expected = read_ids(golden, name + ".greedy");
            CHECK(executor.greedy(ids, uint32_t(expected.size())) == expected);
        }
    }
}

TEST_CASE("vulkan: decoders from their folders reproduce their goldens" * needs_families()) {
    for (const std::string& family : chosen(decoder_fixtures)) {
        CAPTURE(family);
        const std::string folder = fixtures() + "/models/" + family;
        Engine engine(std::make_shared<const Model>(open_model(folder)), engine_options(Precision::strict));
        const Safetensors golden(folder + "/golden.safetensors");
        for (const std::string name : golden_cases) {
            CAPTURE(name);
            const std::vector<TokenId> ids = read_ids(golden, name + ".input_ids");
            const std::vector<TokenId> prefix = optional_ids(golden, name + ".prefix_length");
            Session session(engine);
            if (!prefix.empty()) session.set_prefix(uint32_t(prefix[0]));
            check_result(golden, name, session.forward(ids, true), strict_error);
            Session fresh(engine);
            if (!prefix.empty()) fresh.set_prefix(uint32_t(prefix[0]));
            fresh.append(ids);
            check_greedy(fresh, read_ids(golden, name + ".greedy"));
        }
        CHECK(engine.device().validation_errors() == 0);
    }
}

TEST_CASE("encoders from their folders reproduce their goldens" * needs_families()) {
    for (const std::string& family : chosen(encoders)) {
        CAPTURE(family);
        const std::string folder = fixtures() + "/models/" + family;
        const auto model = std::make_shared<const Model>(open_model(folder));
        Engine engine(model, engine_options(Precision::strict));
        Session session(engine);
        reference::Executor executor(*model);
        const Safetensors golden(folder + "/golden.safetensors");
        for (const std::string name : {"short", "long", "pair", "long_global"}) {
            CAPTURE(name);
            if (!golden.has(name + ".input_ids")) continue;
            const std::vector<TokenId> global = optional_ids(golden, name + ".global_attention_mask");
            executor.set_global({global.begin(), global.end()});
            const std::vector<TokenId> ids = read_ids(golden, name + ".input_ids");
            const std::vector<TokenId> types = optional_ids(golden, name + ".token_type_ids");
            check_result(golden, name, executor.forward(ids, reference::Outputs::all, {}, types),
                         reference_error);
            const ForwardResult result = session.forward(ids, true, types, global);
            check_result(golden, name, result, strict_error);
            CHECK(largest_error(golden.read<float>(name + ".last_hidden_state"), result.last_hidden) <=
                  strict_error);
        }
        CHECK_THROWS_WITH_AS(session.append(std::vector<TokenId>{3}), doctest::Contains("expected a decoder"),
                             Error);
        CHECK(engine.device().validation_errors() == 0);
    }
}

TEST_CASE("encoder-decoders from their folders reproduce their goldens" * needs_families()) {
    for (const std::string& family : chosen(encoder_decoder_fixtures)) {
        CAPTURE(family);
        const std::string folder = fixtures() + "/models/" + family;
        const auto model = std::make_shared<const Model>(open_model(folder));
        check_encoder_decoder(model, Safetensors(folder + "/golden.safetensors"), reference_error);
    }
}

TEST_CASE("GGUF files of the families reproduce their goldens" * needs_families()) {
    const char* const names[] = {
        "bloom",   "cohere", "deepseek-v3", "falcon-7b-style", "falcon2-11b-style", "gemma", "gemma3-text",
        "gpt-oss", "gpt2",   "hunyuan-moe", "mistral",         "mixtral",           "olmo",  "olmo2",
        "phi",     "phi4",   "qwen2-moe",   "smollm3",         "starcoder2",
    };
    for (const std::string& family : chosen(names)) {
        CAPTURE(family);
        const auto model =
            std::make_shared<const Model>(open_model(cat(fixtures(), "/gguf/", family, ".gguf")));
        const std::string own = cat(fixtures(), "/gguf/", family, ".golden.safetensors"),
                          common = cat(fixtures(), "/models/", family, "/golden.safetensors");
        const Safetensors golden(std::filesystem::exists(own) ? own : common);
        Engine engine(model, engine_options(Precision::strict));
        for (const std::string name : golden_cases) {
            CAPTURE(name);
            const std::vector<TokenId> ids = read_ids(golden, name + ".input_ids");
            if (ids.size() + 24 > model->architecture.context) continue;  // bloom.gguf says 64
            const std::vector<float> expected = golden.read<float>(name + ".logits");
            CHECK(largest_error(expected, reference::Executor(*model).forward(ids).logits) <= strict_error);
            Session session(engine);
            CHECK(largest_error(expected, session.forward(ids, false).logits) <= strict_error);
            if (golden.has(name + ".greedy")) check_greedy(session, read_ids(golden, name + ".greedy"));
        }
        CHECK(engine.device().validation_errors() == 0);
    }
}

TEST_CASE("GGUF files of encoders and encoder-decoders reproduce their goldens" * needs_families()) {
    for (const std::string family : {"t5", "mt5"}) {
        CAPTURE(family);
        const std::string path = cat(fixtures(), "/gguf/", family);
        check_encoder_decoder(std::make_shared<const Model>(open_model(path + ".gguf")),
                              Safetensors(path + ".golden.safetensors"), reference_error);
    }
    for (const std::string family : {"bert", "modernbert"}) {
        CAPTURE(family);
        const auto model =
            std::make_shared<const Model>(open_model(cat(fixtures(), "/gguf/", family, ".gguf")));
        const Safetensors golden(cat(fixtures(), "/models/", family, "/golden.safetensors"));
        Engine engine(model, engine_options(Precision::strict));
        Session session(engine);
        for (const std::string name : {"short", "long", "pair"}) {
            CAPTURE(name);
            if (!golden.has(name + ".input_ids")) continue;
            const std::vector<TokenId> types = optional_ids(golden, name + ".token_type_ids");
            const ForwardResult result = session.forward(read_ids(golden, name + ".input_ids"), false, types);
            CHECK(largest_error(golden.read<float>(name + ".last_hidden_state"), result.last_hidden) <=
                  strict_error);
        }
        CHECK(engine.device().validation_errors() == 0);
    }
}
