// The manifest of somebody's shader, its expressions, and names matched with tensors.
#include "own_shader.h"

#include "fail.h"
#include "tokenizer/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace scoria::validate {
namespace {

using json = nlohmann::ordered_json;  // the first input is the first in the file

/// Lower case, letters and digits only, without "buffer" or "buf" at the end.
std::string plain_name(std::string_view name) {
    std::string plain;
    for (const char c : name)
        if (std::isalnum(static_cast<unsigned char>(c)))
            plain += char(std::tolower(static_cast<unsigned char>(c)));
    for (const std::string_view suffix : {"buffer", "buf"})
        if (plain.size() > suffix.size() && plain.ends_with(suffix))
            plain.resize(plain.size() - suffix.size());
    return plain;
}

/// Errors: bad_file, unless it is an object, each of whose values `fits`.
const json& object_of(const json& value, const std::string& where, const char* wanted,
                      bool (*fits)(const json&)) {
    if (value.is_object() && std::ranges::all_of(value, fits)) return value;
    fail(Status::bad_file, where, "expected an object of ", wanted, ", got ", value.dump().substr(0, 80));
}

std::string expression_of(const json& value, const std::string& where, const std::string& key) {
    if (value.is_string()) return value.get<std::string>();
    if (value.is_number()) return value.dump();
    fail(Status::bad_file, where, key, ": expected a number or an expression, got ",
         value.dump().substr(0, 80));
}

bool is_binding(const json& value) { return value.is_number_unsigned() && value <= UINT32_MAX; }

std::map<std::string, std::string> expressions_of(const json& value, const std::string& where) {
    object_of(value, where, "numbers and expressions", [](const json&) { return true; });
    std::map<std::string, std::string> all;
    for (const auto& [key, each] : value.items()) all[key] = expression_of(each, where, key);
    return all;
}

const TensorTypeInfo* type_of(const std::string& name, const std::string& where) {
    std::string names;
    for (const TensorTypeInfo& type : gguf_types()) {
        std::string plain = type.name;
        std::ranges::transform(plain, plain.begin(), [](unsigned char c) { return char(std::tolower(c)); });
        if (plain == name) return &type;
        names += cat(names.empty() ? "" : ", ", plain);
    }
    fail(Status::bad_file, where, "types: expected one of {", names, "}, got '", name.substr(0, 80), "'");
}

Parameters parameters_of(const json& value, const std::string& where) {
    return object_of(value, where, "numbers", [](const json& each) { return each.is_number(); })
        .get<Parameters>();
}

/// "x": "rows cols"
ShaderTensor tensor_of(const std::string& name, const std::string& shape) {
    ShaderTensor tensor{name, {}, {}};
    for (size_t at = 0; at < shape.size();) {
        const size_t end = std::min(shape.find(' ', at), shape.size());
        if (end > at) tensor.shape.push_back(shape.substr(at, end - at));
        at = end + 1;
    }
    return tensor;
}

void add_tensors(ShaderManifest& manifest, const json& value, const std::string& where) {
    object_of(value, where, "shapes such as \"rows cols\"",
              [](const json& each) { return each.is_string(); });
    for (const auto& [name, shape] : value.items()) manifest.tensors.push_back(tensor_of(name, shape));
}

struct ManifestKey {
    const char* name;
    void (*read)(ShaderManifest&, const json&, const std::string& where);
};
constexpr ManifestKey manifest_keys[] = {
    {"bindings",
     [](ShaderManifest& m, const json& v, const std::string& where) {
         m.bindings = object_of(v, where, "bindings from 0", is_binding).get<decltype(m.bindings)>();
     }},
    {"types",
     [](auto& m, const json& v, const auto& where) {
         object_of(v, where, "types such as \"q4_0\"", [](const json& each) { return each.is_string(); });
         for (const auto& [tensor, type] : v.items())
             m.types[tensor] = type_of(type.template get<std::string>(), where);
     }},
    {"push", [](auto& m, const json& v, const auto& where) { m.push = expressions_of(v, where); }},
    {"constants", [](auto& m, const json& v, const auto& where) { m.constants = expressions_of(v, where); }},
    {"groups",
     [](auto& m, const json& v, const auto& where) {
         if (!v.is_array() || v.empty() || v.size() > 3)
             fail(Status::bad_file, where, "groups: expected a list of one to three sides, got ",
                  v.dump().substr(0, 80));
         for (const json& side : v) m.groups.push_back(expression_of(side, where, "groups"));
     }},
    {"cases",
     [](auto& m, const json& v, const auto& where) {
         if (!v.is_array() || v.empty())
             fail(Status::bad_file, where, "cases: expected a list of them, got ", v.dump().substr(0, 80));
         for (const json& one : v) m.cases.push_back(parameters_of(one, where));
     }},
    {"values", [](auto& m, const json& v, const auto& where) { m.values = parameters_of(v, where); }},
    {"tensors", add_tensors},
    {"output", add_tensors},
    {"tolerance",
     [](auto& m, const json& v, const auto& where) {
         m.tolerance = v.is_number() ? v.get<double>() : 0;
         if (!(m.tolerance > 0))
             fail(Status::bad_file, where, "tolerance: expected a number above 0, got ",
                  v.dump().substr(0, 80));
     }},
};

bool goes_by(const ShaderTensor& tensor, const std::string& name, bool by_alias) {
    const std::string plain = plain_name(name);
    return by_alias ? std::ranges::find(tensor.aliases, plain) != tensor.aliases.end()
                    : plain == plain_name(tensor.name);
}

bool is_name(const std::string& term) {
    const auto in_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
    return !term.empty() && !std::isdigit(static_cast<unsigned char>(term[0])) &&
           std::ranges::all_of(term, in_name);
}

std::string names_of(const std::vector<const ShaderTensor*>& tensors) {
    std::string names;
    for (const ShaderTensor* tensor : tensors) names += cat(names.empty() ? "" : ", ", tensor->name);
    return names;
}

/// Of an expression, from left to right; the first is joined by '*'.
struct Term {
    char joined_by;
    std::string text;  // without spaces
};
std::vector<Term> terms_of(const std::string& expression) {
    std::vector<Term> terms;
    char joined_by = '*';
    for (size_t at = 0; at <= expression.size();) {
        const size_t end = std::min(expression.find_first_of("*/", at), expression.size());
        terms.push_back({joined_by, expression.substr(at, end - at)});
        std::erase(terms.back().text, ' ');
        if (end < expression.size()) joined_by = expression[end];
        at = end + 1;
    }
    return terms;
}

}  // namespace

