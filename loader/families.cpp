// What all families and both formats share: see families.h.
#include "families.h"

#include "fail.h"
#include "recurrent_layers.h"

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
    norm.epsilon = static_cast<float>(settings.positive(field));
    if (norm.epsilon <= 0)
        fail(Status::bad_file, settings.where(), settings.full_name(field), ": it is 0 as a float");
    return norm;
}

/// Errors: bad_file.
void set_heads(const Settings& settings, uint32_t kv_heads, uint32_t head_dim, Attention& attention) {
    if (attention.heads % kv_heads != 0)
        fail(Status::bad_file, settings.where(), settings.full_name(settings.name_of(Field::kv_heads)),
             ": expected a divisor of ", attention.heads, " heads, got ", kv_heads);
    attention.kv_heads = kv_heads;
    attention.head_dim = head_dim;
    attention.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(head_dim)));
}

constexpr uint64_t most_heads = 1 << 16, most_head_dim = 1 << 12;

/// Of every layer; 0 of either: it has no attention.
struct LayerHeads {
    std::vector<uint32_t> queries, keys;
    bool any(size_t layer) const { return queries[layer] != 0 && keys[layer] != 0; }
};

LayerHeads read_heads(const Settings& settings, size_t layers) {
    LayerHeads heads{settings.sizes(Field::heads, layers, most_heads),
                     settings.sizes(Field::kv_heads, layers, most_heads)};
    if (heads.queries.empty()) heads.queries.assign(layers, settings.size(Field::heads, most_heads));
    if (heads.keys.empty() && settings.has(Field::kv_heads))
        heads.keys.assign(layers, settings.size(Field::kv_heads, most_heads));
    if (heads.keys.empty()) heads.keys = heads.queries;
    return heads;
}

/// That of the first layer which has any.
Attention read_attention(const Family& family, const Settings& settings, const Architecture& architecture,
                         const LayerHeads& heads) {
    const uint32_t hidden = architecture.hidden;
    size_t first = 0;
    while (first + 1 < heads.keys.size() && !heads.any(first)) ++first;
    if (!heads.any(first)) settings.wrong(settings.name_of(Field::kv_heads), "a layer with heads");
    Attention attention;
    attention.heads = heads.queries[first];
    if (!settings.has(Field::head_dim) && hidden % attention.heads != 0)
        fail(Status::bad_file, settings.where(), settings.full_name(settings.name_of(Field::heads)),
             ": expected a divisor of ", hidden, ", got ", attention.heads);
    set_heads(settings, heads.keys[first],
              settings.size(Field::head_dim, most_head_dim, hidden / attention.heads), attention);
    if (family.clips)
        attention.clip = static_cast<float>(settings.positive(settings.name_of(Field::clip), 0.0));
    attention.qk_norm.group = family.qk_norm;
    attention.qk_norm.after_rope = family.qk_norm_after_rope;
    attention.qk_norm.norm = architecture.norm;
    return attention;
}

void read_experts(const Family& family, const Settings& settings, const Architecture& architecture,
                  FeedForward& feed_forward) {
    const nlohmann::json* count = family.routing ? settings.find(settings.name_of(Field::experts)) : nullptr;
    if (count == nullptr || *count == 0) return;
    Routing& routing = feed_forward.routing = *family.routing;
    routing.experts = settings.size(Field::experts, 1 << 16);
    routing.used = settings.size(Field::experts_used, routing.experts);
    routing.size = settings.size(Field::expert_size, most_size, feed_forward.size);
    if (settings.has(Field::shared_size))
        routing.shared_size = settings.size(settings.name_of(Field::shared_size), most_size, {}, 0);
    if (routing.apart) routing.shared_size = feed_forward.size;
    routing.renormalise = settings.flag("norm_topk_prob", routing.renormalise);
    if (uint64_t{routing.experts} * std::max(routing.size, architecture.hidden) > UINT32_MAX)
        fail(Status::unsupported, settings.where(), "experts: expected fewer than 2^32 rows");
    feed_forward.size = 0;
}

