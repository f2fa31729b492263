// The architectures that the files of each family become.
#include "families.h"
#include "family_parts.h"
#include "file.h"
#include "gguf_builder.h"
#include "gguf_writer.h"
#include "hf_builder.h"
#include "hf_folder.h"
#include "model.h"
#include "safetensors.h"
#include "test_env.h"
#include "weight_check.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <set>

using namespace scoria;
using namespace scoria::test;

namespace {

constexpr RopePairs interleaved = RopePairs::interleaved, halves = RopePairs::halves;

double frequency(const Architecture& architecture, size_t i) {
    return architecture.ropes.at(0).inverse_frequencies.at(i);
}

}  // namespace

TEST_CASE("fixtures of every family" * needs_fixtures()) {
    struct Case {
        const char* file;
        uint32_t hidden, layers, heads, kv_heads, head_dim, feed_forward;
        RopePairs pairs;
        double base, linear;
        bool tied, biases, qk_norm;
    };
    // From `config.json` of models/ and the shapes in the files.
    const Case cases[] = {
        {"llama1", 64, 2, 4, 4, 16, 112, interleaved, 1e4, 1, false, false, false},
        {"llama3.2-tied", 64, 2, 4, 2, 16, 112, interleaved, 5e5, 0, true, false, false},
        {"llama3", 64, 2, 4, 2, 16, 112, interleaved, 5e5, 0, false, false, false},
        {"llama-linear-scaling", 64, 2, 4, 2, 16, 112, interleaved, 1e4, 4, false, false, false},
        {"deepseek-67b", 64, 3, 4, 2, 16, 80, interleaved, 1e4, 1, false, false, false},
        {"smollm2", 72, 2, 6, 2, 12, 112, interleaved, 1e5, 1, true, false, false},
        {"mistral", 64, 2, 4, 2, 24, 112, interleaved, 1e4, 1, false, false, false},
        {"qwen2", 64, 2, 4, 2, 16, 112, halves, 1e4, 1, false, true, false},
        {"qwen3", 64, 2, 4, 2, 24, 112, halves, 1e4, 1, false, false, true},
    };
    for (const Case& c : cases) {
        CAPTURE(c.file);
        const Model model = open_model(fixtures() + "/gguf/" + c.file + ".gguf");
        const Architecture& a = model.architecture;
        CHECK(a.vocab == 256);
        CHECK(a.context == 192);
        CHECK(a.hidden == c.hidden);
        CHECK(a.norm.epsilon == 0.02f);
        CHECK(a.tied_embeddings == c.tied);
        REQUIRE(a.ropes.size() == 1);
        CHECK(a.ropes[0].pairs == c.pairs);
        CHECK(a.ropes[0].width == c.head_dim);
        CHECK(a.ropes[0].magnitude == 1);
        REQUIRE(a.layers.size() == c.layers);
        for (const Layer& layer : a.layers) {
            CHECK(layer.attention.heads == c.heads);
            CHECK(layer.attention.kv_heads == c.kv_heads);
            CHECK(layer.attention.head_dim == c.head_dim);
            CHECK(layer.attention.scale == doctest::Approx(1 / std::sqrt(c.head_dim)).epsilon(1e-7));
            CHECK(layer.attention.window == 0);
            CHECK(layer.attention.q_bias == c.biases);
            CHECK(layer.attention.k_bias == c.biases);
            CHECK(layer.attention.v_bias == c.biases);
            CHECK_FALSE(layer.attention.o_bias);
            CHECK((layer.attention.qk_norm.group == QkNorm::Group::head) == c.qk_norm);
            CHECK(layer.attention.rope == 0);
            CHECK(layer.feed_forward.size == c.feed_forward);
        }
        REQUIRE(a.ropes[0].inverse_frequencies.size() == c.head_dim / 2);
        for (size_t i = 0; c.linear != 0 && i < a.ropes[0].inverse_frequencies.size(); ++i) {
            CHECK(frequency(a, i) ==
                  doctest::Approx(std::pow(c.base, -2.0 * double(i) / c.head_dim) / c.linear).epsilon(1e-14));
        }
        CHECK(model.unused.empty());
        CHECK(model.weights.at({Role::down, 1}).rows == c.hidden);
        CHECK(model.weights.at({Role::down, 1}).cols == c.feed_forward);
    }
}

