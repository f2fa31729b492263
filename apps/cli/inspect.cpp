// inspect: what a model file holds. Reads headers only; needs no device.
#include "common.h"
#include "enum_names.h"
#include "families_page.h"
#include "io.h"
#include "models.h"
#include "values.h"
#include "verbs.h"

#include "console.h"
#include "file.h"
#include "gguf.h"
#include "kv_cache.h"
#include "lora.h"
#include "text_table.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <optional>

namespace scoria::cli {
namespace {

struct TensorRow {
    const TensorView* view;
    int32_t layer;     // -1: not of a layer
    std::string role;  // empty: no role claims it
};

std::vector<TensorRow> tensor_rows(const Model& model) {
    std::vector<TensorRow> rows;
    constexpr const char* parts[] = {"", " adapter A", " adapter B"};
    for (const auto& [ref, view] : model.weights)
        rows.push_back(
            {&view, ref.layer,
             cat(ref.encoder ? "encoder " : "", role_name(ref.role), parts[static_cast<size_t>(ref.part)])});
    std::stable_sort(rows.begin(), rows.end(),
                     [](const TensorRow& a, const TensorRow& b) { return a.layer < b.layer; });
    for (const TensorView& view : model.unused) rows.push_back({&view, -1, {}});
    return rows;
}

uint64_t weight_bytes(const Model& model) {
    uint64_t bytes = 0;
    for (const auto& [ref, view] : model.weights) bytes += view.bytes();
    return bytes;
}

uint64_t parameters(const Model& model) {
    uint64_t count = 0;
    for (const auto& [ref, view] : model.weights) count += uint64_t{view.rows} * view.cols;
    return count;
}

/// Bytes of keys and values per position, by kv_type_names.
std::map<std::string, uint64_t> kv_bytes(const Architecture& architecture) {
    std::map<std::string, uint64_t> bytes;
    for (size_t i = 0; i < std::size(kv_type_names); ++i)
        bytes[kv_type_names[i]] =
            KvCache::bytes(architecture, KvType(i), {kv_block_tokens, 1}).device / kv_block_tokens;
    return bytes;
}

nlohmann::json attention_json(const Attention& attention) {
    return {{"heads", attention.heads},
            {"kv_heads", attention.kv_heads},
            {"head_dim", attention.head_dim},
            {"scale", attention.scale},
            {"soft_cap", attention.soft_cap},
            {"clip", attention.clip},
            {"window", attention.window},
            {"mask", name_of(mask_names, attention.mask)},
            {"stride", attention.stride},
            {"summary", attention.summary},
            {"qkv_bias", {attention.q_bias, attention.k_bias, attention.v_bias}},
            {"o_bias", attention.o_bias},
            {"qk_norm", name_of(qk_norm_names, attention.qk_norm.group)},
            {"qk_norm_after_rope", attention.qk_norm.after_rope},
            {"v_norm", attention.v_norm},
            {"v_is_k", attention.v_is_k},
            {"rope", attention.rope},
            {"position_bias", name_of(bias_names, attention.bias)},
            {"sinks", attention.sinks},
            {"output_gate", attention.gate_columns() != 0},
            {"latent",
             {{"kv_rank", attention.latent.kv_rank},
              {"q_rank", attention.latent.q_rank},
              {"rope_dim", attention.latent.rope_dim},
              {"value_dim", attention.latent.value_dim}}},
            {"indexer",
             {{"heads", attention.indexer.heads},
              {"head_dim", attention.indexer.head_dim},
              {"top", attention.indexer.top},
              {"shared", attention.indexer.shared}}},
            {"chunks",
             {{"length", attention.chunks.length},
              {"before", attention.chunks.before},
              {"after", attention.chunks.after},
              {"rounds", attention.chunks.rounds},
              {"buckets", attention.chunks.buckets}}},
            {"kv_layer", attention.kv_layer}};
}

nlohmann::json layer_json(const Layer& layer) {
    const FeedForward& feed_forward = layer.feed_forward;
    const Routing& routing = feed_forward.routing;
    const Recurrence& recurrence = layer.recurrence;
    nlohmann::json json = attention_json(layer.attention);
    if (layer.recurs())
        json["recurrence"] = {{"kind", name_of(recurrence_names, recurrence.kind)},
                              {"taps", recurrence.taps},
                              {"heads", recurrence.heads},
                              {"groups", recurrence.groups},
                              {"key_dim", recurrence.key_dim},
                              {"value_dim", recurrence.value_dim},
                              {"beta_scale", recurrence.beta_scale},
                              {"width", recurrence.width}};
    json["scale"] = layer.scale;
    if (layer.placement) json["placement"] = name_of(placement_names, *layer.placement);
    json["feed_forward"] = feed_forward.size;
    json["activation"] = name_of(activation_names, feed_forward.activation);
    json["gated"] = feed_forward.gated;
    json["feed_forward_bias"] = {feed_forward.gate_bias, feed_forward.up_bias, feed_forward.down_bias};
    if (routing.experts == 0) return json;
    json["experts"] = {{"count", routing.experts},
                       {"used", routing.used},
                       {"size", routing.size},
                       {"score", name_of(score_names, routing.score)},
                       {"renormalise", routing.renormalise},
                       {"scale", routing.scale},
                       {"groups", {routing.groups_used, routing.groups}},
                       {"bias", routing.bias},
                       {"clamp", routing.clamp.limit},
                       {"shared_size", routing.shared_size},
                       {"shared_gate", routing.shared_gate},
                       {"apart", routing.apart}};
    return json;
}

nlohmann::json rope_json(const Rope& rope) {
    return {{"pairs", rope.pairs == RopePairs::halves ? "halves" : "interleaved"},
            {"width", rope.width},
            {"magnitude", rope.magnitude},
            {"short_length", rope.short_length},
            {"inverse_frequencies", rope.inverse_frequencies},
            {"long_inverse_frequencies", rope.long_inverse_frequencies},
            {"ntk_base", rope.ntk_base},
            {"ntk_factor", rope.ntk_factor}};
}

nlohmann::json architecture_json(const Architecture& architecture) {
    nlohmann::json layers = nlohmann::json::array(), ropes = nlohmann::json::array();
    for (const Layer& layer : architecture.layers) {
        layers.push_back(layer_json(layer));
        if (layer.cross.heads != 0) layers.back()["cross"] = attention_json(layer.cross);
    }
    for (const Rope& rope : architecture.ropes) ropes.push_back(rope_json(rope));
    nlohmann::json encoder;  // null: none
    for (const Architecture& stack : architecture.encoder) encoder = architecture_json(stack);
    return {{"family", architecture.family},
            {"encoder", encoder},
            {"vocab", architecture.vocab},
            {"outputs", architecture.outputs != 0 ? architecture.outputs : architecture.vocab},
            {"hidden", architecture.hidden},
            {"context", architecture.context},
            {"norm", name_of(norm_names, architecture.norm.kind)},
            {"norm_weight", architecture.norm.weight},
            {"norm_bias", architecture.norm.bias},
            {"norm_epsilon", architecture.norm.epsilon},
            {"placement", name_of(placement_names, architecture.placement)},
            {"positions", architecture.positions},
            {"axial_positions", {architecture.axial.rows, architecture.axial.cols}},
            {"two_streams", architecture.two_streams},
            {"alternating_streams", architecture.alternating.count},
            {"laurel_rank", architecture.alternating.laurel},
            {"embedding", architecture.embedding != 0 ? architecture.embedding : architecture.hidden},
            {"embedding_scale", architecture.embedding_scale},
            {"embedding_norm", architecture.embedding_norm},
            {"per_layer_embedding", architecture.per_layer},
            {"residual_scale", architecture.residual_scale},
            {"output_norm", architecture.output_norm},
            {"output_bias", architecture.output_bias},
            {"tied_embeddings", architecture.tied_embeddings},
            {"logit_scale", architecture.logit_scale},
            {"logit_soft_cap", architecture.logit_soft_cap},
            {"ropes", ropes},
            {"layers", layers}};
}

nlohmann::json model_json(const Model& model) {
    const Architecture& architecture = model.architecture;
    nlohmann::json tensors = nlohmann::json::array();
    for (const TensorRow& row : tensor_rows(model))
        tensors.push_back({{"name", row.view->name},
                           {"role", row.role},
                           {"layer", row.layer},
                           {"type", tensor_type_info(row.view->type).name},
                           {"shape", {row.view->rows, row.view->cols}},
                           {"bytes", row.view->bytes()}});
    nlohmann::json tokenizer;
    if (model.tokenizer)
        tokenizer = {{"kind", model.tokenizer->kind()},
                     {"tokens", model.tokenizer->size()},
                     {"bos", model.tokenizer->bos()},
                     {"eos", model.tokenizer->eos()},
                     {"adds_bos", model.tokenizer->adds_bos()}};
    return {{"name", model.name},
            {"path", model.path.string()},
            {"architecture", architecture_json(architecture)},
            {"parameters", parameters(model)},
            {"weight_bytes", weight_bytes(model)},
            {"kv_bytes_per_position", kv_bytes(architecture)},
            {"tensors", tensors},
            {"tokenizer", tokenizer},
            {"layer_ahead", has_layer_ahead(model)},
            {"chat_template", model.chat_template.source()},
            {"metadata", nlohmann::json::parse(model.metadata_json)}};
}

// "rope", "window 24", "stride 8": what tells one layer's attention from another's.
std::string positions_text(const Architecture& architecture, const Attention& attention) {
    std::string text;
    if (attention.rope >= 0)
        text = architecture.ropes.size() > 1 ? cat("rope ", attention.rope) : std::string("rope");
    if (attention.bias != PositionBias::none) text = name_of(bias_names, attention.bias);
    return text.empty() ? "none" : text;
}

std::string mask_text(const Attention& attention) {
    std::string text = name_of(mask_names, attention.mask);
    if (attention.window != 0)
        text = cat(attention.mask == Mask::causal ? "" : text + " ", "window ", attention.window);
    if (attention.stride != 0) text += cat(" ", attention.stride);
    if (attention.summary != 0) text += cat(" + ", attention.summary);
    const Chunks& chunks = attention.chunks;
    if (chunks.length != 0)
        text += cat(", chunks of ", chunks.length, " and ", chunks.before, " + ", chunks.after, " around");
    if (chunks.rounds != 0)
        text += cat(", hashed ", chunks.rounds, " x to ", chunks.bucket_count(), " buckets");
    return text;
}

std::string feed_forward_text(const FeedForward& feed_forward) {
    const Routing& routing = feed_forward.routing;
    if (feed_forward.size == 0 && routing.experts == 0) return "none";
    std::string text =
        cat(feed_forward.gated ? "gated " : "", name_of(activation_names, feed_forward.activation));
    if (routing.experts == 0) return cat(feed_forward.size, " ", text);
    text = cat(routing.used, " of ", routing.experts, " experts, ", routing.size, " ", text);
    return routing.shared_size != 0
               ? cat(text, routing.apart ? ", beside " : ", shared ", routing.shared_size)
               : text;
}

std::string extras_text(const Layer& layer) {
    const Attention& attention = layer.attention;
    const FeedForward& feed_forward = layer.feed_forward;
    std::string extras;
    const auto add = [&](bool there, const std::string& what) {
        if (there) extras += cat(extras.empty() ? "" : " ", what);
    };
    add(attention.q_bias || attention.k_bias || attention.v_bias, "qkv-bias");
    add(attention.o_bias, "o-bias");
    add(feed_forward.cuts_gate(), cat("gate-cut-", fixed(double{feed_forward.gate_cut}, 3)));
    add(feed_forward.up_bias || feed_forward.down_bias || feed_forward.routing.bias, "ff-bias");
    add(attention.qk_norm.group != QkNorm::Group::none,
        cat("qk-norm-", name_of(qk_norm_names, attention.qk_norm.group)));
    add(attention.v_norm, attention.v_is_k ? "v-norm-of-k" : "v-norm");
    add(attention.soft_cap != 0, cat("soft-cap-", attention.soft_cap));
    add(attention.clip != 0, cat("clip-", attention.clip));
    add(attention.sinks, "sinks");
    add(attention.gate_columns() != 0, "gated");
    add(attention.global_tokens, "global-projections");
    add(attention.distance_values, "distance-values");
    add(attention.latent.kv_rank != 0, cat("latent-", attention.latent.kv_rank));
    add(attention.indexer.chooses(), cat("top-", attention.indexer.top));
    add(attention.indexer.shared, "top-of-before");
    add(attention.kv_layer >= 0, cat("kv-of-", attention.kv_layer));
    add(layer.recurs(), cat("beside-", name_of(recurrence_names, layer.recurrence.kind), "-of-",
                            layer.recurrence.heads, "x", layer.recurrence.value_dim, "-heads"));
    add(layer.cross.heads != 0, "cross-attention");
    add(layer.scale != 1, cat("scale-", layer.scale));
    if (layer.placement) add(true, cat("norms-", name_of(placement_names, *layer.placement)));
    return extras;
}

// Layers that are alike are one line: "0-29".
void add_layers(TextTable& table, const Architecture& architecture, const std::string& stack) {
    const std::vector<Layer>& layers = architecture.layers;
    size_t first = 0;
    while (first < layers.size()) {
        size_t last = first;
        while (last + 1 < layers.size() && layers[last + 1] == layers[first]) ++last;
        const Attention& attention = layers[first].attention;
        const Recurrence& recurrence = layers[first].recurrence;
        const std::string which = stack + (first == last ? cat(first) : cat(first, '-', last)),
                          feed_forward = feed_forward_text(layers[first].feed_forward);
        if (layers[first].attention.heads != 0 || !layers[first].recurs())
            table.add({which, cat(attention.heads), cat(attention.kv_heads), cat(attention.head_dim),
                       positions_text(architecture, attention), mask_text(attention), feed_forward,
                       extras_text(layers[first])});
        else
            table.add(
                {which, cat(recurrence.heads), cat(recurrence.groups), cat(recurrence.value_dim), "",
                 name_of(recurrence_names, recurrence.kind), feed_forward,
                 cat("taps-", recurrence.taps,
                     recurrence.key_dim ? cat(" state-", recurrence.key_dim) : std::string(),
                     recurrence.beta_scale != 1 ? cat(" beta-x", recurrence.beta_scale) : std::string())});
        first = last + 1;
    }
}

std::string layers_table(const Architecture& architecture) {
    TextTable table(
        {"layers", "heads", "kv heads", "head dim", "positions", "mask", "feed-forward", "extras"});
    for (const Architecture& encoder : architecture.encoder) add_layers(table, encoder, "encoder ");
    add_layers(table, architecture, "");
    return table.text();
}

std::string norm_text(const Architecture& architecture) {
    const Norm& norm = architecture.norm;
    return cat("norms: ", name_of(norm_names, norm.kind), norm.weight ? "" : " without weights",
               norm.bias ? " with bias" : "", ", epsilon ", norm.epsilon, ", placed ",
               name_of(placement_names, architecture.placement),
               architecture.embedding_norm ? ", also after the embedding" : "",
               architecture.output_norm ? "" : ", none at the output", "\n");
}

std::string scales_text(const Architecture& architecture) {
    std::string text;
    const auto add = [&](bool there, const std::string& what) {
        if (there) text += cat(text.empty() ? "" : ", ", what);
    };
    add(architecture.positions != 0, cat(architecture.positions, " position embeddings"));
    add(architecture.axial.rows != 0,
        cat(architecture.axial.rows, " x ", architecture.axial.cols, " axial position embeddings"));
    add(architecture.two_streams, "two streams");
    add(architecture.alternating.count != 0, cat(architecture.alternating.count, " alternating streams"));
    add(architecture.alternating.laurel != 0, cat("residuals of rank ", architecture.alternating.laurel));
    add(architecture.embedding != 0, cat("token table of ", architecture.embedding, " columns"));
    add(architecture.per_layer != 0, cat("token table of ", architecture.per_layer, " columns per layer"));
    add(architecture.embedding_scale != 1, cat("embeddings x ", architecture.embedding_scale));
    add(architecture.residual_scale != 1, cat("residuals x ", architecture.residual_scale));
    add(architecture.logit_scale != 1, cat("logits x ", architecture.logit_scale));
    add(architecture.logit_soft_cap != 0, cat("logit soft cap ", architecture.logit_soft_cap));
    add(architecture.output_bias, "output bias");
    for (size_t i = 0; i < architecture.ropes.size(); ++i) {
        const Rope& rope = architecture.ropes[i];
        add(true, cat("rope ", i, " on ", rope.width, " elements by ",
                      rope.pairs == RopePairs::halves ? "halves" : "neighbours"));
        add(rope.magnitude != 1, cat("its magnitude ", fixed(rope.magnitude, 4)));
        add(rope.short_length != 0, cat("other frequencies beyond ", rope.short_length, " positions"));
        add(rope.query_growth != 0,
            cat("queries x 1 + ", fixed(rope.query_growth, 4), " ln(1 + ",
                rope.growth_offset ? cat("(position + ", rope.growth_offset, ")") : "position", " / ",
                rope.growth_length, ")"));
    }
    return text.empty() ? text : text + "\n";
}

std::string model_text(const Model& model) {
    const Architecture& architecture = model.architecture;
    std::string out = cat(model.name, "  (", model.path.string(), ")\n", "family ", architecture.family, ", ",
                          architecture.layers.size(), " layers, hidden ", architecture.hidden,
                          ", vocabulary ", architecture.vocab, ", context ", architecture.context,
                          architecture.tied_embeddings ? ", tied embeddings" : "",
                          has_layer_ahead(model) ? ", a layer that guesses ahead (--mtp)" : "", "\n");
    out += norm_text(architecture) + scales_text(architecture) + "\n" + layers_table(architecture) + "\n";
    TextTable tensors({"tensor", "role", "type", "rows", "cols", "bytes"});
    for (const TensorRow& row : tensor_rows(model))
        tensors.add({row.view->name, row.role.empty() ? "(unused)" : row.role,
                     tensor_type_info(row.view->type).name, cat(row.view->rows), cat(row.view->cols),
                     cat(row.view->bytes())});
    out += tensors.text() + "\n";
    if (model.tokenizer)
        out += cat("tokenizer ", model.tokenizer->kind(), ", ", model.tokenizer->size(), " tokens, bos ",
                   model.tokenizer->bos(), ", eos ", model.tokenizer->eos(), '\n');
    else
        out += "no tokenizer\n";
    const auto kv = kv_bytes(architecture);
    out += cat(model.chat_template.empty() ? "no chat template" : "chat template in the file", '\n',
               fixed(double(parameters(model)) / 1e6, 1), " million parameters, weights ",
               bytes_text(weight_bytes(model)), ", KV cache per position ", bytes_text(kv.at("f16")),
               " (f16), ", bytes_text(kv.at("q8_0")), " (q8_0)\n");
    return out;
}

/// The header of a GGUF file that holds no model, such as tensors or a vocabulary alone; nothing if it holds
/// (part of) one.
std::optional<Gguf> header_without_model(const std::string& path) {
    try {
        Gguf header = read_gguf(File(path));
        const auto embeds = [](const GgufTensor& tensor) { return tensor.name == "token_embd.weight"; };
        if (std::ranges::none_of(header.tensors, embeds)) return header;
    } catch (const Error&) {  // the caller has a better one
    }
    return {};
}

std::string header_report(const Gguf& header, const std::string& reason, bool json) {
    nlohmann::json tensors = nlohmann::json::array();
    TextTable table({"tensor", "type", "dimensions", "bytes"});
    for (const GgufTensor& tensor : header.tensors) {
        const bool known = tensor_type_info(tensor.type) != nullptr;
        const uint64_t bytes = known ? tensor_view(tensor).bytes() : 0;
        tensors.push_back({{"name", tensor.name},
                           {"type", gguf_type_name(tensor.type)},
                           {"dimensions", tensor.dimensions},
                           {"bytes", known ? nlohmann::json(bytes) : nlohmann::json()}});
        std::string dimensions;
        for (const uint64_t size : tensor.dimensions)
            dimensions += cat(dimensions.empty() ? "" : " x ", size);
        table.add({tensor.name, gguf_type_name(tensor.type), dimensions, known ? cat(bytes) : "?"});
    }
    if (!json) return cat("No model: ", reason, "\n\n", table.text());
    const nlohmann::json report = {{"no_model", reason},
                                   {"tensors", tensors},
                                   {"metadata", nlohmann::json::parse(header.metadata.json())}};
    return json_text(report, 1) + "\n";
}

bool is_adapter(const std::string& path) {
    if (is_peft_adapter(path_of(path))) return true;
    try {
        return !std::filesystem::is_directory(path_of(path)) && scoria::is_adapter(read_gguf(File(path)));
    } catch (const Error&) {  // the caller has a better one
        return false;
    }
}

std::string adapter_report(const Adapter& adapter, bool json) {
    nlohmann::json pairs = nlohmann::json::array();
    TextTable table({"weight", "rank", "scale", "rows", "cols", "type"});
    uint64_t parameters = 0;
    for (const auto& [name, pair] : adapter.pairs) {
        const uint64_t rows = pair.b.shape[0], cols = pair.a.shape[1];
        parameters += pair.rank() * (rows + cols);
        const char* type = tensor_type_info(pair.a.type).name;
        pairs.push_back({{"weight", name},
                         {"rank", pair.rank()},
                         {"scale", pair.scale},
                         {"rows", rows},
                         {"cols", cols},
                         {"type", type}});
        table.add({name, cat(pair.rank()), fixed(pair.scale, 4), cat(rows), cat(cols), type});
    }
    const char* format = adapter.format == Settings::Format::gguf ? "GGUF" : "PEFT";
    if (!json)
        return cat("LoRA adapter (", format, ") for ",
                   adapter.base.empty() ? "a model unnamed" : adapter.base, ": ", adapter.pairs.size(),
                   " weights, ", parameters, " parameters\n\n", table.text());
    const nlohmann::json report = {
        {"adapter", format}, {"base", adapter.base}, {"parameters", parameters}, {"weights", pairs}};
    return json_text(report, 1) + "\n";
}

}  // namespace

Action define_inspect(CLI::App& app, const Common& common) {
    auto name = std::make_shared<std::string>();
    app.add_option("MODEL", *name,
                   "GGUF file, Hugging Face folder or name of a pulled model (as -m), or a LoRA adapter");
    auto families = std::make_shared<bool>(false);
    app.add_flag("--families", *families, "which model families are known, and what each computes");
    return [name, families, &app, &common] {
        check_alone(app, {{"MODEL", {"--model"}}, {"--families", {"MODEL", "--model"}}});
        if (*families) {
            print(families_page());
            return 0;
        }
        const std::string path = resolve_model(name->empty() ? common.model : *name).string();
        Common whose = common;
        whose.model = path;
        const auto say = [&](const std::string& report) { print(common.json ? report : shown(report)); };
        try {
            const std::shared_ptr<const Model> model = load_model(whose);
            say(common.json ? json_text(model_json(*model), 1) + "\n" : model_text(*model));
        } catch (const Error& error) {
            if (is_adapter(path)) {
                say(adapter_report(open_adapter(path_of(path)), common.json));
                return 0;
            }
            const std::optional<Gguf> header = header_without_model(path);
            if (!header) throw;
            say(header_report(*header, error.what(), common.json));
        }
        return 0;
    };
}

}  // namespace scoria::cli