/// Errors: bad_file, for a list, `what` of the layers, that is there and not as long as they are many.
void check_length(const Settings& settings, const char* name, size_t length, size_t layers,
                  const char* what) {
    if (length != 0 && length != layers)
        fail(Status::bad_file, settings.where(), settings.full_name(name), ": expected ", layers, " ", what,
             ", got ", length);
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

bool is_windowed_type(const Settings& settings, const char* key, const std::string& type) {
    for (const char* windowed : {"sliding_attention", "local", "banded"})
        if (type == windowed) return true;
    for (const char* full : {"full_attention", "attention", "global", "dense"})
        if (type == full) return false;
    fail(Status::unsupported, settings.where(), settings.full_name(key),
         ": expected sliding_attention or full_attention, got ", type);
}

void read_windows(const Family& family, const Settings& settings, Architecture& architecture) {
    using Layers = WindowRule::Layers;
    if (family.window.layers == Layers::chunked) return;
    const char* key = settings.has("layer_types") ? "layer_types" : "attention_layers";
    const std::vector<std::string> types = settings.texts(key);
    const size_t layers = architecture.layers.size();
    check_length(settings, key, types.size(), layers, "types");
    const WindowRule& rule = family.window;
    const bool split = rule.layers == Layers::from || rule.layers == Layers::odd_before;
    const uint32_t first = split ? settings.size("max_window_layers", most_layers, rule.first, 0) : 0;
    uint32_t every = rule.every;
    std::vector<double> listed;  // GGUF's: 1 where a layer has the window
    if (rule.layers == Layers::not_every)
        for (const char* name : {"layer_switch", "_sliding_window_pattern", "sliding_window_pattern",
                                 "attention.sliding_window_pattern"}) {
            const nlohmann::json* value = settings.find(name);
            if (value != nullptr && value->is_array()) {
                listed = settings.numbers(name);
                check_length(settings, name, listed.size(), layers, "values");
            } else if (value == nullptr || !value->is_string() || types.empty()) {
                every = settings.size(name, most_layers, every, 0);
            }  // "LLLG" says what types say
        }

    const bool counts =
        rule.layers != Layers::none && (rule.flag == nullptr || settings.flag(rule.flag, false));
    const char* field = settings.name_of(Field::window);
    const uint32_t window = counts ? settings.size(field, most_size, 0, 0) : 0;
    if (rule.flag != nullptr)
        for (const char* name : {field, "max_window_layers"}) settings.understood(name);
    for (size_t i = 0; i < layers; ++i) {
        bool windowed = rule.layers == Layers::not_every    ? every != 0 && (i + 1) % every != 0
                        : rule.layers == Layers::odd_before ? i % 2 == 0 && i < first
                                                            : i >= first;
        if (!types.empty())
            windowed = !(family.recurrence != RecurrenceKind::none && is_recurrent_type(types[i])) &&
                       is_windowed_type(settings, key, types[i]);
        if (!listed.empty()) windowed = listed[i] != 0;
        if (windowed && !types.empty() && window == 0)
            fail(Status::bad_file, settings.where(), settings.full_name(key), ": layer ", i,
                 " has a window, and ", field, " is missing");
        if (windowed) architecture.layers[i].attention.window = window;
    }
}

/// config.json's sizes of heads by numbers of layers, or of all layers without a window.
void read_layer_heads(const Settings& settings, Architecture& architecture) {
    const Settings list = settings.section("per_layer_config");
    const bool listed = settings.has("per_layer_config"), own_kv = settings.flag("attention_k_eq_v", false);
    for (size_t i = 0; i < architecture.layers.size(); ++i) {
        Attention& attention = architecture.layers[i].attention;
        const auto set = [&](const Settings& from, const char* head_dim, const char* kv_heads) {
            const uint32_t size = from.size(head_dim, most_head_dim, attention.head_dim);
            const uint32_t heads = from.size(kv_heads, most_heads, attention.kv_heads);
            set_heads(settings, listed || own_kv ? heads : attention.kv_heads, size, attention);
        };
        if (!listed && attention.window == 0) set(settings, "global_head_dim", "num_global_key_value_heads");
        if (!list.has(cat(i))) continue;
        const Settings own = list.section(cat(i));
        set(own, "head_dim", "num_key_value_heads");
        own.refuse_unknown();
    }
    list.refuse_unknown();
    for (const char* name : {"global_head_dim", "num_global_key_value_heads"}) settings.understood(name);
    for (const Layer& layer : architecture.layers)
        if (layer.attention.head_dim != head_dim_of(architecture, layer.attention.window != 0))
            fail(Status::unsupported, settings.where(), settings.full_name("per_layer_config"),
                 ": expected heads of one size where there is a window, and where there is none, got ",
                 layer.attention.head_dim, " and ", head_dim_of(architecture, layer.attention.window != 0));
}

/// GGUF's size of heads in layers with a window.
void read_windowed_heads(const Settings& keys, Architecture& architecture) {
    const char *name = "attention.key_length_swa", *of_values = "attention.value_length_swa";
    for (Layer& layer : architecture.layers)
        if (layer.attention.window != 0)
            set_heads(keys, layer.attention.kv_heads,
                      keys.size(name, most_head_dim, layer.attention.head_dim), layer.attention);
    const uint32_t size = head_dim_of(architecture, true);
    if (keys.size(of_values, most_head_dim, size) != size) keys.wrong(of_values, cat(size));
}

bool turns_nothing(const Rope& rope) {
    return std::ranges::all_of(rope.inverse_frequencies, [](double frequency) { return frequency == 0; });
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

uint32_t head_dim_of(const Architecture& architecture, bool windowed) {
    for (const Layer& layer : architecture.layers)
        if (layer.attention.heads != 0 && (layer.attention.window != 0) == windowed)
            return layer.attention.head_dim;
    return architecture.attention().head_dim;
}

void share_keys(const Settings& settings, const char* name, Architecture& architecture) {
    std::vector<Layer>& layers = architecture.layers;
    const size_t first = layers.size() - settings.size(name, layers.size(), 0, 0);
    for (size_t i = first; i < layers.size(); ++i) {
        const auto alike = [&](const Layer& layer) {
            return (layer.attention.window != 0) == (layers[i].attention.window != 0);
        };
        size_t of = first;
        while (of > 0 && !alike(layers[of - 1])) --of;
        if (of == 0 || layers[of - 1].attention.kv_heads != layers[i].attention.kv_heads)
            settings.wrong(name, cat("a layer before them whose keys layer ", i, " can read"));
        layers[i].attention.kv_layer = static_cast<int32_t>(of - 1);
    }
}

void norm_values(Architecture& architecture) {
    for (Layer& layer : architecture.layers) {
        layer.attention.scale = 1;
        layer.attention.v_norm = true;
    }
}

bool layer_has(const Reading& reading, std::string_view tensor, size_t layer) {
    return reading.catalog.find(tensor_name(tensor, static_cast<int32_t>(layer))) != nullptr;
}

bool any_layer_has(const Reading& reading, std::string_view tensor) {
    for (size_t i = 0; i < reading.architecture.layers.size(); ++i)
        if (layer_has(reading, tensor, i)) return true;
    return false;
}

void see_both_sides(Architecture& architecture) {
    for (Layer& layer : architecture.layers) layer.attention.mask = Mask::bidirectional;
}

void norm_inside(Architecture& architecture) {
    for (Layer& layer : architecture.layers)
        layer.attention.heads_norm = layer.feed_forward.inner_norm = true;
}

void cut_gates(const Settings& settings, const char* name, std::span<const double> deviations,
               Architecture& architecture) {
    std::vector<Layer>& layers = architecture.layers;
    if (deviations.size() > layers.size()) settings.wrong(name, cat("at most ", layers.size(), " numbers"));
    for (size_t i = 0; i < deviations.size(); ++i) {
        constexpr double most = 100;
        if (!(deviations[i] <= most)) settings.wrong(name, cat("numbers up to ", most));
        layers[i].feed_forward.gate_cut = static_cast<float>(deviations[i]);
    }
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

std::vector<double> rope_bases(const Family& family, const Settings& settings) {
    const char* name = "layer_rope_theta";
    std::vector<double> bases;
    if (!family.rope_by_layer) return bases;
    for (const double base : settings.numbers(name)) {
        if (!std::isfinite(base) || base < 0) settings.wrong(name, "numbers of 0 or more");
        if (base != 0 && std::ranges::find(bases, base) == bases.end()) bases.push_back(base);
    }
    return bases;
}

std::vector<bool> rotating_layers(const Settings& settings, uint32_t every, size_t layers) {
    const char* name = "attention.rope_pattern";
    if (!settings.has(name)) name = "no_rope_layers";  // 1: rotates, despite the name
    const std::vector<double> listed = settings.numbers(name);
    check_length(settings, name, listed.size(), layers, "numbers");
    if (every != 0) every = settings.size("no_rope_layer_interval", most_layers, every);
    std::vector<bool> rotating;
    for (size_t i = 0; i < layers; ++i)
        rotating.push_back(!listed.empty() ? listed[i] != 0 : every == 0 || (i + 1) % every != 0);
    return rotating;
}

void see_chunks(const std::vector<bool>& chunked, uint32_t length, Architecture& architecture) {
    for (size_t i = 0; i < chunked.size(); ++i) {
        if (!chunked[i]) continue;
        architecture.layers[i].attention.mask = Mask::fixed_block;
        architecture.layers[i].attention.stride = length;
    }
}

void norm_lengths(const std::vector<bool>& normed, Reading& r) {
    for (size_t i = 0; i < normed.size(); ++i) {
        Attention& attention = r.architecture.layers[i].attention;
        if (!normed[i]) continue;
        attention.qk_norm.group = QkNorm::Group::head;
        attention.qk_norm.after_rope = true;
        for (const Role role : {Role::q_norm, Role::k_norm})
            r.synthesised[{role, int32_t(i)}].assign(attention.head_dim, 1.0f);
    }
}

void grow_unrotated(double growth, uint32_t length, Architecture& architecture) {
    if (architecture.ropes.empty()) return;
    architecture.ropes.push_back({.pairs = architecture.ropes.front().pairs,
                                  .width = 2,
                                  .inverse_frequencies = {0},
                                  .long_inverse_frequencies = {},
                                  .query_growth = growth,
                                  .growth_length = length,
                                  .growth_offset = 1});
}

void assign_ropes(const Family& family, const Settings& settings, Architecture& architecture) {
    if (const char* name = "layer_rope_theta"; family.rope_by_layer && settings.has(name)) {
        const std::vector<double> thetas = settings.numbers(name), bases = rope_bases(family, settings);
        check_length(settings, name, thetas.size(), architecture.layers.size(), "numbers");
        for (size_t i = 0; i < thetas.size(); ++i) {
            const auto base = std::ranges::find(bases, thetas[i]);
            architecture.layers[i].attention.rope = base == bases.end() ? -1 : int32_t(base - bases.begin());
        }
        return;
    }
    const size_t layers = architecture.layers.size();
    const std::vector<bool> rotating = rotating_layers(settings, family.no_rope_every, layers);
    const auto still = std::ranges::find_if(architecture.ropes, turns_nothing);
    const int32_t unrotated =
        still == architecture.ropes.end() ? -1 : int32_t(still - architecture.ropes.begin());
    using FullLayers = Family::FullLayers;
    const bool full_rotate =
        family.full_layers == FullLayers::rotate ||
        (family.full_layers == FullLayers::rest_beside_windows && !settings.has(Field::window));
    for (size_t i = 0; i < layers; ++i) {
        Attention& attention = architecture.layers[i].attention;
        const bool rotates =
            !architecture.ropes.empty() && rotating[i] &&
            (full_rotate || attention.window != 0 ||
             (family.dense_rotate && architecture.layers[i].feed_forward.routing.experts == 0));
        if (rotates && family.window.layers == WindowRule::Layers::unrotated && !settings.has("layer_types"))
            attention.window = 0;
        attention.rope = !rotates                                                 ? unrotated
                         : attention.window != 0 && architecture.ropes.size() > 1 ? 1
                                                                                  : 0;
    }
    for (Architecture& encoder : architecture.encoder) assign_ropes(family, settings, encoder);
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
        for (int32_t i = 0; i < static_cast<int32_t>(stack.layers.size()); ++i) {
            Layer& layer = stack.layers[static_cast<size_t>(i)];
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

void add_encoder(Architecture& architecture, uint32_t decoder_layers) {
    Architecture encoder = architecture;
    encoder.vocab = 0;
    encoder.has_head = false;
    see_both_sides(encoder);
    architecture.layers.resize(1);
    Layer& layer = architecture.layers[0];
    layer.cross = layer.attention;
    layer.cross.mask = Mask::source;
    layer.cross.rope = -1;
    architecture.layers.resize(decoder_layers, Layer(layer));
    architecture.encoder = {std::move(encoder)};
}

void use_buckets(Architecture& architecture, uint32_t most_distance, bool both) {
    for (Layer& layer : architecture.layers) {
        layer.attention.bias = both ? PositionBias::table_both : PositionBias::table;
        layer.attention.bias_span = most_distance + 1;
    }
}

void check_table(const Settings& settings, const char* name, uint64_t rows, uint64_t cols) {
    if (cols != 0 && rows > most_table / cols) settings.wrong(name, "a table of at most 2^26 numbers");
}

void set_scale(Architecture& architecture, double scale) {
    for (Layer& layer : architecture.layers) layer.attention.scale = static_cast<float>(scale);
}

void use_latent(Architecture& architecture, const Latent& latent, uint32_t head_dim) {
    for (Layer& layer : architecture.layers) {
        Attention& attention = layer.attention;
        attention.latent = latent;
        attention.head_dim = head_dim;
        attention.kv_heads = 1;
        attention.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(head_dim)));
    }
}

void read_multipliers(Reading& r, const Multipliers& names, double scale) {
    r.architecture.embedding_scale = r.settings.number(names.embedding, 1);
    r.architecture.residual_scale = r.settings.number(names.residual, 1);
    r.architecture.logit_scale = static_cast<float>(1 / r.settings.positive(names.logits, 1.0));
    set_scale(r.architecture, r.settings.positive(names.scores, scale));
}

uint32_t columns_of(const Settings& settings, const char* name, uint32_t experts, uint32_t size) {
    const uint64_t columns = uint64_t{experts} * size;
    if (columns > most_size) settings.wrong(name, "fewer than 2^28 columns");
    return static_cast<uint32_t>(columns);
}

void make_dense(Layer& layer, uint32_t size) {
    layer.feed_forward.routing = {};
    layer.feed_forward.size = size;
}

void make_first_dense(Architecture& architecture, uint32_t count, uint32_t size) {
    for (size_t i = 0; i < std::min<size_t>(count, architecture.layers.size()); ++i)
        make_dense(architecture.layers[i], size);
}

std::vector<float> alibi_slopes(uint32_t heads) {
    uint32_t power = 1;
    while (power * 2 <= heads) power *= 2;
    std::vector<float> slopes;
    for (uint32_t h = 1; h <= power; ++h) slopes.push_back(float(std::exp2(-8.0 * h / power)));
    for (uint32_t h = 1; slopes.size() < heads; h += 2) slopes.push_back(float(std::exp2(-4.0 * h / power)));
    return slopes;
}

void use_alibi(Reading& reading, double scale) {
    reading.architecture.ropes.clear();
    for (Layer& layer : reading.architecture.layers) layer.attention.bias = PositionBias::linear;
    std::vector<float> slopes = alibi_slopes(reading.architecture.layers.front().attention.heads);
    for (float& slope : slopes) slope = static_cast<float>(slope * scale);
    reading.synthesised[{Role::position_bias, 0}] = std::move(slopes);
}

}  // namespace scoria