TEST_CASE("Llama-3 scaling comes from the divisors in the file" * needs_fixtures()) {
    // llama3's config.json: factor 8, low 1, high 4, original context 64; the formula is of "The Llama 3 Herd
    // of Models" as Hugging Face's modeling_rope_utils states it. The file holds float32.
    const Model model = open_model(fixtures() + "/gguf/llama3.gguf");
    const double factor = 8, low = 1, high = 4, original = 64;
    for (size_t i = 0; i < 8; ++i) {
        CAPTURE(i);
        const double plain = std::pow(5e5, -2.0 * double(i) / 16),
                     wavelength = 2 * 3.14159265358979323846 / plain;
        const double blend = (original / wavelength - low) / (high - low);
        const double expected = wavelength < original / high  ? plain
                                : wavelength > original / low ? plain / factor
                                                              : (1 - blend) * plain / factor + blend * plain;
        CHECK(frequency(model.architecture, i) == doctest::Approx(expected).epsilon(1e-6));
    }
}

TEST_CASE("keys with a default, and optional tensors") {
    GgufFile file = tiny_llama();
    file.metadata.erase("llama.ropes[0].freq_base");
    file.metadata.erase("llama.attention.head_count_kv");
    file.add("blk.0.attn_k.weight", {8, 8});
    file.add("blk.0.attn_v.weight", {8, 8});
    file.add("blk.0.attn_output.bias", {8});
    file.add("extra", {3, 5});
    file.metadata["llama.attention.sliding_window"] = 24u;
    file.metadata["llama.rope.dimension_count"] = 2u;
    file.metadata["llama.final_logit_softcapping"] = 30.0f;
    file.metadata["general.name"] = "tiny";
    const TemporaryFile on_disk(file.bytes());
    const Model model = open_model(on_disk.path());
    const Architecture& a = model.architecture;
    CHECK(model.name == "tiny");
    CHECK(a.tied_embeddings);
    CHECK(a.layers[0].attention.kv_heads == 2);
    CHECK(a.layers[0].attention.head_dim == 4);
    CHECK(a.layers[0].attention.o_bias);
    CHECK_FALSE(a.layers[0].attention.q_bias);
    CHECK(a.layers[0].attention.window == 24);
    CHECK(a.logit_soft_cap == 30.0f);
    CHECK(a.ropes[0].width == 2);
    CHECK(a.ropes[0].inverse_frequencies == std::vector<double>{1});
    REQUIRE(model.unused.size() == 1);
    CHECK(model.unused[0].name == "extra");
    CHECK(model.tokenizer == nullptr);
    CHECK(model.chat_template.empty());
    CHECK(model.metadata_json.find("\"llama.embedding_length\": 8") != std::string::npos);
}

namespace {

/// The same under the name of another architecture.
GgufFile tiny(const std::string& name) {
    GgufFile file = tiny_llama();
    const auto metadata = std::exchange(file.metadata, {});
    for (const auto& [key, value] : metadata)
        file.metadata[key.starts_with("llama.") ? name + key.substr(5) : key] = value;
    file.metadata["general.architecture"] = name;
    return file;
}

}  // namespace

