// inspect: what a model file holds. Reads headers only; needs no device.
#include "common.h"
#include "io.h"
#include "models.h"
#include "verbs.h"

#include "console.h"
#include "gguf.h"
#include "text_table.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
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
    for (const auto& [ref, view] : model.weights) rows.push_back({&view, ref.layer, role_name(ref.role)});
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

/// Bytes of keys and values per position, all layers.
uint64_t kv_bytes(const Architecture& architecture, KvType type) {
    uint64_t values = 0;
    for (const Layer& layer : architecture.layers)
        values += uint64_t{2} * layer.attention.kv_heads * layer.attention.head_dim;
    return values * (type == KvType::f32 ? 4 : 2);
}

nlohmann::json layer_json(const Layer& layer) {
    const Attention& attention = layer.attention;
    return {{"heads", attention.heads},
            {"kv_heads", attention.kv_heads},
            {"head_dim", attention.head_dim},
            {"scale", attention.scale},
            {"window", attention.window},
            {"qkv_bias", {attention.q_bias, attention.k_bias, attention.v_bias}},
            {"o_bias", attention.o_bias},
            {"qk_norm", attention.qk_norm.group != QkNorm::Group::none},
            {"feed_forward", layer.feed_forward.size}};
}

nlohmann::json model_json(const Model& model) {
    const Architecture& architecture = model.architecture;
    nlohmann::json layers = nlohmann::json::array(), tensors = nlohmann::json::array();
    for (const Layer& layer : architecture.layers) layers.push_back(layer_json(layer));
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
            {"architecture",
             {{"family", architecture.family},
              {"vocab", architecture.vocab},
              {"hidden", architecture.hidden},
              {"context", architecture.context},
              {"norm_epsilon", architecture.norm.epsilon},
              {"tied_embeddings", architecture.tied_embeddings},
              {"rope_width", architecture.ropes.empty() ? 0 : architecture.ropes[0].width},
              {"layers", layers}}},
            {"parameters", parameters(model)},
            {"weight_bytes", weight_bytes(model)},
            {"kv_bytes_per_position",
             {{"f32", kv_bytes(architecture, KvType::f32)}, {"f16", kv_bytes(architecture, KvType::f16)}}},
            {"tensors", tensors},
            {"tokenizer", tokenizer},
            {"chat_template", model.chat_template.source()},
            {"metadata", nlohmann::json::parse(model.metadata_json)}};
}

// Layers that are alike are one line: "0-29".
std::string layers_table(const std::vector<Layer>& layers) {
    TextTable table({"layers", "heads", "kv heads", "head dim", "window", "feed-forward", "extras"});
    size_t first = 0;
    while (first < layers.size()) {
        const nlohmann::json description = layer_json(layers[first]);
        size_t last = first;
        while (last + 1 < layers.size() && layer_json(layers[last + 1]) == description) ++last;
        const Attention& attention = layers[first].attention;
        std::string extras;
        if (attention.q_bias || attention.k_bias || attention.v_bias) extras += " qkv-bias";
        if (attention.o_bias) extras += " o-bias";
        if (attention.qk_norm.group != QkNorm::Group::none) extras += " qk-norm";
        table.add({first == last ? cat(first) : cat(first, '-', last), cat(attention.heads),
                   cat(attention.kv_heads), cat(attention.head_dim),
                   attention.window ? cat(attention.window) : "-", cat(layers[first].feed_forward.size),
                   extras.empty() ? "" : extras.substr(1)});
        first = last + 1;
    }
    return table.text();
}

std::string model_text(const Model& model) {
    const Architecture& architecture = model.architecture;
    std::string out = cat(model.name, "  (", model.path.string(), ")\n", "family ", architecture.family, ", ",
                          architecture.layers.size(), " layers, hidden ", architecture.hidden,
                          ", vocabulary ", architecture.vocab, ", context ", architecture.context,
                          architecture.tied_embeddings ? ", tied embeddings" : "", "\n\n");
    out += layers_table(architecture.layers) + "\n";
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
    out += cat(model.chat_template.empty() ? "no chat template" : "chat template in the file", '\n',
               fixed(double(parameters(model)) / 1e6, 1), " million parameters, weights ",
               bytes_text(weight_bytes(model)), ", KV cache per position ",
               bytes_text(kv_bytes(architecture, KvType::f16)), " (f16) or ",
               bytes_text(kv_bytes(architecture, KvType::f32)), " (f32)\n");
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
    return report.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

Action define_inspect(CLI::App& app, const Common& common) {
    auto name = std::make_shared<std::string>();
    app.add_option("MODEL", *name, "GGUF file or name of a pulled model (as -m)");
    return [name, &common] {
        const std::string path = resolve_model(name->empty() ? common.model : *name);
        try {
            const Model model = open_model(path);
            print(common.json
                      ? model_json(model).dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"
                      : model_text(model));
        } catch (const Error& error) {
            const std::optional<Gguf> header = header_without_model(path);
            if (!header) throw;
            print(header_report(*header, error.what(), common.json));
        }
        return 0;
    };
}

}  // namespace scoria::cli
