// What all families and both formats share: see families.h.
#include "families.h"

#include "fail.h"
#include "family_attention.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

namespace scoria {
namespace {

/// Levenshtein's distance between names, to tell the nearest known one.
size_t distance(std::string_view a, std::string_view b) {
    std::vector<size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), size_t{0});
    for (size_t i = 0; i < a.size(); ++i) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < b.size(); ++j) {
            const size_t change = diagonal + (a[i] == b[j] ? 0 : 1);
            diagonal = row[j + 1];
            row[j + 1] = std::min({change, row[j] + 1, diagonal + 1});
        }
    }
    return row.back();
}

struct ActivationName {
    const char* name;
    Activation activation;
};
/// The names of Hugging Face's ACT2FN, and those of the own references of the fixtures.
constexpr ActivationName activation_names[] = {
    {"silu", Activation::silu},
    {"swish", Activation::silu},
    {"swiglu", Activation::silu},
    {"gelu", Activation::gelu},
    {"gelu_python", Activation::gelu},
    {"gelu_new", Activation::gelu_tanh},
    {"gelu_tanh", Activation::gelu_tanh},
    {"gelu_fast", Activation::gelu_tanh},
    {"gelu_pytorch_tanh", Activation::gelu_tanh},
    {"quick_gelu", Activation::gelu_quick},
    {"relu", Activation::relu},
    {"relu2", Activation::relu_squared},
    {"sigmoid", Activation::sigmoid},
    {"tanh", Activation::tanh},
    {"linear", Activation::identity},
    {"elu", Activation::elu},
    {"selu", Activation::selu},
    {"softplus", Activation::softplus},
};

Activation read_activation(const Family& family, const Settings& settings) {
    const char* field = settings.name_of(Field::activation);
    const bool gemma = family.root_embedding_scale && settings.has("hidden_activation");
    if (!gemma) settings.expect_one(Field::activation);  // whose files have an older name as well
    const std::string name = settings.text(field);
    if (name.empty()) return family.activation;
    if (family.gelu_is_tanh && name == "gelu") return Activation::gelu_tanh;
    if (family.activation == Activation::xielu && name == "xielu")
        return Activation::xielu;  // has its numbers
    return activation_named(settings, field, name);
}

Norm read_norm(const Family& family, const Settings& settings) {
    Norm norm{family.norm, static_cast<float>(family.epsilon), family.norm_weight, family.norm_bias};
    if (family.epsilon != 0) {
        settings.understood(settings.name_of(Field::epsilon));
        return norm;
    }
    const char* field = settings.name_of(Field::epsilon);
    constexpr const char* names[] = {"layernorm_epsilon", "layer_norm_epsilon", "layer_norm_eps",
                                     "norm_epsilon", "norm_eps"};
    if (family.norm == NormKind::layer)  // an rms_norm_eps beside these is nobody's
        for (const char* own : names)
            if (settings.has(own)) field = own;
    const double epsilon = settings.positive(field);
    for (const char* other : names)  // of which each class reads its own
        if (settings.positive(other, epsilon) != epsilon) settings.wrong(other, cat("the number of ", field));
    norm.epsilon = static_cast<float>(epsilon);
    return norm;
}

void read_experts(const Family& family, const Settings& settings, const Architecture& architecture,
                  FeedForward& feed_forward) {
    const nlohmann::json* count = family.routing ? settings.find(settings.name_of(Field::experts)) : nullptr;
    if (count == nullptr || *count == 0) return;
    Routing& routing = feed_forward.routing = *family.routing;
    routing.experts = settings.size(Field::experts, 1 << 16);
    constexpr uint32_t most_used = 256;  // which kernels keep in registers
    routing.used = settings.size(Field::experts_used, std::min(routing.experts, most_used));
    routing.size = settings.size(Field::expert_size, most_size, feed_forward.size);
    if (settings.has(Field::shared_size))
        routing.shared_size = settings.size(settings.name_of(Field::shared_size), most_size, {}, 0);
    if (routing.apart) routing.shared_size = feed_forward.size;
    routing.renormalise = settings.flag("norm_topk_prob", routing.renormalise);
    // Kernels address rows of gate and up together by int.
    if (2ull * routing.experts * std::max(routing.size, architecture.hidden) > INT32_MAX)
        fail(Status::unsupported, settings.where(), "experts: expected fewer than 2^30 rows");
    feed_forward.size = 0;
}

