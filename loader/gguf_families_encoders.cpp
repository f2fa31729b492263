// The families of GGUF files that have an encoder: BERT and its kin, decoders that were made to see both
// sides, T5.
#include "gguf_families.h"

#include "classifier.h"
#include "fail.h"
#include "family_parts.h"

namespace scoria {
namespace {

using enum Layout;

#define LAYER "blk.#."
constexpr TensorRow bert[] = {
    {Role::token_type_embedding, "token_types.weight"},
    {Role::attention_post_norm, LAYER "attn_output_norm.weight"},
    {Role::attention_post_norm_bias, LAYER "attn_output_norm.bias"},
    {Role::feed_forward_post_norm, LAYER "layer_output_norm.weight"},
    {Role::feed_forward_post_norm_bias, LAYER "layer_output_norm.bias"},
    {Role::attention_post_norm_2, LAYER "attn_norm_2.weight"},
    {Role::attention_post_norm_2_bias, LAYER "attn_norm_2.bias"},
    {Role::q_norm_bias, LAYER "attn_q_norm.bias"},
    {Role::k_norm_bias, LAYER "attn_k_norm.bias"},
};
// The projection is per head, as the model's own class has it; the converter leaves it so.
constexpr TensorRow neo_bert[] = {
    {Role::q, LAYER "attn_qkv.weight", qkv_grouped},
    {Role::k, LAYER "attn_qkv.weight", qkv_grouped},
    {Role::v, LAYER "attn_qkv.weight", qkv_grouped},
    {Role::output_norm, "enc.output_norm.weight"},
};
#undef LAYER
#define T5_ROWS(STACK)                                                                                    \
    {Role::token_embedding, "token_embd.weight"}, {Role::output_norm, STACK ".output_norm.weight"},       \
        {Role::attention_norm, STACK ".blk.#.attn_norm.weight"}, {Role::q, STACK ".blk.#.attn_q.weight"}, \
        {Role::k, STACK ".blk.#.attn_k.weight"}, {Role::v, STACK ".blk.#.attn_v.weight"},                 \
        {Role::o, STACK ".blk.#.attn_o.weight"},                                                          \
        {Role::position_bias, STACK ".blk.#.attn_rel_b.weight", buckets},                                 \
        {Role::feed_forward_norm, STACK ".blk.#.ffn_norm.weight"},                                        \
        {Role::gate, STACK ".blk.#.ffn_gate.weight"}, {Role::up, STACK ".blk.#.ffn_up.weight"}, {         \
        Role::down, STACK ".blk.#.ffn_down.weight"                                                        \
    }
constexpr TensorRow t5[] = {
    T5_ROWS("dec"),
    {Role::output, "output.weight"},
    {Role::cross_norm, "dec.blk.#.cross_attn_norm.weight"},
    {Role::cross_q, "dec.blk.#.cross_attn_q.weight"},
    {Role::cross_k, "dec.blk.#.cross_attn_k.weight"},
    {Role::cross_v, "dec.blk.#.cross_attn_v.weight"},
    {Role::cross_o, "dec.blk.#.cross_attn_o.weight"},
};
constexpr TensorRow t5_encoder[] = {T5_ROWS("enc")};
#undef T5_ROWS

/// Every token sees all others; the files hold no head.
void make_encoder(Reading& r) {
    r.architecture.has_head = false;
    see_both_sides(r.architecture);
    for (const char* known : {"pooling_type", "classifier.pooling_type"}) r.settings.understood(known);
}

void adjust_bert(Reading& r) {
    make_encoder(r);
    const StoredTensor* types = r.catalog.find("token_types.weight");
    if (types != nullptr && !types->shape.empty())
        r.architecture.token_types = static_cast<uint32_t>(types->shape[0]);
}

/// In every n-th layer, from the second on, experts stand instead of the feed-forward.
void adjust_nomic_bert_moe(Reading& r) {
    adjust_bert(r);
    const uint32_t every = r.settings.size("moe_every_n_layers", most_layers),
                   size = r.settings.size(Field::feed_forward, most_size);
    std::vector<Layer>& layers = r.architecture.layers;
    for (size_t i = 0; i < layers.size(); ++i)
        if (i % every != 1) make_dense(layers[i], size);
}

/// What was made for program code has norms of queries and keys and a second one after attention, and its
/// gates stand behind what they gate.
void adjust_jina_bert_v2(Reading& r) {
    adjust_bert(r);
    use_alibi(r);
    if (r.catalog.find("blk.0.attn_norm_2.weight") == nullptr) return;
    r.architecture.placement = NormPlacement::post_2;
    for (Layer& layer : r.architecture.layers) {
        layer.attention.qk_norm.group = QkNorm::Group::projection;
        layer.feed_forward.up_first = true;
    }
}

/// The window counts both sides.
void adjust_gemma_embedding(Reading& r) {
    make_encoder(r);
    for (Layer& layer : r.architecture.layers)
        if (uint32_t& window = layer.attention.window; window != 0) window = window / 2 + 1;
}

/// The window counts both sides; every n-th layer from the first on sees all. The first layer's norm is the
/// embedding's.
void adjust_modern_bert(Reading& r) {
    make_encoder(r);
    std::vector<Layer>& layers = r.architecture.layers;
    const uint32_t both = r.settings.size(Field::window, most_size),
                   every = r.settings.size("attention.sliding_window_pattern", most_layers, 3);
    for (size_t i = 0; i < layers.size(); ++i) layers[i].attention.window = i % every != 0 ? both / 2 + 1 : 0;
    layers.front().attention_norm = false;
    const char* field = "hidden_activation";
    const Activation activation = activation_named(r.settings, field, r.settings.text(field, "gelu"));
    for (Layer& layer : layers) layer.feed_forward.activation = activation;
}

/// Of both stacks. The distance where T5's buckets end and the scale of its output are not in the file:
/// llama.cpp takes 128 and 1.
void adjust_t5_layers(Reading& r, const char* gate) {
    Architecture& architecture = r.architecture;
    architecture.context = no_limit;  // relative positions go on past the length of training
    set_scale(architecture, 1);
    if (r.catalog.find(gate) != nullptr)
        for (Layer& layer : architecture.layers) {
            layer.feed_forward.gated = true;
            layer.feed_forward.activation = Activation::gelu_tanh;
        }
    r.settings.understood("attention.relative_buckets_count");  // the tensors say
}
constexpr uint32_t t5_distance = 128;

void adjust_t5(Reading& r) {
    const Settings& keys = r.settings;
    Architecture& architecture = r.architecture;
    adjust_t5_layers(r, "dec.blk.0.ffn_gate.weight");
    const uint32_t encoder_layers = static_cast<uint32_t>(architecture.layers.size());
    add_encoder(architecture, keys.size("decoder_block_count", most_layers, encoder_layers));
    use_buckets(architecture, t5_distance, false);
    use_buckets(architecture.encoder[0], t5_distance, true);
    architecture.decoder_start = keys.size("decoder_start_token_id", most_size, 0, 0);
}

void adjust_t5_encoder(Reading& r) {
    adjust_t5_layers(r, "enc.blk.0.ffn_gate.weight");
    make_encoder(r);
    use_buckets(r.architecture, t5_distance, true);
}

/// What all that are built as BERT have.
Family bert_like(Family family) {
    family.norm = NormKind::layer;
    family.norm_bias = true;
    family.placement = NormPlacement::post;
    family.output_norm = false;
    family.embedding_norm = true;
    return family;
}

}  // namespace

std::span<const Family> gguf_encoder_families() {
    static constexpr Routing plain_experts{};
    static constexpr ClassifierForm modern_classifier{
        .dense = "cls", .norm = "cls.norm", .labels = "cls.output", .activation = Activation::gelu};
    static const Family families[] = {
        bert_like({.name = "bert",
                   .tensors = {bert, gguf::common},
                   .qkv_bias = biased,
                   .o_bias = biased,
                   .rope = false,
                   .activation = Activation::gelu,
                   .gated = false,
                   .feed_forward_bias = biased,
                   .positions = true,
                   .adjust = adjust_bert}),
        bert_like({.name = "nomic-bert",
                   .tensors = {bert, gguf::common},
                   .rope_base = 1000,
                   .adjust = adjust_bert}),
        bert_like({.name = "nomic-bert-moe",
                   .tensors = {bert, gguf::experts, gguf::common},
                   .activation = Activation::gelu,
                   .gated = false,
                   .routing = &plain_experts,
                   .adjust = adjust_nomic_bert_moe}),
        bert_like({.name = "jina-bert-v2",
                   .tensors = {bert, gguf::fused_gate_up, gguf::common},
                   .rope = false,
                   .activation = Activation::gelu,
                   .adjust = adjust_jina_bert_v2}),
        bert_like({.name = "jina-bert-v3",
                   .tensors = {bert, gguf::common},
                   .activation = Activation::gelu,
                   .gated = false,
                   .adjust = adjust_bert}),
        {.name = "modern-bert",
         .tensors = {gguf::fused_gate_up, gguf::common},
         .norm = NormKind::layer,
         .rope_base = 160000,
         .local_rope_base = 10000,
         .window = {WindowRule::Layers::all},
         .activation = Activation::gelu,
         .embedding_norm = true,
         .classifier = &modern_classifier,
         .adjust = adjust_modern_bert},
        {.name = "neo-bert",
         .tensors = {neo_bert, gguf::fused_gate_up, gguf::common},
         .pairs = RopePairs::interleaved,
         .adjust = make_encoder},
        {.name = "eurobert", .tensors = {gguf::common}, .adjust = make_encoder},
        {.name = "llama-embed",  // q and k permuted as for llama
         .tensors = {gguf::common},
         .pairs = RopePairs::interleaved,
         .adjust = make_encoder},
        {.name = "gemma-embedding",
         .tensors = {gguf::common},
         .placement = NormPlacement::sandwich,
         .qk_norm = QkNorm::Group::head,
         .rope_base = 1e6,
         .local_rope_base = 1e4,
         .window = {WindowRule::Layers::not_every, 6},
         .activation = Activation::gelu_tanh,
         .root_embedding_scale = true,
         .adjust = adjust_gemma_embedding},
        {.name = "t5encoder",
         .tensors = {t5_encoder},
         .rope = false,
         .activation = Activation::relu,
         .gated = false,
         .adjust = adjust_t5_encoder},
        {.name = "t5",
         .tensors = {t5},
         .encoder_tensors = {t5_encoder},
         .rope = false,
         .activation = Activation::relu,
         .gated = false,
         .adjust = adjust_t5},
    };
    return families;
}

}  // namespace scoria
