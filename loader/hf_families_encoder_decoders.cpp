// Encoder-decoders: T5 and BART's line, the original Transformer. One row per family; `describe` reads the
// encoder's sizes, and `adjust` makes two stacks of the one.
#include "hf_families.h"

#include "fail.h"
#include "family_parts.h"

#include <cmath>
#include <utility>

namespace scoria {
namespace {

using enum Layout;

// T5's sublayers of a block: 0 self-attention, then cross-attention in the decoder, then feed-forward.
#define T5_ATTENTION_ROWS(STACK)                                                                     \
    {Role::q, STACK ".block.#.layer.0.SelfAttention.q.weight"},                                      \
        {Role::k, STACK ".block.#.layer.0.SelfAttention.k.weight"},                                  \
        {Role::v, STACK ".block.#.layer.0.SelfAttention.v.weight"},                                  \
        {Role::o, STACK ".block.#.layer.0.SelfAttention.o.weight"},                                  \
        {Role::attention_norm, STACK ".block.#.layer.0.layer_norm.weight"},                          \
        {Role::position_bias, STACK ".block.#.layer.0.SelfAttention.relative_attention_bias.weight", \
         buckets},                                                                                   \
    {                                                                                                \
        Role::output_norm, STACK ".final_layer_norm.weight"                                          \
    }
#define T5_FEED_FORWARD_ROWS(LAYER)                                                                       \
    {Role::feed_forward_norm, LAYER ".layer_norm.weight"},                                                \
        {Role::gate, LAYER ".DenseReluDense.wi_0.weight"}, {Role::up, LAYER ".DenseReluDense.wi.weight"}, \
        {Role::up, LAYER ".DenseReluDense.wi_1.weight"}, {                                                \
        Role::down, LAYER ".DenseReluDense.wo.weight"                                                     \
    }
#define CROSS "decoder.block.#.layer.1."
constexpr TensorRow t5_rows[] = {
    {Role::token_embedding, "shared.weight"},
    T5_ATTENTION_ROWS("decoder"),
    T5_FEED_FORWARD_ROWS("decoder.block.#.layer.2"),
    {Role::cross_norm, CROSS "layer_norm.weight"},
    {Role::cross_q, CROSS "EncDecAttention.q.weight"},
    {Role::cross_k, CROSS "EncDecAttention.k.weight"},
    {Role::cross_v, CROSS "EncDecAttention.v.weight"},
    {Role::cross_o, CROSS "EncDecAttention.o.weight"},
    {Role::output, "lm_head.weight"},
};
constexpr TensorRow t5_encoder_rows[] = {
    {Role::token_embedding, "shared.weight"},
    T5_ATTENTION_ROWS("encoder"),
    T5_FEED_FORWARD_ROWS("encoder.block.#.layer.1"),
};
#undef CROSS
#undef T5_FEED_FORWARD_ROWS
#undef T5_ATTENTION_ROWS

// A stack: the frame, then its attention under the names of its kind. AT: where its norms are, `_post`, or
// nothing before what they norm.
#define BART_FRAME_ROWS(STACK, POSITIONS, AT)                                                      \
    {Role::position_embedding, STACK ".embed_positions.weight", POSITIONS},                        \
        {Role::embedding_norm, STACK ".layernorm_embedding.weight"},                               \
        {Role::embedding_norm_bias, STACK ".layernorm_embedding.bias"},                            \
        {Role::attention##AT##_norm, STACK ".layers.#.self_attn_layer_norm.weight"},               \
        {Role::attention##AT##_norm_bias, STACK ".layers.#.self_attn_layer_norm.bias"},            \
        {Role::up, STACK ".layers.#.fc1.weight"}, {Role::up_bias, STACK ".layers.#.fc1.bias"},     \
        {Role::down, STACK ".layers.#.fc2.weight"}, {Role::down_bias, STACK ".layers.#.fc2.bias"}, \
        {Role::feed_forward##AT##_norm, STACK ".layers.#.final_layer_norm.weight"}, {              \
        Role::feed_forward##AT##_norm_bias, STACK ".layers.#.final_layer_norm.bias"                \
    }
#define BART_ATTENTION_ROWS(PREFIX, NAMES)                                                       \
    {Role::PREFIX##q, NAMES ".q_proj.weight"}, {Role::PREFIX##q_bias, NAMES ".q_proj.bias"},     \
        {Role::PREFIX##k, NAMES ".k_proj.weight"}, {Role::PREFIX##k_bias, NAMES ".k_proj.bias"}, \
        {Role::PREFIX##v, NAMES ".v_proj.weight"}, {Role::PREFIX##v_bias, NAMES ".v_proj.bias"}, \
        {Role::PREFIX##o, NAMES ".out_proj.weight"}, {                                           \
        Role::PREFIX##o_bias, NAMES ".out_proj.bias"                                             \
    }
#define BART_FINAL_ROWS(STACK) \
    {Role::output_norm, STACK ".layer_norm.weight"}, { Role::output_norm_bias, STACK ".layer_norm.bias" }
#define BART_DECODER_ROWS(MODEL, POSITIONS, AT)                                                     \
    {Role::token_embedding, MODEL ".decoder.embed_tokens.weight"},                                  \
        {Role::token_embedding, MODEL ".shared.weight"}, {Role::output, "lm_head.weight"},          \
        {Role::output_bias, "final_logits_bias"}, BART_FRAME_ROWS(MODEL ".decoder", POSITIONS, AT), \
        BART_ATTENTION_ROWS(, MODEL ".decoder.layers.#.self_attn"),                                 \
        BART_ATTENTION_ROWS(cross_, MODEL ".decoder.layers.#.encoder_attn"),                        \
        {Role::cross_norm, MODEL ".decoder.layers.#.encoder_attn_layer_norm.weight"}, {             \
        Role::cross_norm_bias, MODEL ".decoder.layers.#.encoder_attn_layer_norm.bias"               \
    }
constexpr const char *bart_source_table = "model.encoder.embed_tokens.weight",
                     *led_source_table = "led.encoder.embed_tokens.weight";
constexpr TensorRow bart_rows[] = {BART_DECODER_ROWS("model", positions, _post)};
constexpr TensorRow bart_encoder_rows[] = {{Role::token_embedding, bart_source_table},
                                           BART_FRAME_ROWS("model.encoder", positions, _post),
                                           BART_ATTENTION_ROWS(, "model.encoder.layers.#.self_attn")};
constexpr TensorRow mbart_rows[] = {BART_DECODER_ROWS("model", positions, ),
                                    BART_FINAL_ROWS("model.decoder")};
constexpr TensorRow mbart_encoder_rows[] = {{Role::token_embedding, bart_source_table},
                                            BART_FRAME_ROWS("model.encoder", positions, ),
                                            BART_ATTENTION_ROWS(, "model.encoder.layers.#.self_attn"),
                                            BART_FINAL_ROWS("model.encoder")};
constexpr TensorRow led_rows[] = {BART_DECODER_ROWS("led", as_is, _post)};
#define SELF "led.encoder.layers.#.self_attn.longformer_self_attn."
constexpr TensorRow led_encoder_rows[] = {
    {Role::token_embedding, led_source_table},
    BART_FRAME_ROWS("led.encoder", as_is, _post),
    {Role::q, SELF "query.weight"},
    {Role::q_bias, SELF "query.bias"},
    {Role::k, SELF "key.weight"},
    {Role::k_bias, SELF "key.bias"},
    {Role::v, SELF "value.weight"},
    {Role::v_bias, SELF "value.bias"},
    {Role::global_q, SELF "query_global.weight"},
    {Role::global_q_bias, SELF "query_global.bias"},
    {Role::global_k, SELF "key_global.weight"},
    {Role::global_k_bias, SELF "key_global.bias"},
    {Role::global_v, SELF "value_global.weight"},
    {Role::global_v_bias, SELF "value_global.bias"},
    {Role::o, "led.encoder.layers.#.self_attn.output.weight"},
    {Role::o_bias, "led.encoder.layers.#.self_attn.output.bias"},
};
#undef SELF
#undef BART_DECODER_ROWS
#undef BART_ATTENTION_ROWS
#undef BART_FINAL_ROWS
#undef BART_FRAME_ROWS

#define ORIGINAL_STACK_ROWS(STACK)                                                                           \
    {Role::q, STACK ".layers.#.attn.q.weight"}, {Role::k, STACK ".layers.#.attn.k.weight"},                  \
        {Role::v, STACK ".layers.#.attn.v.weight"}, {Role::o, STACK ".layers.#.attn.o.weight"},              \
        {Role::attention_post_norm, STACK ".layers.#.attn_norm.weight"},                                     \
        {Role::attention_post_norm_bias, STACK ".layers.#.attn_norm.bias"},                                  \
        {Role::up, STACK ".layers.#.mlp.up.weight"}, {Role::up_bias, STACK ".layers.#.mlp.up.bias"},         \
        {Role::down, STACK ".layers.#.mlp.down.weight"}, {Role::down_bias, STACK ".layers.#.mlp.down.bias"}, \
        {Role::feed_forward_post_norm, STACK ".layers.#.mlp_norm.weight"}, {                                 \
        Role::feed_forward_post_norm_bias, STACK ".layers.#.mlp_norm.bias"                                   \
    }
constexpr TensorRow original_rows[] = {
    {Role::token_embedding, "embed.weight"},
    {Role::output, "lm_head.weight"},
    ORIGINAL_STACK_ROWS("decoder"),
    {Role::cross_q, "decoder.layers.#.cross.q.weight"},
    {Role::cross_k, "decoder.layers.#.cross.k.weight"},
    {Role::cross_v, "decoder.layers.#.cross.v.weight"},
    {Role::cross_o, "decoder.layers.#.cross.o.weight"},
    {Role::cross_norm, "decoder.layers.#.cross_norm.weight"},
    {Role::cross_norm_bias, "decoder.layers.#.cross_norm.bias"},
};
constexpr TensorRow original_encoder_rows[] = {ORIGINAL_STACK_ROWS("encoder")};
#undef ORIGINAL_STACK_ROWS

/// What both stacks have; returns the distance where buckets end. "relu", or "gated-gelu", whose GELU is the
/// tanh form. Raffel et al. 2020; Shazeer 2020 for v1.1.
uint32_t adjust_t5_layers(Reading& r) {
    Architecture& architecture = r.architecture;
    const Settings& settings = r.settings;
    const char* field = "feed_forward_proj";
    const bool is_mt5 = architecture.family == "mt5";
    const std::string projection = settings.text(field, is_mt5 ? "gated-gelu" : "relu"), prefix = "gated-";
    const bool prefixed = projection.starts_with(prefix);
    const std::string activation = projection == "gated-gelu" ? "gelu_new"
                                   : prefixed                 ? projection.substr(prefix.size())
                                                              : projection;
    const char* derived =
        settings.has("dense_act_fn") ? "dense_act_fn" : field;  // it counts where it is there
    for (Layer& layer : architecture.layers) {
        layer.feed_forward.gated = settings.flag("is_gated_act", prefixed);
        layer.feed_forward.activation =
            activation_named(settings, derived, settings.text("dense_act_fn", activation));
    }
    set_scale(architecture, 1);
    const char* most_name = "relative_attention_max_distance";
    const uint32_t most = settings.size(most_name, 1 << 20, 128);
    check_table(settings, most_name, most, architecture.layers.front().attention.heads);
    settings.understood("relative_attention_num_buckets");  // the tensors say
    return most;
}

void adjust_t5(Reading& r) {
    Architecture& architecture = r.architecture;
    const Settings& settings = r.settings;
    const uint32_t most = adjust_t5_layers(r), encoder_layers = uint32_t(architecture.layers.size());
    add_encoder(architecture, settings.size("num_decoder_layers", most_layers, encoder_layers));
    use_buckets(architecture, most, false);
    use_buckets(architecture.encoder[0], most, true);
    const bool tied = settings.flag("tie_word_embeddings", true);
    if (settings.flag("scale_decoder_outputs", tied) && architecture.family == "t5")  // mT5 never scales
        architecture.logit_scale =
            static_cast<float>(1 / std::sqrt(static_cast<double>(architecture.hidden)));
    architecture.decoder_start = settings.size("decoder_start_token_id", most_size, 0, 0);
}

/// The encoder alone, as sentence-transformers have it.
void adjust_t5_encoder(Reading& r) {
    use_buckets(r.architecture, adjust_t5_layers(r), true);
    r.architecture.has_head = false;
    see_both_sides(r.architecture);
    for (const char* of_decoder : {"num_decoder_layers", "decoder_start_token_id", "scale_decoder_outputs"})
        r.settings.understood(of_decoder);
}

/// Sizes that BART's line tells of the two stacks apart, with the class's own where they are left out.
/// `source_table`: the encoder's embedding, where it has one of its own. `start`: decoder_start, where it is
/// left out.
void make_bart_stacks(Reading& r, const char* source_table, uint32_t start = 2) {
    Architecture& architecture = r.architecture;
    const Settings& settings = r.settings;
    const uint32_t heads = settings.size("decoder_attention_heads", 1 << 16, 16);
    if (architecture.hidden % heads != 0)
        settings.wrong("decoder_attention_heads", cat("a divisor of ", architecture.hidden));
    const uint32_t size = settings.size("decoder_ffn_dim", most_size, 4096);
    add_encoder(architecture, settings.size("decoder_layers", most_layers, 12));
    if (!settings.flag("tie_word_embeddings", true) && r.catalog.find(source_table) != nullptr)
        architecture.encoder[0].vocab = architecture.vocab;
    for (Layer& layer : architecture.layers) {
        layer.feed_forward.size = size;
        for (Attention* attention : {&layer.attention, &layer.cross}) {
            attention->heads = attention->kv_heads = heads;
            attention->head_dim = architecture.hidden / heads;
            attention->scale = static_cast<float>(1 / std::sqrt(static_cast<double>(attention->head_dim)));
        }
    }
    architecture.decoder_start = settings.size("decoder_start_token_id", most_size, start, 0);
    for (const char* length : {"max_length", "min_length", "num_beams"}) settings.understood(length);
}

/// What the decoder begins with where its class has no token for that: the one that texts begin with.
uint32_t start_of_texts(const Reading& r) { return r.settings.size("bos_token_id", most_size, 0, 0); }

void read_embedding_scale(Reading& r, bool otherwise) {
    if (r.settings.flag("scale_embedding", otherwise))
        r.architecture.embedding_scale = std::sqrt(static_cast<float>(r.architecture.hidden));
}

void adjust_bart(Reading& r) {
    const bool plbart = r.architecture.family == "plbart";  // BART of programs (Ahmad et al. 2021)
    read_embedding_scale(r, plbart);
    expect_flag(r.settings, "normalize_before", false, false);
    expect_flag(r.settings, "add_final_layer_norm", false, false);
    make_bart_stacks(r, bart_source_table, plbart ? start_of_texts(r) : 2);
}

/// BART whose norms come before what they norm, and at the end of both stacks (Liu et al. 2020).
void adjust_mbart(Reading& r) {
    read_embedding_scale(r, false);
    expect_flag(r.settings, "normalize_before", true, true);
    expect_flag(r.settings, "add_final_layer_norm", true, true);
    make_bart_stacks(r, bart_source_table, start_of_texts(r));
}

/// BART with Longformer's encoder (Beltagy et al. 2020, section 7).
void adjust_led(Reading& r) {
    (void)r.settings.flag("scale_embedding", false);  // its class has no such field
    make_bart_stacks(r, led_source_table);
    Architecture& encoder = r.architecture.encoder[0];
    use_global_tokens(r.settings, encoder);
    encoder.context = encoder.positions = r.settings.size("max_encoder_position_embeddings", most_size);
}

/// Both stacks add computed positions: table(positions, width).
template <typename Table> void use_sinusoids(Reading& r, Table table) {
    const Architecture& architecture = r.architecture;
    check_table(r.settings, "max_position_embeddings", architecture.positions, architecture.hidden);
    for (const bool encoder : {false, true})
        r.synthesised[{Role::position_embedding, -1, encoder}] = [=, positions = architecture.positions,
                                                                  width = architecture.hidden] {
            return table(positions, width);
        };
}

std::vector<float> sines_first(uint32_t positions, uint32_t width) {
    return sinusoids(positions, width, false);
}
std::vector<float> by_turns(uint32_t positions, uint32_t width) { return sinusoids(positions, width, true); }

/// Its positions are computed: all sines of a row, then all cosines (Junczys-Dowmunt et al. 2018).
void adjust_marian(Reading& r) {
    expect_flag(r.settings, "static_position_embeddings", true, true);
    read_embedding_scale(r, false);
    make_bart_stacks(r, bart_source_table);
    const bool shared = r.settings.flag("share_encoder_decoder_embeddings", true);
    const uint32_t own = r.settings.size("decoder_vocab_size", most_size, r.architecture.vocab);
    if (!shared) r.architecture.encoder[0].vocab = std::exchange(r.architecture.vocab, own);
    use_sinusoids(r, sines_first);
}

/// Marian's positions, mBART's norms (Zhang et al. 2020).
void adjust_pegasus(Reading& r) {
    read_embedding_scale(r, false);
    for (const char* flag : {"normalize_before", "add_final_layer_norm", "static_position_embeddings"})
        expect_flag(r.settings, flag, true, true);
    make_bart_stacks(r, bart_source_table, 0);
    use_sinusoids(r, sines_first);
}

/// M2M100 and NLLB: translators of many languages (Fan et al. 2021), which the first token of a text names.
void adjust_m2m(Reading& r) {
    read_embedding_scale(r, true);
    make_bart_stacks(r, bart_source_table);
    const uint32_t first = r.settings.size("pad_token_id", most_size, 1, 0) + 1;
    use_sinusoids(
        r, [=](uint32_t positions, uint32_t width) { return sinusoids_to_slowest(first, positions, width); });
}

/// Vaswani et al. 2017.
void adjust_original(Reading& r) {
    Architecture& architecture = r.architecture;
    const double root = std::sqrt(static_cast<double>(architecture.hidden));
    architecture.embedding_scale = static_cast<float>(r.settings.positive("embed_scale", root));
    add_encoder(architecture, r.settings.size("num_decoder_layers", most_layers, architecture.layers.size()));
    use_sinusoids(r, by_turns);
    architecture.decoder_start = r.settings.size("decoder_start_token_id", most_size, {}, 0);
}

Family t5_like(const char* name) {
    return {.name = name,
            .tensors = {t5_rows},
            .encoder_tensors = {t5_encoder_rows},
            .context = no_limit,
            .rope = false,
            .output_decides = true,
            .adjust = adjust_t5};
}

Family t5_encoder() {
    Family family = t5_like("t5_encoder");
    family.tensors = {t5_encoder_rows};
    family.encoder_tensors = {};
    family.adjust = adjust_t5_encoder;
    return family;
}

Family post_norm(const char* name, std::span<const TensorRow> rows, std::span<const TensorRow> encoder_rows,
                 Activation activation, Adjust adjust) {
    return {.name = name,
            .tensors = {rows},
            .encoder_tensors = {encoder_rows},
            .norm = NormKind::layer,
            .norm_bias = true,
            .epsilon = 1e-5,
            .placement = NormPlacement::post,
            .output_norm = false,
            .qkv_bias = biased,
            .o_bias = biased,
            .rope = false,
            .activation = activation,
            .gated = false,
            .feed_forward_bias = biased,
            .positions = true,
            .output_bias = if_present,
            .adjust = adjust};
}

}  // namespace

std::span<const Family> encoder_decoder_families() {
    static const auto families = [] {
        Family bart = post_norm("bart", bart_rows, bart_encoder_rows, Activation::gelu, adjust_bart);
        bart.embedding_norm = true;
        bart.prefix = "model.";
        Family led = post_norm("led", led_rows, led_encoder_rows, Activation::gelu, adjust_led);
        led.embedding_norm = true;
        led.prefix = "led.";
        Family marian = post_norm("marian", bart_rows, bart_encoder_rows, Activation::gelu, adjust_marian);
        Family plbart = bart;
        plbart.name = "plbart";
        const auto pre_norm = [](const char* name, Activation activation, Adjust adjust) {
            Family family = post_norm(name, mbart_rows, mbart_encoder_rows, activation, adjust);
            family.placement = NormPlacement::pre;
            family.output_norm = true;
            family.prefix = "model.";
            return family;
        };
        Family mbart = pre_norm("mbart", Activation::gelu, adjust_mbart);
        mbart.embedding_norm = true;
        const Family pegasus = pre_norm("pegasus", Activation::gelu, adjust_pegasus);
        const Family m2m = pre_norm("m2m_100", Activation::relu, adjust_m2m);
        Family original = post_norm("transformer-original", original_rows, original_encoder_rows,
                                    Activation::relu, adjust_original);
        original.qkv_bias = original.o_bias = {};
        original.epsilon = 0;
        return std::array{t5_like("t5"), t5_like("mt5"), t5_encoder(), bart, plbart,  led,
                          marian,        mbart,          pegasus,      m2m,  original};
    }();
    return families;
}

}  // namespace scoria