TEST_CASE("what the first files of some architectures do not say") {
    GgufFile file = tiny("gemma2");
    for (const char* norm : {"blk.0.post_attention_norm.weight", "blk.0.post_ffw_norm.weight"})
        file.add(norm, {8});
    const auto opened = [&] {
        const TemporaryFile on_disk(file.bytes());
        return open_model(on_disk.path()).architecture;
    };
    Architecture a = opened();
    CHECK(a.layers[0].attention.soft_cap == 50.0f);
    CHECK(a.logit_soft_cap == 30.0f);
    CHECK(a.layers[0].attention.window == 4096);
    file.metadata["gemma2.attn_logit_softcapping"] = 5.0f;
    file.metadata["gemma2.final_logit_softcapping"] = 7.0f;
    file.metadata["gemma2.attention.sliding_window"] = 24u;
    a = opened();
    CHECK(a.layers[0].attention.soft_cap == 5.0f);
    CHECK(a.logit_soft_cap == 7.0f);
    CHECK(a.layers[0].attention.window == 24);

    file = tiny("granite");  // of which this key says whether it rotates at all
    CHECK(opened().layers[0].attention.rope == 0);
    file.metadata["granite.rope.scaling.finetuned"] = false;
    CHECK(opened().layers[0].attention.rope == -1);
    file = tiny("minicpm");  // which has Granite's multipliers, and always rotates
    file.metadata["minicpm.rope.scaling.finetuned"] = false;
    CHECK(opened().layers[0].attention.rope == 0);
}

TEST_CASE("biases that a file has count, though its family rarely has them") {
    GgufFile file = tiny("gemma");
    file.add("blk.0.attn_q.bias", {8});
    file.add("blk.0.attn_output.bias", {8});
    const TemporaryFile on_disk(file.bytes());
    const Model model = open_model(on_disk.path());
    CHECK(model.architecture.layers[0].attention.q_bias);
    CHECK(model.architecture.layers[0].attention.o_bias);
    CHECK_FALSE(model.architecture.layers[0].attention.v_bias);
    CHECK(model.unused.empty());
}

TEST_CASE("tensor types") {
    struct Case {
        uint32_t type;
        const char* name;
        uint64_t row_bytes;  // of 256 weights
    };
    const Case cases[] = {
        {0, "F32", 1024},    {1, "F16", 512},   {30, "BF16", 512},   {2, "Q4_0", 144},    {3, "Q4_1", 160},
        {6, "Q5_0", 176},    {7, "Q5_1", 192},  {8, "Q8_0", 272},    {10, "Q2_K", 84},    {11, "Q3_K", 110},
        {12, "Q4_K", 144},   {13, "Q5_K", 176}, {14, "Q6_K", 210},   {16, "IQ2_XXS", 66}, {17, "IQ2_XS", 74},
        {18, "IQ3_XXS", 98}, {19, "IQ1_S", 50}, {20, "IQ4_NL", 144}, {21, "IQ3_S", 110},  {22, "IQ2_S", 82},
        {23, "IQ4_XS", 136}, {29, "IQ1_M", 56}, {34, "TQ1_0", 54},   {35, "TQ2_0", 66},   {39, "MXFP4", 136},
        {40, "NVFP4", 144},  {41, "Q1_0", 36},  {42, "Q2_0", 72},
    };
    CHECK(gguf_types().size() == std::size(cases));
    for (const Case& c : cases) {
        REQUIRE(tensor_type_info(c.type) != nullptr);
        CHECK(std::string(tensor_type_info(c.type)->name) == c.name);
        TensorView view;
        view.type = tensor_type_info(c.type)->type;
        view.rows = 3;
        view.cols = 256;
        CHECK(view.row_bytes() == c.row_bytes);
        CHECK(view.bytes() == 3 * c.row_bytes);
    }
    for (const uint32_t other : {4u, 5u, 9u, 15u, 24u, 31u, 1000u}) CHECK(tensor_type_info(other) == nullptr);
}

TEST_CASE("the default model") {
    if (default_model().empty()) {
        MESSAGE("left out: SCORIA_MODEL names no model");
        return;
    }
    const Model model = open_model(default_model());
    CHECK(model.architecture.hidden == 576);
    CHECK(model.architecture.layers.size() == 30);
    CHECK(model.weights.at({Role::token_embedding, -1}).type == TensorType::q8_0);
    CHECK(model.weights.at({Role::q, 29}).type == TensorType::q4_1);
    CHECK(model.architecture.tied_embeddings);
    CHECK(model.tokenizer->kind() == "gpt2 (smollm)");
}

