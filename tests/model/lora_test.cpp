// Adapters at run time against the same model with W + s B A in its files, on both executors. What a file
// holds is computed here, from the tensors as PEFT names and shapes them, so how they are bound is tested
// too.
#include "lora.h"

#include "fail.h"
#include "file.h"
#include "hf_folder.h"
#include "loader/gguf_builder.h"
#include "made_models.h"
#include "quantise/convert.h"
#include "reference/executor.h"
#include "support/compare.h"
#include "support/device.h"
#include "support/fused_and_not.h"
#include "support/golden.h"
#include "system.h"
#include "validate/model_check.h"

#include <nlohmann/json.hpp>

#include <cstring>
#include <fstream>
#include <random>

using namespace scoria;
using namespace scoria::test;

namespace {

namespace fs = std::filesystem;

constexpr double merged_error = 1e-5;  // the merged weights are rounded to F32, and GGUF's goldens as loose

/// A fixture and what its adapters change.
struct Row {
    const char* what;
    const char* folder;
    const char* gguf;  // null: none
    std::vector<const char*> targets;
    bool transposed = false;  // Conv1D: W is [in, out]
};
const Row adapted_rows[] = {
    {"all linears; GGUF's q and k are permuted",
     "llama3",
     "llama3",
     {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}},
    {"biases, k without", "qwen2", "qwen2", {"q_proj", "v_proj", "up_proj"}},
    {"one tensor for q, k and v, transposed; activation alone",
     "gpt2",
     "gpt2",
     {"c_attn", "c_proj", "c_fc"},
     true},
    {"q, k and v per head, ALiBi", "bloom", "bloom", {"query_key_value", "dense"}},
    {"q, k and v per group", "falcon2-11b-style", "falcon2-11b-style", {"query_key_value", "dense_4h_to_h"}},
    {"gate and up in one tensor", "phi4", "phi4", {"qkv_proj", "gate_up_proj", "down_proj"}},
    {"layers that do not rotate", "smollm3", "smollm3", {"q_proj", "k_proj"}},
    {"norms over q and k", "olmo2", "olmo2", {"q_proj", "k_proj", "o_proj"}},
    {"latent attention",
     "deepseek-v3",
     "deepseek-v3",
     {"q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "o_proj"}},
    {"tied logits", "llama3.2-tied", "llama3.2-tied", {"lm_head"}},
    {"an encoder", "bert", nullptr, {"query", "value", "intermediate.dense"}},
    {"an encoder-decoder", "t5", "t5", {"q", "k", "v", "o", "wi", "wo"}},
    {"global tokens", "longformer", nullptr, {"query_global", "value_global"}},
    {"positions by query, which has q twice", "gopher", nullptr, {"q", "k"}},
    {"cross-attention, v alone",
     "bart",
     nullptr,
     {"encoder_attn.v_proj", "encoder.layers.0.self_attn.q_proj"}},
};

struct Matrix {
    uint64_t rows = 0, cols = 0;
    std::vector<float> values;
};

/// The arrays of a fixture's model.safetensors as floats.
struct Arrays {
    explicit Arrays(const fs::path& path) {
        const Safetensors file(path.string());
        std::vector<File> files;
        files.emplace_back(path.string());
        const GatheredTensors tensors(std::move(files));
        for (const auto& [name, array] : file.arrays()) {
            shapes[name] = array.shape;
            values[name] = tensors.floats(stored_tensor(name, array, 0));
        }
    }
    std::map<std::string, std::vector<uint64_t>> shapes;
    std::map<std::string, std::vector<float>> values;
};

class Folder {
  public:
    Folder() {
        static int serial = 0;
        path_ = fs::temp_directory_path() / path_of(cat("scoria-l\u00f6ra-", process_id(), "-", serial++));
        fs::create_directories(path_);
    }
    ~Folder() { fs::remove_all(path_); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    const fs::path& path() const { return path_; }

  private:
    fs::path path_;
};

/// Random A and B for the modules of a fixture that end like one of its targets.
struct Update {
    std::map<std::string, std::pair<Matrix, Matrix>> pairs;  // by module
    double alpha = 8;

    Update(const Row& row, const Arrays& base, uint32_t rank, uint32_t seed) {
        std::mt19937 random(seed);
        for (const auto& [stored, shape] : base.shapes) {
            const std::string name = stored == "model.embed_tokens.weight" ? "lm_head.weight" : stored;
            const std::string module = name.substr(0, name.rfind('.'));
            const bool wanted = name.ends_with(".weight") && shape.size() == 2 &&
                                std::ranges::any_of(row.targets, [&](const std::string& target) {
                                    return module == target || module.ends_with("." + target);
                                });
            if (!wanted) continue;
            const uint64_t out = shape[row.transposed ? 1 : 0], in = shape[row.transposed ? 0 : 1];
            const auto matrix = [&](uint64_t height, uint64_t width, double size) {
                Matrix m{height, width, std::vector<float>(height * width)};
                for (float& value : m.values)
                    value = static_cast<float>(std::uniform_real_distribution<double>(-size, size)(random));
                return m;
            };
            pairs[module] = {matrix(rank, in, 1 / std::sqrt(double(in))), matrix(out, rank, 0.3)};
        }
        REQUIRE(!pairs.empty());
    }
    double scale(const Matrix& a) const { return alpha / double(a.rows); }

    void save(const fs::path& folder) const {
        std::vector<NamedArray> arrays;
        for (const auto& [module, pair] : pairs) {
            const auto& [a, b] = pair;
            arrays.emplace_back("base_model.model." + module + ".lora_A.weight", std::vector{a.rows, a.cols},
                                a.values);
            arrays.emplace_back("base_model.model." + module + ".lora_B.weight", std::vector{b.rows, b.cols},
                                b.values);
        }
        write_safetensors((folder / "adapter_model.safetensors").string(), arrays);
        std::ofstream(folder / "adapter_config.json")
            << nlohmann::json{{"peft_type", "LORA"}, {"lora_alpha", alpha}, {"r", 4}};
    }

    void merge_into(Arrays& base, const Row& row, double user_scale) const {
        for (const auto& [module, pair] : pairs) {
            const auto& [a, b] = pair;
            std::vector<float>& w = base.values[module + ".weight"];
            if (w.empty()) {  // the tied logits' own
                w = base.values.at("model.embed_tokens.weight");
                base.shapes[module + ".weight"] = base.shapes.at("model.embed_tokens.weight");
            }
            for (uint64_t o = 0; o < b.rows; ++o)
                for (uint64_t i = 0; i < a.cols; ++i) {
                    double sum = 0;
                    for (uint64_t k = 0; k < a.rows; ++k)
                        sum += double{b.values[o * a.rows + k]} * double{a.values[k * a.cols + i]};
                    float& value = w[row.transposed ? i * b.rows + o : o * a.cols + i];
                    value = static_cast<float>(double{value} + user_scale * scale(a) * sum);
                }
        }
    }
};

Model merged_model(const Row& row, const Arrays& merged, const Folder& folder) {
    std::vector<NamedArray> arrays;
    for (const auto& [name, values] : merged.values)
        arrays.emplace_back(name, merged.shapes.at(name), values);
    write_safetensors((folder.path() / "model.safetensors").string(), arrays);
    nlohmann::json config =
        nlohmann::json::parse(std::ifstream(cat(fixtures(), "/models/", row.folder, "/config.json")));
    if (merged.values.contains("lm_head.weight")) config["tie_word_embeddings"] = false;
    std::ofstream(folder.path() / "config.json") << config;
    return open_model(folder.path());
}

Model with(Model model, std::span<const AdapterChoice> choices) {
    attach_adapters(model, choices);
    return model;
}
Model with(Model model, const fs::path& adapter, double scale = 1) {
    const AdapterChoice choice{adapter, scale};
    return with(std::move(model), {&choice, 1});
}

/// The first token, of models that have global ones.
std::vector<TokenId> global_tokens(const Model& model, std::span<const TokenId> ids) {
    std::vector<TokenId> global;
    if (model.architecture.layers[0].attention.global_tokens) global.resize(ids.size()), global[0] = 1;
    return global;
}

/// Of an encoder-decoder the ids are the encoder's too.
std::vector<double> logits(const Model& model, std::span<const TokenId> ids) {
    reference::Executor executor(model);
    if (!model.architecture.encoder.empty()) executor.encode(ids);
    const std::vector<TokenId> global = global_tokens(model, ids);
    executor.set_global({global.begin(), global.end()});
    return executor.forward(ids).logits;
}

std::string folder_of(const Row& row) { return cat(fixtures(), "/models/", row.folder); }
std::vector<TokenId> ids_of(const Row& row) {
    const Safetensors golden(folder_of(row) + "/golden.safetensors");
    return read_ids(golden, golden.has("short.input_ids") ? "short.input_ids" : "short.decoder_input_ids");
}

void add(GgufFile& file, const std::string& name, const Matrix& m) {
    file.tensors[name] = {{m.cols, m.rows},
                          0,
                          std::string(reinterpret_cast<const char*>(m.values.data()), 4 * m.values.size())};
}

GgufFile adapter_file(const Update& update, const char* architecture) {
    GgufFile file;
    file.metadata = {{"general.architecture", architecture},
                     {"general.type", "adapter"},
                     {"adapter.type", "lora"},
                     {"adapter.lora.alpha", static_cast<float>(update.alpha)}};
    return file;
}

/// Of Qwen3.5's first layer: the gate's rows, and the columns of what projects back, with the heads of values
/// as its converter leaves them.
std::string tiled_adapter(const Update& update, const Recurrence& shape) {
    const auto& [gate_a, gate_b] = update.pairs.at("model.layers.0.linear_attn.in_proj_z");
    const auto& [back_a, back_b] = update.pairs.at("model.layers.0.linear_attn.out_proj");
    Matrix b = gate_b, a = back_a;
    REQUIRE((shape.groups == 2 && shape.heads == 6 && b.rows == shape.width && a.cols == shape.width));
    for (uint64_t i = 0; i < shape.width; ++i) {
        const uint64_t head = i / shape.value_dim;  // of the folder's 0 3 1 4 2 5
        const uint64_t from = (head % 2 * 3 + head / 2) * shape.value_dim + i % shape.value_dim;
        for (uint64_t k = 0; k < a.rows; ++k) {
            b.values[i * b.cols + k] = gate_b.values[from * b.cols + k];
            a.values[k * a.cols + i] = back_a.values[k * a.cols + from];
        }
    }
    GgufFile file = adapter_file(update, "qwen35");
    add(file, "blk.0.attn_gate.weight.lora_a", gate_a);
    add(file, "blk.0.attn_gate.weight.lora_b", b);
    add(file, "blk.0.ssm_out.weight.lora_a", a);
    add(file, "blk.0.ssm_out.weight.lora_b", back_b);
    return file.bytes();
}

/// The same numbers under GGUF's names; `permuted`: with rows of q and k of each head as the converter of
/// llamas leaves them.
std::string gguf_adapter(const Update& update, const char* architecture, uint32_t head_dim, bool permuted) {
    const std::pair<const char*, const char*> names[] = {
        {"self_attn.q_proj", "attn_q"},      {"self_attn.k_proj", "attn_k"}, {"self_attn.v_proj", "attn_v"},
        {"self_attn.o_proj", "attn_output"}, {"mlp.gate_proj", "ffn_gate"},  {"mlp.up_proj", "ffn_up"},
        {"mlp.down_proj", "ffn_down"}};
    GgufFile file = adapter_file(update, architecture);
    for (const auto& [module, pair] : update.pairs) {
        const size_t layer_end = module.find('.', 13);  // after "model.layers."
        const std::string layer = module.substr(13, layer_end - 13), inner = module.substr(layer_end + 1);
        const auto name = std::ranges::find(names, inner, [](const auto& n) { return std::string(n.first); });
        REQUIRE(name != std::end(names));
        auto [a, b] = pair;
        if (permuted && (inner.ends_with("q_proj") || inner.ends_with("k_proj")))
            for (uint64_t r = 0; r < b.rows; ++r) {  // row 2i + j of a head is the original's j * half + i
                const uint64_t in_head = r % head_dim,
                               from = r - in_head + in_head % 2 * (head_dim / 2) + in_head / 2;
                std::copy_n(pair.second.values.begin() + std::ptrdiff_t(from * b.cols), b.cols,
                            b.values.begin() + std::ptrdiff_t(r * b.cols));
            }
        add(file, cat("blk.", layer, ".", name->second, ".weight.lora_a"), a);
        add(file, cat("blk.", layer, ".", name->second, ".weight.lora_b"), b);
    }
    return file.bytes();
}

/// Every subgroup size runs the first adapted_rows, one of them all.
std::span<const Row> rows_for_device() {
    const bool few = few_models();
    return std::span(adapted_rows).first(few ? 2 : std::size(adapted_rows));
}

}  // namespace

TEST_CASE("reference: an adapter is the model with its product merged" * needs_fixtures()) {
    for (const Row& row : adapted_rows) {
        CAPTURE(row.what);
        Arrays merged(folder_of(row) + "/model.safetensors");
        const Update update(row, merged, 5, 1);
        update.merge_into(merged, row, 1);
        const Folder merged_folder, adapter;
        update.save(adapter.path());
        const std::vector<TokenId> ids = ids_of(row);
        const std::vector<double> expected = logits(merged_model(row, merged, merged_folder), ids);
        const Model base = open_model(folder_of(row));
        CHECK(largest_error(expected, logits(base, ids)) > 0.05);  // it makes a difference
        CHECK(largest_error(expected, logits(with(base, adapter.path()), ids)) <= merged_error);
        CHECK(logits(with(base, adapter.path(), 0), ids) == logits(base, ids));
        if (row.gguf == nullptr) continue;
        const Model gguf = open_model(cat(fixtures(), "/gguf/", row.gguf, ".gguf"));
        // Where the GGUF itself is not the folder's model to the last digit, both are as far apart.
        const double apart = largest_error(logits(base, ids), logits(gguf, ids));
        CHECK(largest_error(expected, logits(with(gguf, adapter.path()), ids)) <= merged_error + 3 * apart);
    }
}

TEST_CASE("reference: the same numbers from PEFT and GGUF files" * needs_fixtures()) {
    for (const Row& row : std::span(adapted_rows).first(2)) {
        CAPTURE(row.what);
        const Update update(row, Arrays(folder_of(row) + "/model.safetensors"), 4, 2);
        const Folder peft;
        update.save(peft.path());
        const Model folder = open_model(folder_of(row)),
                    gguf = open_model(cat(fixtures(), "/gguf/", row.gguf, ".gguf"));
        const TemporaryFile file(gguf_adapter(update, gguf.architecture.family.c_str(),
                                              folder.architecture.layers[0].attention.head_dim,
                                              gguf.architecture.family == "llama"));
        const std::vector<TokenId> ids = ids_of(row);
        CHECK(logits(with(gguf, file.path()), ids) == logits(with(gguf, peft.path()), ids));
        CHECK(logits(with(folder, file.path()), ids) == logits(with(folder, peft.path()), ids));
    }
}

// Folders that no fixture's GGUF stands beside: the one that is made of them.
TEST_CASE("reference: an adapter of PEFT does to a GGUF what it does to the folder") {
    const Row rows[] = {
        {"heads of values that are tiled there",
         "qwen3_5_text",
         nullptr,
         {"in_proj_qkv", "in_proj_z", "in_proj_a", "in_proj_b", "out_proj"}},
        {"heads of values that are not", "qwen3_next", nullptr, {"in_proj_qkvz", "in_proj_ba", "out_proj"}},
        {"q, k and v of a recurrence, and what goes through few columns",
         "kimi_linear",
         nullptr,
         {"q_proj", "k_proj", "v_proj", "f_a_proj", "g_b_proj", "b_proj", "o_proj"}},
        {"the second architecture of its family", "nemotron_h", nullptr, {"in_proj", "q_proj", "up_proj"}},
        {"the third", "granitemoehybrid", nullptr, {"q_proj", "o_proj"}},
        {"the text of a model that sees images", "gemma4", nullptr, {"q_proj", "down_proj"}},
    };
    for (const Row& row : rows) {
        CAPTURE(row.what);
        MadeModel made = made_model(row.folder);
        const TemporaryFolder folder(made.folder);
        Arrays merged(folder.path() / "model.safetensors");
        const Update update(row, merged, 4, 6);
        const Folder adapter;
        update.save(adapter.path());
        update.merge_into(merged, row, 1);
        for (auto& [name, tensor] : made.folder.tensors)
            std::memcpy(tensor.bytes.data(), merged.values.at(name).data(), tensor.bytes.size());
        const TemporaryFolder merged_folder(made.folder);
        const std::string path = (adapter.path() / "made.gguf").string();
        convert(*open_conversion_source(folder.path()), path, {.recipe = find_recipe("F32")});

        const std::vector<double> expected = logits(open_model(merged_folder.path()), made.ids);
        const Model base = open_model(folder.path()), gguf = open_model(path_of(path));
        CHECK(largest_error(expected, logits(base, made.ids)) > 0.05);
        CHECK(largest_error(expected, logits(with(base, adapter.path()), made.ids)) <= merged_error);
        CHECK(largest_error(expected, logits(with(gguf, adapter.path()), made.ids)) <= merged_error);
    }
}

TEST_CASE("reference: a GGUF adapter's tiled heads on the folder") {
    const MadeModel made = made_model("qwen3_5_text");
    const TemporaryFolder folder(made.folder);
    const Model base = open_model(folder.path());
    const Row row{"", "", nullptr, {"layers.0.linear_attn.in_proj_z", "layers.0.linear_attn.out_proj"}};
    const Update update(row, Arrays(folder.path() / "model.safetensors"), 4, 7);
    const Folder peft;
    update.save(peft.path());
    const TemporaryFile adapter(tiled_adapter(update, base.architecture.recurrence()));
    CHECK(logits(with(base, adapter.path()), made.ids) == logits(with(base, peft.path()), made.ids));
}

TEST_CASE("reference: several adapters with scales add up" * needs_fixtures()) {
    const Row& row = adapted_rows[0];
    Arrays merged(folder_of(row) + "/model.safetensors");
    Row fewer = row;
    fewer.targets = {"q_proj", "down_proj"};
    const Update one(row, merged, 3, 3), two(fewer, merged, 2, 4);
    one.merge_into(merged, row, 0.5);
    two.merge_into(merged, row, -2);
    const Folder folder, first, second;
    one.save(first.path());
    two.save(second.path());
    const std::vector<TokenId> ids = ids_of(row);
    const AdapterChoice choices[] = {{first.path(), 0.5}, {second.path(), -2}};
    CHECK(largest_error(logits(merged_model(row, merged, folder), ids),
                        logits(with(open_model(folder_of(row)), choices), ids)) <= merged_error);
}

TEST_CASE("vulkan: an adapter is the model with its product merged" * needs_fixtures_and_time()) {
    for (const Row& row : rows_for_device()) {
        CAPTURE(row.what);
        Arrays merged(folder_of(row) + "/model.safetensors");
        const Update update(row, merged, 3, 5);  // a rank that no vector width divides
        update.merge_into(merged, row, 1);
        const Folder merged_folder, adapter;
        update.save(adapter.path());
        const std::vector<TokenId> ids = ids_of(row);
        const std::vector<double> expected = logits(merged_model(row, merged, merged_folder), ids);
        const auto model = std::make_shared<const Model>(with(open_model(folder_of(row)), adapter.path()));
        for (const bool fusion : {true, false}) {
            if (!fusion && &row != &adapted_rows[0]) continue;
            CAPTURE(fusion);
            EngineOptions options = engine_options(Precision::strict);
            options.fusion = fusion;
            Engine engine(model, options);
            const validate::ModelCheck check = validate::check_model(engine, ids);
            CHECK(check.passed());
            if (check.first_diverging) MESSAGE(check.ops[*check.first_diverging].variant);
            const bool encodes = !model->architecture.encoder.empty();
            Session whole(engine);
            if (encodes) whole.encode(ids, false);
            CHECK(largest_error(expected, whole.forward(ids, false, {}, global_tokens(*model, ids)).logits) <=
                  strict_error);
            CHECK(engine.device().validation_errors() == 0);
            if (model->architecture.bidirectional()) continue;
            Session session(engine);  // one token at a time, as when an answer is made
            if (encodes) session.encode(ids, false);
            for (const TokenId id : ids) session.append(std::span(&id, 1));
            const std::span<const double> last = std::span(expected).last(model->architecture.logits());
            CHECK(largest_error(last, session.logits()) <= strict_error);
        }
    }
}

TEST_CASE("vulkan: q, k and v of a recurrence stay side by side when adapters add to them") {
    const MadeModel made = made_model("kimi_linear");
    const TemporaryFolder folder(made.folder);
    const Row row{"", "", nullptr, {"k_proj", "v_proj", "f_b_proj"}};
    const Update update(row, Arrays(folder.path() / "model.safetensors"), 3, 8);
    const Folder adapter;
    update.save(adapter.path());
    const auto model = std::make_shared<const Model>(with(open_model(folder.path()), adapter.path()));
    const std::vector<double> expected = logits(*model, made.ids);
    check_fused_and_not(model, made.ids, expected);
}

TEST_CASE("an adapter of what is no linear layer is refused by both executors" * needs_fixtures()) {
    GgufFile file;
    file.metadata = {{"general.architecture", "llama"},
                     {"general.type", "adapter"},
                     {"adapter.type", "lora"},
                     {"adapter.lora.alpha", 1.0f}};
    const Model base = open_model(fixtures() + "/gguf/llama3.gguf");
    const uint64_t hidden = base.architecture.hidden, vocab = base.architecture.vocab;
    file.add("token_embd.weight.lora_a", {hidden, 2});
    file.add("token_embd.weight.lora_b", {2, vocab});
    const TemporaryFile written(file.bytes());
    const Model model = with(base, written.path());
    const char* message = "expected an adapter of a linear layer, got one of token_embedding";
    CHECK_THROWS_WITH_AS(reference::Executor{model}, doctest::Contains(message), Error);
    CHECK_THROWS_WITH_AS(Engine(std::make_shared<const Model>(model), engine_options(Precision::strict)),
                         doctest::Contains(message), Error);
}
