// Encoders: BERT and its kin, with or without the head of a masked language model. One row per family.
#include "hf_families.h"

#include "classifier.h"
#include "fail.h"
#include "family_parts.h"

#include <algorithm>
#include <cmath>
#include <memory>

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
    {Role::embedding_in, "bert.embeddings_project.weight"},
    {Role::embedding_in_bias, "bert.embeddings_project.bias"},
    {Role::head, "cls.predictions.transform.dense.weight"},
    {Role::head_bias, "cls.predictions.transform.dense.bias"},
    {Role::head_norm, "cls.predictions.transform.LayerNorm.weight"},
    {Role::head_norm_bias, "cls.predictions.transform.LayerNorm.bias"},
    {Role::output, "cls.predictions.decoder.weight"},
    {Role::output_bias, "cls.predictions.decoder.bias"},  // of untied ones, which have both
    {Role::output_bias, "cls.predictions.bias"},
};
constexpr TensorRow electra_head_rows[] = {
    {Role::embedding_in, "bert.embeddings_project.weight"},
    {Role::embedding_in_bias, "bert.embeddings_project.bias"},
    {Role::head, "generator_predictions.dense.weight"},
    {Role::head_bias, "generator_predictions.dense.bias"},
    {Role::head_norm, "generator_predictions.LayerNorm.weight"},
    {Role::head_norm_bias, "generator_predictions.LayerNorm.bias"},
    {Role::output, "generator_lm_head.weight"},
    {Role::output_bias, "generator_lm_head.bias"},
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
#define LAYER "roberta.encoder.layer.#."
constexpr TensorRow roberta_pre_rows[] = {
    // XLM-RoBERTa-XL's, and RoBERTa-PreLayerNorm's
    {Role::attention_norm, LAYER "attention.self_attn_layer_norm.weight"},
    {Role::attention_norm_bias, LAYER "attention.self_attn_layer_norm.bias"},
    {Role::attention_norm, LAYER "attention.LayerNorm.weight"},
    {Role::attention_norm_bias, LAYER "attention.LayerNorm.bias"},
    {Role::feed_forward_norm, LAYER "LayerNorm.weight"},
    {Role::feed_forward_norm_bias, LAYER "LayerNorm.bias"},
    {Role::feed_forward_norm, LAYER "intermediate.LayerNorm.weight"},
    {Role::feed_forward_norm_bias, LAYER "intermediate.LayerNorm.bias"},
    {Role::output_norm, "roberta.encoder.LayerNorm.weight"},
    {Role::output_norm_bias, "roberta.encoder.LayerNorm.bias"},
    {Role::output_norm, "roberta.LayerNorm.weight"},
    {Role::output_norm_bias, "roberta.LayerNorm.bias"},
};
#undef LAYER
#define LAYER "bert.encoder.layer.#."
constexpr TensorRow megatron_bert_rows[] = {
    {Role::attention_norm, LAYER "attention.ln.weight"},
    {Role::attention_norm_bias, LAYER "attention.ln.bias"},
    {Role::feed_forward_norm, LAYER "ln.weight"},
    {Role::feed_forward_norm_bias, LAYER "ln.bias"},
    {Role::output_norm, "bert.encoder.ln.weight"},
    {Role::output_norm_bias, "bert.encoder.ln.bias"},
};
#undef LAYER
#define LAYER "distilbert.transformer.layer.#."
constexpr TensorRow distilbert_rows[] = {
    {Role::token_embedding, "distilbert.embeddings.word_embeddings.weight"},
    {Role::position_embedding, "distilbert.embeddings.position_embeddings.weight"},
    {Role::embedding_norm, "distilbert.embeddings.LayerNorm.weight"},
    {Role::embedding_norm_bias, "distilbert.embeddings.LayerNorm.bias"},
    {Role::q, LAYER "attention.q_lin.weight"},
    {Role::q_bias, LAYER "attention.q_lin.bias"},
    {Role::k, LAYER "attention.k_lin.weight"},
    {Role::k_bias, LAYER "attention.k_lin.bias"},
    {Role::v, LAYER "attention.v_lin.weight"},
    {Role::v_bias, LAYER "attention.v_lin.bias"},
    {Role::o, LAYER "attention.out_lin.weight"},
    {Role::o_bias, LAYER "attention.out_lin.bias"},
    {Role::attention_post_norm, LAYER "sa_layer_norm.weight"},
    {Role::attention_post_norm_bias, LAYER "sa_layer_norm.bias"},
    {Role::up, LAYER "ffn.lin1.weight"},
    {Role::up_bias, LAYER "ffn.lin1.bias"},
    {Role::down, LAYER "ffn.lin2.weight"},
    {Role::down_bias, LAYER "ffn.lin2.bias"},
    {Role::feed_forward_post_norm, LAYER "output_layer_norm.weight"},
    {Role::feed_forward_post_norm_bias, LAYER "output_layer_norm.bias"},
};
#undef LAYER
constexpr TensorRow distilbert_head_rows[] = {
    {Role::head, "vocab_transform.weight"},       {Role::head_bias, "vocab_transform.bias"},
    {Role::head_norm, "vocab_layer_norm.weight"}, {Role::head_norm_bias, "vocab_layer_norm.bias"},
    {Role::output, "vocab_projector.weight"},     {Role::output_bias, "vocab_projector.bias"},
};
// All layers have the weights of one.
#define LAYER "albert.encoder.albert_layer_groups.0.albert_layers.0."
constexpr TensorRow albert_rows[] = {
    {Role::token_embedding, "albert.embeddings.word_embeddings.weight"},
    {Role::position_embedding, "albert.embeddings.position_embeddings.weight"},
    {Role::token_type_embedding, "albert.embeddings.token_type_embeddings.weight"},
    {Role::embedding_norm, "albert.embeddings.LayerNorm.weight"},
    {Role::embedding_norm_bias, "albert.embeddings.LayerNorm.bias"},
    {Role::embedding_in, "albert.encoder.embedding_hidden_mapping_in.weight"},
    {Role::embedding_in_bias, "albert.encoder.embedding_hidden_mapping_in.bias"},
    {Role::q, LAYER "attention.query.weight"},
    {Role::q_bias, LAYER "attention.query.bias"},
    {Role::k, LAYER "attention.key.weight"},
    {Role::k_bias, LAYER "attention.key.bias"},
    {Role::v, LAYER "attention.value.weight"},
    {Role::v_bias, LAYER "attention.value.bias"},
    {Role::o, LAYER "attention.dense.weight"},
    {Role::o_bias, LAYER "attention.dense.bias"},
    {Role::attention_post_norm, LAYER "attention.LayerNorm.weight"},
    {Role::attention_post_norm_bias, LAYER "attention.LayerNorm.bias"},
    {Role::up, LAYER "ffn.weight"},
    {Role::up_bias, LAYER "ffn.bias"},
    {Role::down, LAYER "ffn_output.weight"},
    {Role::down_bias, LAYER "ffn_output.bias"},
    {Role::feed_forward_post_norm, LAYER "full_layer_layer_norm.weight"},
    {Role::feed_forward_post_norm_bias, LAYER "full_layer_layer_norm.bias"},
};
#undef LAYER
constexpr TensorRow albert_head_rows[] = {
    {Role::head, "predictions.dense.weight"},          {Role::head_bias, "predictions.dense.bias"},
    {Role::head_norm, "predictions.LayerNorm.weight"}, {Role::head_norm_bias, "predictions.LayerNorm.bias"},
    {Role::output, "predictions.decoder.weight"},      {Role::output_bias, "predictions.decoder.bias"},
    {Role::output_bias, "predictions.bias"},
};
#define LAYER "mpnet.encoder.layer.#."
constexpr TensorRow mpnet_rows[] = {
    BERT_ROWS("mpnet", positions),
    {Role::q, LAYER "attention.attn.q.weight"},
    {Role::q_bias, LAYER "attention.attn.q.bias"},
    {Role::k, LAYER "attention.attn.k.weight"},
    {Role::k_bias, LAYER "attention.attn.k.bias"},
    {Role::v, LAYER "attention.attn.v.weight"},
    {Role::v_bias, LAYER "attention.attn.v.bias"},
    {Role::o, LAYER "attention.attn.o.weight"},
    {Role::o_bias, LAYER "attention.attn.o.bias"},
    {Role::attention_post_norm, LAYER "attention.LayerNorm.weight"},
    {Role::attention_post_norm_bias, LAYER "attention.LayerNorm.bias"},
    {Role::position_bias, "mpnet.encoder.relative_attention_bias.weight", buckets},
};
#undef LAYER
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
#define LAYER "deberta.encoder.layer.#.attention."
constexpr TensorRow deberta_rows[] = {
    BERT_ROWS("deberta", as_is),
    {Role::q, LAYER "self.query_proj.weight"},
    {Role::q_bias, LAYER "self.query_proj.bias"},
    {Role::k, LAYER "self.key_proj.weight"},
    {Role::k_bias, LAYER "self.key_proj.bias"},
    {Role::v, LAYER "self.value_proj.weight"},
    {Role::v_bias, LAYER "self.value_proj.bias"},
};
#undef LAYER
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

/// As make_encoder(). These classes have as many heads of keys and values as of queries.
void make_bert(Reading& r, const char* head) {
    make_encoder(r, head, true);
    const Attention& attention = r.architecture.layers.front().attention;
    if (attention.kv_heads != attention.heads)
        r.settings.wrong(r.settings.name_of(Field::kv_heads), "as many as heads of queries");
}

void adjust_bert(Reading& r) {
    make_bert(r, "cls.predictions.transform.dense.weight");
    r.architecture.token_types = r.settings.size("type_vocab_size", most_size, 2);
    expect_text(r.settings, "position_embedding_type", "absolute");
}

/// Sun et al. 2019; without embeddings of tasks, which its third version added.
void adjust_ernie(Reading& r) {
    adjust_bert(r);
    expect_flag(r.settings, "use_task_id", false, false);
    for (const char* ignored : {"task_type_vocab_size", "task_id"}) r.settings.understood(ignored);
}

/// Embeddings of `otherwise` columns, where the file does not say, are projected behind their norm.
void read_embedding_size(Reading& r, uint32_t otherwise, bool always) {
    const uint32_t size = r.settings.size("embedding_size", most_size, otherwise);
    if (!always && size == r.architecture.hidden) return;
    r.architecture.embedding = size;
    r.architecture.projects_last = true;
}

/// Su et al. 2021.
void adjust_roformer(Reading& r) {
    adjust_bert(r);
    read_embedding_size(r, r.architecture.hidden, false);
    expect_flag(r.settings, "rotary_value", false, false);
}

/// Clark et al. 2020. Generators alone have a head of tokens.
void adjust_electra(Reading& r) {
    adjust_bert(r);
    make_bert(r, "generator_predictions.dense.weight");
    r.architecture.head_activation = Activation::gelu;
    read_embedding_size(r, 128, false);
}

/// Lan et al. 2020.
void adjust_albert(Reading& r) {
    adjust_bert(r);
    make_bert(r, "predictions.dense.weight");
    read_embedding_size(r, 128, true);
    for (const char* one : {"num_hidden_groups", "inner_group_num"})
        if (r.settings.size(one, most_layers, 1) != 1) r.settings.wrong(one, "1");
    for (const char* ignored : {"net_structure_type", "num_memory_blocks", "gap_size", "down_scale_factor"})
        r.settings.understood(ignored);
}

/// Günther et al. 2023. Its model_type is BERT's (hf_text_part.cpp).
void adjust_jina_bert_v2(Reading& r) {
    make_bert(r, "cls.predictions.transform.dense.weight");
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
    make_bert(r, "lm_head.dense.weight");
    r.architecture.head_activation = Activation::gelu;
    r.architecture.token_types = r.settings.size("type_vocab_size", most_size, 1);
}

/// Positions are counted from pad_token_id + 1 on. The head has its own activation.
void adjust_roberta(Reading& r) {
    make_bert(r, "lm_head.dense.weight");
    r.architecture.head_activation = Activation::gelu;
    r.architecture.token_types = r.settings.size("type_vocab_size", most_size, 1);
    expect_text(r.settings, "position_embedding_type", "absolute");
    Architecture& architecture = r.architecture;
    architecture.rows_before_positions = r.settings.size("pad_token_id", most_size, 1, 0) + 1;
    if (architecture.context <= architecture.rows_before_positions)
        r.settings.wrong("max_position_embeddings", "more than pad_token_id + 1");
    architecture.positions = architecture.context -= architecture.rows_before_positions;
}

/// Sanh et al. 2019.
void adjust_distilbert(Reading& r) {
    make_bert(r, "vocab_transform.weight");
    for (const char* ignored : {"sinusoidal_pos_embds", "tie_weights_"}) r.settings.understood(ignored);
}

/// Song et al. 2020: T5's buckets beside positions, which are counted from 2 on.
void adjust_mpnet(Reading& r) {
    adjust_roberta(r);
    Architecture& architecture = r.architecture;
    architecture.token_types = 0;
    if (architecture.rows_before_positions != 2) r.settings.wrong("pad_token_id", "1");
    if (r.settings.size("relative_attention_num_buckets", most_size, 32) != 32)
        r.settings.wrong("relative_attention_num_buckets", "32");
    use_buckets(architecture, 128, true);
}

/// Beltagy et al. 2020. attention_window, one for all layers or a list, counts both sides.
void adjust_longformer(Reading& r) {
    adjust_roberta(r);
    use_global_tokens(r.settings, r.architecture);
    r.settings.understood("onnx_export");
}

const StoredTensor& taken(Catalog& catalog, const std::string& name, const std::vector<uint64_t>& shape) {
    const StoredTensor* const tensor = catalog.take(name);
    if (tensor == nullptr || tensor->shape != shape || tensor_type_info(tensor->type).block != 1)
        fail(Status::bad_file, catalog.format(), "tensor ", name, ": expected floats ", shape_text(shape),
             ", got ", tensor == nullptr ? "none" : shape_text(tensor->shape));
    return *tensor;
}

/// The embeddings of relative positions, normed, [rows, hidden].
std::vector<double> relative_embeddings(Reading& r, uint64_t rows, bool normed) {
    const uint64_t hidden = r.architecture.hidden;
    const auto floats = [&](const char* name, const std::vector<uint64_t>& shape) {
        return r.source.floats(taken(r.catalog, name, shape));
    };
    const std::vector<float> stored = floats("deberta.encoder.rel_embeddings.weight", {rows, hidden});
    std::vector<double> values(stored.begin(), stored.end());
    if (!normed) return values;
    const std::vector<float> weight = floats("deberta.encoder.LayerNorm.weight", {hidden}),
                             bias = floats("deberta.encoder.LayerNorm.bias", {hidden});
    for (auto row = values.begin(); row != values.end(); row += std::ptrdiff_t(hidden)) {
        const std::span<double> all(row, hidden);
        double mean = 0, variance = 0;
        for (const double x : all) mean += x / double(hidden);
        for (const double x : all) variance += (x - mean) * (x - mean) / double(hidden);
        const double scale = 1 / std::sqrt(variance + double(r.architecture.norm.epsilon));
        for (size_t i = 0; i < hidden; ++i) all[i] = (all[i] - mean) * scale * weight[i] + bias[i];
    }
    return values;
}

/// He et al. 2021. Keys and queries of relative positions are those of the layer, of embeddings that all
/// share.
void adjust_deberta(Reading& r) {
    make_bert(r, "cls.predictions.transform.dense.weight");
    Architecture& architecture = r.architecture;
    const Settings& settings = r.settings;
    architecture.token_types = settings.size("type_vocab_size", most_size, 0, 0);
    for (const char* on : {"relative_attention", "share_att_key"}) expect_flag(settings, on, true, false);
    expect_flag(settings, "position_biased_input", false, true);
    if (settings.size("conv_kernel_size", most_size, 0, 0) != 0) settings.wrong("conv_kernel_size", "0");
    if (settings.size("embedding_size", most_size, architecture.hidden) != architecture.hidden)
        settings.wrong("embedding_size", "hidden_size");
    const nlohmann::json* const terms = settings.find("pos_att_type");
    for (const char* term : {"c2p", "p2c"})
        if (terms == nullptr || terms->dump().find(term) == std::string::npos)
            settings.wrong("pos_att_type", "c2p and p2c");
    const std::string norm = settings.text("norm_rel_ebd", "none");
    if (norm != "none" && norm != "layer_norm") settings.wrong("norm_rel_ebd", "none or layer_norm");
    expect_text(settings, "pooler_hidden_act", "gelu");
    for (const char* ignored : {"conv_act", "conv_groups", "pooler_dropout", "pooler_hidden_size", "legacy"})
        settings.understood(ignored);

    const auto or_none = [&](const char* name, uint32_t otherwise, uint64_t most) {
        const nlohmann::json* const given = settings.find(name);
        return given != nullptr && *given == -1 ? otherwise : settings.size(name, most, otherwise);
    };
    constexpr uint64_t most_distances = 1 << 12;
    const uint32_t far = or_none("max_relative_positions", architecture.context, most_distances),
                   buckets = or_none("position_buckets", 0, most_distances), span = buckets ? buckets : far;
    if (far > most_distances) settings.wrong("max_relative_positions", cat("at most ", most_distances));
    if (buckets != 0 && (buckets < 2 || far < buckets / 2 + 2))
        settings.wrong("position_buckets", "2 to less than twice max_relative_positions");
    check_table(settings, "max_relative_positions", 4 * uint64_t{far} + 2, architecture.hidden);
    const auto embeddings = std::make_shared<const std::vector<double>>(
        relative_embeddings(r, 2 * uint64_t{span}, norm != "none"));
    const std::vector<uint32_t> columns = signed_buckets(far, span, buckets, far);
    for (size_t i = 0; i < architecture.layers.size(); ++i) {
        Attention& attention = architecture.layers[i].attention;
        attention.bias = PositionBias::by_pair;
        attention.bias_span = far + 1;
        attention.scale = 1 / std::sqrt(3 * float(attention.head_dim));
        const uint64_t hidden = architecture.hidden, outputs = uint64_t{attention.heads} * attention.head_dim;
        r.synthesised[{Role::distance_k, int32_t(i)}] = [=, &catalog = r.catalog, &source = r.source,
                                                         heads = attention.heads] {
            std::vector<float> table;
            for (const char* projection : {"key_proj", "query_proj"}) {
                const std::string name = cat("deberta.encoder.layer.", i, ".attention.self.", projection);
                const std::vector<float> part = projected_rows(
                    source.floats(taken(catalog, name + ".weight", {outputs, hidden})),
                    source.floats(taken(catalog, name + ".bias", {outputs})), *embeddings, columns, heads);
                table.insert(table.end(), part.begin(), part.end());
            }
            return table;
        };
    }
}

constexpr ClassifierForm pooler{.dense = "bert.pooler.dense", .labels = "classifier"},
    context_pooler{.dense = "pooler.dense", .labels = "classifier", .activation = Activation::gelu},
    albert_pooler{.dense = "albert.pooler", .labels = "classifier"},
    own_dense{.dense = "classifier.dense", .labels = "classifier.out_proj"},
    own_dense_gelu{
        .dense = "classifier.dense", .labels = "classifier.out_proj", .activation = Activation::gelu},
    own_dense_as_layers{.dense = "classifier.dense", .labels = "classifier.out_proj", .activation = {}},
    own_dense_relu{.dense = "pre_classifier", .labels = "classifier", .activation = Activation::relu};

/// The same with such a classifier.
Family classified(Family family, const ClassifierForm& form) {
    family.classifier = &form;
    return family;
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
            .classifier = &pooler,
            .adjust = adjust};
}

