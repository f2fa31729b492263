// Puts the parts of an opened model together.
#include "model.h"

#include "fail.h"
#include "gguf_families.h"
#include "gguf_split.h"
#include "hf_folder.h"
#include "hf_text_part.h"
#include "log.h"
#include "lora.h"
#include "tokenizer/vocabulary.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <utility>

namespace scoria {
namespace {

ChatTemplate read_chat_template(const GgufMetadata& metadata, const Tokenizer* tokenizer) {
    const std::string* source = metadata.text("tokenizer.chat_template");
    if (source == nullptr) return {};
    const auto text = [&](TokenId id) {
        return tokenizer == nullptr || id < 0 ? std::string() : tokenizer->piece(id, true);
    };
    return ChatTemplate(*source, tokenizer ? text(tokenizer->bos()) : "",
                        tokenizer ? text(tokenizer->eos()) : "");
}

/// "model.layers.3." of "model.layers.3.mlp.up_proj.weight": up to the first part that is a number; empty:
/// none is.
std::string_view layer_stem(std::string_view name) {
    constexpr std::string_view digits = "0123456789";
    for (size_t begin = 0, end; (end = name.find('.', begin)) != name.npos; begin = end + 1)
        if (end > begin && name.find_first_not_of(digits, begin) == end) return name.substr(0, end + 1);
    return {};
}

/// A weight that is not computed with would be missed in every answer: one among a layer's that are is
/// refused, since its family does something that nobody told of; others are named. Errors: unsupported.
void check_unused(const Model& model) {
    std::set<std::string_view> layers;
    for (const auto& [ref, view] : model.weights)
        if (ref.layer >= 0) layers.insert(layer_stem(view.name));
    layers.erase(std::string_view());
    std::string names;
    size_t count = 0;
    for (const TensorView& view : model.unused) {
        if (is_spare(model, view)) continue;
        if (view.name.find(".lora_") != std::string::npos)
            fail(Status::unsupported, model.path.string(),
                 "expected weights that hold what was trained, got an adapter beside them: ", view.name);
        if (layers.contains(layer_stem(view.name)))
            fail(Status::unsupported, model.path.string(),
                 "expected to compute with all tensors of a layer, ", model.architecture.family,
                 " has no use for ", view.name);
        if (++count <= 3) names += cat(count == 1 ? "" : ", ", view.name);
    }
    if (count > 0)
        log_once(cat("[", model.name, "] tensors that nothing computes with: ", count, " (", names,
                     count > 3 ? ", ...)" : ")"));
}

Model open_parts(const std::filesystem::path& path, Reads reads, Floats8 floats8, ModelPart part) {
    const auto check = [&](bool adapter) {
        if (adapter)
            fail(Status::bad_file, path.string(),
                 "expected a model, got a LoRA adapter, which goes to --lora beside its model");
    };
    check(is_peft_adapter(path));
    if (is_hugging_face_model(path)) return open_hugging_face_model(path, reads, floats8, part);
    GgufFiles opened = open_gguf_files(path);
    if (reads == Reads::mapped)
        for (File& file : opened.files) file.map();
    const Gguf gguf = std::move(opened.gguf);
    check(is_adapter(gguf));
    const auto tensors = std::make_shared<GatheredTensors>(std::move(opened.files));
    ReadModel read = read_architecture(gguf, *tensors, part);
    tensors->set_recipes(std::move(read.bound.recipes));
    tensors->set_scales(std::move(read.scales));

    Model model;
    model.path = path;
    const std::string* name = gguf.metadata.text("general.name");
    model.name = name != nullptr ? *name : path.stem().string();
    model.architecture = std::move(read.architecture);
    model.pooling = read.pooling;
    model.dense = std::move(read.dense);
    model.ranking = std::move(read.ranking);
    model.weights = std::move(read.bound.weights);
    model.unused = std::move(read.unused);
    model.layers_ahead = read.layers_ahead;
    model.output_ids = std::move(read.output_ids);
    model.tensors = tensors;
    try {
        model.tokenizer = make_tokenizer(read_vocabulary(gguf.metadata));
    } catch (const Error& error) {
        // A model without a usable vocabulary still runs on token ids; a lying one is refused.
        if (error.status() != Status::unsupported) throw;
        model.tokenizer_problem = error.what();
    }
    for (const int64_t id : gguf.metadata.integers(gguf_suppressed_key).value_or(std::vector<int64_t>()))
        if (id >= 0 && id < int64_t{model.architecture.logits()}) model.suppressed.push_back(TokenId(id));
    model.chat_template = read_chat_template(gguf.metadata, model.tokenizer.get());
    model.metadata_json = gguf.metadata.json();
    return model;
}

/// The layer that a tensor is of, if it is of one.
std::optional<size_t> layer_of(std::string_view name) {
    for (const std::string_view prefix : {"model.layers.", "blk."}) {
        if (!name.starts_with(prefix)) continue;
        size_t layer = 0;
        const char* const end = name.data() + name.size();
        const auto read = std::from_chars(name.data() + prefix.size(), end, layer);
        if (read.ec == std::errc() && read.ptr != end && *read.ptr == '.') return layer;
    }
    return std::nullopt;
}

/// Of a layer that guesses further tokens.
bool is_of_layer_ahead(std::string_view name, const Model& model) {
    const size_t layers = model.architecture.layers.size(), layer = layer_of(name).value_or(0);
    return layer >= layers && layer < layers + model.layers_ahead;
}

/// Of a layer that does nothing (images, which are not read).
bool is_of_idle_layer(std::string_view name, const Model& model) {
    const std::vector<Layer>& layers = model.architecture.layers;
    const size_t layer = layer_of(name).value_or(layers.size());
    return layer < layers.size() && !layers[layer].mixes() && !layers[layer].feeds();
}

/// What would make keys and values of a layer that reads another's, as published files have it.
bool is_of_shared_keys(std::string_view name, const Model& model) {
    const std::vector<Layer>& layers = model.architecture.layers;
    const size_t layer = layer_of(name).value_or(layers.size());
    constexpr std::string_view parts[] = {".k_proj.", ".v_proj.", ".k_norm.",
                                          ".attn_k.", ".attn_v.", ".attn_k_norm."};
    return layer < layers.size() && layers[layer].attention.kv_layer >= 0 &&
           std::ranges::any_of(parts, [&](std::string_view part) { return name.find(part) != name.npos; });
}

}  // namespace

bool is_spare(const Model& model, const TensorView& unused) {
    constexpr std::string_view spare[] = {"inv_freq",
                                          "attn.bias",
                                          "attention.bias",
                                          "masked_bias",
                                          "attn.causal_mask",
                                          "position_ids",
                                          "embed_positions.weights",
                                          "bert.encoder.embed_positions.weight",  // sinusoids
                                          "act_fn.beta",
                                          "act_fn.eps"};  // constants of xIELU
    const auto ends = [&](std::string_view end) { return unused.name.ends_with(end); };
    return is_of_layer_ahead(unused.name, model) || is_of_shared_keys(unused.name, model) ||
           is_of_idle_layer(unused.name, model) || (model.has_other_parts && is_of_images(unused.name)) ||
           unused.name.starts_with("mtp.") ||  // that guesses further tokens
           unused.name.starts_with("model.mtp_layers.") || unused.name.starts_with("model.mtp.") ||
           (model.architecture.tied_embeddings && ends("lm_head.weight")) ||
           unused.name.find("pooler.") != std::string::npos ||  // for classes of texts, not for embeddings
           // Published T5 has the table thrice, and one of positions that nothing reads; Marian and Pegasus
           // have their sinusoids.
           (!model.architecture.encoder.empty() &&
            (ends("coder.embed_tokens.weight") || ends("coder.embed_positions.weight") ||
             ends("EncDecAttention.relative_attention_bias.weight"))) ||
           (model.architecture.two_streams && ends("lm_head.bias")) ||  // a Reformer adds none
           std::ranges::any_of(spare, ends);
}

std::vector<TokenId> decoder_begin(const Model& model) {
    std::vector<TokenId> ids{TokenId(model.architecture.decoder_start)};
    ids.insert(ids.end(), model.begins.begin(), model.begins.end());
    return ids;
}

Model open_model(const std::filesystem::path& path, Reads reads, Floats8 floats8, ModelPart part) {
    Model model = naming_file(path.string(), [&] { return open_parts(path, reads, floats8, part); });
    check_unused(model);
    return model;
}

}  // namespace scoria
