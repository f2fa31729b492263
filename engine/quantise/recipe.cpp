// Recipes and rules as tables.
#include "quantise/recipe.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>
#include <string>
#include <utility>

namespace scoria {
namespace {

using Type = TensorType;

constexpr Recipe all_recipes[] = {
    {"Q8_0", Type::q8_0, 7},       {"Q6_K", Type::q6_k, 18},   {"Q5_K_M", Type::q5_k, 17},
    {"Q5_K_S", Type::q5_k, 16},    {"Q4_K_M", Type::q4_k, 15}, {"Q4_K_S", Type::q4_k, 14},
    {"Q3_K_L", Type::q3_k, 13},    {"Q3_K_M", Type::q3_k, 12}, {"Q3_K_S", Type::q3_k, 11},
    {"Q2_K", Type::q2_k, 10},      {"Q5_1", Type::q5_1, 9},    {"Q5_0", Type::q5_0, 8},
    {"Q4_1", Type::q4_1, 3},       {"Q4_0", Type::q4_0, 2},    {"IQ4_NL", Type::iq4_nl, 25},
    {"INT8", Type::q8_0, 7, true}, {"BF16", Type::bf16, 32},   {"F16", Type::f16, 1},
    {"F32", Type::f32, 0},
};

enum class Part { output, attention_v, attention_k, attention_o, down, other };

/// Names of other tensors that end in "weight" and are kept as they are.
constexpr std::string_view kept[] = {
    "_norm.weight",
    "ffn_gate_inp.weight",
    "attn_rel_b.weight",
    "position_embd",
    "cls",
    "token_types.weight",
    "altup",
    "laurel",
    "per_layer_model_proj",
    "ssm_conv1d",
    "shortconv.conv",
    "time_mix_first.weight",
    "time_mix_w0.weight",
    "time_mix_w1.weight",
    "time_mix_w2.weight",
    "time_mix_v0.weight",
    "time_mix_v1.weight",
    "time_mix_v2.weight",
    "time_mix_a0.weight",
    "time_mix_a1.weight",
    "time_mix_a2.weight",
    "time_mix_g1.weight",
    "time_mix_g2.weight",
    "time_mix_decay_w",
    "time_mix_lerp_fused.weight",
};

Part part_of(std::string_view name, bool tied) {
    if (name == "output.weight") return Part::output;
    if (name == "token_embd.weight" || name == "per_layer_token_embd.weight")
        return tied ? Part::output : Part::other;
    constexpr std::pair<std::string_view, Part> parts[] = {
        {"attn_qkv.weight", Part::attention_v},    {"attn_kv_b.weight", Part::attention_v},
        {"attn_v.weight", Part::attention_v},      {"attn_k.weight", Part::attention_k},
        {"attn_output.weight", Part::attention_o}, {"ffn_down", Part::down},
    };
    for (const auto& [text, part] : parts)
        if (name.find(text) != std::string_view::npos) return part;
    return Part::other;
}

/// Where a tensor stands among those of its part.
struct Place {
    uint64_t index, count;  // layers
    uint64_t heads_per_kv, experts;
    bool large;  // of the shape called 70B: 80 layers, shared key/value heads
    bool with_importance;
};

using Condition = bool (*)(const Place&);
bool always(const Place&) { return true; }
bool first_two(const Place& p) { return p.index < 2; }
bool first_four(const Place& p) { return p.index < 4; }
bool first_sixteenth(const Place& p) { return p.index < p.count / 16; }
bool first_eighth(const Place& p) { return p.index < p.count / 8; }
bool first_eighth_unmeasured(const Place& p) { return first_eighth(p) && !p.with_importance; }
bool first_eighth_measured(const Place& p) { return first_eighth(p) && p.with_importance; }
/// The first and last eighth, and every third layer between.
bool alternating(const Place& p) {
    const uint64_t eighth = p.count / 8;
    return p.index < eighth || p.index >= 7 * p.count / 8 || (p.index - eighth) % 3 == 2;
}
bool shared_heads(const Place& p) { return p.heads_per_kv >= 4; }
bool eight_experts(const Place& p) { return p.experts == 8; }
bool large_model(const Place& p) { return p.large; }

/// The first row that matches decides; recipe "": any.
struct Rule {
    std::string_view recipe;
    Part part;
    Condition condition;
    Type type;
};
constexpr Rule rules[] = {
    {"", Part::attention_v, eight_experts, Type::q8_0},
    {"", Part::attention_k, eight_experts, Type::q8_0},
    {"Q2_K", Part::attention_o, eight_experts, Type::q5_k},
    {"Q3_K_S", Part::attention_o, eight_experts, Type::q5_k},
    {"Q3_K_M", Part::attention_o, eight_experts, Type::q5_k},
    {"Q4_K_S", Part::attention_o, eight_experts, Type::q5_k},
    {"Q4_K_M", Part::attention_o, eight_experts, Type::q5_k},
    {"IQ4_NL", Part::attention_o, eight_experts, Type::q5_k},
    {"Q3_K_L", Part::attention_o, eight_experts, Type::q3_k},

    {"Q2_K", Part::attention_v, large_model, Type::q5_k},
    {"Q2_K", Part::attention_v, shared_heads, Type::q4_k},
    {"Q2_K", Part::attention_v, always, Type::q3_k},
    {"Q2_K", Part::attention_o, always, Type::q3_k},
    {"Q2_K", Part::down, always, Type::q3_k},
    {"Q3_K_S", Part::attention_v, large_model, Type::q5_k},
    {"Q3_K_M", Part::attention_v, large_model, Type::q5_k},
    {"Q3_K_M", Part::attention_v, first_two, Type::q5_k},
    {"Q3_K_M", Part::attention_v, always, Type::q4_k},
    {"Q3_K_M", Part::attention_o, always, Type::q4_k},
    {"Q3_K_M", Part::down, first_sixteenth, Type::q5_k},
    {"Q3_K_M", Part::down, always, Type::q4_k},
    {"Q3_K_L", Part::attention_v, always, Type::q5_k},
    {"Q3_K_L", Part::attention_o, always, Type::q5_k},
    {"Q3_K_L", Part::down, always, Type::q5_k},
    {"Q4_K_S", Part::attention_v, large_model, Type::q5_k},
    {"Q4_K_S", Part::attention_v, first_four, Type::q5_k},
    {"Q4_K_S", Part::down, first_eighth, Type::q5_k},
    {"Q4_K_M", Part::attention_v, alternating, Type::q6_k},
    {"Q4_K_M", Part::attention_v, large_model, Type::q5_k},
    {"Q4_K_M", Part::down, alternating, Type::q6_k},
    {"Q5_K_M", Part::attention_v, alternating, Type::q6_k},
    {"Q5_K_M", Part::down, alternating, Type::q6_k},
    {"IQ4_NL", Part::attention_v, shared_heads, Type::q5_k},
    {"IQ4_NL", Part::down, first_eighth_unmeasured, Type::q5_k},
    {"Q4_0", Part::down, first_eighth_measured, Type::q4_1},
    {"Q5_0", Part::down, first_eighth_measured, Type::q5_1},
};

bool divides(Type type, uint64_t cols) { return cols % tensor_type_info(type).block == 0; }

/// The type for rows that a type's blocks do not fill.
Type fallback(Type type, uint64_t cols) {
    constexpr std::pair<Type, Type> narrower[] = {
        {Type::q2_k, Type::q4_0}, {Type::q3_k, Type::q4_0}, {Type::q4_k, Type::q5_0},
        {Type::q5_k, Type::q5_1}, {Type::q6_k, Type::q8_0},
    };
    if (divides(type, cols)) return type;
    for (const auto& [from, to] : narrower)
        if (from == type && divides(to, cols)) return to;
    return Type::f16;
}

/// Number of the layer in "blk.12.attn_v.weight"; -1 for other names, such as "enc.blk.12.attn_v.weight".
int64_t layer_of(std::string_view name) {
    int64_t layer = -1;
    if (name.starts_with("blk.")) std::from_chars(name.data() + 4, name.data() + name.size(), layer);
    return layer;
}

/// The place of a tensor among its like in the field's order: by layer, then by name.
using Order = std::set<std::pair<int64_t, std::string_view>>;
uint64_t index_in(const Order& order, std::string_view name) {
    return uint64_t(std::distance(order.begin(), order.find({layer_of(name), name})));
}

/// Without trailing ones.
size_t dimensions_of(const ConversionSource::Tensor& tensor) {
    size_t dimensions = tensor.dimensions.size();
    while (dimensions > 1 && tensor.dimensions[dimensions - 1] == 1) --dimensions;
    return dimensions;
}

bool may_change(const ConversionSource::Tensor& tensor) {
    return dimensions_of(tensor) >= 2 && tensor.name.ends_with("weight") &&
           std::ranges::none_of(
               kept, [&](std::string_view part) { return tensor.name.find(part) != std::string::npos; });
}

Type ruled(const Recipe& recipe, Part part, const Place& place, uint64_t cols) {
    if (part == Part::output) {
        if (!divides(recipe.type, cols) || recipe.type == Type::q8_0) return Type::q8_0;
        return Type::q6_k;
    }
    for (const Rule& rule : rules)
        if ((rule.recipe.empty() || rule.recipe == recipe.name) && rule.part == part && rule.condition(place))
            return rule.type;
    return recipe.type;
}

}  // namespace

std::span<const Recipe> recipes() { return all_recipes; }

const Recipe* find_recipe(std::string_view name) {
    std::string wanted(name);
    for (char& c : wanted) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    if (wanted == "Q3_K" || wanted == "Q4_K" || wanted == "Q5_K") wanted += "_M";
    const auto found = std::ranges::find(all_recipes, std::string_view(wanted),
                                         [](const Recipe& recipe) { return std::string_view(recipe.name); });
    return found == std::end(all_recipes) ? nullptr : found;
}

std::vector<TensorType> choose_types(const ConversionSource& source, const Recipe& recipe, bool pure,
                                     bool with_importance) {
    const ConversionSource::Facts& facts = source.facts();
    const auto named = [](const ConversionSource::Tensor& tensor) { return tensor.name == "output.weight"; };
    const bool tied = std::ranges::none_of(source.tensors(), named);
    const bool plain = tensor_type_info(recipe.type).block == 1;  // F32 and the like: no rules
    Order values, downs;
    for (const auto& tensor : source.tensors()) {
        if (!may_change(tensor)) continue;
        const Part part = part_of(tensor.name, tied);
        if (part == Part::attention_v) values.emplace(layer_of(tensor.name), tensor.name);
        if (part == Part::down) downs.emplace(layer_of(tensor.name), tensor.name);
    }

    std::vector<TensorType> types;
    for (const auto& tensor : source.tensors()) {
        if (!may_change(tensor)) {
            const bool vector = dimensions_of(tensor) == 1;  // readers want these in F32
            const bool in_gguf = tensor_type_info(static_cast<uint32_t>(tensor.type)) != nullptr;
            types.push_back(vector && tensor_type_info(tensor.type).block == 1 ? Type::f32
                            : in_gguf                                          ? tensor.type
                                                                               : Type::bf16);
            continue;
        }
        const Part part = part_of(tensor.name, tied);
        Place place{0,
                    facts.layers,
                    facts.kv_heads ? facts.heads / facts.kv_heads : 1,
                    facts.experts,
                    facts.layers == 80 && facts.kv_heads < facts.heads,
                    with_importance};
        if (part == Part::attention_v) {
            place.index = index_in(values, tensor.name);
            place.count = values.size();
        } else if (part == Part::down) {  // a layer's experts are in one tensor beside shared ones
            place.index = facts.experts > 1 ? uint64_t(std::max<int64_t>(layer_of(tensor.name), 0))
                                            : index_in(downs, tensor.name);
        }
        const bool by_rule = !plain && !pure && !recipe.int8;
        const Type type = by_rule ? ruled(recipe, part, place, tensor.cols()) : recipe.type;
        types.push_back(fallback(type, tensor.cols()));
    }
    return types;
}

}  // namespace scoria
