// See family_attention.h.
#include "family_attention.h"

#include "fail.h"
#include "recurrent_layers.h"

#include <algorithm>
#include <cmath>

namespace scoria {
namespace {

constexpr uint64_t most_head_dim = 1 << 12;

bool is_windowed_type(const Settings& settings, const char* key, const std::string& type) {
    for (const char* windowed : {"sliding_attention", "local", "banded"})
        if (type == windowed) return true;
    for (const char* full : {"full_attention", "attention", "global", "dense"})
        if (type == full) return false;
    fail(Status::unsupported, settings.where(), settings.full_name(key),
         ": expected sliding_attention or full_attention, got ", type);
}

/// Positions of the window; 0: there is none.
uint32_t read_window(const Family& family, const Settings& settings) {
    const char* field = settings.name_of(Field::window);
    return settings.size(field, most_size, settings.is_null(field) ? 0 : family.window.otherwise, 0);
}

bool turns_nothing(const Rope& rope) {
    return std::ranges::all_of(rope.inverse_frequencies, [](double frequency) { return frequency == 0; });
}

}  // namespace

void set_heads(const Settings& settings, uint32_t kv_heads, uint32_t head_dim, Attention& attention) {
    if (attention.heads % kv_heads != 0)
        fail(Status::bad_file, settings.where(), settings.full_name(settings.name_of(Field::kv_heads)),
             ": expected a divisor of ", attention.heads, " heads, got ", kv_heads);
    attention.kv_heads = kv_heads;
    attention.head_dim = head_dim;
    attention.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(head_dim)));
}

LayerHeads read_heads(const Settings& settings, size_t layers) {
    LayerHeads heads{settings.sizes(Field::heads, layers, most_heads),
                     settings.sizes(Field::kv_heads, layers, most_heads)};
    if (heads.queries.empty()) heads.queries.assign(layers, settings.size(Field::heads, most_heads));
    if (heads.keys.empty() && settings.has(Field::kv_heads))
        heads.keys.assign(layers, settings.size(Field::kv_heads, most_heads));
    if (heads.keys.empty()) heads.keys = heads.queries;
    return heads;
}

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

void check_length(const Settings& settings, const char* name, size_t length, size_t layers,
                  const char* what) {
    if (length != 0 && length != layers)
        fail(Status::bad_file, settings.where(), settings.full_name(name), ": expected ", layers, " ", what,
             ", got ", length);
}

std::vector<double> layer_numbers(const Settings& settings, const char* name, size_t layers) {
    std::vector<double> numbers = settings.numbers(name);
    const uint32_t ahead = settings.format() == Settings::Format::gguf
                               ? settings.size("nextn_predict_layers", most_layers, 0, 0)
                               : 0;
    if (ahead != 0 && numbers.size() == layers + ahead) numbers.resize(layers);
    check_length(settings, name, numbers.size(), layers, "numbers");
    return numbers;
}

void read_windows(const Family& family, const Settings& settings, Architecture& architecture) {
    using Layers = WindowRule::Layers;
    if (family.window.layers >= Layers::chunked) return;
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
                listed = layer_numbers(settings, name, layers);
            } else if (value == nullptr || !value->is_string() || types.empty()) {
                every = settings.size(name, most_layers, every, 0);
            }  // "LLLG" says what types say
        }

    const bool counts =
        rule.layers != Layers::none && (rule.flag == nullptr || settings.flag(rule.flag, false));
    const char* field = settings.name_of(Field::window);
    const uint32_t window = counts ? read_window(family, settings) : 0;
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

void read_windowed_heads(const Settings& keys, Architecture& architecture) {
    const char *name = "attention.key_length_swa", *of_values = "attention.value_length_swa";
    for (Layer& layer : architecture.layers)
        if (layer.attention.window != 0)
            set_heads(keys, layer.attention.kv_heads,
                      keys.size(name, most_head_dim, layer.attention.head_dim), layer.attention);
    const uint32_t size = head_dim_of(architecture, true);
    if (keys.size(of_values, most_head_dim, size) != size) keys.wrong(of_values, cat(size));
}

void set_value_dim(const Settings& settings, const char* name, uint32_t size, Architecture& architecture) {
    for (Layer& layer : architecture.layers) {
        Attention& attention = layer.attention;
        if (attention.heads == 0) continue;
        if (size > attention.head_dim)
            fail(Status::unsupported, settings.where(), settings.full_name(name), ": expected at most ",
                 attention.head_dim, ", got ", size);
        attention.value_dim = size == attention.head_dim ? 0 : size;
    }
}

uint32_t head_dim_of(const Architecture& architecture, bool windowed) {
    for (const Layer& layer : architecture.layers)
        if (layer.attention.heads != 0 && (layer.attention.window != 0) == windowed)
            return layer.attention.head_dim;
    return architecture.attention().head_dim;
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
    if (every == 0 && settings.format() == Settings::Format::hugging_face &&
        std::ranges::find(listed, 0.0) != listed.end())
        settings.wrong(name, "1 in every place, as its class has no others");
    if (every != 0) every = settings.size("no_rope_layer_interval", most_layers, every);
    std::vector<bool> rotating;
    for (size_t i = 0; i < layers; ++i)
        rotating.push_back(!listed.empty() ? listed[i] != 0 : every == 0 || (i + 1) % every != 0);
    return rotating;
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
        (family.full_layers == FullLayers::rest_beside_windows && read_window(family, settings) == 0);
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

}  // namespace scoria
