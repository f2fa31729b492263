// Encoders: BERT and its kin, with or without the head of a masked language model. One row per family.
#include "hf_families.h"

#include "fail.h"
#include "family_parts.h"

namespace scoria {
namespace {

using enum Layout;

// What BERT and RoBERTa have in common under names of their own.
#define BERT_ROWS(MODEL, POSITIONS)                                                                 \
    {Role::token_embedding, MODEL ".embeddings.word_embeddings.weight"},                            \
        {Role::position_embedding, MODEL ".embeddings.position_embeddings.weight", POSITIONS},      \
        {Role::token_type_embedding, MODEL ".embeddings.token_type_embeddings.weight"},             \
        {Role::embedding_norm, MODEL ".embeddings.LayerNorm.weight"},                               \
        {Role::embedding_norm_bias, MODEL ".embeddings.LayerNorm.bias"},                            \
        {Role::q, MODEL ".encoder.layer.#.attention.self.query.weight"},                            \
        {Role::q_bias, MODEL ".encoder.layer.#.attention.self.query.bias"},                         \
        {Role::k, MODEL ".encoder.layer.#.attention.self.key.weight"},                              \
        {Role::k_bias, MODEL ".encoder.layer.#.attention.self.key.bias"},                           \
        {Role::v, MODEL ".encoder.layer.#.attention.self.value.weight"},                            \
        {Role::v_bias, MODEL ".encoder.layer.#.attention.self.value.bias"},                         \
        {Role::o, MODEL ".encoder.layer.#.attention.output.dense.weight"},                          \
        {Role::o_bias, MODEL ".encoder.layer.#.attention.output.dense.bias"},                       \
        {Role::attention_post_norm, MODEL ".encoder.layer.#.attention.output.LayerNorm.weight"},    \
        {Role::attention_post_norm_bias, MODEL ".encoder.layer.#.attention.output.LayerNorm.bias"}, \
        {Role::up, MODEL ".encoder.layer.#.intermediate.dense.weight"},                             \
        {Role::up_bias, MODEL ".encoder.layer.#.intermediate.dense.bias"},                          \
        {Role::down, MODEL ".encoder.layer.#.output.dense.weight"},                                 \
        {Role::down_bias, MODEL ".encoder.layer.#.output.dense.bias"},                              \
        {Role::feed_forward_post_norm, MODEL ".encoder.layer.#.output.LayerNorm.weight"}, {         \
        Role::feed_forward_post_norm_bias, MODEL ".encoder.layer.#.output.LayerNorm.bias"           \
    }

constexpr TensorRow bert_rows[] = {
    BERT_ROWS("bert", as_is),
};
constexpr TensorRow bert_head_rows[] = {
    {Role::head, "cls.predictions.transform.dense.weight"},
    {Role::head_bias, "cls.predictions.transform.dense.bias"},
    {Role::head_norm, "cls.predictions.transform.LayerNorm.weight"},
    {Role::head_norm_bias, "cls.predictions.transform.LayerNorm.bias"},
    {Role::output, "cls.predictions.decoder.weight"},
    {Role::output_bias, "cls.predictions.decoder.bias"},  // of untied ones, which have both
    {Role::output_bias, "cls.predictions.bias"},
};
constexpr TensorRow lm_head_rows[] = {
    // RoBERTa's, and Longformer's
    {Role::head, "lm_head.dense.weight"},
    {Role::head_bias, "lm_head.dense.bias"},
    {Role::head_norm, "lm_head.layer_norm.weight"},
    {Role::head_norm_bias, "lm_head.layer_norm.bias"},
    {Role::output, "lm_head.decoder.weight"},
    {Role::output_bias, "lm_head.decoder.bias"},
    {Role::output_bias, "lm_head.bias"},
};
constexpr TensorRow roberta_rows[] = {
    BERT_ROWS("roberta", positions),
};
#define SELF "longformer.encoder.layer.#.attention.self."
constexpr TensorRow longformer_rows[] = {
    BERT_ROWS("longformer", positions),
    {Role::global_q, SELF "query_global.weight"},
    {Role::global_q_bias, SELF "query_global.bias"},
    {Role::global_k, SELF "key_global.weight"},
    {Role::global_k_bias, SELF "key_global.bias"},
    {Role::global_v, SELF "value_global.weight"},
    {Role::global_v_bias, SELF "value_global.bias"},
};
#undef SELF
#undef BERT_ROWS

#define LAYER "bert.encoder.layer.#."
constexpr TensorRow jina_bert_v2_rows[] = {
    {Role::gate, LAYER "mlp.gated_layers.weight", gate_up},
    {Role::up, LAYER "mlp.gated_layers.weight", gate_up},
    {Role::down, LAYER "mlp.wo.weight"},
    {Role::down_bias, LAYER "mlp.wo.bias"},
    {Role::feed_forward_post_norm, LAYER "mlp.layernorm.weight"},
    {Role::feed_forward_post_norm_bias, LAYER "mlp.layernorm.bias"},
    // That for program code.
    {Role::q_norm, LAYER "attention.self.layer_norm_q.weight"},
    {Role::q_norm_bias, LAYER "attention.self.layer_norm_q.bias"},
    {Role::k_norm, LAYER "attention.self.layer_norm_k.weight"},
    {Role::k_norm_bias, LAYER "attention.self.layer_norm_k.bias"},
    {Role::attention_post_norm_2, LAYER "layer_norm_1.weight"},
    {Role::attention_post_norm_2_bias, LAYER "layer_norm_1.bias"},
    {Role::gate, LAYER "mlp.up_gated_layer.weight", gate_up},
    {Role::up, LAYER "mlp.up_gated_layer.weight", gate_up},
    {Role::down, LAYER "mlp.down_layer.weight"},
    {Role::down_bias, LAYER "mlp.down_layer.bias"},
    {Role::feed_forward_post_norm, LAYER "layer_norm_2.weight"},
    {Role::feed_forward_post_norm_bias, LAYER "layer_norm_2.bias"},
};
#undef LAYER
#define LAYER "roberta.encoder.layers.#."
constexpr TensorRow jina_v3_rows[] = {
    {Role::token_embedding, "roberta.embeddings.word_embeddings.weight"},
    {Role::token_type_embedding, "roberta.embeddings.token_type_embeddings.weight"},
    {Role::embedding_norm, "roberta.emb_ln.weight"},
    {Role::embedding_norm_bias, "roberta.emb_ln.bias"},
    {Role::q, LAYER "mixer.Wqkv.weight", qkv},
    {Role::q_bias, LAYER "mixer.Wqkv.bias", qkv},
    {Role::k, LAYER "mixer.Wqkv.weight", qkv},
    {Role::k_bias, LAYER "mixer.Wqkv.bias", qkv},
    {Role::v, LAYER "mixer.Wqkv.weight", qkv},
    {Role::v_bias, LAYER "mixer.Wqkv.bias", qkv},
    {Role::o, LAYER "mixer.out_proj.weight"},
    {Role::o_bias, LAYER "mixer.out_proj.bias"},
    {Role::attention_post_norm, LAYER "norm1.weight"},
    {Role::attention_post_norm_bias, LAYER "norm1.bias"},
    {Role::up, LAYER "mlp.fc1.weight"},
    {Role::up_bias, LAYER "mlp.fc1.bias"},
    {Role::down, LAYER "mlp.fc2.weight"},
    {Role::down_bias, LAYER "mlp.fc2.bias"},
    {Role::feed_forward_post_norm, LAYER "norm2.weight"},
    {Role::feed_forward_post_norm_bias, LAYER "norm2.bias"},
};
#undef LAYER
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
#undef LAYER

/// Every token sees all others; `head` is the tensor that only a masked language model has.
void make_encoder(Reading& r, const char* head, bool head_bias) {
    Architecture& architecture = r.architecture;
    see_both_sides(r.architecture);
    architecture.has_head = architecture.head_transform = r.catalog.find(head) != nullptr;
    architecture.head_bias = architecture.has_head && head_bias;
    architecture.head_activation = architecture.layers.front().feed_forward.activation;
    expect_flag(r.settings, "is_decoder", false, false);
    expect_flag(r.settings, "add_cross_attention", false, false);
}

void adjust_bert(Reading& r) {
    make_encoder(r, "cls.predictions.transform.dense.weight", true);
    r.architecture.token_types = r.settings.size("type_vocab_size", most_size, 2);
    expect_text(r.settings, "position_embedding_type", "absolute");
}

/// Günther et al. 2023. Its model_type is BERT's (hf_text_part.cpp).
void adjust_jina_bert_v2(Reading& r) {
    make_encoder(r, "cls.predictions.transform.dense.weight", true);
    Architecture& architecture = r.architecture;
    architecture.token_types = r.settings.size("type_vocab_size", most_size, 2);
    use_alibi(r);
    const std::string glu = r.settings.text("feed_forward_type", "original");
    if (glu != "geglu" && glu != "reglu") r.settings.wrong("feed_forward_type", "geglu or reglu");
    r.settings.understood("hidden_act");  // of feed-forwards without a gate
    const bool of_code = r.catalog.find("bert.encoder.layer.0.layer_norm_1.weight") != nullptr;
    if (of_code) architecture.placement = NormPlacement::post_2;
    for (Layer& layer : architecture.layers) {
        layer.feed_forward.activation = glu == "geglu" ? Activation::gelu : Activation::relu;
        layer.feed_forward.up_first = of_code;
        if (of_code) layer.attention.qk_norm.group = QkNorm::Group::projection;
    }
    for (const char* ignored : {"position_embedding_type", "emb_pooler", "attn_implementation",
                                "model_max_length", "use_flash_attn"})
        r.settings.understood(ignored);
}

void adjust_jina_v3(Reading& r) {
    make_encoder(r, "lm_head.dense.weight", true);
    r.architecture.head_activation = Activation::gelu;
    r.architecture.token_types = r.settings.size("type_vocab_size", most_size, 1);
}

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

/// Positions are counted from pad_token_id + 1 on. The head has its own activation.
void adjust_roberta(Reading& r) {
    make_encoder(r, "lm_head.dense.weight", true);
    r.architecture.head_activation = Activation::gelu;
    r.architecture.token_types = r.settings.size("type_vocab_size", most_size, 1);
    expect_text(r.settings, "position_embedding_type", "absolute");
    Architecture& architecture = r.architecture;
    architecture.rows_before_positions = r.settings.size("pad_token_id", most_size, 1, 0) + 1;
    if (architecture.context <= architecture.rows_before_positions)
        r.settings.wrong("max_position_embeddings", "more than pad_token_id + 1");
    architecture.positions = architecture.context -= architecture.rows_before_positions;
}

/// Beltagy et al. 2020. attention_window, one for all layers or a list, counts both sides.
void adjust_longformer(Reading& r) {
    adjust_roberta(r);
    use_global_tokens(r.settings, r.architecture);
    r.settings.understood("onnx_export");
}

/// local_attention counts both sides. The first layer's norm is the embedding's.
void adjust_modernbert(Reading& r) {
    make_encoder(r, "head.dense.weight", r.settings.flag("classifier_bias", false));
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
    const uint32_t local = r.settings.size("local_attention", most_size, 128),
                   every = r.settings.size("global_attn_every_n_layers", most_layers, 3);
    const bool listed = r.settings.has("layer_types");
    for (size_t i = 0; i < architecture.layers.size(); ++i) {
        uint32_t& window = architecture.layers[i].attention.window;
        if (listed ? window != 0 : i % every != 0)
            window = local / 2 + 1;
        else
            window = 0;
    }
    architecture.layers.front().attention_norm = false;
}

Family bert_like(const char* name, std::span<const TensorRow> rows, std::span<const TensorRow> head,
                 const char* prefix, Adjust adjust) {
    return {.name = name,
            .tensors = {rows, head},
            .prefix = prefix,
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
            .output_bias = if_present,
            .adjust = adjust};
}

}  // namespace

void use_global_tokens(const Settings& settings, Architecture& encoder) {
    const char* name = "attention_window";
    const nlohmann::json* given = settings.find(name);
    const bool listed = given != nullptr && given->is_array();
    const std::vector<double> windows = listed ? settings.numbers(name) : std::vector<double>{};
    if (listed && windows.size() != encoder.layers.size())
        settings.wrong(name, cat(encoder.layers.size(), " numbers"));
    for (size_t i = 0; i < encoder.layers.size(); ++i) {
        const double both = listed ? windows[i] : settings.size(name, most_size, 512);
        if (!(both >= 2 && both <= double(most_size))) settings.wrong(name, "windows from 2 to 2^28");
        Attention& attention = encoder.layers[i].attention;
        attention.mask = Mask::global_keys;
        attention.window = static_cast<uint32_t>(both) / 2 + 1;
        attention.global_tokens = true;
    }
}

std::span<const Family> encoder_families() {
    static const Family families[] = {
        bert_like("bert", bert_rows, bert_head_rows, "bert.", adjust_bert),
        bert_like("roberta", roberta_rows, lm_head_rows, "roberta.", adjust_roberta),
        bert_like("xlm-roberta", roberta_rows, lm_head_rows, "roberta.", adjust_roberta),
        bert_like("longformer", longformer_rows, lm_head_rows, "longformer.", adjust_longformer),
        {.name = "jina_bert_v2",
         .tensors = {bert_rows, jina_bert_v2_rows, bert_head_rows},
         .prefix = "bert.",
         .norm = NormKind::layer,
         .norm_bias = true,
         .placement = NormPlacement::post,
         .output_norm = false,
         .qkv_bias = biased,
         .o_bias = biased,
         .rope = false,
         .feed_forward_bias = if_present,
         .embedding_norm = true,
         .output_bias = if_present,
         .adjust = adjust_jina_bert_v2},
        {.name = "jina_embeddings_v3",
         .tensors = {jina_v3_rows, lm_head_rows},
         .prefix = "roberta.",
         .norm = NormKind::layer,
         .norm_bias = true,
         .placement = NormPlacement::post,
         .output_norm = false,
         .qkv_bias = biased,
         .o_bias = biased,
         .rope_base = 20000,
         .activation = Activation::gelu,
         .gated = false,
         .feed_forward_bias = biased,
         .embedding_norm = true,
         .output_bias = if_present,
         .adjust = adjust_jina_v3},
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
        {.name = "neobert",
         .tensors = {neobert_rows},
         .context = 1024,
         .pairs = RopePairs::interleaved,
         .output_bias = if_present,
         .adjust = adjust_neobert},
        {.name = "nomic_bert",
         .tensors = {nomic_bert_rows, bert_head_rows},
         .prefix = "nomic_bert.",
         .norm = NormKind::layer,
         .norm_bias = true,
         .placement = NormPlacement::post,
         .output_norm = false,
         .rope_base = 1000,
         .embedding_norm = true,
         .output_bias = if_present,
         .adjust = adjust_nomic_bert},
        {.name = "modernbert",
         .tensors = {modernbert_rows},
         .prefix = "model.",
         .norm = NormKind::layer,
         .qkv_bias = attention_bias,
         .o_bias = attention_bias,
         .rope_base = 160000,
         .local_rope_base = 10000,
         .window = {WindowRule::Layers::all},
         .activation = Activation::gelu,
         .feed_forward_bias = mlp_bias,
         .embedding_norm = true,
         .output_bias = if_present,
         .adjust = adjust_modernbert},
    };
    return families;
}

}  // namespace scoria
