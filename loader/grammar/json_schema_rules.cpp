// What the keywords of JSON Schema mean together: references, combination, and telling alternatives apart.
#include "fail.h"
#include "json_schema.h"
#include "tokenizer/json.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace scoria::grammar {
namespace {

constexpr size_t most_merged = 16 << 20;  // bytes of schemas that are combined

constexpr std::array annotations{"title",    "description", "$comment",   "examples", "default",    "$schema",
                                 "readOnly", "writeOnly",   "deprecated", "$defs",    "definitions"};
constexpr std::array all_types{"object", "array", "string", "number", "integer", "boolean", "null"};

struct Keyword {
    std::string_view name, type;
};
constexpr Keyword keywords[] = {
    {"properties", "object"},
    {"required", "object"},
    {"additionalProperties", "object"},
    {"items", "array"},
    {"prefixItems", "array"},
    {"minItems", "array"},
    {"maxItems", "array"},
    {"uniqueItems", "array"},
    {"minLength", "string"},
    {"maxLength", "string"},
    {"pattern", "string"},
    {"format", "string"},
    {"minimum", "integer"},
    {"maximum", "integer"},
    {"exclusiveMinimum", "integer"},
    {"exclusiveMaximum", "integer"},
    {"multipleOf", "integer"},
};

bool contains(const Json& list, const Json& value) { return std::ranges::find(list, value) != list.end(); }

/// Counts a schema that is merged or copied for it: a small one costs as much as a hundred bytes.
void count(const Json& schema, size_t& merged, const std::string& where) {
    merged += 100 + schema.dump().size();
    if (merged > most_merged)
        fail(Status::unsupported, "json schema", "at ", where,
             ": expected schemas whose combinations take at most ", most_merged, " bytes, got more");
}

/// What a schema says of a value, but for these keywords.
Json without(std::initializer_list<const char*> left_out, Json schema) {
    for (const char* each : annotations) schema.erase(each);
    for (const char* each : left_out) schema.erase(each);
    return schema;
}

/// Merged later, but `true` and `false` at once: optional properties and entries of `false` are left out.
Json all_of(const Json& a, const Json& b, size_t& merged, const std::string& where) {
    if (a == b || a == Json(false) || b == Json(true)) return a;
    if (a == Json(true) || b == Json(false)) return b;
    count(a, merged, where);
    count(b, merged, where);
    return {{"allOf", Json::array({a, b})}};
}

/// Two constraints of one keyword as one.
Json combined(std::string_view keyword, const Json& a, const Json& b, size_t& merged,
              const std::string& where) {
    if (a == b) return a;
    const bool numbers = a.is_number() && b.is_number();
    if (numbers && (keyword.starts_with("min") || keyword == "exclusiveMinimum")) return a < b ? b : a;
    if (numbers && (keyword.starts_with("max") || keyword == "exclusiveMaximum")) return a < b ? a : b;
    if (keyword == "required" && a.is_array() && b.is_array()) {
        Json all = a;
        for (const Json& each : b)
            if (!contains(all, each)) all.push_back(each);
        return all;
    }
    if (keyword == "enum" && a.is_array() && b.is_array()) {
        Json shared = Json::array();
        for (const Json& each : a)
            if (contains(b, each)) shared.push_back(each);
        return shared;
    }
    if (keyword == "items") return all_of(a, b, merged, where);
    if (keyword == "const") refuse_schema(where, "values that every part of allOf allows");
    refuse_keyword(where, keyword, "twice in a combination");
}

Json both_types(const Json& a, const Json& b, const std::string& where) {
    const std::vector<std::string> wanted = types_of({{"type", b}}, where);
    Json shared = Json::array();
    for (const std::string& type : types_of({{"type", a}}, where)) {
        const auto has = [&](const char* name) { return std::ranges::find(wanted, name) != wanted.end(); };
        if (has(type.c_str()) || (type == "integer" && has("number")))
            shared.push_back(type);
        else if (type == "number" && has("integer"))
            shared.push_back("integer");
    }
    if (shared.empty()) refuse_schema(where, "a type that every part of allOf allows");
    return shared;
}

bool forbids_others(const Json& schema) {
    const auto at = schema.find("additionalProperties");
    return at != schema.end() && *at == Json(false);
}

/// Properties of `a` and `b`, each also under the other's additionalProperties where it is not listed.
Json both_properties(const Json& a, const Json& b, size_t& merged, const std::string& where) {
    Json all = a.value("properties", Json::object());
    const Json others = b.value("properties", Json::object());
    const Json rest = a.value("additionalProperties", Json(true)),
               others_rest = b.value("additionalProperties", Json(true));
    for (auto& [name, property] : all.items())
        property = all_of(property, others.contains(name) ? others[name] : others_rest, merged, where);
    for (const auto& [name, property] : others.items())
        if (!all.contains(name)) all[name] = all_of(property, rest, merged, where);
    return all;
}

/// Entries of `a` and `b`, each also under the other's items where that has no entry.
Json both_prefixes(const Json& a, const Json& b, size_t& merged, const std::string& where) {
    const Json none = Json::array(), all_values = true;
    const Json entries = a.value("prefixItems", none), others = b.value("prefixItems", none);
    const Json rest = a.value("items", all_values), others_rest = b.value("items", all_values);
    Json all = none;
    for (size_t i = 0; i < std::max(entries.size(), others.size()); ++i)
        all.push_back(all_of(i < entries.size() ? entries[i] : rest,
                             i < others.size() ? others[i] : others_rest, merged, where));
    return all;
}

/// Whether objects made for `schema` may have the property.
bool may_have(const Json& schema, const std::string& name) {
    if (schema.contains("additionalProperties") ? !forbids_others(schema) : !schema.contains("properties"))
        return true;
    return schema.value("properties", Json::object()).contains(name) ||
           contains(schema.value("required", Json::array()), name);
}

}  // namespace

