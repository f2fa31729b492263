// Hostile weights: NaN, infinities and huge values in every tensor in turn. What comes of it is a status or
// text, and no index computed from it leaves its buffer: the validation layer's GPU-assisted checks look
// where $SCORIA_GPU_ASSISTED asks for them (tools/test.sh --deep: on an LLVM that compiles instrumented
// kernels in seconds).
#include "engine.h"
#include "fail.h"
#include "on_system.h"
#include "ops/elementwise.h"
#include "support/device.h"
#include "support/families.h"
#include "support/golden.h"
#include "support/quantised_llama.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>

using namespace scoria;
using namespace scoria::test;

namespace {

/// Eight bytes that fill a tensor again and again: two floats, four halves (of the scales of blocks).
struct Poison {
    const char* name;
    std::array<uint8_t, 8> bytes;
};
constexpr Poison poisons[] = {
    {"NaN", {0xFF, 0xFF, 0xFF, 0x7F, 0xFF, 0xFF, 0xFF, 0x7F}},
    {"infinities of both signs", {0x00, 0x00, 0x80, 0x7F, 0x00, 0x00, 0x80, 0xFF}},
    {"largest floats of both signs", {0xFF, 0xFF, 0x7F, 0x7F, 0xFF, 0xFF, 0x7F, 0xFF}},
    {"halves beyond and at the end of their range", {0x00, 0x7C, 0xFF, 0x7B, 0x00, 0xFC, 0xFF, 0xFB}},
};

/// A model's tensors, one of them poisoned: another before each upload.
class PoisonedTensors : public TensorSource {
  public:
    explicit PoisonedTensors(std::shared_ptr<const TensorSource> source) : source_(std::move(source)) {}
    void set(const std::string& name, const Poison& poison) { name_ = name, poison_ = &poison; }
    void read(const TensorView& tensor, uint64_t first, std::span<std::byte> out) const override {
        source_->read(tensor, first, out);
        if (tensor.name != name_) return;
        for (size_t i = 0; i < out.size(); ++i)
            out[i] = std::byte{poison_->bytes[(first + i) % poison_->bytes.size()]};
    }

  private:
    std::shared_ptr<const TensorSource> source_;
    std::string name_;
    const Poison* poison_ = nullptr;
};

/// The layer's GPU-assisted validation, for devices made meanwhile.
struct GpuAssisted {
    GpuAssisted() { set_variable("VK_LAYER_ENABLES", "VK_VALIDATION_FEATURE_ENABLE_GPU_ASSISTED_EXT"); }
    ~GpuAssisted() { unset_variable("VK_LAYER_ENABLES"); }
};

/// Whether the layer sees a kernel read past the end of a buffer, which llvmpipe bears.
bool sees_reads_past_the_end() {
    vk::Device device(engine_options(Precision::strict).device);
    vk::Pipelines pipelines(device);
    const vk::Buffer small(device, 64, vk::MemoryUse::device), large(device, 4096, vk::MemoryUse::device);
    const Matrix a{small.view(), 4, 64, 64, 0}, out{large.view(), 4, 64, 64, 0};
    vk::Recorder recorder(device, pipelines);
    OpContext context{recorder, device.caps()};
    record_add(context, {a, out, out, 1}, binary_variants(device.caps()).front());
    const vk::Commands commands = recorder.finish();
    const VkCommandBuffer handle = commands.handle();
    device.wait(device.submit({&handle, 1}));
    return device.validation_errors() != 0;
}

struct Outcome {
    size_t models = 0, texts = 0, refusals = 0, errors = 0;
};

/// A prompt, greedy tokens and sampled ones; tokens are of the vocabulary or there are none.
void run_hostile(Engine& engine, Outcome& outcome) {
    const Architecture& architecture = engine.model().architecture;
    const uint32_t vocab = architecture.logits();
    std::array<TokenId, 11> prompt{3, 50, 7, 100, 9, 11, 90, 33, 4, 8, 21};
    for (TokenId& id : prompt) id %= TokenId(std::min(vocab, architecture.source_vocab()));
    for (const float temperature : {0.0f, 0.8f}) try {
            Session session(engine);
            if (!architecture.encoder.empty()) session.encode(prompt);
            session.append(prompt);
            GenerateOptions generate;
            generate.sampling.temperature = temperature;
            generate.max_tokens = 3;
            generate.ignore_end = true;
            for (const TokenId id : session.generate(generate).tokens) CHECK(uint32_t(id) < vocab);
            ++outcome.texts;
        } catch (const Error& error) {
            CHECK(error.status() == Status::non_finite);
            ++outcome.refusals;
        }
}

/// Each tensor with every poison, or with one, in turn; in the quick tier only tensors of `telling`. One
/// engine uploads them all, so that its kernels are compiled, and instrumented, once.
void poison_each(const std::string& path, bool every, std::span<const Role> telling, Outcome& outcome) {
    CAPTURE(path);
    Model model = open_model(path);
    const auto poisoned = std::make_shared<PoisonedTensors>(model.tensors);
    model.tensors = poisoned;
    EngineOptions options = engine_options(Precision::balanced);
    options.context = 64;
    Engine engine(std::make_shared<const Model>(std::move(model)), options);
    size_t turn = outcome.models++;  // so that models of one kind differ
    for (const auto& each : engine.model().weights) {
        const auto& ref = each.first;
        const TensorView& tensor = each.second;
        if (!deep() && (std::ranges::find(telling, ref.role) == telling.end() || ref.layer > 0)) continue;
        for (const Poison& poison : poisons) {
            if (!every && &poison != &poisons[turn % std::size(poisons)]) continue;
            CAPTURE(tensor.name);
            CAPTURE(std::string(poison.name));
            poisoned->set(tensor.name, poison);
            engine.evict();
            engine.restore({});
            run_hostile(engine, outcome);
        }
        ++turn;
    }
    outcome.errors += engine.device().validation_errors();
    for (const std::string& message : engine.device().validation_messages()) MESSAGE(message.substr(0, 600));
}

}  // namespace

TEST_CASE("vulkan: hostile weights are a status or text" * needs_fixtures_and_time()) {
    const bool few = few_models();
    if (few) return;
    std::optional<GpuAssisted> assisted;
    if (!variable("SCORIA_GPU_ASSISTED").empty()) {
        assisted.emplace();
        REQUIRE(sees_reads_past_the_end());
    }
    constexpr std::array telling{Role::token_embedding, Role::router, Role::k, Role::output};
    Outcome outcome;
    if (deep()) {
        std::vector<std::string> folders = chosen(decoder_fixtures);
        if (variable("SCORIA_ONLY").empty()) folders.insert(folders.end(), {"t5", "bart", "led"});
        for (const std::string& name : folders)
            poison_each(fixtures() + "/models/" + name, false, telling, outcome);
    }
    if (variable("SCORIA_ONLY").empty()) {
        for (const char* const name : {"llama3", "mixtral"})
            poison_each(cat(fixtures(), "/gguf/", name, ".gguf"), deep(), telling, outcome);
        if (deep()) poison_each(fixtures() + "/gguf/gpt-oss.gguf", true, telling, outcome);
        const TemporaryFile quantised(mixed_llama().bytes());
        poison_each(quantised.path(), deep(), telling, outcome);
    }
    MESSAGE(outcome.models << " models, " << outcome.texts << " texts, " << outcome.refusals
                           << " refused as non-finite"
                           << std::string(assisted ? ", under GPU-assisted validation" : ""));
    CHECK(outcome.errors == 0);
    CHECK(outcome.refusals > 0);
    CHECK(outcome.texts > 0);
}
