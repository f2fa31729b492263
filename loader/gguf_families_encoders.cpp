// The families of GGUF files that have an encoder: BERT, ModernBERT, T5.
#include "gguf_families.h"

#include "fail.h"

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
    for (Layer& layer : r.architecture.layers) layer.attention.mask = Mask::bidirectional;
    for (const char* known : {"pooling_type", "classifier.pooling_type"}) r.settings.understood(known);
}

void adjust_bert(Reading& r) {
    make_encoder(r);
    const StoredTensor* types = r.catalog.find("token_types.weight");
    if (types != nullptr && !types->shape.empty())
        r.architecture.token_types = static_cast<uint32_t>(types->shape[0]);
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
    if (const std::string name = r.settings.text("hidden_activation", "gelu"); name != "gelu")
        r.settings.wrong("hidden_activation", "gelu");
}

/// The distance where T5's buckets end and the scale of its output are not in the file: llama.cpp takes 128
/// and 1.
void adjust_t5(Reading& r) {
    const Settings& keys = r.settings;
    Architecture& architecture = r.architecture;
    architecture.context = 1 << 20;  // relative positions go on past the length of training
    set_scale(architecture, 1);
    if (r.catalog.find("dec.blk.0.ffn_gate.weight") != nullptr)
        for (Layer& layer : architecture.layers) {
            layer.feed_forward.gated = true;
            layer.feed_forward.activation = Activation::gelu_tanh;
        }
    const uint32_t encoder_layers = static_cast<uint32_t>(architecture.layers.size());
    add_encoder(architecture, keys.size("decoder_block_count", most_layers, encoder_layers));
    use_buckets(architecture, 128, false);
    use_buckets(architecture.encoder[0], 128, true);
    keys.understood("attention.relative_buckets_count");  // the tensors say
    architecture.decoder_start = keys.size("decoder_start_token_id", most_size, 0, 0);
}

}  // namespace

std::span<const Family> gguf_encoder_families() {
    static const Family families[] = {
        {.name = "bert",
         .tensors = {bert, gguf::common},
         .norm = NormKind::layer,
         .norm_bias = true,
         .placement = NormPlacement::post,
         .output_norm = false,
         .qkv_bias = biased,
         .o_bias = biased,
         .rope = false,
         .activation = Activation::gelu,
         .gated = false,
         .feed_forward_bias = biased,
         .positions = true,
         .embedding_norm = true,
         .adjust = adjust_bert},
        {.name = "nomic-bert",
         .tensors = {bert, gguf::common},
         .norm = NormKind::layer,
         .norm_bias = true,
         .placement = NormPlacement::post,
         .output_norm = false,
         .rope_base = 1000,
         .embedding_norm = true,
         .adjust = adjust_bert},
        {.name = "modern-bert",
         .tensors = {gguf::fused_gate_up, gguf::common},
         .norm = NormKind::layer,
         .rope_base = 160000,
         .local_rope_base = 10000,
         .window = {WindowRule::Layers::all},
         .activation = Activation::gelu,
         .embedding_norm = true,
         .adjust = adjust_modern_bert},
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
