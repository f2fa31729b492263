// Adapter files: scales, and what is refused. What they compute is in tests/model/lora_test.cpp.
#include "lora.h"

#include "fail.h"
#include "gguf_builder.h"
#include "hf_builder.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <functional>

using namespace scoria;
using namespace scoria::test;

namespace {

const std::string q = "base_model.model.model.layers.0.self_attn.q_proj.",
                  down = "base_model.model.model.layers.0.mlp.down_proj.";

/// An adapter of rank 2 for q and down of tiny_hf_llama().
HfFolder tiny_peft() {
    HfFolder folder;
    folder.files["adapter_config.json"] = nlohmann::json{
        {"peft_type", "LORA"},
        {"r", 2},
        {"lora_alpha", 8},
        {"bias", "none"},
        {"use_dora", false}}.dump();
    folder.add(q + "lora_A.weight", {2, 8});
    folder.add(q + "lora_B.weight", {8, 2});
    folder.add(down + "lora_A.weight", {2, 12});
    folder.add(down + "lora_B.weight", {8, 2});
    return folder;
}

/// As PEFT saves it: no config.json, no model.safetensors.
HfFolder saved(HfFolder folder) {
    folder.files["adapter_model.safetensors"] = safetensors_bytes(folder.tensors);
    folder.files["config.json"] = "";  // not written by itself, and removed below
    return folder;
}

class PeftFolder {
  public:
    explicit PeftFolder(const HfFolder& folder) : folder_(saved(folder)) {
        std::filesystem::remove(path() / "config.json");
    }
    const std::filesystem::path& path() const { return folder_.path(); }

  private:
    TemporaryFolder folder_;
};

GgufFile tiny_gguf() {
    GgufFile file;
    file.metadata = {{"general.architecture", "llama"},
                     {"general.type", "adapter"},
                     {"adapter.type", "lora"},
                     {"adapter.lora.alpha", 8.0f}};
    file.add("blk.0.attn_q.weight.lora_a", {8, 2});
    file.add("blk.0.attn_q.weight.lora_b", {2, 8});
    return file;
}

void set(HfFolder& folder, const char* key, const nlohmann::json& value) {
    nlohmann::json config = nlohmann::json::parse(folder.files["adapter_config.json"]);
    config[key] = value;
    folder.files["adapter_config.json"] = config.dump();
}

std::string attach_error(Model model, const std::filesystem::path& path) {
    try {
        const AdapterChoice choice{path, 1};
        attach_adapters(model, {&choice, 1});
        return "";
    } catch (const Error& error) {
        return error.what();
    }
}

std::vector<float> floats(const Model& model, const WeightRef& ref) {
    const TensorView& view = model.weights.at(ref);
    std::vector<float> values(size_t{view.rows} * view.cols);
    model.tensors->read(view, 0, std::as_writable_bytes(std::span(values)));
    return values;
}

constexpr WeightRef q_a{.role = Role::q, .layer = 0, .part = WeightPart::a},
    q_b{.role = Role::q, .layer = 0, .part = WeightPart::b};

}  // namespace

TEST_CASE("an adapter's scale is the user's times alpha over the rank, in B") {
    struct Row {
        const char* what;
        std::function<void(HfFolder&)> change;
        double q_scale, down_scale;
    };
    const Row rows[] = {
        {"alpha / rank", [](HfFolder&) {}, 4, 4},
        {"rank stabilised", [](HfFolder& f) { set(f, "use_rslora", true); }, 8 / std::sqrt(2.0),
         8 / std::sqrt(2.0)},
        {"alpha by the end of a name",
         [](HfFolder& f) {
             set(f, "alpha_pattern", {{"q_proj", 3}});
         },
         1.5, 4},
        {"alpha by an expression",
         [](HfFolder& f) {
             set(f, "alpha_pattern", {{"layers\\.\\d+\\.mlp\\..*", 1}, {"roj", 5}});
         },
         4, 0.5},
        {"another rank",
         [](HfFolder& f) {
             f.add(q + "lora_A.weight", {1, 8});
             f.add(q + "lora_B.weight", {8, 1});
             set(f, "rank_pattern", {{"q_proj", 1}});
         },
         8, 4},
    };
    const TemporaryFolder base(tiny_hf_llama());
    for (const Row& row : rows) {
        CAPTURE(row.what);
        HfFolder files = tiny_peft();
        row.change(files);
        const PeftFolder folder(files);
        const Adapter adapter = open_adapter(folder.path());
        CHECK(adapter.pairs.at("model.layers.0.self_attn.q_proj.weight").scale ==
              doctest::Approx(row.q_scale));
        CHECK(adapter.pairs.at("model.layers.0.mlp.down_proj.weight").scale ==
              doctest::Approx(row.down_scale));
        Model model = open_model(base.path());
        const AdapterChoice choice{folder.path(), -0.5};
        attach_adapters(model, {&choice, 1});
        const std::vector<float> b = floats(model, q_b);
        for (size_t i = 0; i < b.size(); ++i) CHECK(b[i] == float(-0.5 * row.q_scale * double(i)));
    }
}