/// Layers without experts among those with them.
void make_dense_layers(const Settings& settings, const FeedForward& dense, Architecture& architecture) {
    const uint32_t step = settings.size("decoder_sparse_step", most_layers, 1);
    const std::vector<double> only = settings.numbers("mlp_only_layers");
    const std::vector<std::string> types = settings.texts("mlp_layer_types");
    const size_t layers = architecture.layers.size();
    check_length(settings, "mlp_layer_types", types.size(), layers, "types");
    for (size_t i = 0; i < layers; ++i) {
        if (!types.empty() && types[i] != "dense" && types[i] != "sparse")
            settings.wrong("mlp_layer_types", "dense or sparse in every place");
        if ((i + 1) % step != 0 || std::ranges::find(only, double(i)) != only.end() ||
            (!types.empty() && types[i] == "dense"))
            architecture.layers[i].feed_forward = dense;
    }
}

bool bias_by(const Bias& bias, const Settings& settings, bool present) {
    switch (bias.when) {
    case Bias::When::never:
        return false;
    case Bias::When::always:
        return true;
    case Bias::When::flag:
        return settings.flag(bias.key, bias.otherwise);
    case Bias::When::present:
        return present;
    }
    return false;
}

}  // namespace

Activation activation_named(const Settings& settings, const char* field, const std::string& name) {
    const auto known = std::ranges::find(activation_names, name, &ActivationName::name);
    if (known != std::end(activation_names)) return known->activation;
    std::string all;
    for (const ActivationName& each : activation_names) all += cat(all.empty() ? "" : ", ", each.name);
    fail(Status::unsupported, settings.where(), settings.full_name(field), ": expected one of ", all,
         ", got ", name);
}

const Family& find_family(std::span<const Family> families, const std::string& name, const std::string& where,
                          std::string_view key) {
    if (name.empty()) fail(Status::bad_file, where, key, " is missing");
    const Family* nearest = nullptr;
    std::string known;
    for (const Family& family : families) {
        if (name == family.name) return family;
        if (nearest == nullptr || distance(name, family.name) < distance(name, nearest->name))
            nearest = &family;
        known += cat(known.empty() ? "" : ", ", family.name);
    }
    assert(nearest);
    fail(Status::unsupported, where, key, ": expected one of ", known, ", got ", name,
         " (nearest: ", nearest->name, ")");
}

Architecture describe(const Family& family, const Settings& settings) {
    Architecture architecture;
    architecture.family = family.name;
    for (const Field field : {Field::hidden, Field::layers, Field::heads}) settings.expect_one(field);
    architecture.hidden = settings.size(Field::hidden, most_size);
    architecture.norm = read_norm(family, settings);
    architecture.placement = family.placement;
    architecture.output_norm = family.output_norm;
    architecture.embedding_norm = family.embedding_norm;
    if (family.root_embedding_scale)
        architecture.embedding_scale = std::sqrt(static_cast<float>(architecture.hidden));

    std::optional<uint64_t> listed;
    for (const char* name : {"layer_types", "layers_block_type"})
        if (const size_t count = settings.texts(name).size(); count != 0) listed = count;
    const uint32_t layers = settings.size(Field::layers, most_layers, listed);
    if (family.recurs_alone) {
        for (const Field none : {Field::heads, Field::head_dim, Field::feed_forward})
            settings.understood(settings.name_of(none));  // 0, or of the recurrence
        Layer layer;
        if (family.feeds) {
            layer.feed_forward.size = settings.size(Field::feed_forward, most_size);
            layer.feed_forward.activation = family.activation;
            layer.feed_forward.gated = family.gated;
        }
        architecture.layers.assign(layers, layer);
        return architecture;
    }
    const LayerHeads heads = read_heads(settings, layers);
    const std::vector<uint32_t> sizes = settings.sizes(Field::feed_forward, layers, most_size);
    Layer layer;
    layer.attention = read_attention(family, settings, architecture, heads);
    FeedForward& feed_forward = layer.feed_forward;
    feed_forward.activation = read_activation(family, settings);
    feed_forward.gated = family.gated;
    std::optional<uint64_t> size;
    if (family.feed_forward_factor != 0) size = uint64_t{family.feed_forward_factor} * architecture.hidden;
    if (family.routing != nullptr && settings.has(Field::expert_size))  // where there may be no dense layer
        size = settings.size(Field::expert_size, most_size);
    feed_forward.size = sizes.empty() ? settings.size(Field::feed_forward, most_size, size)
                                      : *std::ranges::max_element(sizes);
    const FeedForward dense = feed_forward;
    read_experts(family, settings, architecture, feed_forward);

    const uint32_t ahead = settings.format() == Settings::Format::gguf  // layers that guess tokens, not run
                               ? settings.size("nextn_predict_layers", layers - 1, 0, 0)
                               : 0;
    architecture.layers.assign(layers - ahead, layer);
    if (feed_forward.routing.experts != 0) make_dense_layers(settings, dense, architecture);
    for (size_t i = 0; i < architecture.layers.size(); ++i) {
        Layer& own = architecture.layers[i];
        own.attention.heads = heads.queries[i];
        if (heads.any(i)) set_heads(settings, heads.keys[i], own.attention.head_dim, own.attention);
        Routing& routing = own.feed_forward.routing;
        uint32_t& of_all = routing.apart ? routing.shared_size : own.feed_forward.size;
        if (!sizes.empty() && of_all != 0) of_all = sizes[i];
    }
    read_windows(family, settings, architecture);
    if (family.split_heads)
        (settings.format() == Settings::Format::gguf ? read_windowed_heads : read_layer_heads)(settings,
                                                                                               architecture);
    for (size_t i = 0; i < architecture.layers.size(); ++i)
        if (!heads.any(i)) architecture.layers[i].attention = {};
    return architecture;
}

