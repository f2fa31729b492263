// Models that no Hugging Face class stands for, in the form of the fixtures' own references: one row per
// family.
#include "hf_families.h"

#include "fail.h"
#include "family_parts.h"

#include <cmath>

namespace scoria {
namespace {

using Layers = WindowRule::Layers;

constexpr Routing softmax_experts{};

using enum Layout;
#define LAYER "layers.#."
constexpr TensorRow own_rows[] = {
    {Role::token_embedding, "embed.weight"},
    {Role::position_embedding, "pos_embed.weight"},
    {Role::output_norm, "final_norm.weight"},
    {Role::output_norm_bias, "final_norm.bias"},
    {Role::output, "lm_head.weight"},
    {Role::output_bias, "lm_head.bias"},
    {Role::attention_norm, LAYER "attn_norm.weight"},
    {Role::attention_norm_bias, LAYER "attn_norm.bias"},
    {Role::attention_norm, LAYER "norm.weight"},
    {Role::attention_post_norm, LAYER "attn_norm.weight"},
    {Role::attention_post_norm_bias, LAYER "attn_norm.bias"},
    {Role::q, LAYER "attn.q.weight"},
    {Role::k, LAYER "attn.k.weight"},
    {Role::v, LAYER "attn.v.weight"},
    {Role::o, LAYER "attn.o.weight"},
    {Role::q_bias, LAYER "attn.q.bias"},
    {Role::k_bias, LAYER "attn.k.bias"},
    {Role::v_bias, LAYER "attn.v.bias"},
    {Role::o_bias, LAYER "attn.o.bias"},
    {Role::q_norm, LAYER "attn.q_norm.weight"},
    {Role::k_norm, LAYER "attn.k_norm.weight"},
    {Role::position_bias, "rel_bias.weight", buckets},
    {Role::q_bias, LAYER "attn.u"},
    {Role::q_bias, "u"},
    {Role::distance_q_bias, LAYER "attn.v_bias"},
    {Role::distance_q_bias, "v_bias"},
    {Role::distance_k, LAYER "attn.r.weight", distance_projection},
    {Role::distance_k, LAYER "attn.rel_k.weight", clipped_offsets},
    {Role::distance_v, LAYER "attn.rel_v.weight", clipped_offsets},
    {Role::feed_forward_norm, LAYER "mlp_norm.weight"},
    {Role::feed_forward_norm_bias, LAYER "mlp_norm.bias"},
    {Role::feed_forward_post_norm, LAYER "mlp_norm.weight"},
    {Role::feed_forward_post_norm_bias, LAYER "mlp_norm.bias"},
    {Role::gate, LAYER "mlp.gate.weight"},
    {Role::up, LAYER "mlp.up.weight"},
    {Role::up_bias, LAYER "mlp.up.bias"},
    {Role::down, LAYER "mlp.down.weight"},
    {Role::down_bias, LAYER "mlp.down.bias"},
    {Role::router, LAYER "moe.router.weight"},
    {Role::expert_gate, LAYER "moe.experts.@.gate.weight", per_expert},
    {Role::expert_up, LAYER "moe.experts.@.up.weight", per_expert},
    {Role::expert_down, LAYER "moe.experts.@.down.weight", per_expert},
    {Role::shared_gate, LAYER "moe.shared.gate.weight"},
    {Role::shared_up, LAYER "moe.shared.up.weight"},
    {Role::shared_down, LAYER "moe.shared.down.weight"},
};
#undef LAYER

/// "Attention is off by one" (Miller 2023): a sink of score 0, so exp(0) = 1 in the sum.
void adjust_softmax1(Reading& r) {
    expect_flag(r.settings, "softmax_plus_one", true, true);
    for (size_t i = 0; i < r.architecture.layers.size(); ++i) {
        Attention& attention = r.architecture.layers[i].attention;
        attention.sinks = true;
        r.synthesised[{Role::sinks, static_cast<int32_t>(i)}] = repeated(attention.heads, 0);
    }
}

void adjust_prefix_lm(Reading& r) {
    for (Layer& layer : r.architecture.layers) layer.attention.mask = Mask::prefix;
}

void adjust_palm(Reading& r) {
    r.architecture.logit_scale = static_cast<float>(r.settings.positive("logit_scale", 1.0));
}

/// T5's buckets (Raffel et al. 2020), one table for all layers.
void adjust_lamda(Reading& r) {
    const char* name = "relative_attention_num_buckets";
    const uint32_t buckets = r.settings.size(name, 1 << 16);
    const uint32_t most = r.settings.size("relative_attention_max_distance", 1 << 24);
    const StoredTensor* table = r.catalog.find("rel_bias.weight");
    if (table != nullptr && !table->shape.empty() && table->shape[0] != buckets)
        r.settings.wrong(name, cat(table->shape[0], " as in rel_bias.weight"));
    check_table(r.settings, "relative_attention_max_distance", most,
                r.architecture.layers.front().attention.heads);
    use_buckets(r.architecture, most, false);
    set_scale(r.architecture,
              r.settings.positive("attention_scale", double{r.architecture.layers[0].attention.scale}));
}

void adjust_gpt3(Reading& r) { expect_text(r.settings, "attention_pattern", "dense_banded"); }

/// Child et al. 2019, section 4: two sets of keys, one per layer in turn or both at once.
void adjust_sparse(Reading& r) {
    const std::string pattern = r.settings.text("attention_pattern");
    const std::string factorization = r.settings.text("factorization", "interleaved");
    const bool strided = pattern == "strided", merged = factorization == "merged";
    if (!strided && pattern != "fixed") r.settings.wrong("attention_pattern", "strided or fixed");
    if (!merged && factorization != "interleaved") r.settings.wrong("factorization", "interleaved or merged");
    const uint32_t stride = r.settings.size("stride", most_size);
    const uint32_t summary = strided ? 0 : r.settings.size("summary_size", stride);
    for (size_t i = 0; i < r.architecture.layers.size(); ++i) {
        Attention& attention = r.architecture.layers[i].attention;
        attention.stride = stride;
        attention.summary = summary;
        const bool first = i % 2 == 0;
        if (merged)
            attention.mask = strided ? Mask::strided_union : Mask::fixed_union;
        else if (strided)
            attention.mask = first ? Mask::causal : Mask::strided;
        else
            attention.mask = first ? Mask::fixed_block : Mask::fixed_summary;
        if (attention.mask != Mask::causal) continue;
        attention.window = stride + 1;  // i - j <= stride
        attention.stride = 0;
    }
}

/// Brandon et al. 2024: of every `cla_share_factor` layers the first has keys and values, the others read
/// them.
void adjust_hunyuan_large(Reading& r) {
    const uint32_t share = r.settings.size("cla_share_factor", most_layers, 1);
    const bool normed = r.settings.flag("use_qk_norm", true);
    for (size_t i = 0; i < r.architecture.layers.size(); ++i) {
        Attention& attention = r.architecture.layers[i].attention;
        if (i % share != 0) attention.kv_layer = static_cast<int32_t>(i - i % share);
        if (!normed) attention.qk_norm.group = QkNorm::Group::none;
    }
}

/// Rows of pixels: [PE(t / row_length) | PE(t mod row_length)], each of half the width with sine and cosine
/// by turns (Vaswani et al. 2017, section 3.5).
void adjust_image_transformer(Reading& r) {
    Architecture& architecture = r.architecture;
    // A row longer than the context is its first part: no table of the rest.
    const uint32_t row_length = std::min(r.settings.size("row_length", most_size), architecture.context);
    const uint32_t width = architecture.hidden / 2;
    if (architecture.hidden % 4 != 0) r.settings.wrong("hidden_size", "a multiple of 4");
    check_table(r.settings, "max_position_embeddings", architecture.context, architecture.hidden);
    architecture.positions = architecture.context;
    r.synthesised[{Role::position_embedding}] = [=, context = architecture.context] {
        const uint32_t rows = (context - 1) / row_length + 1;
        const std::vector<float> places = sinusoids(std::max(rows, row_length), width, true);
        std::vector<float> table;
        table.reserve(size_t{context} * 2 * width);
        for (uint32_t t = 0; t < context; ++t)
            for (const uint32_t place : {t / row_length, t % row_length}) {
                const auto row = places.begin() + std::ptrdiff_t(size_t{place} * width);
                table.insert(table.end(), row, row + width);
            }
        return table;
    };
    for (Layer& layer : architecture.layers) {
        layer.attention.mask = Mask::local_block;
        layer.attention.stride = r.settings.size("query_block_length", most_size);
        layer.attention.summary = r.settings.size("memory_block_length", most_size, {}, 0);
    }
}

/// Transformer-XL's attention (Dai et al. 2019, section 3.3): q has a bias of its own for content (u) and for
/// distances (v), of which `span` may occur.
void use_distances(Architecture& architecture, uint32_t span) {
    for (Layer& layer : architecture.layers) {
        layer.attention.bias = PositionBias::by_query;
        layer.attention.bias_span = span;
        layer.attention.distance_q_bias = true;
    }
}

void adjust_gopher(Reading& r) {
    check_table(r.settings, "max_position_embeddings", r.architecture.context, r.architecture.hidden);
    use_distances(r.architecture, r.architecture.context);
}

/// A segment sees itself and the memory before it, whose rows are those that were cached.
void adjust_transformer_xl(Reading& r) {
    Architecture& architecture = r.architecture;
    architecture.embedding_scale = static_cast<float>(r.settings.positive("embed_scale", 1.0));
    const uint32_t segment = r.settings.size("segment_length", most_size),
                   memory = r.settings.size("memory_length", most_size, {}, 0);
    check_table(r.settings, "segment_length", uint64_t{segment} + memory, architecture.hidden);
    for (Layer& layer : architecture.layers) {
        layer.attention.mask = Mask::local_block;
        layer.attention.stride = segment;
        layer.attention.summary = memory;
    }
    use_distances(architecture, segment + memory);
}

/// Rae et al. 2020.
void adjust_compressive(Reading& r) {
    Architecture& architecture = r.architecture;
    architecture.embedding_scale = static_cast<float>(r.settings.positive("embed_scale", 1.0));
    CompressedMemory& memory = architecture.memory;
    memory.segment = r.settings.size("segment_length", most_size);
    memory.memory = r.settings.size("memory_length", most_size, {}, 0);
    memory.slots = r.settings.size("compressed_memory_length", most_size, {}, 0);
    memory.rate = r.settings.size("compression_rate", most_size);
    const uint64_t span = uint64_t{memory.segment} + memory.memory + memory.slots;
    check_table(r.settings, "segment_length", span, architecture.hidden);
    for (Layer& layer : architecture.layers) layer.attention.mask = Mask::compressed;
    use_distances(architecture, static_cast<uint32_t>(span));
}

/// Shaw et al. 2018: offsets up to K have a key and a value of their own.
void adjust_shaw(Reading& r) {
    const uint32_t most = r.settings.size("max_relative_position", 1 << 20);
    for (Layer& layer : r.architecture.layers) {
        layer.attention.bias = PositionBias::by_query;
        layer.attention.bias_span = most + 1;
        layer.attention.distance_values = true;
    }
}

Family transformer_xl_like(const char* name, Adjust adjust) {
    return {.name = name,
            .tensors = {own_rows},
            .norm = NormKind::layer,
            .norm_bias = true,
            .placement = NormPlacement::post,
            .output_norm = false,
            .qkv_bias = if_present,
            .rope = false,
            .activation = Activation::relu,
            .gated = false,
            .feed_forward_bias = biased,
            .output_bias = biased,
            .adjust = adjust};
}

}  // namespace

std::span<const Family> own_families() {
    static const Family families[] = {
        {.name = "softmax1", .tensors = {own_rows}, .adjust = adjust_softmax1},
        {.name = "prefix-lm", .tensors = {own_rows}, .adjust = adjust_prefix_lm},
        {.name = "palm",
         .tensors = {own_rows},
         .norm = NormKind::layer,
         .placement = NormPlacement::parallel,
         .pairs = RopePairs::interleaved,
         .adjust = adjust_palm},
        {.name = "lamda",
         .tensors = {own_rows},
         .rope = false,
         .activation = Activation::gelu_tanh,
         .adjust = adjust_lamda},
        {.name = "gpt3",
         .tensors = {own_rows},
         .norm = NormKind::layer,
         .norm_bias = true,
         .qkv_bias = biased,
         .o_bias = biased,
         .rope = false,
         .window = {Layers::all},
         .activation = Activation::gelu_tanh,
         .gated = false,
         .feed_forward_bias = biased,
         .positions = true,
         .adjust = adjust_gpt3},
        {.name = "sparse-transformer",
         .tensors = {own_rows},
         .norm = NormKind::layer,
         .norm_bias = true,
         .qkv_bias = biased,
         .o_bias = biased,
         .rope = false,
         .activation = Activation::gelu_tanh,
         .gated = false,
         .feed_forward_bias = biased,
         .positions = true,
         .adjust = adjust_sparse},
        {.name = "image-transformer",
         .tensors = {own_rows},
         .norm = NormKind::layer,
         .norm_bias = true,
         .placement = NormPlacement::post,
         .output_norm = false,
         .rope = false,
         .activation = Activation::relu,
         .gated = false,
         .adjust = adjust_image_transformer},
        {.name = "gopher",
         .tensors = {own_rows},
         .qkv_bias = if_present,
         .rope = false,
         .activation = Activation::gelu,
         .gated = false,
         .adjust = adjust_gopher},
        transformer_xl_like("transformer-xl", adjust_transformer_xl),
        transformer_xl_like("compressive-transformer", adjust_compressive),
        {.name = "shaw-relative",
         .tensors = {own_rows},
         .norm = NormKind::layer,
         .norm_bias = true,
         .rope = false,
         .activation = Activation::relu,
         .gated = false,
         .adjust = adjust_shaw},
        {.name = "hunyuan-large",
         .tensors = {own_rows},
         .qk_norm = QkNorm::Group::head,
         .qk_norm_after_rope = true,
         .routing = &softmax_experts,
         .adjust = adjust_hunyuan_large},
    };
    return families;
}

}  // namespace scoria
