// Several devices share a model by layers: what comes out are the bits of one device. The same device stands
// in for all of them, each time opened anew.
#include "engine.h"
#include "fail.h"
#include "speculation.h"
#include "support/device.h"
#include "support/golden.h"
#include "validate/model_check.h"

#include <algorithm>
#include <cstring>

using namespace scoria;
using namespace scoria::test;

namespace {

struct SharedAnswer {
    std::vector<float> logits, hidden;
    std::vector<TokenId> greedy, sampled, looked_up;
    bool operator==(const SharedAnswer& other) const {
        const auto same = [](const std::vector<float>& a, const std::vector<float>& b) {
            return a.size() == b.size() && std::memcmp(a.data(), b.data(), 4 * a.size()) == 0;
        };
        return same(logits, other.logits) && same(hidden, other.hidden) && greedy == other.greedy &&
               sampled == other.sampled && looked_up == other.looked_up;
    }
};

/// All that a session computes: a prompt in chunks, decode steps, hidden states, guesses, after a step back
/// too.
SharedAnswer answer_of(Engine& engine, std::span<const TokenId> ids) {
    SharedAnswer answer;
    Session session(engine);
    session.append(ids);
    answer.logits = session.logits();
    GenerateOptions generate;
    generate.max_tokens = 6;
    generate.ignore_end = true;
    answer.greedy = session.generate(generate).tokens;
    session.truncate(uint32_t(ids.size()) - 2);
    session.append(ids.last(2));
    generate.sampling.temperature = 0.8f;
    generate.sampling.seed = 5;
    answer.sampled = session.generate(generate).tokens;
    PromptLookup lookup;
    generate.proposer = &lookup;
    session.truncate(uint32_t(ids.size()));
    answer.looked_up = session.generate(generate).tokens;
    Session other(engine);
    for (const std::vector<float>& layer : other.forward(ids, true).hidden)
        answer.hidden.insert(answer.hidden.end(), layer.begin(), layer.end());
    return answer;
}

EngineOptions sharing(const std::string& devices) {
    EngineOptions options = engine_options(Precision::strict);
    options.deterministic = true;
    options.prompt_chunk = 8;
    if (!devices.empty()) options.device.select = devices;
    return options;
}

uint64_t errors_of(Engine& engine) {
    uint64_t errors = 0;
    for (const vk::Device* device : engine.devices()) errors += device->validation_errors();
    return errors;
}

}  // namespace

TEST_CASE("vulkan: two devices give the bits of one" * needs_fixtures_and_time()) {
    const std::vector<TokenId> ids{3,   50, 7,  100, 9,  11, 90, 33, 4,  50, 7,
                                   100, 9,  11, 90,  33, 4,  8,  21, 50, 7};
    std::vector<std::string> names{"gguf/llama3.gguf", "gguf/mixtral.gguf"};
    if (!few_models())  // rings, rotations by length, latent keys
        for (const char* const name : {"models/gemma2", "models/llama-dynamic-ntk", "models/deepseek-v2"})
            names.emplace_back(name);
    for (const std::string& name : names) {
        CAPTURE(name);
        const auto model = std::make_shared<const Model>(open_model(fixtures() + "/" + name));
        Engine one(model, sharing("")), two(model, sharing("0,0"));
        REQUIRE(two.memory_plan().before.size() == 1);
        CHECK(two.memory_plan().before[0].layers.end == two.memory_plan().layers.first);
        CHECK(two.memory_plan().kv + two.memory_plan().before[0].kv == one.memory_plan().kv);
        CHECK(answer_of(one, ids) == answer_of(two, ids));
        const auto check = [&](Engine& engine) {
            return validate::check_model(engine, std::span(ids).first(8));
        };
        CHECK(check(two).passed());
        CHECK(check(two).ops.size() == check(one).ops.size());  // tensors of both devices
        CHECK(errors_of(two) == 0);
    }
}

TEST_CASE("vulkan: SmolLM2 on three devices, cut by their memory" * needs_fast_driver()) {
    const std::string path = real_model_or_message();
    if (path.empty() || few_models()) return;
    const auto model = std::make_shared<const Model>(open_model(path));
    EngineOptions options = sharing("");
    options.context = 128;
    const std::vector<TokenId> ids{504, 3575, 282, 4649, 314};
    Engine one(model, options);
    options.device.select = "0,0,0";
    options.memory_budgets = {100'000'000, 50'000'000, 150'000'000};
    Engine three(model, options);
    const MemoryPlan& plan = three.memory_plan();
    REQUIRE(plan.before.size() == 2);
    CHECK(plan.all_fit());
    const auto count = [](const MemoryPlan& part) { return part.layers.end - part.layers.first; };
    CHECK(plan.before[0].layers.first == 0);
    CHECK(plan.before[0].layers.end == plan.before[1].layers.first);
    CHECK(plan.before[1].layers.end == plan.layers.first);
    CHECK(plan.layers.end == model->architecture.layers.size());
    CHECK(count(plan.before[1]) < count(plan.before[0]) + count(plan));
    CHECK(plan.device_total() < one.memory_plan().device_total());
    CHECK(answer_of(one, ids) == answer_of(three, ids));
    // Too little on one of them: its weights stay on the host, and the bits what they were.
    options.memory_budgets[1] = 12'000'000;
    options.device.select = "0,0";
    options.memory_budgets.resize(2);
    Engine little(model, options);
    CHECK(little.memory_plan().host_weights > 0);
    CHECK(little.memory_plan().all_fit());
    CHECK(answer_of(one, ids) == answer_of(little, ids));
    CHECK(errors_of(three) + errors_of(little) == 0);
}

TEST_CASE("vulkan: what cannot be shared says so" * needs_fixtures_and_time()) {
    const auto refused = [](const std::string& name, const std::string& devices, const char* text) {
        const auto model = std::make_shared<const Model>(open_model(fixtures() + "/" + name));
        CHECK_THROWS_WITH_AS(Engine(model, sharing(devices)), doctest::Contains(text), Error);
    };
    refused("gguf/t5.gguf", "0,0", "[device] expected one device for t5");
    refused("models/reformer", "0,0", "[device] expected one device for reformer");
    refused("gguf/llama3.gguf", "0,0,0,0,0,0,0", "layers, got 7");
    refused("gguf/llama3.gguf", "0,99", "[device] expected an index below");
    CHECK(device_list("llvmpipe (LLVM 19.1.7, 256 bits)").size() == 1);
    CHECK(device_list("0,1") == std::vector<std::string>{"0", "1"});
    CHECK(device_list("").size() == 1);
}
