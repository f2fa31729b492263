// See family_parts.h.
#include "family_parts.h"

#include "fail.h"

#include <algorithm>
#include <cmath>

namespace scoria {

void see_both_sides(Architecture& architecture) {
    for (Layer& layer : architecture.layers) layer.attention.mask = Mask::bidirectional;
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

void repeat_layers(const Settings& settings, const char* loops, const char* unnormed,
                   Architecture& architecture) {
    const std::vector<Layer> once = architecture.layers;
    architecture.loops = settings.size(loops, most_layers / once.size(), 1);
    architecture.norms_loops = architecture.loops > 1 && !settings.flag(unnormed, false);
    for (uint32_t i = 1; i < architecture.loops; ++i)
        architecture.layers.insert(architecture.layers.end(), once.begin(), once.end());
}

void norm_values(Architecture& architecture) {
    for (Layer& layer : architecture.layers) {
        layer.attention.scale = 1;
        layer.attention.v_norm = true;
    }
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
            r.synthesised[{role, int32_t(i)}] = repeated(attention.head_dim, 1);
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

std::vector<bool> full_indexers(size_t layers, uint32_t freq, uint32_t offset) {
    std::vector<bool> full;
    for (size_t i = 0; i < layers; ++i) full.push_back(i < offset || (i + 1 - offset) % freq == 0);
    return full;
}

void use_indexer(Reading& r, const IndexerKeys& names, RopePairs pairs, const std::vector<bool>& full) {
    const Settings& s = r.settings;
    Architecture& a = r.architecture;
    const Latent& latent = a.layers.front().attention.latent;
    if (latent.q_rank == 0) s.wrong(names.heads, "queries of a rank of their own beside it (q_lora_rank)");
    if (full.size() != a.layers.size() || !full.front())
        s.wrong(names.full,
                cat("a type of each of ", a.layers.size(), " layers, of which the first is full"));
    Indexer indexer;
    indexer.heads = s.size(names.heads, 1 << 10);
    indexer.head_dim = s.size(names.head_dim, 1 << 10);
    indexer.top = s.size(names.top, most_size);
    for (const std::string& type : s.texts("layer_types"))
        if (type != "indexed_attention" && type != "full_attention")
            s.wrong("layer_types", "indexed_attention in every place");
    if (indexer.head_dim < latent.rope_dim)
        s.wrong(names.head_dim, cat("at least the ", latent.rope_dim, " elements that rotate"));
    if (a.ropes.empty()) s.wrong(names.heads, "positions that rotate beside it");
    indexer.rope = a.layers.front().attention.rope;
    if (a.ropes.front().pairs != pairs) {
        indexer.rope = int32_t(a.ropes.size());
        a.ropes.push_back(a.ropes.front());
        a.ropes.back().pairs = pairs;
    }
    for (size_t i = 0; i < full.size(); ++i) {
        Attention& attention = a.layers[i].attention;
        attention.mask = Mask::chosen;
        if (full[i])
            attention.indexer = indexer;
        else
            attention.indexer.shared = true;
    }
}

void read_multipliers(Reading& r, const Multipliers& names, double scale) {
    r.architecture.embedding_scale = r.settings.number(names.embedding, 1);
    r.architecture.residual_scale = r.settings.number(names.residual, 1);
    r.architecture.logit_scale = static_cast<float>(1 / r.settings.positive(names.logits, 1.0));
    set_scale(r.architecture, r.settings.positive(names.scores, scale));
}

void check_table(const Settings& settings, const char* name, uint64_t rows, uint64_t cols) {
    if (cols != 0 && rows > most_table / cols) settings.wrong(name, "a table of at most 2^26 numbers");
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
    const uint32_t heads = reading.architecture.layers.front().attention.heads;
    reading.synthesised[{Role::position_bias, 0}] = [=] {
        std::vector<float> slopes = alibi_slopes(heads);
        for (float& slope : slopes) slope = static_cast<float>(slope * scale);
        return slopes;
    };
}

}  // namespace scoria