TEST_CASE("GGUF fixtures of decoders have every weight, and the architecture of their folders" *
          needs_fixtures()) {
    struct Case {
        const char* file;
        bool permuted;  // the converter made halves of pairs into neighbours
    };
    const Case cases[] = {
        {"llama1", true},
        {"llama3.2-tied", true},
        {"llama-linear-scaling", true},
        {"deepseek-67b", true},
        {"smollm2", true},
        {"qwen2", false},
        {"qwen3", false},
        {"mixtral", true},
        {"qwen2-moe", false},
        {"smollm3", true},
        {"phi4", false},
        {"hunyuan-moe", false},
        {"gemma", false},
        {"cohere", false},
        {"olmo", true},
        {"olmo2", false},
        {"gpt2", false},
        {"bloom", false},
        {"falcon-7b-style", false},
        {"falcon2-11b-style", false},
        {"phi", false},
    };
    for (const Case& c : cases) {
        CAPTURE(c.file);
        const Model model = open_model(fixtures() + "/gguf/" + c.file + ".gguf");
        check_weights(model);
        CHECK(model.unused.empty());
        Architecture folder = open_model(fixtures() + "/models/" + c.file).architecture;
        if (c.permuted)
            for (Rope& rope : folder.ropes) rope.pairs = interleaved;
        folder.family = model.architecture.family;
        folder.context = model.architecture.context;  // some converters write another
        for (size_t i = 0; i < folder.ropes.size(); ++i) {
            CHECK(folder.ropes[i].magnitude == doctest::Approx(model.architecture.ropes.at(i).magnitude));
            const auto close = [&](auto& ours, const auto& its) {
                REQUIRE(ours.size() == its.size());
                for (size_t k = 0; k < ours.size(); ++k)
                    CHECK(ours[k] == doctest::Approx(its[k]).epsilon(1e-6));
                ours = its;
            };
            folder.ropes[i].magnitude = model.architecture.ropes[i].magnitude;  // F32 in the file
            close(folder.ropes[i].inverse_frequencies, model.architecture.ropes[i].inverse_frequencies);
            close(folder.ropes[i].long_inverse_frequencies,
                  model.architecture.ropes[i].long_inverse_frequencies);
        }
        CHECK(folder == model.architecture);
        const Model other = open_model(fixtures() + "/models/" + c.file);
        for (const auto& each : other.weights) {
            const auto& ref = each.first;
            CAPTURE(role_name(ref.role));
            CAPTURE(ref.layer);
            if (c.permuted && (ref.role == Role::q || ref.role == Role::k)) continue;
            CHECK(floats_of(model, ref) == floats_of(other, ref));
        }
    }
    for (const char* overridden :
         {"deepseek-v3", "gemma3-text", "gpt-oss", "mistral", "starcoder2", "llama3"}) {
        CAPTURE(overridden);
        const Model model = open_model(fixtures() + "/gguf/" + overridden + ".gguf");
        check_weights(model);
        CHECK(model.unused.empty());
    }
}

namespace {

/// A GGUF file under another architecture's name, with more keys of its own, and some of its own left out.
std::string renamed(const std::string& path, const std::string& name,
                    const std::function<void(GgufWriter&, const std::string& prefix)>& more,
                    const std::set<std::string>& without = {}) {
    const File file(path);
    const Gguf gguf = read_gguf(file);
    const std::string before = *gguf.metadata.text("general.architecture") + ".", after = name + ".";
    const auto read = [&](uint64_t offset, uint64_t bytes) {
        std::vector<std::byte> data(bytes);
        file.read(offset, data);
        return data;
    };
    GgufWriter writer;
    for (const GgufEntry& entry : gguf.entries) {
        const bool own = entry.key.starts_with(before);
        if (own && without.contains(entry.key.substr(before.size()))) continue;
        writer.set_raw(own ? after + entry.key.substr(before.size()) : entry.key, entry.type,
                       read(entry.offset, entry.bytes));
    }
    writer.set("general.architecture", name);
    more(writer, after);
    for (const GgufTensor& tensor : gguf.tensors)
        writer.add(tensor.name, tensor.dimensions, tensor_view(tensor).type);
    const std::vector<std::byte> header = writer.header(32);
    std::string bytes(writer.file_bytes(), '\0');
    std::memcpy(bytes.data(), header.data(), header.size());
    for (size_t i = 0; i < gguf.tensors.size(); ++i) {
        const auto data = read(gguf.tensors[i].offset, writer.tensors()[i].bytes);
        std::memcpy(bytes.data() + writer.tensors()[i].offset, data.data(), data.size());
    }
    return bytes;
}

}  // namespace