/// RoBERTa's line, whose classifiers have a layer of their own.
Family roberta_like(const char* name, std::span<const TensorRow> rows, const char* prefix, Adjust adjust) {
    return classified(bert_like(name, rows, lm_head_rows, prefix, adjust), own_dense);
}

Family albert() {
    Family family = bert_like("albert", albert_rows, albert_head_rows, "albert.", adjust_albert);
    family.activation = Activation::gelu_tanh;
    family.classifier = &albert_pooler;
    return family;
}

Family distilbert() {
    Family family =
        bert_like("distilbert", distilbert_rows, distilbert_head_rows, "distilbert.", adjust_distilbert);
    family.epsilon = 1e-12;
    family.classifier = &own_dense_relu;
    return family;
}

Family deberta() {
    Family family = bert_like("deberta-v2", deberta_rows, bert_head_rows, "deberta.", adjust_deberta);
    family.positions = false;
    family.classifier = &context_pooler;
    return family;
}

/// The same with norms before, and one behind the last layer.
Family norms_before(Family family, std::span<const TensorRow> norms, bool embedding_norm) {
    *std::ranges::find_if(family.tensors, [](auto rows) { return rows.empty(); }) = norms;
    family.placement = NormPlacement::pre;
    family.output_norm = true;
    family.embedding_norm = embedding_norm;
    return family;
}