void refuse_schema(const std::string& where, std::string_view what) {
    fail(Status::bad_argument, "json schema", "at ", where, ": expected ", what, ", got none");
}

void refuse_keyword(const std::string& where, std::string_view keyword, std::string_view why) {
    fail(Status::unsupported, "json schema", "at ", where, ": expected supported keywords, got ", keyword,
         why.empty() ? "" : " ", why);
}

bool is_annotation(std::string_view keyword) {
    return std::ranges::find(annotations, keyword) != annotations.end();
}

std::string_view type_of_keyword(std::string_view keyword) {
    const auto at = std::ranges::find(keywords, keyword, &Keyword::name);
    return at == std::end(keywords) ? std::string_view() : at->type;
}

std::string type_of(const Json& value) {
    if (value.is_object()) return "object";
    if (value.is_array()) return "array";
    if (value.is_string()) return "string";
    if (value.is_boolean()) return "boolean";
    if (value.is_null()) return "null";
    return value.is_number_integer() || value.get<double>() == std::floor(value.get<double>()) ? "integer"
                                                                                               : "number";
}

bool has_type(const Json& value, const std::vector<std::string>& types) {
    const std::string type = type_of(value);
    return std::ranges::find(types, type) != types.end() ||
           (type == "integer" && std::ranges::find(types, "number") != types.end());
}

std::vector<std::string> types_of(const Json& schema, const std::string& where) {
    std::vector<std::string> types;
    if (const auto at = schema.find("type"); at != schema.end()) {
        const Json list = at->is_array() ? *at : Json::array({*at});
        for (const Json& type : list) {
            if (!type.is_string() || std::ranges::find(all_types, type.get<std::string>()) == all_types.end())
                fail(Status::bad_argument, "json schema", "at ", where,
                     ": expected type to name JSON types, got ", at->dump());
            types.push_back(type);
        }
        if (types.empty()) refuse_schema(where, "a type");
        return types;
    }
    for (const auto& [keyword, value] : schema.items()) {
        const std::string type(type_of_keyword(keyword));
        if (!type.empty() && std::ranges::find(types, type) == types.end()) types.push_back(type);
    }
    if (types.empty()) types.assign(all_types.begin(), all_types.end());
    return types;
}

namespace {

/// Members of one object or list are compared in pairs, those of two combined ones too.
void check_sizes(const Json& json) {
    constexpr size_t most_members = 8192;
    if (!json.is_structured()) return;
    if (json.size() > most_members)
        fail(Status::unsupported, "json schema", "expected at most ", most_members,
             " members of an object or a list, got ", json.size());
    for (const Json& each : json) check_sizes(each);
}

}  // namespace

SchemaDocument::SchemaDocument(std::string_view text) {
    if (text.size() > most_text)
        fail(Status::bad_argument, "json schema", "expected at most ", most_text, " bytes, got ",
             text.size());
    root_ = parse_ordered(text, "json schema", Status::bad_argument, 2 * most_depth);
    check_sizes(root_);
}

const Json& SchemaDocument::target(const Json& reference, const std::string& where) const {
    if (!reference.is_string())
        fail(Status::bad_argument, "json schema", "at ", where, ": expected $ref to be a string, got ",
             reference.dump());
    const std::string pointer = reference;
    if (pointer != "#" && !pointer.starts_with("#/"))
        refuse_keyword(where, "$ref", cat("to '", pointer, "', outside the document"));
    try {
        return root_.at(Json::json_pointer(pointer.substr(1)));
    } catch (const nlohmann::json::exception&) {
        fail(Status::bad_argument, "json schema", "at ", where, ": expected $ref to name a schema, got '",
             pointer, "'");
    }
}

Json SchemaDocument::flat(const Json& schema, const std::string& where, uint32_t depth) {
    if (depth > most_depth)
        fail(Status::unsupported, "json schema", "at ", where,
             ": expected $ref and allOf that come to an end, got more than ", most_depth, " in each other");
    if (!schema.is_object() || (!schema.contains("$ref") && !schema.contains("allOf"))) return schema;
    count(schema, merged_, where);
    Json result = without({"$ref", "allOf"}, schema);
    if (const auto at = schema.find("$ref"); at != schema.end())
        result = both(result, flat(target(*at, where), where, depth + 1), where, depth + 1);
    if (const auto at = schema.find("allOf"); at != schema.end()) {
        if (!at->is_array()) refuse_schema(where, "a list of schemas in allOf");
        for (const Json& part : *at) result = both(result, flat(part, where, depth + 1), where, depth + 1);
    }
    return result;
}

