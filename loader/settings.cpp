// See settings.h.
#include "settings.h"

#include "fail.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace scoria {
namespace {

struct FieldNames {
    Field field;
    const char* gguf;
    std::array<const char*, 9> hugging_face;  // the commonest first
};

constexpr FieldNames field_names[] = {
    {Field::vocab, "vocab_size", {"vocab_size"}},
    {Field::hidden, "embedding_length", {"hidden_size", "n_embd", "d_model", "n_embed", "dim"}},
    {Field::layers,
     "block_count",
     {"num_hidden_layers", "n_layer", "num_layers", "n_layers", "encoder_layers", "num_encoder_layers"}},
    {Field::heads,
     "attention.head_count",
     {"num_attention_heads", "n_head", "num_heads", "n_heads", "encoder_attention_heads", "attention_heads"}},
    {Field::kv_heads,
     "attention.head_count_kv",
     {"num_key_value_heads", "kv_n_heads", "num_attention_groups"}},
    {Field::head_dim,
     "attention.key_length",
     {"head_dim", "attention_head_dim", "d_kv", "attention_head_size"}},
    {Field::context,
     "context_length",
     {"max_position_embeddings", "n_positions", "max_seq_len", "seq_length",
      "max_decoder_position_embeddings", "model_max_length"}},
    {Field::feed_forward,
     "feed_forward_length",
     {"intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", "d_ff", "encoder_ffn_dim",
      "feed_forward_size", "block_ff_dim", "hidden_dim"}},
    {Field::epsilon,
     "attention.layer_norm_rms_epsilon",
     {"rms_norm_eps", "norm_eps", "norm_epsilon", "layer_norm_eps", "layer_norm_epsilon",
      "layernorm_epsilon"}},
    {Field::experts,
     "expert_count",
     {"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"}},
    {Field::experts_used,
     "expert_used_count",
     {"num_experts_per_tok", "experts_per_token", "num_experts_per_token", "moe_topk", "moe_k", "moe_top_k",
      "top_k_experts"}},
    {Field::expert_size, "expert_feed_forward_length", {"moe_intermediate_size"}},
    {Field::shared_size,
     "expert_shared_feed_forward_length",
     {"shared_expert_intermediate_size", "shared_intermediate_size", "moe_shared_expert_intermediate_size"}},
    {Field::window,
     "attention.sliding_window",
     {"sliding_window", "window_size", "window", "local_attention"}},
    {Field::activation,
     "activation",
     {"hidden_activation", "hidden_act", "activation_function", "activation", "afn"}},
    {Field::clip, "attention.clamp_kqv", {"clip_qkv"}},
};

bool is_off(const nlohmann::json& value) {
    return value.is_null() || value == false || value == 0 ||
           ((value.is_structured() || value.is_string()) && value.empty());
}

/// 20.0, which a converter wrote for Gemma 3n's attention.shared_kv_layers.
bool is_whole_float(const nlohmann::json& value) {
    if (!value.is_number_float()) return false;
    const double number = value.get<double>();
    return number >= 0 && number <= 0x1p53 && number == std::floor(number);
}

/// The one value of a list with one per layer, beside zeros where a layer has none; null if it has several.
const nlohmann::json* one_of(const nlohmann::json& list) {
    if (list.empty()) return nullptr;
    const auto some = std::ranges::find_if(list, [](const auto& each) { return each != 0; });
    const nlohmann::json& one = some == list.end() ? list.front() : *some;
    const bool alone = std::ranges::all_of(list, [&](const auto& each) { return each == one || each == 0; });
    return alone ? &one : nullptr;
}

}  // namespace

const char* Settings::name_of(Field field) const {
    const FieldNames& names = field_names[static_cast<size_t>(field)];
    if (format_ == Format::gguf) {  // the one key that GGUF spells two ways, in some files both
        const char* layer_norm = "attention.layer_norm_epsilon";
        if (field != Field::epsilon || !values_.contains(layer_norm)) return names.gguf;
        asked_.emplace(names.gguf);
        return layer_norm;
    }
    const char* chosen = nullptr;
    for (const char* name : names.hugging_face) {
        if (name == nullptr || !values_.contains(name)) continue;
        asked_.emplace(name);
        if (chosen == nullptr && !values_.at(name).is_null()) chosen = name;
    }
    return chosen != nullptr ? chosen : names.hugging_face[0];
}

void Settings::wrong(std::string_view name, std::string_view expected) const {
    const auto found = values_.find(name);
    const std::string got = found == values_.end() ? "nothing"
                            : found->is_string()   ? "a string"
                                                   : found->dump().substr(0, 80);
    fail(Status::bad_file, where_, full_name(name), ": expected ", expected, ", got ", got);
}

const nlohmann::json* Settings::find(std::string_view name) const {
    asked_.emplace(name);
    const auto found = values_.find(name);
    return found == values_.end() || found->is_null() ? nullptr : &*found;
}

