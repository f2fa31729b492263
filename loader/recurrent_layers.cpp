// See recurrent_layers.h.
#include "recurrent_layers.h"

#include "fail.h"

#include <algorithm>
#include <cmath>

namespace scoria {
namespace {

void set_width(Recurrence& recurrence) {
    if (recurrence.width == 0) recurrence.width = recurrence.heads * recurrence.value_dim;
}

/// Errors: unsupported, where steps are clamped.
void check_step_limit(const Settings& settings) {
    const nlohmann::json* limit = settings.find("time_step_limit");
    if (limit != nullptr &&
        (!limit->is_array() || limit->size() != 2 || (*limit)[0] != 0 || (*limit)[1].is_number()))
        fail(Status::unsupported, settings.where(), settings.full_name("time_step_limit"),
             ": expected 0 and infinity, got ", limit->dump());
}

}  // namespace

bool is_recurrent_type(std::string_view type) {
    return type == "linear_attention" || type == "mamba" || type == "conv";
}

std::vector<bool> recurrent_layers(const Settings& settings, size_t layers, const char* attention) {
    std::vector<bool> recurs(layers);
    const std::vector<std::string> types = settings.texts("layer_types");
    if (attention != nullptr) {
        const std::vector<double> listed = settings.numbers(attention);
        for (size_t i = 0; i < layers && !settings.has("layer_types"); ++i)
            recurs[i] = std::ranges::find(listed, double(i)) == listed.end();
    }
    for (size_t i = 0; i < std::min(layers, types.size()); ++i) recurs[i] = is_recurrent_type(types[i]);
    return recurs;
}

void use_in_all_layers(Architecture& architecture, Recurrence recurrence) {
    set_width(recurrence);
    for (Layer& layer : architecture.layers) layer.recurrence = recurrence;
}

void use_recurrence(Architecture& architecture, const std::vector<bool>& recurs, Recurrence recurrence) {
    set_width(recurrence);
    for (size_t i = 0; i < recurs.size(); ++i) {
        if (!recurs[i]) continue;
        architecture.layers[i].attention = {};
        architecture.layers[i].recurrence = recurrence;
    }
}

Recurrence short_convolution(const Settings& settings, const char* taps, uint32_t hidden) {
    Recurrence convolution;
    convolution.kind = RecurrenceKind::convolution;
    convolution.taps = settings.size(taps, most_taps, 3, 2);
    convolution.width = hidden;
    return convolution;
}

Recurrence read_state_space(const Settings& settings, const StateSpaceFields& names, float epsilon,
                            uint64_t width) {
    check_step_limit(settings);
    for (const char* of_training : {"time_step_floor", "time_step_max", "time_step_min"})
        settings.understood(of_training);
    Recurrence mamba;
    mamba.kind = RecurrenceKind::state_space;
    mamba.taps = settings.size(names.taps, most_taps, 4, 2);
    mamba.heads = settings.size(names.heads, 1 << 16, 128);
    mamba.groups = settings.size(names.groups.name, 1 << 16, names.groups.otherwise);
    mamba.key_dim = settings.size(names.key_dim.name, most_state_dim, names.key_dim.otherwise);
    const auto& [head, otherwise] = names.value_dim;
    const nlohmann::json* value_dim = settings.find(head);
    const bool share = otherwise == 0 && (value_dim == nullptr || *value_dim == "auto");
    mamba.value_dim =
        share ? static_cast<uint32_t>(width / mamba.heads) : settings.size(head, most_state_dim, otherwise);
    mamba.taps_bias = settings.flag(names.taps_bias, true);
    mamba.epsilon = epsilon;
    check_heads(settings, names.heads, mamba);
    return mamba;
}

void use_lightning(Reading& reading, const std::vector<bool>& recurs, double e) {
    Architecture& a = reading.architecture;
    const Settings& settings = reading.settings;
    const Attention& attention = a.attention();
    Recurrence lightning;
    lightning.kind = RecurrenceKind::lightning;
    lightning.heads = lightning.groups = attention.heads;
    lightning.key_dim = lightning.value_dim = attention.head_dim;
    lightning.gate_activation = Activation::sigmoid;
    lightning.epsilon = 1e-6f;  // the published code's, whatever the file says of others
    if (attention.head_dim > most_state_dim)
        settings.wrong(settings.name_of(Field::head_dim), cat("at most ", most_state_dim));
    check_heads(settings, settings.name_of(Field::heads), lightning);
    for (size_t i = 0; i < recurs.size(); ++i) {
        if (!recurs[i]) continue;
        const double of_layer = 1 - (i ? double(i) / (double(recurs.size()) - 1 + e) : 0) + 1e-5;
        reading.synthesised[{Role::mixer_decay, int32_t(i)}] = [of_layer, heads = lightning.heads] {
            std::vector<float> decays;
            for (uint32_t h = 1; h <= heads; ++h)
                decays.push_back(float(-std::exp2(-8.0 * h / heads) * of_layer));
            return decays;
        };
    }
    use_recurrence(a, recurs, lightning);
}

Recurrence delta_by_key(float epsilon) {
    Recurrence delta;
    delta.kind = RecurrenceKind::delta;
    delta.by_key = delta.separate = true;
    delta.gate_activation = Activation::sigmoid;
    delta.epsilon = epsilon;
    return delta;
}

float read_bound(const Settings& settings, const char* name, double otherwise) {
    const nlohmann::json* said = settings.find(name);
    const double bound = said && said->is_number() ? said->get<double>() : said ? 0 : otherwise;
    if (!(bound < 0 && bound > -1e6)) settings.wrong(name, "a number below 0");
    return static_cast<float>(bound);
}

void check_heads(const Settings& settings, const char* heads, const Recurrence& r) {
    if (r.heads % r.groups != 0) settings.wrong(heads, cat("a multiple of ", r.groups, " groups"));
    if (uint64_t{r.heads} * r.value_dim + 2ull * r.groups * r.key_dim > 1 << 20)
        settings.wrong(heads, "at most 2^20 channels");
}

}  // namespace scoria