TEST_CASE("several adapters of a weight are one of their ranks together") {
    HfFolder files = tiny_peft();
    const PeftFolder first(files);
    files.add(q + "lora_A.weight", {1, 8}, 100);
    files.add(q + "lora_B.weight", {8, 1}, 100);
    const PeftFolder second(files);
    const TemporaryFolder base(tiny_hf_llama());
    Model model = open_model(base.path());
    const AdapterChoice choices[] = {{first.path(), 0.25}, {second.path(), 2}};
    attach_adapters(model, choices);
    CHECK(model.architecture.adapters ==
          std::map<WeightRef, uint32_t>{{{Role::q, 0}, 3}, {{Role::down, 0}, 4}});
    const std::vector<float> a = floats(model, q_a), b = floats(model, q_b);
    for (size_t i = 0; i < 24; ++i) CHECK(a[i] == float(i < 16 ? i : i - 16 + 100));
    for (size_t i = 0; i < 24; ++i) CHECK(b[i] == float(i % 3 < 2 ? i / 3 * 2 + i % 3 : 16 * (i / 3 + 100)));
}

TEST_CASE("PEFT adapters that are refused") {
    struct Row {
        const char* what;
        std::function<void(HfFolder&)> change;
        const char* expected;
    };
    const Row rows[] = {
        {"no B", [](HfFolder& f) { f.tensors.erase(q + "lora_B.weight"); },
         "lora_A.weight: expected .lora_B.weight beside it"},
        {"no A", [](HfFolder& f) { f.tensors.erase(q + "lora_A.weight"); },
         "lora_B.weight: expected .lora_A.weight beside it"},
        {"columns of A",
         [](HfFolder& f) {
             f.add(q + "lora_A.weight", {2, 7});
         },
         "q_proj.lora_A.weight: expected [2, 8], got [2, 7]"},
        {"rows of B",
         [](HfFolder& f) {
             f.add(q + "lora_B.weight", {9, 2});
         },
         "q_proj.lora_B.weight: expected [8, 2], got [9, 2]"},
        {"ranks of A and B",
         [](HfFolder& f) {
             f.add(q + "lora_B.weight", {8, 3});
         },
         "expected [rows, 2], got [8, 3]"},
        {"rank 0",
         [](HfFolder& f) {
             f.add(q + "lora_A.weight", {0, 8});
         },
         "got [0, 8]"},
        {"another target",
         [](HfFolder& f) {
             f.add("base_model.model.model.layers.0.mlp.experts.lora_A.weight", {2, 8});
             f.add("base_model.model.model.layers.0.mlp.experts.lora_B.weight", {8, 2});
         },
         "mlp.experts.lora_A.weight: expected a weight of this model (llama)"},
        {"a layer too many",
         [](HfFolder& f) {
             f.add("base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight", {2, 8});
             f.add("base_model.model.model.layers.1.self_attn.q_proj.lora_B.weight", {8, 2});
         },
         "layers.1.self_attn.q_proj.lora_A.weight: expected a weight of this model"},
        {"GPT-2's names",
         [](HfFolder& f) {
             f.tensors.clear();
             f.add("base_model.model.transformer.h.0.attn.c_attn.lora_A.weight", {2, 8});
             f.add("base_model.model.transformer.h.0.attn.c_attn.lora_B.weight", {24, 2});
         },
         "c_attn.lora_A.weight: expected a weight of this model (llama)"},
        {"an embedding",
         [](HfFolder& f) {
             f.add("base_model.model.model.embed_tokens.lora_embedding_A", {2, 16});
         },
         "lora_embedding_A: expected a name base_model.model.*.lora_A.weight"},
        {"DoRA", [](HfFolder& f) { set(f, "use_dora", true); }, "use_dora"},
        {"whole modules", [](HfFolder& f) { set(f, "modules_to_save", {"lm_head"}); }, "modules_to_save"},
        {"biases", [](HfFolder& f) { set(f, "bias", "lora_only"); }, "bias: expected none, got lora_only"},
        {"another method", [](HfFolder& f) { set(f, "peft_type", "IA3"); },
         "peft_type: expected LORA, got IA3"},
        {"a changed base", [](HfFolder& f) { set(f, "init_lora_weights", "pissa_niter_4"); },
         "got pissa_niter_4"},
        {"a base less its gradients", [](HfFolder& f) { set(f, "init_lora_weights", "lora_ga"); },
         "got lora_ga"},
        {"no alpha", [](HfFolder& f) { set(f, "lora_alpha", nullptr); }, "lora_alpha"},
        {"two patterns",
         [](HfFolder& f) {
             set(f, "alpha_pattern", {{"q_proj", 3}, {".*_proj", 2}});
         },
         "expected one pattern for model.layers.0.self_attn.q_proj"},
        {"no expression",
         [](HfFolder& f) {
             set(f, "alpha_pattern", {{"(", 3}});
         },
         "("},
        {"no tensors", [](HfFolder& f) { f.tensors.clear(); }, "expected tensors, got none"},
    };
    const TemporaryFolder base(tiny_hf_llama());
    const Model model = open_model(base.path());
    CHECK(attach_error(model, PeftFolder(tiny_peft()).path()) == "");
    for (const Row& row : rows) {
        CAPTURE(row.what);
        HfFolder files = tiny_peft();
        row.change(files);
        CHECK_MESSAGE(attach_error(model, PeftFolder(files).path()).find(row.expected) != std::string::npos,
                      attach_error(model, PeftFolder(files).path()));
    }
    HfFolder pickled = tiny_peft();
    pickled.files["adapter_model.bin"] = "x";
    const PeftFolder folder(pickled);
    std::filesystem::remove(folder.path() / "adapter_model.safetensors");
    CHECK(attach_error(model, folder.path()).find("pickle") != std::string::npos);
}

