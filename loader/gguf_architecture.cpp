// From a GGUF file's metadata to an Architecture: see gguf_families.h.
#include "gguf_families.h"

#include "classifier.h"
#include "fail.h"
#include "family_attention.h"
#include "feature_draft.h"
#include "gguf_scales.h"
#include "layer_ahead.h"
#include "rope_scaling.h"

#include <algorithm>
#include <cmath>

namespace scoria {
namespace {

// Keys that change no result, or whose effect is in the tensors' shapes.
bool is_harmless_key(std::string_view name, const nlohmann::json&) {
    constexpr std::string_view names[] = {
        "vocab_size",          "tensor_data_layout",     "attention.value_length",     "attention.causal",
        "expert_shared_count", "rope.scaling.finetuned", "attention.group_norm_groups"};
    return std::ranges::find(names, name) != std::end(names);
}

/// A vector of divisors, `expected` of them. Empty if the file has none.
std::vector<double> read_divisors(Catalog& catalog, const char* name, uint32_t expected,
                                  const GatheredTensors& tensors) {
    const StoredTensor* tensor = catalog.take(name);
    if (tensor == nullptr) return {};
    if (tensor->type != TensorType::f32 || tensor->shape != std::vector<uint64_t>{expected})
        fail(Status::bad_file, "gguf", "tensor ", name, ": expected F32 [", expected, "], got ",
             tensor_type_info(tensor->type).name, " [", tensor->shape.front(), ", ...]");
    const std::vector<float> values = tensors.floats(*tensor);
    for (uint32_t i = 0; i < expected; ++i)
        if (!std::isfinite(values[i]) || values[i] <= 0)
            fail(Status::bad_file, "gguf", "tensor ", name, ": expected finite numbers above 0, got ",
                 values[i], " at ", i);
    return {values.begin(), values.end()};
}

/// Scaling by type; Llama-3's and LongRoPE's are tensors of divisors.
void read_scaling(const Settings& keys, RopeSettings& rope) {
    const std::string type =
        keys.text("rope.scaling.type", keys.has("rope.scale_linear") ? "linear" : "none");
    if (type == "linear") {
        rope.scaling = RopeScaling::linear;  // rope.scale_linear: the key of older files
        rope.factor = keys.has("rope.scale_linear") ? keys.positive("rope.scale_linear")
                                                    : keys.positive("rope.scaling.factor");
    } else if (type == "yarn") {
        rope.scaling = RopeScaling::yarn;
        rope.factor = keys.positive("rope.scaling.factor");
        rope.original_length = keys.size("rope.scaling.original_context_length", most_size);
        rope.beta_fast = keys.positive("rope.scaling.yarn_beta_fast", rope.beta_fast);
        rope.beta_slow = keys.positive("rope.scaling.yarn_beta_slow", rope.beta_slow);
    } else if (type == "longrope") {
        keys.understood("rope.scaling.factor");
    } else if (type == "none" && keys.has("rope.scaling.type")) {
        for (const char* of_others : {"rope.scaling.factor", "rope.scaling.original_context_length"})
            keys.understood(of_others);
    } else if (type != "none") {
        fail(Status::unsupported, keys.where(), keys.full_name("rope.scaling.type"),
             ": expected none, linear, yarn or longrope, got ", type);
    }
}

std::vector<Rope> read_ropes(const Family& family, const Settings& keys, const Architecture& architecture,
                             Catalog& catalog, const GatheredTensors& tensors) {
    if (!family.rope) return {};
    const uint32_t head_dim = head_dim_of(architecture, false);
    RopeSettings rope;
    rope.pairs = family.pairs;
    const char* width = "rope.dimension_count";
    rope.width =
        family.rotates_whole ? head_dim : keys.size(width, head_dim, uint64_t(head_dim * family.rotary));
    keys.understood(width);
    if (rope.width % 2 != 0)
        fail(Status::bad_file, "gguf", keys.full_name("rope.dimension_count"),
             ": expected an even number, got ", rope.width);
    rope.base = keys.positive("rope.freq_base", family.rope_base);
    const RopeSettings unscaled = rope;
    read_scaling(keys, rope);
    rope.short_divisors = read_divisors(catalog, "rope_freqs.weight", rope.width / 2, tensors);
    if (family.full_rotary != 1) {  // the rest of the divisors is 1, and of nothing
        rope.width = static_cast<uint32_t>(rope.width * family.full_rotary);
        if (rope.width % 2 != 0) keys.wrong("rope.dimension_count", "an even number that rotates everywhere");
        if (!rope.short_divisors.empty()) rope.short_divisors.resize(rope.width / 2);
    }
    const auto short_factors = read_divisors(catalog, "rope_factors_short.weight", rope.width / 2, tensors);
    const auto long_factors = read_divisors(catalog, "rope_factors_long.weight", rope.width / 2, tensors);
    if (!long_factors.empty()) {
        rope.scaling = RopeScaling::longrope;
        rope.short_divisors = short_factors;
        rope.long_divisors = long_factors;
        rope.original_length =
            keys.size("rope.scaling.original_context_length", most_size, architecture.context);
        rope.factor = double(architecture.context) / rope.original_length;
    }
    std::vector<Rope> ropes;
    ropes.push_back(make_rope(rope, "gguf"));
    // For LongRoPE the converter writes the whole magnitude, else a factor of it.
    if (const char* key = "rope.scaling.attn_factor"; keys.has(key))
        ropes[0].magnitude =
            keys.positive(key) * (rope.scaling == RopeScaling::longrope ? 1 : ropes[0].magnitude);
    const bool windows = std::ranges::any_of(architecture.layers,
                                             [](const Layer& layer) { return layer.attention.window != 0; });
    if (family.local_rope_base > 0 && windows) {
        RopeSettings local = unscaled;
        local.base = keys.positive("rope.freq_base_swa", family.local_rope_base);
        local.width = keys.size("rope.dimension_count_swa", head_dim_of(architecture, true), local.width);
        ropes.push_back(make_rope(local, "gguf"));
    }
    return ropes;
}

/// Vocabulary by the embedding's rows, which a token list must match.
uint32_t read_vocab(const Gguf& gguf, const Catalog& catalog) {
    const StoredTensor* embedding = catalog.find("token_embd.weight");
    if (embedding == nullptr) fail(Status::bad_file, "gguf", "tensor token_embd.weight is missing");
    const uint64_t vocab = embedding->shape.size() == 2 ? embedding->shape[0] : 0;
    if (vocab == 0 || vocab > most_size)
        fail(Status::bad_file, "gguf", "tensor token_embd.weight: expected 1 to ", most_size, " rows, got ",
             vocab);
    const std::vector<std::string>* tokens = gguf.metadata.texts("tokenizer.ggml.tokens");
    if (tokens != nullptr && tokens->size() != vocab)
        fail(Status::bad_file, "gguf", "tokenizer.ggml.tokens: expected ", vocab, " tokens, got ",
             tokens->size());
    return static_cast<uint32_t>(vocab);
}

void read_value_length(const Settings& keys, Architecture& architecture) {
    const uint32_t head_dim = head_dim_of(architecture, false);
    if (head_dim == 0) return keys.understood("attention.value_length");  // no attention
    const uint32_t length = keys.size("attention.value_length", 1 << 12, head_dim);
    if (length != head_dim && !keys.has("attention.kv_lora_rank"))
        set_value_dim(keys, "attention.value_length", length, architecture);
}

/// Weights of what a layer has none of would be left out (some Nemotrons have a linear in attention's place),
/// and narrow heads of v are neither normed nor k's.
void check_layers(const Settings& keys, const Catalog& catalog, const Architecture& architecture) {
    for (size_t i = 0; i < architecture.layers.size(); ++i) {
        const auto check = [&](bool has, Field field, std::string_view tensor) {
            const std::string name = tensor_name(tensor, static_cast<int32_t>(i));
            if (!has && catalog.find(name) != nullptr)
                fail(Status::unsupported, "gguf", keys.full_name(keys.name_of(field)), ": layer ", i,
                     " has none, but tensor ", name);
        };
        const Layer& layer = architecture.layers[i];
        check(layer.attention.heads != 0 || layer.recurs(), Field::kv_heads, "blk.#.attn_output.weight");
        check(layer.feeds(), Field::feed_forward, "blk.#.ffn_down.weight");
        if (layer.attention.value_dim != 0 && (layer.attention.v_norm || layer.attention.v_is_k))
            fail(Status::unsupported, "gguf", keys.full_name("attention.value_length"),
                 ": expected that of keys, where values are normed or are keys");
    }
}

uint32_t pooling_type(const Settings& keys, const Architecture& architecture) {
    return keys.size("pooling_type", gguf_rank_pooling, architecture.bidirectional() ? 1 : 3, 0);
}
Pooling read_pooling(const Settings& keys, const Architecture& architecture) {
    const Pooling usual = architecture.bidirectional() ? Pooling::mean : Pooling::last;
    // 0: none; rerankers say nothing of embeddings.
    const Pooling kinds[] = {Pooling::mean, Pooling::mean, Pooling::first, Pooling::last, usual};
    return kinds[pooling_type(keys, architecture)];
}

/// What sentence-transformers put behind pooling, which the tensors tell.
std::vector<Dense> read_dense(const Settings& keys, Catalog& catalog, uint32_t cols) {
    std::vector<Dense> all;
    for (const std::string name : {"dense_2", "dense_3"}) {
        for (const char* features : {"_feat_in", "_feat_out"}) keys.understood((name + features).c_str());
        const StoredTensor* tensor = catalog.take(name + ".weight");
        if (tensor == nullptr) continue;
        const std::vector<uint64_t>& shape = tensor->shape;
        if (shape.size() != 2 || shape[1] != cols || shape[0] > most_size)
            fail(Status::bad_file, "gguf", "tensor ", tensor->name, ": expected [features, ", cols, "], got ",
                 shape_text(shape));
        if (catalog.find(name + ".bias") != nullptr)
            fail(Status::unsupported, "gguf", "tensor ", name, ".bias: expected none");
        all.push_back({{tensor->name, tensor->type, static_cast<uint32_t>(shape[0]), cols, tensor->file,
                        tensor->offset},
                       {},
                       Activation::identity});
        cols = all.back().weight.rows;
    }
    return all;
}

}  // namespace

std::vector<StoredTensor> stored_tensors(const Gguf& gguf) {
    std::vector<StoredTensor> tensors;
    constexpr uint32_t i64 = 27;  // of which no weights are
    for (const GgufTensor& tensor : gguf.tensors)
        tensors.push_back({tensor.name,
                           tensor.type == i64 ? TensorType::f32 : tensor_view(tensor).type,
                           tensor.type == i64 ? Decode::i64 : Decode::none,
                           {tensor.dimensions.rbegin(), tensor.dimensions.rend()},
                           tensor.file,
                           tensor.offset});
    return tensors;
}

ReadModel read_architecture(const Gguf& gguf, const GatheredTensors& tensors, ModelPart part) {
    const std::string* name = gguf.metadata.text("general.architecture");
    if (name == nullptr) fail(Status::bad_file, "gguf", "general.architecture is missing");
    const Family& family = find_family(gguf_families(), *name, "gguf", "general.architecture");
    const std::string prefix = *name + ".";
    nlohmann::json values = gguf.metadata.section(prefix);
    if (const nlohmann::json xielu = gguf.metadata.section("xielu."); !xielu.empty())
        for (const auto& [key, value] : xielu.items())
            values["xielu." + key] = value;  // of Apertus, without its name
    std::vector<StoredTensor> stored = stored_tensors(gguf);
    const bool ahead = part == ModelPart::ahead;
    if (ahead) take_gguf_layer_ahead(values, stored);
    const bool features = *name == "eagle3";
    if (features) name_feature_draft(Settings::Format::gguf, stored);
    const Settings keys(Settings::Format::gguf, "gguf", prefix, std::move(values));
    ReadModel model;
    model.scales = join_gguf_scales(*name, stored, tensors);
    Catalog catalog("gguf", std::move(stored));
    Architecture& architecture = model.architecture;
    const bool embeds = !features || catalog.find("token_embd.weight") != nullptr;
    const uint32_t vocab = embeds ? read_vocab(gguf, catalog) : 0;
    architecture = describe(family, keys);
    architecture.vocab = vocab;
    architecture.context = keys.size(Field::context, most_size);
    if (family.positions) architecture.positions = architecture.context;
    if (keys.has("final_logit_softcapping"))
        architecture.logit_soft_cap = static_cast<float>(keys.positive("final_logit_softcapping"));
    read_value_length(keys, architecture);
    architecture.ropes = read_ropes(family, keys, architecture, catalog, tensors);

    Synthesised synthesised;
    Reading reading{keys, catalog, architecture, synthesised, tensors};
    if (family.adjust != nullptr) family.adjust(reading);
    read_layer_numbers(family, catalog, tensors, architecture);
    if (!keys.flag("attention.causal", true) && !architecture.bidirectional())
        fail(Status::unsupported, "gguf", keys.full_name("attention.causal"), ": expected true");
    check_layers(keys, catalog, architecture);
    model.pooling = read_pooling(keys, architecture);
    model.dense = read_dense(keys, catalog, architecture.output_width());
    if (pooling_type(keys, architecture) == gguf_rank_pooling) {
        const std::string* const form = gguf.metadata.text("tokenizer.chat_template.rerank");
        model.ranking = take_gguf_classifier(family, keys, catalog, architecture, form ? *form : "");
        architecture.has_head = false;
    }
    assign_ropes(family, keys, architecture);
    Family biases = family;  // which no key tells: a file has them, or not
    for (Bias* bias : {&biases.qkv_bias, &biases.o_bias, &biases.feed_forward_bias})
        if (bias->when == Bias::When::never) *bias = if_present;
    set_biases(biases, keys, catalog, architecture);
    architecture.tied_embeddings = catalog.find("output.weight") == nullptr;
    keys.refuse_unknown(is_harmless_key);
    if (ahead) set_ahead(catalog, architecture);
    model.bound = bind_weights(architecture, with_rows_ahead(family.tensors), family.encoder_tensors,
                               synthesised, catalog, tensors);
    if (features)
        model.output_ids = output_ids(Settings::Format::gguf, catalog, tensors, architecture.outputs);
    model.unused = catalog.rest();
    model.layers_ahead = keys.size("nextn_predict_layers", most_layers, 0, 0);
    return model;
}

}  // namespace scoria