Json SchemaDocument::both(const Json& a, const Json& b, const std::string& where, uint32_t depth) {
    count(a, merged_, where);
    count(b, merged_, where);
    if (a.is_boolean() || b.is_boolean()) return all_of(a, b, merged_, where);
    if (!a.is_object() || !b.is_object()) refuse_schema(where, "schemas");
    if (b.contains("$ref") || b.contains("allOf"))
        return both(a, flat(b, where, depth + 1), where, depth + 1);
    Json result = a;
    if (a.contains("properties") || b.contains("properties"))
        result["properties"] = both_properties(a, b, merged_, where);
    if (a.contains("prefixItems") || b.contains("prefixItems"))
        result["prefixItems"] = both_prefixes(a, b, merged_, where);
    for (const auto& [keyword, value] : b.items()) {
        if (is_annotation(keyword) || keyword == "properties" || keyword == "prefixItems") continue;
        const auto at = result.find(keyword);
        if (at == result.end())
            result[keyword] = value;
        else if (keyword == "type")
            result[keyword] = both_types(*at, value, where);
        else if (keyword == "additionalProperties")
            result[keyword] = both(*at, value, where, depth + 1);
        else
            result[keyword] = combined(keyword, *at, value, merged_, where);
    }
    return result;
}

Json SchemaDocument::alternatives(const Json& schema, const char* keyword, const std::string& where) {
    Json list = schema[keyword];
    const Json rest = without({keyword}, schema);
    if (!list.is_array() || list.empty()) refuse_schema(where, cat("schemas in ", keyword));
    for (size_t i = 0; i < list.size(); ++i) list[i] = both(rest, list[i], cat(where, "/", keyword, "/", i));
    return list;
}

bool SchemaDocument::apart(const Json& first, const Json& second, const std::string& where, uint32_t depth) {
    if (depth > 8) return false;
    const Json a = flat(first, where), b = flat(second, where);
    if (a == Json(false) || b == Json(false)) return true;
    if (!a.is_object() || !b.is_object()) return false;
    for (const char* keyword : {"anyOf", "oneOf"}) {
        if (!a.contains(keyword) && !b.contains(keyword)) continue;
        const bool of_a = a.contains(keyword);
        const auto apart_too = [&](const Json& each) { return apart(each, of_a ? b : a, where, depth + 1); };
        return std::ranges::all_of(alternatives(of_a ? a : b, keyword, where), apart_too);
    }
    const auto values = [](const Json& schema) {
        return schema.contains("const") ? Json::array({schema["const"]}) : schema.value("enum", Json());
    };
    const Json ones = values(a), others = values(b);
    const auto none_of = [](const Json& list, const auto& holds) {
        return list.is_array() && std::ranges::none_of(list, holds);
    };
    if (others.is_array() && none_of(ones, [&](const Json& value) { return contains(others, value); }))
        return true;
    // Types only where they are stated: without, every other type is allowed too.
    if (!b.contains("type") && !others.is_array()) return false;
    if (!a.contains("type") && !ones.is_array()) return false;
    if (b.contains("type") &&
        none_of(ones, [&](const Json& value) { return has_type(value, types_of(b, where)); }))
        return true;
    if (a.contains("type") &&
        none_of(others, [&](const Json& value) { return has_type(value, types_of(a, where)); }))
        return true;
    if (!a.contains("type") || !b.contains("type")) return false;
    const std::vector<std::string> types = types_of(a, where), wanted = types_of(b, where);
    std::vector<std::string> shared;
    for (const std::string& type : types)
        for (const std::string& other : wanted)
            if (type == other || (type == "integer" && other == "number") ||
                (type == "number" && other == "integer"))
                shared.push_back(type);
    if (shared.empty()) return true;
    if (ones.is_array() || others.is_array()) return false;
    if (std::ranges::any_of(shared, [](const std::string& type) { return type != "object"; })) return false;

    const Json none = Json::array(), no_properties = Json::object();
    const Json needed = a.value("required", none), needed_too = b.value("required", none);
    const Json properties = a.value("properties", no_properties),
               others_too = b.value("properties", no_properties);
    const auto told = [&](const Json& name, bool by_constant) {
        if (!contains(needed_too, name) || !name.is_string()) return false;
        if (!properties.contains(name) || !others_too.contains(name)) return false;
        const Json &one = properties[name.get<std::string>()], &other = others_too[name.get<std::string>()];
        return one.contains("const") == by_constant && one != other && apart(one, other, where, depth + 1);
    };
    for (const bool by_constant : {true, false})  // most alternatives have one, which is soon compared
        if (std::ranges::any_of(needed, [&](const Json& name) { return told(name, by_constant); }))
            return true;
    const auto lacks = [](const Json& list, const Json& schema) {
        return std::ranges::any_of(
            list, [&](const Json& name) { return name.is_string() && !may_have(schema, name); });
    };
    return lacks(needed, b) && lacks(needed_too, a);
}

}  // namespace scoria::grammar