ShaderManifest parse_manifest(const std::string& text, const std::string& where) {
    ShaderManifest manifest;
    try {
        // In this order, so that the output follows the inputs.
        const json all = parse_shallow<json>(text, where);
        if (!all.is_object()) fail(Status::bad_file, where, "expected an object");
        if (all.contains("schema"))
            fail(Status::bad_file, where,
                 "expected the shader's manifest, got a report: --manifest names "
                 "another file");
        for (const auto& [name, value] : all.items())
            if (std::ranges::find(manifest_keys, std::string_view(name), &ManifestKey::name) ==
                std::end(manifest_keys))
                fail(Status::bad_file, where, "expected a key of a manifest, got '", name, "'");
        for (const ManifestKey& key : manifest_keys)
            if (all.contains(key.name)) key.read(manifest, all[key.name], where);
        for (const ShaderTensor& tensor : manifest.tensors)
            if (tensor.shape.empty())
                fail(Status::bad_file, where, tensor.name, ": expected a shape such as \"rows cols\"");
        if (all.contains("tensors") != all.contains("output") ||
            (all.contains("output") &&
             (all["output"].size() != 1 || all["tensors"].contains(all["output"].begin().key()))))
            fail(Status::bad_file, where,
                 "expected \"tensors\" (the inputs) with one \"output\" of another name");
    } catch (const json::exception& error) {
        fail(Status::bad_file, where, error.what());
    }
    return manifest;
}

std::vector<std::string> names_in(const std::string& expression) {
    std::vector<std::string> names;
    for (const Term& term : terms_of(expression))
        if (is_name(term.text)) names.push_back(term.text);
    return names;
}

double evaluate(const std::string& expression, const Parameters& parameters, const std::string& where) {
    double value = 1;
    for (const auto& [joined_by, term] : terms_of(expression)) {
        double number = 0;
        const auto [rest, error] = std::from_chars(term.data(), term.data() + term.size(), number);
        if (error != std::errc() || rest != term.data() + term.size()) {
            const auto found = parameters.find(term);
            if (found == parameters.end()) {
                std::string names;
                for (const auto& [name, known] : parameters) names += cat(names.empty() ? "" : ", ", name);
                fail(Status::bad_argument, where, "expected numbers or {", names, "}, got '",
                     term.substr(0, 80), "'");
            }
            number = found->second;
        }
        value = joined_by == '*' ? value * number : std::ceil(value / number);
    }
    if (!std::isfinite(value))
        fail(Status::bad_argument, where, "expected a number, got '", expression.substr(0, 80), "'");
    return value;
}