TEST_CASE("GGUF adapters that are refused") {
    struct Row {
        const char* what;
        std::function<void(GgufFile&)> change;
        const char* expected;
    };
    const Row rows[] = {
        {"a model", [](GgufFile& f) { f.metadata["general.type"] = "model"; },
         "general.type: expected adapter, got model"},
        {"another kind", [](GgufFile& f) { f.metadata["adapter.type"] = "control_vector"; },
         "adapter.type: expected lora"},
        {"no alpha", [](GgufFile& f) { f.metadata.erase("adapter.lora.alpha"); },
         "adapter.lora.alpha: expected a number"},
        {"another architecture", [](GgufFile& f) { f.metadata["general.architecture"] = "qwen2"; },
         "general.architecture: expected llama, got qwen2"},
        {"no B", [](GgufFile& f) { f.tensors.erase("blk.0.attn_q.weight.lora_b"); },
         "attn_q.weight.lora_a: expected .lora_b beside it"},
        {"a tensor besides", [](GgufFile& f) { f.add("blk.0.attn_q.bias", {8}); },
         "attn_q.bias: expected a name *.lora_a or *.lora_b"},
        {"another target",
         [](GgufFile& f) {
             f.add("blk.0.ssm_in.weight.lora_a", {8, 2});
             f.add("blk.0.ssm_in.weight.lora_b", {2, 16});
         },
         "ssm_in.weight.lora_a: expected a weight of this model (llama)"},
        {"blocks",
         [](GgufFile& f) {
             f.tensors["blk.0.attn_q.weight.lora_a"] = {{32, 2}, 8, std::string(68, 0)};
         },
         "expected F32, F16 or BF16, got Q8_0"},
    };
    const TemporaryFile base(tiny_llama().bytes());
    const Model model = open_model(base.path());
    CHECK(attach_error(model, TemporaryFile(tiny_gguf().bytes()).path()) == "");
    for (const Row& row : rows) {
        CAPTURE(row.what);
        GgufFile file = tiny_gguf();
        row.change(file);
        const TemporaryFile written(file.bytes());
        CHECK_MESSAGE(attach_error(model, written.path()).find(row.expected) != std::string::npos,
                      attach_error(model, written.path()));
    }
}

TEST_CASE("an adapter is no model, and adapters come all at once") {
    const PeftFolder folder(tiny_peft());
    const TemporaryFile file(tiny_gguf().bytes());
    for (const std::filesystem::path& path :
         {folder.path(), folder.path() / "adapter_model.safetensors", std::filesystem::path(file.path())})
        CHECK_THROWS_WITH_AS(open_model(path), doctest::Contains("expected a model, got a LoRA adapter"),
                             Error);
    const TemporaryFolder base(tiny_hf_llama());
    Model model = open_model(base.path());
    const AdapterChoice choice{folder.path() / "adapter_model.safetensors", 1};
    attach_adapters(model, {&choice, 1});
    CHECK(attach_error(model, folder.path()).find("all adapters of a model at once") != std::string::npos);
    model = open_model(base.path());
    const AdapterChoice infinite{folder.path(), INFINITY};
    CHECK_THROWS_WITH_AS(attach_adapters(model, {&infinite, 1}), doctest::Contains("finite scale"), Error);
}