TEST_CASE("architectures of GGUF that compute what others do" * needs_fixtures()) {
    using More = std::function<void(GgufWriter&, const std::string&)>;
    const More none = [](GgufWriter&, const std::string&) {};
    const More axes = [](GgufWriter& out, const std::string& prefix) {
        const int32_t sections[] = {4, 2, 2, 0};
        out.set(prefix + "rope.dimension_sections", std::span<const int32_t>(sections));
        out.set(prefix + "n_deepstack_layers", 1u);
    };
    struct Case {
        const char *file, *name;
        More more;
        std::function<void(Architecture&)> expected = [](Architecture&) {};
    };
    const Case cases[] = {
        {"llama1", "internlm2", none},
        {"llama1", "minicpm",
         [](GgufWriter& out, const std::string& prefix) {
             out.set(prefix + "embedding_scale", 3.0f);
             out.set(prefix + "logit_scale", 4.0f);
         },
         [](Architecture& a) {
             a.embedding_scale = 3;
             a.residual_scale = 1.4f / std::sqrt(float(a.layers.size()));
             a.logit_scale = 0.25f;
         }},
        {"llama1", "mistral3",
         [](GgufWriter& out, const std::string& prefix) {
             out.set(prefix + "attention.temperature_scale", 0.1f);
             out.set(prefix + "rope.scaling.original_context_length", 40u);
         },
         [](Architecture& a) {
             a.ropes.front().query_growth = double{0.1f};
             a.ropes.front().growth_length = 40;
         }},
        {"qwen2", "qwen2vl", axes},
        {"qwen3", "qwen3vl", axes},
        {"llama1", "internlm2",  // whose last layer guesses a token further ahead
         [](GgufWriter& out, const std::string& prefix) { out.set(prefix + "nextn_predict_layers", 1u); },
         [](Architecture& a) { a.layers.pop_back(); }},
    };
    for (const Case& c : cases) {
        CAPTURE(std::string(c.name));
        const std::string path = fixtures() + "/gguf/" + c.file + ".gguf";
        const TemporaryFile file(renamed(path, c.name, c.more));
        Architecture expected = open_model(path).architecture;
        expected.family = c.name;
        c.expected(expected);
        const Model model = open_model(file.path());
        CHECK(model.architecture == expected);
        for (const TensorView& unused : model.unused) CHECK(is_spare(model, unused));
    }
}

TEST_CASE("sizes of shared experts, and scores, that older files do not say" * needs_fixtures()) {
    struct Case {
        const char *file, *name;
        std::set<std::string> without;
        uint32_t feed_forward;
        const char* refusal;  // "": the architecture is the whole file's
    };
    const std::string shared = "expert_shared_feed_forward_length";
    const Case cases[] = {
        {"qwen2-moe", "qwen2moe", {shared, "expert_feed_forward_length"}, 40, ""},
        {"hunyuan-moe", "hunyuan-moe", {shared}, 28, ""},
        {"deepseek-v3", "deepseek2", {"expert_shared_count"}, 80, "expert_shared_count is missing"},
        {"deepseek-v3", "deepseek2", {"expert_gating_func"}, 80, ""},  // which a tensor tells
    };
    for (const Case& c : cases) {
        CAPTURE(std::string(c.file));
        const std::string path = fixtures() + "/gguf/" + c.file + ".gguf";
        const TemporaryFile file(renamed(
            path, c.name,
            [&](GgufWriter& out, const std::string& prefix) {
                out.set(prefix + "feed_forward_length", c.feed_forward);
            },
            c.without));
        if (*c.refusal == 0)
            CHECK(open_model(file.path()).architecture == open_model(path).architecture);
        else
            CHECK_THROWS_WITH_AS(open_model(file.path()), doctest::Contains(c.refusal), Error);
    }
}