ShaderOp find_shader_op(const std::string& name, const ShaderManifest& manifest) {
    std::string names;
    for (const ShaderOp& op : shader_ops()) {
        if (op.name == name && !manifest.tensors.empty())
            fail(Status::bad_argument, "manifest", "expected \"tensors\" of --as custom alone, got --as ",
                 name);
        if (op.name == name) return op;
        names += op.name + ", ";
    }
    if (name != "custom")
        fail(Status::bad_argument, "--as", "expected one of {", names, "custom}, got '", name, "'");
    if (manifest.tensors.size() < 2)
        fail(Status::bad_argument, "--as custom", "expected a manifest with \"tensors\" and \"output\"");
    ShaderOp op;
    op.name = name;
    op.inputs.assign(manifest.tensors.begin(), manifest.tensors.end() - 1);
    op.output = manifest.tensors.back();
    return op;
}

ShaderLayout match_bindings(const vk::Reflection& shader, const ShaderOp& op,
                            const ShaderManifest& manifest) {
    std::vector<const ShaderTensor*> left;
    for (const ShaderTensor& input : op.inputs) left.push_back(&input);
    left.push_back(&op.output);
    for (const auto& [name, type] : manifest.types)
        if (std::ranges::find(left, name, &ShaderTensor::name) == left.end())
            fail(Status::bad_argument, "manifest", "types: expected tensors of {", names_of(left), "}, got '",
                 name, "'");
    ShaderLayout layout;
    layout.tensors.resize(shader.bindings.size());
    const auto take = [&](uint32_t binding, const ShaderTensor& tensor) {
        layout.tensors[binding] = tensor.name;
        std::erase(left, &tensor);
    };
    for (const auto& [name, binding] : manifest.bindings) {
        const auto found = std::ranges::find(left, name, &ShaderTensor::name);
        if (found == left.end() || binding >= layout.tensors.size() || !layout.tensors[binding].empty())
            fail(Status::bad_argument, "manifest", "bindings: expected each of {", names_of(left),
                 "} at a binding of its own below ", layout.tensors.size(), ", got ", name, " at ", binding);
        take(binding, **found);
    }
    // A binding seen as two types goes by the names of both. A tensor's own name comes before all aliases.
    const auto take_named = [&](uint32_t binding, bool by_alias) {
        for (const vk::ReflectedBuffer& buffer : shader.buffers)
            for (const std::string& name : buffer.names) {
                if (buffer.binding != binding || !layout.tensors[binding].empty()) continue;
                const auto found = std::ranges::find_if(
                    left, [&](const ShaderTensor* tensor) { return goes_by(*tensor, name, by_alias); });
                if (found != left.end()) take(binding, **found);
            }
    };
    for (uint32_t binding = 0; binding < layout.tensors.size(); ++binding) take_named(binding, false);
    for (uint32_t binding = 0; binding < layout.tensors.size(); ++binding) {
        take_named(binding, true);
        if (!layout.tensors[binding].empty()) continue;
        std::string names;
        for (const vk::ReflectedBuffer& buffer : shader.buffers)
            for (const std::string& name : buffer.names)
                if (buffer.binding == binding) names += cat(names.empty() ? "'" : ", '", name, "'");
        fail(Status::bad_argument, cat("binding ", binding), "expected a name of {", names_of(left),
             "}, or \"bindings\" in a manifest, got ", names.empty() ? "no name" : names);
    }
    for (const vk::ReflectedBuffer& buffer : shader.buffers)
        if (!buffer.layout.empty() && !manifest.types.contains(layout.tensors[buffer.binding]))
            fail(Status::bad_argument, cat("binding ", buffer.binding),
                 "expected an array of numbers without gaps, alone in its block, or \"types\" in a manifest, "
                 "got ",
                 buffer.layout);
    std::erase_if(left, [](const ShaderTensor* tensor) { return tensor->optional; });
    if (left.size() == 1 && left[0] == &op.output && !layout.tensors.empty()) {
        // No output of its own: the first input, if it may be written.
        const auto first = std::ranges::find(layout.tensors, op.inputs[0].name);
        layout.in_place = first != layout.tensors.end() &&
                          (uint8_t(shader.bindings[size_t(first - layout.tensors.begin())]) &
                           uint8_t(vk::Access::write)) != 0;
        if (layout.in_place) left.clear();
    }
    if (!left.empty())
        fail(Status::bad_argument, "shader", "expected a binding for each of {", names_of(left), "}");
    return layout;
}

}  // namespace scoria::validate