bool layer_has(const Reading& reading, std::string_view tensor, size_t layer) {
    return reading.catalog.find(tensor_name(tensor, static_cast<int32_t>(layer))) != nullptr;
}

bool any_layer_has(const Reading& reading, std::string_view tensor) {
    for (size_t i = 0; i < reading.architecture.layers.size(); ++i)
        if (layer_has(reading, tensor, i)) return true;
    return false;
}

void read_layer_numbers(const Family& family, Catalog& catalog, const GatheredTensors& tensors,
                        Architecture& architecture) {
    const auto read = [&](const LayerNumber& number, size_t layer) {
        const std::string name = tensor_name(number.tensor, static_cast<int32_t>(layer));
        const StoredTensor* tensor = catalog.take(name);
        if (tensor == nullptr) {
            if (number.needed && number.needed(architecture.layers[layer]))
                fail(Status::bad_file, catalog.format(), "tensor ", name, " is missing");
            return;
        }
        const bool one = std::ranges::all_of(tensor->shape, [](uint64_t size) { return size == 1; }) &&
                         tensor_type_info(tensor->type).block == 1;
        const float value = one ? tensors.floats(*tensor).front() : 0;
        if (!one || !std::isfinite(value))
            fail(Status::bad_file, catalog.format(), "tensor ", name, ": expected one finite number, got ",
                 one ? cat(value) : shape_text(tensor->shape));
        number.place(architecture.layers[layer]) = value;
    };
    for (const LayerNumber& number : family.layer_numbers)
        for (size_t i = 0; i < architecture.layers.size(); ++i) read(number, i);
}

void set_biases(const Family& family, const Settings& settings, const Catalog& catalog,
                Architecture& architecture) {
    const auto set = [&](std::span<const std::span<const TensorRow>> tensors, Architecture& stack) {
        const auto bias = [&](const Bias& rule, Role role, int32_t layer) {
            bool present = false;
            for (const std::span<const TensorRow> rows : tensors)
                for (const TensorRow& row : rows)
                    present = present || (row.role == role && catalog.find(tensor_name(row.name, layer)));
            return bias_by(rule, settings, present);
        };
        stack.output_bias = stack.has_head && bias(family.output_bias, Role::output_bias, -1);
        for (size_t at = 0; at < stack.layers.size(); ++at) {
            Layer& layer = stack.layers[at];
            const auto i = static_cast<int32_t>(at % stack.own_layers());
            layer.attention.q_bias = bias(family.qkv_bias, Role::q_bias, i);
            const bool own_keys = layer.attention.kv_layer < 0;
            layer.attention.k_bias = own_keys && bias(family.qkv_bias, Role::k_bias, i);
            layer.attention.v_bias =
                own_keys && !layer.attention.v_is_k && bias(family.qkv_bias, Role::v_bias, i);
            layer.attention.o_bias = bias(family.o_bias, Role::o_bias, i);
            if (layer.cross.heads != 0) {
                layer.cross.q_bias = bias(family.qkv_bias, Role::cross_q_bias, i);
                layer.cross.k_bias = bias(family.qkv_bias, Role::cross_k_bias, i);
                layer.cross.v_bias = bias(family.qkv_bias, Role::cross_v_bias, i);
                layer.cross.o_bias = bias(family.o_bias, Role::cross_o_bias, i);
            }
            FeedForward& feed_forward = layer.feed_forward;
            Routing& routing = feed_forward.routing;
            routing.shared_bias =
                routing.shared_size != 0 && bias(family.feed_forward_bias, Role::shared_up_bias, i);
            if (feed_forward.size == 0) continue;
            feed_forward.gate_bias = feed_forward.gated && bias(family.feed_forward_bias, Role::gate_bias, i);
            feed_forward.up_bias = bias(family.feed_forward_bias, Role::up_bias, i);
            feed_forward.down_bias = bias(family.feed_forward_bias, Role::down_bias, i);
        }
    };
    set(family.tensors, architecture);
    for (Architecture& encoder : architecture.encoder) set(family.encoder_tensors, encoder);
}

}  // namespace scoria