uint32_t Settings::size(std::string_view name, uint64_t most, std::optional<uint64_t> fallback,
                        uint64_t least) const {
    const nlohmann::json* value = find(name);
    if (value == nullptr && !fallback) fail(Status::bad_file, where_, full_name(name), " is missing");
    if (value != nullptr && value->is_array())
        if (const nlohmann::json* one = one_of(*value)) value = one;
    if (value != nullptr && !value->is_number_unsigned() && !is_whole_float(*value)) {
        const bool negative = value->is_number_integer() && value->get<int64_t>() < 0;
        if (!value->is_number_integer() || negative)
            wrong(name, value->is_number_integer() ? cat(least, " to ", most) : "an integer");
    }
    const uint64_t chosen = value ? value->get<uint64_t>() : *fallback;
    if (chosen < least || chosen > most)
        fail(Status::bad_file, where_, full_name(name), ": expected ", least, " to ", most, ", got ", chosen);
    return static_cast<uint32_t>(chosen);
}

void Settings::expect_one(Field field) const {
    if (format_ == Format::gguf) return;
    const char* chosen = name_of(field);
    for (const char* name : field_names[static_cast<size_t>(field)].hugging_face)
        if (name != nullptr && has(name) && *find(name) != *find(chosen))
            wrong(name, cat("the value of ", chosen));
}

std::vector<uint32_t> Settings::sizes(Field field, size_t count, uint64_t most) const {
    const char* name = name_of(field);
    const nlohmann::json* value = find(name);
    std::vector<uint32_t> all;
    if (value == nullptr || !value->is_array() || value->empty()) return all;
    if (std::ranges::all_of(*value, [&](const auto& each) { return each == value->front(); })) return all;
    for (const nlohmann::json& each : *value) {
        if (!each.is_number_integer() || each < 0 || each > most)
            wrong(name, cat("0 to ", most, " in every place"));
        all.push_back(each.get<uint32_t>());
    }
    if (all.size() != count)
        fail(Status::bad_file, where_, full_name(name), ": expected ", count, " numbers, got ", all.size());
    return all;
}

double Settings::positive(std::string_view name, std::optional<double> fallback) const {
    const nlohmann::json* value = find(name);
    if (value == nullptr && fallback) return *fallback;
    if (value == nullptr) fail(Status::bad_file, where_, full_name(name), " is missing");
    if (!value->is_number()) wrong(name, "a number");
    const double number = value->get<double>();
    // As it is used: as a float.
    if (!(number >= double{std::numeric_limits<float>::min()} &&
          number <= double{std::numeric_limits<float>::max()}))
        fail(Status::bad_file, where_, full_name(name), ": expected a finite number above 0, got ", number);
    return number;
}

bool Settings::flag(std::string_view name, bool otherwise) const {
    const nlohmann::json* value = find(name);
    if (value == nullptr) return otherwise && !is_null(name);  // as Python reads null
    if (!value->is_boolean()) wrong(name, "true or false");
    return value->get<bool>();
}

std::string Settings::text(std::string_view name, std::string otherwise) const {
    const nlohmann::json* value = find(name);
    if (value == nullptr) return otherwise;
    if (!value->is_string()) wrong(name, "a string");
    return value->get<std::string>();
}

std::vector<double> Settings::numbers(std::string_view name) const {
    const nlohmann::json* value = find(name);
    std::vector<double> all;
    if (value == nullptr) return all;
    if (!value->is_array()) wrong(name, "a list of numbers");
    for (const nlohmann::json& each : *value) {
        if (!each.is_number() && !each.is_boolean()) wrong(name, "a list of numbers");
        all.push_back(each.is_boolean() ? double(each.get<bool>()) : each.get<double>());
    }
    return all;
}

std::vector<std::string> Settings::texts(std::string_view name) const {
    const nlohmann::json* value = find(name);
    std::vector<std::string> all;
    if (value == nullptr) return all;
    if (!value->is_array()) wrong(name, "a list of strings");
    for (const nlohmann::json& each : *value) {
        if (!each.is_string()) wrong(name, "a list of strings");
        all.push_back(each.get<std::string>());
    }
    return all;
}

Settings Settings::section(std::string_view name) const {
    const nlohmann::json* value = find(name);
    if (value != nullptr && !value->is_object()) wrong(name, "an object");
    return Settings(format_, where_, full_name(name) + ".",
                    value != nullptr ? *value : nlohmann::json::object());
}

void Settings::refuse(std::span<const char* const> names) const {
    for (const char* name : names) {
        const nlohmann::json* value = find(name);
        if (value != nullptr && !is_off(*value))
            fail(Status::unsupported, where_, full_name(name), ": this build cannot honour it");
    }
}

void Settings::refuse_unknown(bool (*harmless)(std::string_view, const nlohmann::json&)) const {
    for (const auto& [name, value] : values_.items()) {
        if (asked_.contains(name) || is_off(value) || (harmless && harmless(name, value))) continue;
        fail(Status::unsupported, where_, full_name(name),
             ": this build does not know it and cannot honour it, got ", value.dump().substr(0, 80));
    }
}

}  // namespace scoria
