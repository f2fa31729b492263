// Embedding models, and encoder-decoders: see conversion_families.h.
#include "conversion_families.h"

#include "families.h"

#include <algorithm>

namespace scoria::conversion {
namespace {

/// A window counts both sides; every n-th layer from the first on has none.
void set_modern_bert(const Described& model, Keys& keys) {
    const std::vector<Layer>& layers = model.architecture.layers;
    const auto full = [](const Layer& layer) { return layer.attention.window == 0; };
    const auto windowed = std::ranges::find_if_not(layers, full);
    keys.set("attention.causal", false);
    if (windowed == layers.end()) return;
    keys.set("attention.sliding_window", 2 * (windowed->attention.window - 1));
    const auto next = std::find_if(windowed, layers.end(), full);
    keys.set("attention.sliding_window_pattern", static_cast<uint32_t>(next - layers.begin()));
}

void set_bert(const Described&, Keys& keys) { keys.set("attention.causal", false); }

/// Readers take the window from every layer but each sixth; it counts both sides.
void set_gemma_embedding(const Described& model, Keys& keys) {
    set_windowed(model, keys);
    set_bert(model, keys);
    for (const Layer& layer : model.architecture.layers)
        if (const uint32_t window = layer.attention.window; window != 0)
            keys.set("attention.sliding_window", 2 * (window - 1));
}

/// The blocks counted are the encoder's; the context is what files say whose config.json names none.
void set_t5(const Described& model, Keys& keys) {
    const Architecture& a = model.architecture;
    keys.set("context_length", 512u);
    keys.set("block_count", static_cast<uint32_t>(a.encoder.front().layers.size()));
    keys.set("decoder_block_count", static_cast<uint32_t>(a.layers.size()));
    keys.set("decoder_start_token_id", a.decoder_start);
    keys.set("attention.layer_norm_epsilon", double{a.norm.epsilon});  // under both names
    keys.set("attention.relative_buckets_count", model.buckets);
}

bool embeds_whole(const Architecture& a) { return a.embedding == 0; }
bool sees_both_sides(const Architecture& a) { return a.bidirectional(); }

}  // namespace

std::span<const ConversionFamily> encoder_conversions() {
    static constexpr ConversionFamily families[] = {
        {.model_type = "gemma3_text",
         .architecture = "gemma-embedding",
         .fits = sees_both_sides,
         .embeds = true,
         .dense = true,
         .keys = set_gemma_embedding},
        {.model_type = "t5", .architecture = "t5", .keys = set_t5},
        {.model_type = "mt5", .architecture = "t5", .keys = set_t5},
        {.model_type = "bert", .architecture = "bert", .embeds = true, .keys = set_bert},
        {.model_type = "roberta", .architecture = "bert", .embeds = true, .keys = set_bert},
        {.model_type = "camembert", .architecture = "bert", .embeds = true, .keys = set_bert},
        {.model_type = "data2vec-text", .architecture = "bert", .embeds = true, .keys = set_bert},
        {.model_type = "electra",
         .architecture = "bert",
         .fits = embeds_whole,
         .embeds = true,
         .keys = set_bert},
        {.model_type = "distilbert", .architecture = "bert", .embeds = true, .keys = set_bert},
        {.model_type = "ernie", .architecture = "bert", .embeds = true, .keys = set_bert},
        {.model_type = "xlm-roberta", .architecture = "bert", .embeds = true, .keys = set_bert},
        {.model_type = "nomic_bert",
         .architecture = "nomic-bert",
         .fused_qkv = true,
         .embeds = true,
         .keys = set_bert},
        {.model_type = "jina_bert_v2", .architecture = "jina-bert-v2", .embeds = true, .keys = set_bert},
        {.model_type = "jina_embeddings_v3",
         .architecture = "jina-bert-v3",
         .embeds = true,
         .keys = set_bert},
        {.model_type = "eurobert", .architecture = "eurobert", .embeds = true, .keys = set_bert},
        {.model_type = "llama_bidirec", .architecture = "llama-embed", .embeds = true, .keys = set_bert},
        {.model_type = "modernbert",
         .architecture = "modern-bert",
         .fused_qkv = true,
         .embeds = true,
         .keys = set_modern_bert},
    };
    return families;
}

}  // namespace scoria::conversion
