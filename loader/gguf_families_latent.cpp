// Latent attention in GGUF files, DeepSeek's from V2 on: see gguf_families.cpp.
#include "family_attention.h"
#include "family_parts.h"
#include "gguf_families.h"

#include <algorithm>
#include <cmath>

namespace scoria {
namespace {

using Layers = WindowRule::Layers;
using enum Layout;
using gguf::common, gguf::experts;

#define LAYER "blk.#."
constexpr TensorRow latent_rows[] = {
    {Role::latent_q, LAYER "attn_q_a.weight"},
    {Role::latent_q_norm, LAYER "attn_q_a_norm.weight"},
    {Role::q, LAYER "attn_q_b.weight", q_rope_last},
    {Role::q, LAYER "attn_q.weight", q_rope_last},
    {Role::latent_kv, LAYER "attn_kv_a_mqa.weight"},
    {Role::latent_kv_norm, LAYER "attn_kv_a_norm.weight"},
    {Role::latent_k, LAYER "attn_k_b.weight"},
    {Role::latent_v, LAYER "attn_v_b.weight"},
    {Role::latent_k, LAYER "attn_kv_b.weight", latent_kv_b},  // older files
    {Role::latent_v, LAYER "attn_kv_b.weight", latent_kv_b},
};
constexpr TensorRow indexer[] = {
    {Role::index_q, LAYER "indexer.attn_q_b.weight"},   {Role::index_k, LAYER "indexer.attn_k.weight"},
    {Role::index_norm, LAYER "indexer.k_norm.weight"},  {Role::index_norm_bias, LAYER "indexer.k_norm.bias"},
    {Role::index_weights, LAYER "indexer.proj.weight"},
};
#undef LAYER

constexpr Routing softmax_experts{};
constexpr Routing sigmoid_experts{
    .score = Routing::Score::sigmoid, .renormalise = true, .choice_bias = true, .group_by_top2 = true};

void adjust_deepseek2(Reading& r, bool by_sigmoid) {
    const Settings& keys = r.settings;
    Architecture& architecture = r.architecture;
    gguf::read_latent(r, {"attention.key_length_mla", "attention.value_length_mla"}, {});
    const uint32_t head_dim = architecture.attention().head_dim;
    // yarn_log_multiplier = 0.1 mscale_all_dim; the magnitude of rotations is 1, as mscale is taken to be
    // equal.
    if (const char* key = "rope.scaling.yarn_log_multiplier"; keys.has(key)) {
        const double factor = 1 + keys.positive(key) * std::log(keys.positive("rope.scaling.factor"));
        set_scale(architecture, factor * factor / std::sqrt(double(head_dim)));
        architecture.ropes.front().magnitude = 1;
    }
    gguf::read_routing(r, by_sigmoid);
}
/// Of the first files of GLM 4.7 Flash no key tells its scores, but what is added to them to choose by does.
void adjust_deepseek2(Reading& r) { adjust_deepseek2(r, any_layer_has(r, "blk.#.exp_probs_b.bias")); }

constexpr IndexerKeys index_keys{"attention.indexer.head_count", "attention.indexer.key_length",
                                 "attention.indexer.top_k", "attention.indexer.types"};

void adjust_deepseek32(Reading& r) {
    adjust_deepseek2(r, false);
    use_indexer(r, index_keys, RopePairs::halves, std::vector<bool>(r.architecture.layers.size(), true));
}

/// GLM-5: a list says which layers choose keys. Files without it are of GLM-5 and 5.1, where all do, or,
/// known by its context, of 5.2.
void adjust_glm_dsa(Reading& r) {
    adjust_deepseek2(r, true);
    constexpr uint32_t context_of_52 = 1 << 20;
    const Architecture& a = r.architecture;
    std::vector<bool> full = full_indexers(a.layers.size(), a.context < context_of_52 ? 1 : 4, 3);
    if (r.settings.has(index_keys.full)) {
        full.clear();
        for (const double type : layer_numbers(r.settings, index_keys.full, a.layers.size()))
            full.push_back(type != 0);
    }
    use_indexer(r, index_keys, RopePairs::interleaved, full);
}

/// Temperature of queries, which its converter leaves out, and groups by their two best though scores are no
/// sigmoids: as the class has them.
void adjust_mistral4(Reading& r) {
    adjust_deepseek2(r, false);
    for (Layer& layer : r.architecture.layers)
        if (Routing& routing = layer.feed_forward.routing; routing.experts != 0) routing.group_by_top2 = true;
    Rope& rope = r.architecture.ropes.front();
    rope.query_growth = double{r.settings.number("attention.temperature_scale", 0.1)};
    rope.growth_length = r.settings.size("rope.scaling.original_context_length", most_size, 8192);
}

}  // namespace

const std::span<const TensorRow> gguf::latent = latent_rows;

void gguf::read_latent(Reading& r, const LatentKeys& names, std::optional<uint32_t> value_dim) {
    const Settings& keys = r.settings;
    Architecture& a = r.architecture;
    Latent latent;
    latent.kv_rank = keys.size("attention.kv_lora_rank", 1 << 16);
    if (keys.has("attention.q_lora_rank")) latent.q_rank = keys.size("attention.q_lora_rank", 1 << 16);
    latent.rope_dim = a.ropes.empty() ? keys.size("rope.dimension_count", 1 << 12) : a.ropes.front().width;
    latent.value_dim = keys.size(names.value, 1 << 12, value_dim);
    latent.epsilon = a.norm.epsilon;
    if (uint64_t{a.attention().heads} * std::max(latent.kv_rank, latent.value_dim) > most_size)
        keys.wrong("attention.kv_lora_rank", "fewer than 2^28 rows for all heads");
    use_latent(a, latent, keys.size(names.key, 1 << 12, {}, latent.rope_dim + 1));
}

std::span<const Family> gguf_latent_families() {
    static const Family families[] = {
        {.name = "mistral4",
         .tensors = {gguf::latent, common, experts},
         .pairs = RopePairs::interleaved,
         .routing = &softmax_experts,
         .adjust = adjust_mistral4},
        {.name = "deepseek2",
         .tensors = {gguf::latent, common, experts},
         .pairs = RopePairs::interleaved,
         .routing = &softmax_experts,
         .adjust = adjust_deepseek2},
        {.name = "deepseek32",
         .tensors = {indexer, gguf::latent, common, experts},
         .pairs = RopePairs::interleaved,
         .window = {Layers::indexed},
         .routing = &sigmoid_experts,
         .adjust = adjust_deepseek32},
        {.name = "glm-dsa",
         .tensors = {indexer, gguf::latent, common, experts},
         .pairs = RopePairs::interleaved,
         .window = {Layers::indexed},
         .routing = &sigmoid_experts,
         .adjust = adjust_glm_dsa},
    };
    return families;
}

}  // namespace scoria