TEST_CASE("GLM of 2024 from GGUF has the weights and the architecture of its folder" * needs_fixtures()) {
    HfFolder folder = hf_folder(fixtures() + "/models/glm4");
    folder.config["model_type"] = "glm";
    for (const char* const norm : {"post_self_attn_layernorm", "post_mlp_layernorm"}) folder.drop(norm);
    const TemporaryFolder folder_on_disk(folder);
    const Model expected = open_model(folder_on_disk.path());

    GgufFile file;
    file.metadata = {{"general.architecture", "chatglm"},
                     {"chatglm.embedding_length", 64u},
                     {"chatglm.block_count", 2u},
                     {"chatglm.attention.head_count", 4u},
                     {"chatglm.attention.head_count_kv", 2u},
                     {"chatglm.feed_forward_length", 112u},
                     {"chatglm.context_length", 192u},
                     {"chatglm.attention.layer_norm_rms_epsilon", 0.02f},
                     {"chatglm.rope.dimension_count", 8u},
                     {"chatglm.rope.freq_base", 10000.0f}};
    const auto add = [&](const std::string& name, std::vector<std::string> sources) {
        GgufFile::Tensor& tensor = file.tensors[name];
        uint64_t rows = 0;
        for (const std::string& source : sources) {
            const HfFolder::Tensor& array = folder.tensors.at(source);
            rows += array.shape[0];
            tensor.data += array.bytes;
            tensor.dimensions.assign(array.shape.rbegin(), array.shape.rend());
        }
        tensor.dimensions.back() = rows;
    };
    add("token_embd.weight", {"model.embed_tokens.weight"});
    add("output_norm.weight", {"model.norm.weight"});
    add("output.weight", {"lm_head.weight"});
    for (const std::string i : {"0", "1"}) {
        const std::string to = "blk." + i + ".", layer = "model.layers." + i + ".",
                          own = layer + "self_attn.";
        for (const std::string part : {"weight", "bias"})
            add(to + "attn_qkv." + part,
                {own + "q_proj." + part, own + "k_proj." + part, own + "v_proj." + part});
        add(to + "attn_output.weight", {own + "o_proj.weight"});
        add(to + "attn_norm.weight", {layer + "input_layernorm.weight"});
        add(to + "ffn_norm.weight", {layer + "post_attention_layernorm.weight"});
        add(to + "ffn_up.weight", {layer + "mlp.gate_up_proj.weight"});
        add(to + "ffn_down.weight", {layer + "mlp.down_proj.weight"});
    }
    const TemporaryFile on_disk(file.bytes());
    const Model model = open_model(on_disk.path());
    check_weights(model);
    CHECK(model.unused.empty());
    Architecture architecture = expected.architecture;
    architecture.family = "chatglm";
    CHECK(model.architecture == architecture);
    for (const auto& each : expected.weights) {
        const auto& ref = each.first;
        CAPTURE(role_name(ref.role));
        CHECK(floats_of(model, ref) == floats_of(expected, ref));
    }
}

TEST_CASE("ALiBi's slopes") {
    // Press et al. 2022, section 3, and the authors' code between powers of two: n = 8 gives 1/2, 1/4, ...
    const auto powers = [](std::vector<double> exponents) {
        std::vector<float> slopes;
        for (const double exponent : exponents) slopes.push_back(float(std::exp2(exponent)));
        return slopes;
    };
    CHECK(alibi_slopes(8) == powers({-1, -2, -3, -4, -5, -6, -7, -8}));
    CHECK(alibi_slopes(6) == powers({-2, -4, -6, -8, -1, -3}));
    CHECK(alibi_slopes(1) == powers({-8}));
    CHECK(alibi_slopes(12).size() == 12);
    CHECK(alibi_slopes(12)[11] == float(std::exp2(-3.5)));
}
