// Reformer (Kitaev et al. 2020): attention in chunks, of positions or sorted by hash, between two reversible
// streams.
#include "hf_families.h"

#include "fail.h"
#include "family_parts.h"
#include "hash_rotations.h"

#include <cmath>
#include <numeric>

namespace scoria {
namespace {

#define MODEL "reformer."
#define REFORMER_LAYER MODEL "encoder.layers.#."
#define REFORMER_SELF REFORMER_LAYER "attention.self_attention."
constexpr TensorRow reformer_rows[] = {
    {Role::token_embedding, MODEL "embeddings.word_embeddings.weight"},
    {Role::position_embedding, MODEL "embeddings.position_embeddings.embedding.weight"},
    {Role::axial_rows, MODEL "embeddings.position_embeddings.weights.0"},
    {Role::axial_cols, MODEL "embeddings.position_embeddings.weights.1"},
    {Role::attention_norm, REFORMER_LAYER "attention.layer_norm.weight"},
    {Role::attention_norm_bias, REFORMER_LAYER "attention.layer_norm.bias"},
    {Role::q, REFORMER_SELF "query.weight"},
    {Role::q, REFORMER_SELF "query_key.weight"},
    {Role::k, REFORMER_SELF "key.weight"},
    {Role::v, REFORMER_SELF "value.weight"},
    {Role::o, REFORMER_LAYER "attention.output.dense.weight"},
    {Role::feed_forward_norm, REFORMER_LAYER "feed_forward.layer_norm.weight"},
    {Role::feed_forward_norm_bias, REFORMER_LAYER "feed_forward.layer_norm.bias"},
    {Role::up, REFORMER_LAYER "feed_forward.dense.dense.weight"},
    {Role::up_bias, REFORMER_LAYER "feed_forward.dense.dense.bias"},
    {Role::down, REFORMER_LAYER "feed_forward.output.dense.weight"},
    {Role::down_bias, REFORMER_LAYER "feed_forward.output.dense.bias"},
    {Role::output_norm, MODEL "encoder.layer_norm.weight"},
    {Role::output_norm_bias, MODEL "encoder.layer_norm.bias"},
    {Role::output, "lm_head.decoder.weight"},
    {Role::output_bias, "lm_head.decoder.bias"},  // lm_head.bias is in files, and is not added
};

constexpr uint32_t most_positions = 1 << 24;                // kernels keep positions and buckets as floats
constexpr uint32_t most_head_dim = 1024, most_factors = 4;  // shaders/chunk_attention.push.h
constexpr uint32_t most_neighbours = 256, most_rounds = 256;

std::vector<uint32_t> sizes_of(const Settings& settings, const char* name, const nlohmann::json& list) {
    std::vector<uint32_t> sizes;
    for (const nlohmann::json& each : list) {
        if (!each.is_number_unsigned() || each == 0 || each.get<uint64_t>() > most_size)
            settings.wrong(name, "whole numbers above 0");
        sizes.push_back(each.get<uint32_t>());
    }
    return sizes;
}

/// Two numbers, of rows and columns.
std::vector<uint32_t> pair_of(const Settings& settings, const char* name) {
    const nlohmann::json* list = settings.find(name);
    if (list == nullptr || !list->is_array()) settings.wrong(name, "a list of two numbers");
    if (list->size() != 2)
        fail(Status::unsupported, settings.where(), settings.full_name(name), ": expected two axes, got ",
             list->size());
    return sizes_of(settings, name, *list);
}

void read_positions(Reading& r) {
    Architecture& architecture = r.architecture;
    r.settings.understood("axial_norm_std");
    if (!r.settings.flag("axial_pos_embds", true)) {
        for (const char* unused : {"axial_pos_shape", "axial_pos_embds_dim"}) r.settings.understood(unused);
        architecture.positions = architecture.context;
        return;
    }
    const std::vector<uint32_t> shape = pair_of(r.settings, "axial_pos_shape"),
                                widths = pair_of(r.settings, "axial_pos_embds_dim");
    if (uint64_t{widths[0]} + widths[1] != architecture.hidden)
        r.settings.wrong("axial_pos_embds_dim", cat("a sum of ", architecture.hidden));
    architecture.axial = {shape[0], shape[1], widths[0]};
    architecture.context = uint32_t(std::min<uint64_t>(architecture.context, architecture.most_positions()));
}

/// Those of any length up to the context's. The reference takes the first sequence's that is long enough, and
/// keeps to them; here each sequence has those of its own length.
void use_buckets_by_length(const Reading& r, Chunks& hashed) {
    const uint64_t all = uint64_t{r.settings.size(Field::context, most_size)} / hashed.length;
    const uint64_t root = static_cast<uint64_t>(std::sqrt(static_cast<double>(all)));
    hashed.unfactored = static_cast<uint32_t>(2 * std::max<uint64_t>(root, hashed.length));
    for (uint64_t chunks = 1; chunks <= 2 * all; chunks *= 2) {
        const Chunks each = hashed.for_length(chunks * hashed.length);
        if (each.rotated() > hashed.rotated()) hashed.buckets = each.buckets;
    }
    const uint64_t rows = uint64_t{r.architecture.layers[0].attention.heads} *
                          r.settings.size("attention_head_size", most_head_dim, 64) * hashed.rounds;
    if (rows % 16 != 0)  // else a shorter draw of rotations does not begin as a longer one does
        fail(Status::unsupported, r.settings.where(), r.settings.full_name("num_buckets"),
             ": expected a number, or heads, their size and hashes that multiply to a multiple of 16, got ",
             rows);
}

/// The factors of the number of buckets.
std::vector<uint32_t> read_buckets(const Settings& settings) {
    const char* name = "num_buckets";
    const nlohmann::json* value = settings.find(name);
    const std::vector<uint32_t> factors =
        sizes_of(settings, name, value->is_array() ? *value : nlohmann::json::array({*value}));
    uint64_t count = 1;
    for (const uint32_t factor : factors) {
        if (factor % 2 != 0) settings.wrong(name, "even numbers");
        count = std::min<uint64_t>(count * factor, UINT32_MAX);
    }
    if (factors.empty() || factors.size() > most_factors || count > most_positions)
        settings.wrong(name, cat("1 to ", most_factors, " factors of at most ", most_positions, " buckets"));
    return factors;
}

Chunks read_chunks(const Settings& settings, const std::string& kind) {
    return {.length = settings.size(kind + "_attn_chunk_length", most_positions, 64),
            .before = settings.size(kind + "_num_chunks_before", most_neighbours, 1, 0),
            .after = settings.size(kind + "_num_chunks_after", most_neighbours, 0, 0),
            .buckets = {}};
}

/// The reference draws new rotations with every call if there is no hash_seed; here they are those of seed 0,
/// so that answers can be repeated.
void make_rotations(Reading& r, const Attention& attention) {
    const Chunks& chunks = attention.chunks;
    const uint64_t rows = uint64_t{attention.heads} * attention.head_dim;
    check_table(r.settings, "num_hashes", rows, uint64_t{chunks.rounds} * chunks.rotated());
    r.synthesised[{Role::hash_rotations}] = [seed = r.settings.size("hash_seed", UINT32_MAX, 0, 0),
                                             count = rows * chunks.rounds * chunks.rotated()] {
        return torch_normals(seed, count);
    };
}

void read_attention_layers(Reading& r) {
    const Settings& settings = r.settings;
    std::vector<Layer>& layers = r.architecture.layers;
    const std::vector<std::string> kinds = settings.texts("attn_layers");
    if (kinds.size() != layers.size()) settings.wrong("attn_layers", cat(layers.size(), " layers"));
    const Chunks local = read_chunks(settings, "local");
    Chunks hashed = read_chunks(settings, "lsh");
    hashed.rounds = settings.size("num_hashes", most_rounds, 1);
    if (std::ranges::find(kinds, "lsh") != kinds.end()) {
        if (settings.has("num_buckets"))
            hashed.buckets = read_buckets(settings);
        else
            use_buckets_by_length(r, hashed);
    }
    for (const char* unused : {"hash_seed", "num_buckets"}) settings.understood(unused);

    const bool causal = settings.flag("is_decoder", false);
    uint64_t multiple = 1;
    uint32_t above = UINT32_MAX;
    for (size_t i = 0; i < layers.size(); ++i) {
        if (kinds[i] != "local" && kinds[i] != "lsh")
            fail(Status::unsupported, settings.where(), settings.full_name("attn_layers"),
                 ": expected local or lsh, got ", kinds[i]);
        Attention& attention = layers[i].attention;
        attention.head_dim = settings.size("attention_head_size", most_head_dim, 64);
        attention.kv_heads = attention.heads;
        attention.mask = causal ? Mask::causal : Mask::bidirectional;
        attention.chunks = kinds[i] == "lsh" ? hashed : local;
        multiple = std::min<uint64_t>(std::lcm(multiple, uint64_t{attention.chunks.length}), UINT32_MAX);
        above = std::min(above, attention.chunks.length);
    }
    if (multiple > most_positions || (r.architecture.context + multiple) * hashed.rounds > uint64_t{1} << 31)
        settings.wrong("lsh_attn_chunk_length",
                       "chunks, hashes and positions that multiply to less than 2^31");
    for (Layer& layer : layers) {
        layer.attention.chunks.multiple = static_cast<uint32_t>(multiple);
        layer.attention.chunks.above = above;
    }
    set_scale(r.architecture, 1 / std::sqrt(double(layers[0].attention.head_dim)));
    for (const Layer& layer : layers)
        if (layer.attention.chunks.rounds != 0) return make_rotations(r, layer.attention);
}

void adjust_reformer(Reading& r) {
    if (r.catalog.find("lm_head.decoder.weight") == nullptr)
        fail(Status::bad_file, r.catalog.format(), "tensor lm_head.decoder.weight is missing");
    r.architecture.two_streams = true;
    r.architecture.context = std::min(r.architecture.context, most_positions);
    r.settings.understood("chunk_size_lm_head");
    read_positions(r);
    for (Layer& layer : r.architecture.layers)  // files also have an intermediate_size, which means nothing
        layer.feed_forward.size = r.settings.size("feed_forward_size", most_size, 512);
    read_attention_layers(r);
}

}  // namespace

std::span<const Family> reformer_families() {
    static const Family families[] = {
        {.name = "reformer",
         .tensors = {reformer_rows},
         .norm = NormKind::layer,
         .norm_bias = true,
         .rope = false,
         .activation = Activation::relu,
         .gated = false,
         .feed_forward_bias = biased,
         .output_bias = if_present,
         .output_decides = true,
         .adjust = adjust_reformer},
    };
    return families;
}

}  // namespace scoria