Family roformer_like(Family family) {
    family.rope = true;
    family.pairs = RopePairs::interleaved;
    family.positions = false;
    return family;
}

}  // namespace

const std::span<const TensorRow> hf::bert_head = bert_head_rows, hf::roberta_head = lm_head_rows;

void make_encoder(Reading& r, const char* head, bool head_bias) {
    Architecture& architecture = r.architecture;
    see_both_sides(r.architecture);
    architecture.has_head = architecture.head_transform = r.catalog.find(head) != nullptr;
    architecture.head_bias = architecture.has_head && head_bias;
    architecture.head_activation = architecture.layers.front().feed_forward.activation;
    expect_flag(r.settings, "is_decoder", false, false);
    expect_flag(r.settings, "add_cross_attention", false, false);
}

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
        roberta_like("roberta", roberta_rows, "roberta.", adjust_roberta),
        roberta_like("xlm-roberta", roberta_rows, "roberta.", adjust_roberta),
        roberta_like("camembert", roberta_rows, "roberta.", adjust_roberta),
        roberta_like("data2vec-text", roberta_rows, "roberta.", adjust_roberta),
        norms_before(roberta_like("roberta-prelayernorm", roberta_rows, "roberta.", adjust_roberta),
                     roberta_pre_rows, true),
        norms_before(roberta_like("xlm-roberta-xl", roberta_rows, "roberta.", adjust_roberta),
                     roberta_pre_rows, false),
        bert_like("ernie", bert_rows, bert_head_rows, "bert.", adjust_ernie),
        norms_before(bert_like("megatron-bert", bert_rows, bert_head_rows, "bert.", adjust_bert),
                     megatron_bert_rows, false),
        classified(roformer_like(bert_like("roformer", bert_rows, bert_head_rows, "bert.", adjust_roformer)),
                   own_dense_as_layers),
        classified(bert_like("electra", bert_rows, electra_head_rows, "bert.", adjust_electra),
                   own_dense_gelu),
        albert(),
        distilbert(),
        roberta_like("mpnet", mpnet_rows, "mpnet.", adjust_mpnet),
        deberta(),
        roberta_like("longformer", longformer_rows, "longformer.", adjust_longformer),
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
         .classifier = &pooler,
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
         .classifier = &own_dense,
         .adjust = adjust_jina_v3},
    };
    return families;
}

}  // namespace scoria
