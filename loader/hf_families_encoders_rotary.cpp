// Encoders whose heads rotate, and the decoder of the same kind. One row per family.
#include "hf_families.h"

#include "classifier.h"
#include "fail.h"
#include "family_parts.h"

namespace scoria {
namespace {

using enum Layout;

#define LAYER "model.transformer_encoder.#."
constexpr TensorRow neobert_rows[] = {
    {Role::token_embedding, "model.encoder.weight"},
    {Role::attention_norm, LAYER "attention_norm.weight"},
    {Role::q, LAYER "qkv.weight", qkv_grouped},
    {Role::k, LAYER "qkv.weight", qkv_grouped},
    {Role::v, LAYER "qkv.weight", qkv_grouped},
    {Role::o, LAYER "wo.weight"},
    {Role::feed_forward_norm, LAYER "ffn_norm.weight"},
    {Role::gate, LAYER "ffn.w12.weight", gate_up},
    {Role::up, LAYER "ffn.w12.weight", gate_up},
    {Role::down, LAYER "ffn.w3.weight"},
    {Role::output_norm, "model.layer_norm.weight"},
    {Role::output, "decoder.weight"},
    {Role::output_bias, "decoder.bias"},
};
#undef LAYER

#define LAYER "gte.encoder.layer.#."
constexpr TensorRow gte_rows[] = {
    {Role::token_embedding, "gte.embeddings.word_embeddings.weight"},
    {Role::token_type_embedding, "gte.embeddings.token_type_embeddings.weight"},
    {Role::embedding_norm, "gte.embeddings.LayerNorm.weight"},
    {Role::embedding_norm_bias, "gte.embeddings.LayerNorm.bias"},
    {Role::q, LAYER "attention.qkv_proj.weight", qkv},
    {Role::k, LAYER "attention.qkv_proj.weight", qkv},
    {Role::v, LAYER "attention.qkv_proj.weight", qkv},
    {Role::q_bias, LAYER "attention.qkv_proj.bias", qkv},
    {Role::k_bias, LAYER "attention.qkv_proj.bias", qkv},
    {Role::v_bias, LAYER "attention.qkv_proj.bias", qkv},
    {Role::o, LAYER "attention.o_proj.weight"},
    {Role::o_bias, LAYER "attention.o_proj.bias"},
    {Role::attention_post_norm, LAYER "attn_ln.weight"},
    {Role::attention_post_norm_bias, LAYER "attn_ln.bias"},
    {Role::gate, LAYER "mlp.up_gate_proj.weight", gate_up},
    {Role::up, LAYER "mlp.up_gate_proj.weight", gate_up},
    {Role::down, LAYER "mlp.down_proj.weight"},
    {Role::down_bias, LAYER "mlp.down_proj.bias"},
    {Role::feed_forward_post_norm, LAYER "mlp_ln.weight"},
    {Role::feed_forward_post_norm_bias, LAYER "mlp_ln.bias"},
    {Role::head_norm, "lm_head.norm.weight"},
    {Role::head_norm_bias, "lm_head.norm.bias"},
    // Of pack_qkv false.
    {Role::q, LAYER "attention.q_proj.weight"},
    {Role::k, LAYER "attention.k_proj.weight"},
    {Role::v, LAYER "attention.v_proj.weight"},
    {Role::q_bias, LAYER "attention.q_proj.bias"},
    {Role::k_bias, LAYER "attention.k_proj.bias"},
    {Role::v_bias, LAYER "attention.v_proj.bias"},
};
#undef LAYER

#define LAYER "nomic_bert.encoder.layers.#."
constexpr TensorRow nomic_bert_rows[] = {
    {Role::token_embedding, "nomic_bert.embeddings.word_embeddings.weight"},
    {Role::token_type_embedding, "nomic_bert.embeddings.token_type_embeddings.weight"},
    {Role::embedding_norm, "nomic_bert.emb_ln.weight"},
    {Role::embedding_norm_bias, "nomic_bert.emb_ln.bias"},
    {Role::q, LAYER "attn.Wqkv.weight", qkv},
    {Role::k, LAYER "attn.Wqkv.weight", qkv},
    {Role::v, LAYER "attn.Wqkv.weight", qkv},
    {Role::o, LAYER "attn.out_proj.weight"},
    {Role::attention_post_norm, LAYER "norm1.weight"},
    {Role::attention_post_norm_bias, LAYER "norm1.bias"},
    {Role::gate, LAYER "mlp.fc12.weight"},
    {Role::up, LAYER "mlp.fc11.weight"},
    {Role::down, LAYER "mlp.fc2.weight"},
    {Role::feed_forward_post_norm, LAYER "norm2.weight"},
    {Role::feed_forward_post_norm_bias, LAYER "norm2.bias"},
    {Role::head_norm, "cls.predictions.transform.layer_norm.weight"},
    {Role::head_norm_bias, "cls.predictions.transform.layer_norm.bias"},
};
#undef LAYER

#define LAYER "model.layers.#."
constexpr TensorRow modernbert_rows[] = {
    {Role::token_embedding, "model.embeddings.tok_embeddings.weight"},
    {Role::embedding_norm, "model.embeddings.norm.weight"},
    {Role::embedding_norm_bias, "model.embeddings.norm.bias"},
    {Role::attention_norm, LAYER "attn_norm.weight"},
    {Role::attention_norm_bias, LAYER "attn_norm.bias"},
    {Role::q, LAYER "attn.Wqkv.weight", qkv},
    {Role::k, LAYER "attn.Wqkv.weight", qkv},
    {Role::v, LAYER "attn.Wqkv.weight", qkv},
    {Role::q_bias, LAYER "attn.Wqkv.bias", qkv},
    {Role::k_bias, LAYER "attn.Wqkv.bias", qkv},
    {Role::v_bias, LAYER "attn.Wqkv.bias", qkv},
    {Role::o, LAYER "attn.Wo.weight"},
    {Role::o_bias, LAYER "attn.Wo.bias"},
    {Role::feed_forward_norm, LAYER "mlp_norm.weight"},
    {Role::feed_forward_norm_bias, LAYER "mlp_norm.bias"},
    {Role::gate, LAYER "mlp.Wi.weight", gate_up},
    {Role::up, LAYER "mlp.Wi.weight", gate_up},
    {Role::gate_bias, LAYER "mlp.Wi.bias", gate_up},
    {Role::up_bias, LAYER "mlp.Wi.bias", gate_up},
    {Role::down, LAYER "mlp.Wo.weight"},
    {Role::down_bias, LAYER "mlp.Wo.bias"},
    {Role::output_norm, "model.final_norm.weight"},
    {Role::output_norm_bias, "model.final_norm.bias"},
    {Role::head, "head.dense.weight"},
    {Role::head_bias, "head.dense.bias"},
    {Role::head_norm, "head.norm.weight"},
    {Role::head_norm_bias, "head.norm.bias"},
    {Role::output, "decoder.weight"},
    {Role::output_bias, "decoder.bias"},
};
constexpr TensorRow modernbert_decoder_rows[] = {
    {Role::q, LAYER "attn.q_proj.weight"},    {Role::q_bias, LAYER "attn.q_proj.bias"},
    {Role::k, LAYER "attn.k_proj.weight"},    {Role::k_bias, LAYER "attn.k_proj.bias"},
    {Role::v, LAYER "attn.v_proj.weight"},    {Role::v_bias, LAYER "attn.v_proj.bias"},
    {Role::head, "lm_head.dense.weight"},     {Role::head_bias, "lm_head.dense.bias"},
    {Role::head_norm, "lm_head.norm.weight"}, {Role::head_norm_bias, "lm_head.norm.bias"},
};
#undef LAYER

void adjust_eurobert(Reading& r) {
    see_both_sides(r.architecture);
    for (const char* ignored : {"classifier_pooling", "mask_token_id", "clf_pooling", "mask_token"})
        r.settings.understood(ignored);
}

/// Llama's layers, seeing both sides (NV-Embed's line); what says how to pool is read with its modules.
void adjust_llama_bidirec(Reading& r) {
    see_both_sides(r.architecture);
    for (const char* ignored : {"pooling", "temperature"}) r.settings.understood(ignored);
}

/// Le Breton et al. 2025. Of intermediate_size two thirds are there, as a multiple of 8.
void adjust_neobert(Reading& r) {
    see_both_sides(r.architecture);
    Architecture& architecture = r.architecture;
    architecture.has_head = r.catalog.find("decoder.weight") != nullptr;
    architecture.context = r.settings.size("max_length", most_size, 1024);
    const uint32_t whole = r.settings.size(Field::feed_forward, most_size);
    for (Layer& layer : architecture.layers)
        layer.feed_forward.size = static_cast<uint32_t>((uint64_t{whole} * 2 / 3 + 7) / 8 * 8);
    expect_text(r.settings, "hidden_act", "swiglu");
    for (const char* on : {"rms_norm", "rope", "swiglu_packed"}) expect_flag(r.settings, on, true, true);
    expect_flag(r.settings, "ngpt", false, false);
    for (const char* ignored :
         {"classifier_init_range", "decoder_init_range", "dim_head", "dropout", "embedding_init_range",
          "flash_attention", "kwargs", "max_position_embeddings"})
        r.settings.understood(ignored);
}

/// Zhang et al. 2024 (mGTE). Those of English texts alone may have no types of tokens.
void adjust_gte(Reading& r) {
    make_encoder(r, "lm_head.dense.weight", true);
    r.architecture.token_types = r.settings.size("type_vocab_size", most_size, 1, 0);
    for (Layer& layer : r.architecture.layers) layer.feed_forward.up_first = true;
    expect_text(r.settings, "position_embedding_type", "rope");
    expect_text(r.settings, "layer_norm_type", "layer_norm");
    expect_flag(r.settings, "logn_attention_scale", false, false);
    for (const char* ignored :
         {"logn_attention_clip1", "pack_qkv", "unpad_inputs", "use_memory_efficient_attention"})
        r.settings.understood(ignored);
}

/// What its published config says beside what its class reads has no other value there.
void adjust_nomic_bert(Reading& r) {
    make_encoder(r, "cls.predictions.transform.dense.weight", true);
    r.architecture.token_types = r.settings.size("type_vocab_size", most_size, 2);
    for (const char* off :
         {"causal", "mlp_fc1_bias", "mlp_fc2_bias", "parallel_block", "parallel_block_tied_norm", "prenorm",
          "qkv_proj_bias", "rotary_emb_interleaved", "scale_attn_by_inverse_layer_idx", "use_rms_norm"})
        expect_flag(r.settings, off, false, false);
    if (r.settings.positive("rotary_emb_fraction", 1.0) != 1) r.settings.wrong("rotary_emb_fraction", "1");
    for (const char* ignored :
         {"dense_seq_output", "fused_bias_fc", "fused_dropout_add_ln", "max_trained_positions",
          "pad_vocab_size_multiple", "use_flash_attn", "use_xentropy"})
        r.settings.understood(ignored);
}

/// The first layer's norm is the embedding's; layers with a window see `window` positions.
void read_modernbert(Reading& r, uint32_t window) {
    Architecture& architecture = r.architecture;
    expect_text(r.settings, "position_embedding_type", "absolute");
    architecture.norm.bias = r.settings.flag("norm_bias", false);
    architecture.head_activation = Activation::gelu;
    expect_text(r.settings, "classifier_activation", "gelu");
    for (const char* ignored :
         {"classifier_pooling", "deterministic_flash_attn", "initializer_cutoff_factor", "sparse_prediction",
          "sparse_pred_ignore_index", "decoder_bias", "norm_epsilon", "reference_compile",
          "repad_logits_with_grad", "embedding_dropout"})
        r.settings.understood(ignored);
    const uint32_t every = r.settings.size("global_attn_every_n_layers", most_layers, 3);
    const bool listed = r.settings.has("layer_types");
    for (size_t i = 0; i < architecture.layers.size(); ++i) {
        uint32_t& of_layer = architecture.layers[i].attention.window;
        of_layer = (listed ? of_layer != 0 : i % every != 0) ? window : 0;
    }
    architecture.layers.front().attention_norm = false;
}

uint32_t local_attention(const Reading& r) { return r.settings.size("local_attention", most_size, 128); }

/// local_attention counts both sides.
void adjust_modernbert(Reading& r) {
    make_encoder(r, "head.dense.weight", r.settings.flag("classifier_bias", false));
    read_modernbert(r, local_attention(r) / 2 + 1);
}

/// Of it half counts, the token itself among them (Weller et al. 2025, Ettin).
void adjust_modernbert_decoder(Reading& r) {
    if (local_attention(r) < 2) r.settings.wrong("local_attention", "at least 2");
    read_modernbert(r, local_attention(r) / 2);
    r.architecture.head_transform = true;
    r.architecture.head_bias = r.settings.flag("classifier_bias", false);
    r.settings.understood("sliding_window");
}

constexpr ClassifierForm gte_classifier{.dense = "gte.pooler.dense", .labels = "classifier"};
constexpr ClassifierForm modernbert_classifier{.dense = "head.dense",
                                               .norm = "head.norm",
                                               .labels = "classifier",
                                               .activation = Activation::gelu,
                                               .pooling = "classifier_pooling"},
    modernbert_decoder_classifier{
        .dense = "head.dense", .norm = "head.norm", .labels = "classifier", .activation = Activation::gelu};

Family modernbert(const char* name, decltype(Family::tensors) tensors, const ClassifierForm& classifier,
                  Adjust adjust) {
    return {.name = name,
            .tensors = tensors,
            .prefix = "model.",
            .norm = NormKind::layer,
            .qkv_bias = attention_bias,
            .o_bias = attention_bias,
            .rope_base = 160000,
            .local_rope_base = 10000,
            .window = {.layers = WindowRule::Layers::all, .otherwise = 128},
            .activation = Activation::gelu,
            .feed_forward_bias = mlp_bias,
            .embedding_norm = true,
            .output_bias = if_present,
            .classifier = &classifier,
            .adjust = adjust};
}

}  // namespace

std::span<const Family> rotary_encoder_families() {
    static const Family families[] = {
        {.name = "eurobert",
         .tensors = {hf::frame, hf::attention, hf::gated},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .feed_forward_bias = mlp_bias,
         .output_bias = if_present,
         .adjust = adjust_eurobert},
        {.name = "llama_bidirec",
         .tensors = {hf::frame, hf::attention, hf::gated},
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .feed_forward_bias = mlp_bias,
         .adjust = adjust_llama_bidirec},
        {.name = "gte",
         .tensors = {gte_rows, hf::roberta_head},
         .prefix = "gte.",
         .norm = NormKind::layer,
         .norm_bias = true,
         .placement = NormPlacement::post,
         .output_norm = false,
         .qkv_bias = biased,
         .o_bias = biased,
         .rope_base = 160000,
         .activation = Activation::gelu,
         .feed_forward_bias = if_present,
         .embedding_norm = true,
         .output_bias = if_present,
         .classifier = &gte_classifier,
         .adjust = adjust_gte},
        {.name = "neobert",
         .tensors = {neobert_rows},
         .context = 1024,
         .pairs = RopePairs::interleaved,
         .output_bias = if_present,
         .adjust = adjust_neobert},
        {.name = "nomic_bert",
         .tensors = {nomic_bert_rows, hf::bert_head},
         .prefix = "nomic_bert.",
         .norm = NormKind::layer,
         .norm_bias = true,
         .placement = NormPlacement::post,
         .output_norm = false,
         .rope_base = 1000,
         .embedding_norm = true,
         .output_bias = if_present,
         .adjust = adjust_nomic_bert},
        modernbert("modernbert", {modernbert_rows}, modernbert_classifier, adjust_modernbert),
        modernbert("modernbert-decoder", {modernbert_decoder_rows, modernbert_rows},
                   modernbert_decoder_classifier, adjust_modernbert_decoder),
    };
    return families;
}

}  // namespace scoria
