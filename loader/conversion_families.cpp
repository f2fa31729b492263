// See conversion_families.h: decoders without experts whose layers are all of one kind.
#include "conversion_families.h"

#include "families.h"
#include "family_attention.h"

#include <algorithm>

namespace scoria::conversion {
namespace {

void set_parallel(const Described& model, Keys& keys) {
    const NormPlacement placement = model.architecture.placement;
    keys.set("use_parallel_residual",
             placement == NormPlacement::parallel || placement == NormPlacement::parallel_2);
}

/// The slopes of ALiBi end at 2^-8.
void set_alibi(const Described&, Keys& keys) { keys.set("attention.max_alibi_bias", 8.0); }

void set_ministral3(const Described& model, Keys& keys) {
    const RopeSettings& rope = model.ropes.front();
    if (rope.mscale_all) keys.set("rope.scaling.yarn_log_multiplier", *rope.mscale_all);
    if (rope.query_growth != 0) keys.set("attention.temperature_scale", rope.query_growth);
}

uint32_t sharing_layers(const Architecture& a) {
    return uint32_t(
        std::ranges::count_if(a.layers, [](const Layer& l) { return l.attention.kv_layer >= 0; }));
}

void set_gemma3n(const Described& model, Keys& keys) {
    const Architecture& a = model.architecture;
    std::vector<float> cuts;
    for (const Layer& layer : a.layers) cuts.push_back(layer.feed_forward.gate_cut);
    set_windowed(model, keys);
    set_columns_by_layer(model, keys);
    keys.set("altup.active_idx", uint32_t{0});
    keys.set("altup.num_inputs", a.alternating.count);
    keys.set("attention.shared_kv_layers", sharing_layers(a));
    keys.set("embedding_length_per_layer_input", a.per_layer);
    keys.set("activation_sparsity_scale", cuts);
}

void set_apertus(const Described& model, Keys& keys) {
    std::vector<float> p, n;
    for (const Layer& layer : model.architecture.layers) {
        p.push_back(layer.feed_forward.xielu.p);
        n.push_back(layer.feed_forward.xielu.n);
    }
    keys.set_global("xielu.alpha_p", p);
    keys.set_global("xielu.alpha_n", n);
    keys.set_global("xielu.beta", std::vector<float>(p.size(), 0.5f));
    keys.set_global("xielu.eps", std::vector<float>(p.size(), -1e-6f));
}

void set_gemma4(const Described& model, Keys& keys) {
    const Architecture& a = model.architecture;
    set_windowed(model, keys);
    set_heads_by_layer(model, keys);
    set_columns_by_layer(model, keys);
    keys.set("attention.shared_kv_layers", sharing_layers(a));
    keys.set("embedding_length_per_layer_input", a.per_layer);
    for (const bool windowed : {false, true})
        for (const char* name : {"attention.key_length", "attention.value_length"})
            keys.set(cat(name, windowed ? "_swa" : ""), head_dim_of(a, windowed));
    keys.set("rope.dimension_count_swa", model.ropes.back().width);
}

void set_nanbeige(const Described& model, Keys& keys) {
    keys.set("num_loops", model.architecture.loops);
    keys.set("skip_loop_final_norm", !model.architecture.norms_loops);
}

void set_muse_glimmer(const Described& model, Keys& keys) {
    set_windowed(model, keys);
    set_logit_scale(model, keys);
}
/// No key says another.
bool has_post_epsilon(const Architecture& a) { return a.post_epsilon == 1e-8f; }

bool writes_all(const Architecture& a) { return a.logits() == a.vocab; }
bool is_tied(const Architecture& a) { return a.tied_embeddings; }

/// The second norm of Falcon 40B.
bool lacks_second_norm(const Architecture& a, std::string_view name) {
    return a.placement != NormPlacement::parallel_2 && name.starts_with("blk.#.attn_norm_2");
}

}  // namespace

/// Of the rows of a type, those that ask for something come first.
std::span<const ConversionFamily> conversion_families() {
    static const std::vector<ConversionFamily> families = [] {
        std::vector<ConversionFamily> all;
        for (const auto part :
             {recurrent_conversions(), expert_conversions(), encoder_conversions(), decoder_conversions()})
            all.insert(all.end(), part.begin(), part.end());
        return all;
    }();
    return families;
}

std::span<const ConversionFamily> decoder_conversions() {
    static constexpr ConversionFamily families[] = {
        {.model_type = "llama", .architecture = "llama"},
        {.model_type = "iquestcoder", .architecture = "llama"},
        {.model_type = "nanbeige", .architecture = "nanbeige", .keys = set_nanbeige},
        {.model_type = "internlm3", .architecture = "llama"},
        {.model_type = "mistral", .architecture = "llama"},
        {.model_type = "ministral", .architecture = "llama"},
        {.model_type = "ministral3", .architecture = "mistral3", .keys = set_ministral3},
        {.model_type = "arcee", .architecture = "arcee"},
        {.model_type = "seed_oss", .architecture = "seed_oss"},
        {.model_type = "bitnet", .architecture = "bitnet", .fits = is_tied},
        {.model_type = "ernie4_5", .architecture = "ernie4_5"},
        {.model_type = "qwen2", .architecture = "qwen2"},
        {.model_type = "qwen3", .architecture = "qwen3"},
        {.model_type = "smollm3", .architecture = "smollm3"},
        {.model_type = "granite", .architecture = "granite", .keys = set_granite},
        {.model_type = "granitemoehybrid", .architecture = "granite", .keys = set_granite},
        {.model_type = "phi", .architecture = "phi2"},
        {.model_type = "phi3", .architecture = "phi3", .fused_qkv = true},
        {.model_type = "gemma", .architecture = "gemma"},
        {.model_type = "gemma2", .architecture = "gemma2"},
        {.model_type = "gemma3_text", .architecture = "gemma3"},
        {.model_type = "gemma3n_text", .architecture = "gemma3n", .keys = set_gemma3n},
        {.model_type = "gemma4_text", .architecture = "gemma4", .keys = set_gemma4},
        {.model_type = "muse_glimmer_text",
         .architecture = "muse-glimmer",
         .fits = has_post_epsilon,
         .made_norms = true,
         .keys = set_muse_glimmer},
        {.model_type = "cohere", .architecture = "command-r", .keys = set_logit_scale},
        {.model_type = "cohere2", .architecture = "cohere2", .keys = set_logit_scale},
        {.model_type = "olmo", .architecture = "olmo"},
        {.model_type = "olmo2", .architecture = "olmo2"},
        {.model_type = "olmo3", .architecture = "olmo2", .keys = set_windowed},
        {.model_type = "apertus", .architecture = "apertus", .fits = writes_all, .keys = set_apertus},
        {.model_type = "exaone", .architecture = "exaone"},
        {.model_type = "exaone4", .architecture = "exaone4", .keys = set_windowed},
        {.model_type = "glm", .architecture = "chatglm"},
        {.model_type = "glm4", .architecture = "glm4"},
        {.model_type = "hunyuan_v1_dense", .architecture = "hunyuan-dense"},
        {.model_type = "gpt2", .architecture = "gpt2", .fused_qkv = true},
        {.model_type = "gpt_bigcode", .architecture = "starcoder", .fused_qkv = true},
        {.model_type = "gpt_neox", .architecture = "gptneox", .fused_qkv = true, .keys = set_parallel},
        {.model_type = "bloom", .architecture = "bloom", .fused_qkv = true},
        {.model_type = "mpt", .architecture = "mpt", .fused_qkv = true, .keys = set_alibi},
        {.model_type = "falcon", .architecture = "falcon", .fused_qkv = true, .lacks = lacks_second_norm},
        {.model_type = "starcoder2", .architecture = "starcoder2"},
        {.model_type = "stablelm", .architecture = "stablelm", .keys = set_parallel},
        {.model_type = "nemotron", .architecture = "nemotron"},
        {.model_type = "jais2", .architecture = "jais2"},
    };
    return families;
}

const ConversionFamily* conversion_family(const Architecture& folder) {
    for (const ConversionFamily& family : conversion_families())
        if (family.model_type == folder.family && (family.fits == nullptr || family.fits(folder)))
            return &family;
    return nullptr;
}

}  // namespace scoria::conversion
