// See layer_ahead.h.
#include "layer_ahead.h"

#include "fail.h"
#include "model.h"

#include <algorithm>

namespace scoria {
namespace {

#define IN "ahead.in."
#define IN_HIDDEN_FIRST "ahead.in_hidden_first."
#define EMBEDDING_NORM "ahead.embedding_norm."
#define HIDDEN_NORM "ahead.hidden_norm."
constexpr Renamed gguf_names[] = {
    {"blk.#.nextn.eh_proj.", IN},
    {"blk.#.nextn.enorm.", EMBEDDING_NORM},
    {"blk.#.nextn.hnorm.", HIDDEN_NORM},
    {"blk.#.nextn.embed_tokens.", "token_embd."},
    {"blk.#.nextn.shared_head_head.", "output."},
    {"blk.#.nextn.shared_head_norm.", "output_norm."},
    {"blk.#.", "blk.0."},
};
constexpr Renamed folder_names[] = {
    // DeepSeek, GLM
    {"model.layers.#.eh_proj.", IN},
    {"model.layers.#.enorm.", EMBEDDING_NORM},
    {"model.layers.#.hnorm.", HIDDEN_NORM},
    {"model.layers.#.embed_tokens.", "model.embed_tokens."},
    {"model.layers.#.shared_head.head.", "lm_head."},
    {"model.layers.#.shared_head.norm.", "model.norm."},
    {"model.layers.#.", "model.layers.0."},
    // Qwen3-Next, Qwen3.5, K-EXAONE
    {"mtp.fc.", IN},
    {"mtp.pre_fc_norm_embedding.", EMBEDDING_NORM},
    {"mtp.pre_fc_norm_hidden.", HIDDEN_NORM},
    {"mtp.norm.", "model.norm."},
    {"mtp.layers.0.", "model.layers.0."},
    // MiMo
    {"model.mtp_layers.0.input_proj.", IN_HIDDEN_FIRST},
    {"model.mtp_layers.0.token_layernorm.", EMBEDDING_NORM},
    {"model.mtp_layers.0.hidden_layernorm.", HIDDEN_NORM},
    {"model.mtp_layers.0.final_layernorm.", "model.norm."},
    {"model.mtp_layers.0.", "model.layers.0."},
};
constexpr const char *in = IN "weight", *in_hidden_first = IN_HIDDEN_FIRST "weight";

/// Of all layers' tensors leaves the one's.
void take_layer(std::vector<StoredTensor>& tensors, std::span<const Renamed> names, uint32_t layer,
                std::initializer_list<std::string_view> of_layers) {
    std::vector<StoredTensor> renamed, others;
    for (StoredTensor& tensor : tensors) {
        const auto begins = [&](std::string_view each) { return tensor.name.starts_with(each); };
        if (rename(tensor, names, int32_t(layer)))
            renamed.push_back(std::move(tensor));
        else if (std::ranges::none_of(of_layers, begins))
            others.push_back(std::move(tensor));
    }
    const auto has = [&](const std::string& name) {
        return std::ranges::find(renamed, name, &StoredTensor::name) != renamed.end();
    };
    if (!has(in) && !has(in_hidden_first))
        fail(Status::unsupported, "layers ahead",
             "expected a model with a layer that guesses further tokens, got none");
    for (StoredTensor& tensor : others)
        if (!has(tensor.name)) renamed.push_back(std::move(tensor));
    tensors = std::move(renamed);
}

uint32_t count(const nlohmann::json& values, const char* name) {
    const auto found = values.find(name);
    return found != values.end() && found->is_number_unsigned() ? found->get<uint32_t>() : 0;
}

/// Leaves of lists with a value for each of `layers` that of one.
void take_value(nlohmann::json& values, uint32_t layers, uint32_t layer) {
    for (nlohmann::json& value : values)
        if (value.is_array() && value.size() == layers) value = nlohmann::json::array({value[layer]});
}

void set_if_there(nlohmann::json& values,
                  std::initializer_list<std::pair<const char*, nlohmann::json>> fields) {
    for (const auto& [name, value] : fields)
        if (values.contains(name)) values[name] = value;
}

}  // namespace

void take_gguf_layer_ahead(nlohmann::json& values, std::vector<StoredTensor>& tensors) {
    const uint32_t all = count(values, "block_count"),
                   layer = all - std::min(all, count(values, "nextn_predict_layers"));
    take_layer(tensors, gguf_names, layer, {"blk."});
    take_value(values, all, layer);
    set_if_there(values, {{"block_count", 1u},
                          {"nextn_predict_layers", 0u},
                          {"leading_dense_block_count", 0u},
                          {"full_attention_interval", 1u},
                          {"attention.indexer.types", nlohmann::json::array({1u})}});
}

void take_folder_layer_ahead(nlohmann::json& config, std::vector<StoredTensor>& tensors) {
    const uint32_t layers = count(config, "num_hidden_layers");
    take_layer(tensors, folder_names, layers, {"model.layers.", "mtp.", "model.mtp_layers."});
    if (layers != 0) take_value(config, layers, layers - 1);
    set_if_there(config, {{"num_hidden_layers", 1u},
                          {"num_nextn_predict_layers", 0u},
                          {"first_k_dense_replace", 0u},
                          {"full_attention_interval", 1u},
                          {"layer_types", nlohmann::json::array({"full_attention"})},
                          {"indexer_types", nlohmann::json::array({"full"})},
                          {"index_topk_pattern", "F"}});
    for (const auto& [name, ahead] :
         {std::pair{"layer_types", "mtp_layer_types"}, std::pair{"mlp_layer_types", "mtp_mlp_layer_types"}})
        if (const auto found = config.find(ahead);
            found != config.end() && found->is_array() && !found->empty())
            config[name] = nlohmann::json::array({found->front()});
}

bool has_layer_ahead(const Model& model) {
    const auto has = [&](std::span<const Renamed> names) {
        return std::ranges::any_of(names, [&](const Renamed& row) {
            const bool joins = row.to == std::string_view(IN) || row.to == std::string_view(IN_HIDDEN_FIRST);
            const std::string name =
                tensor_name(row.from, int32_t(model.architecture.layers.size())) + "weight";
            return joins && std::ranges::find(model.unused, name, &TensorView::name) != model.unused.end();
        });
    };
    return has(gguf_names) || has(folder_names);
}

std::string gguf_name_ahead(const std::string& name, size_t layers) {
    const auto row =
        std::ranges::find_if(gguf_names, [&](const Renamed& each) { return name.starts_with(each.to); });
    if (row == std::end(gguf_names)) return {};
    return tensor_name(row->from, int32_t(layers)) + name.substr(std::string_view(row->to).size());
}

std::vector<std::span<const TensorRow>> with_rows_ahead(std::span<const std::span<const TensorRow>> family) {
    static constexpr TensorRow as_is[] = {{Role::ahead_in, in},
                                          {Role::ahead_in, in_hidden_first},
                                          {Role::ahead_embedding_norm, EMBEDDING_NORM "weight"},
                                          {Role::ahead_hidden_norm, HIDDEN_NORM "weight"},
                                          {Role::ahead_features_norm, "ahead.features_norm.weight"}},
                               plus_one[] = {
                                   {Role::ahead_in, in},
                                   {Role::ahead_embedding_norm, EMBEDDING_NORM "weight", Layout::plus_one},
                                   {Role::ahead_hidden_norm, HIDDEN_NORM "weight", Layout::plus_one}};
    std::vector<std::span<const TensorRow>> all(family.begin(), family.end());
    bool adds = false;
    for (const std::span<const TensorRow> rows : family)
        for (const TensorRow& row : rows)
            adds = adds || (row.role == Role::output_norm && row.layout == Layout::plus_one);
    all.push_back(adds ? std::span<const TensorRow>(plus_one) : as_is);
    return all;
}

void set_ahead(const Catalog& catalog, Architecture& architecture) {
    architecture.ahead = catalog.find(in) ? Ahead::embedding_first : Ahead::hidden_first;
    architecture.takes = architecture.shows = {read_by_head};
}

}  // namespace scoria
