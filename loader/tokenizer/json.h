// nlohmann-json for untrusted files: bounded depth, and getters that name the field.
#pragma once

#include "fail.h"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace scoria {

constexpr int most_json_depth = 64;  // deeper than any real file

/// Objects keep their order; where a key comes again, the last value counts, in the first one's place. Unlike
/// nlohmann's own parser it does not compare each key with all before it. Errors: `status`, if it is no JSON
/// or deeper.
nlohmann::ordered_json parse_ordered(std::string_view text, std::string_view where,
                                     Status status = Status::bad_file, size_t most_depth = most_json_depth);

/// Errors: bad_file, if it is no JSON or too deep: copies and readers recurse.
template <class Json> Json parse_shallow(std::string_view text, std::string_view where) {
    if constexpr (std::is_same_v<Json, nlohmann::ordered_json>) return parse_ordered(text, where);
    const auto limit = [&](int depth, typename Json::parse_event_t, Json&) {
        if (depth > most_json_depth)
            fail(Status::bad_file, where, "expected at most ", most_json_depth,
                 " levels of nesting, got more");
        return true;
    };
    try {
        return Json::parse(text, limit);
    } catch (const nlohmann::json::exception& error) {
        fail(Status::bad_file, where, "expected JSON, got: ", error.what());
    }
}

/// The same, if it is no object.
inline nlohmann::json parse_json(std::string_view text, std::string_view where) {
    nlohmann::json json = parse_shallow<nlohmann::json>(text, where);
    if (!json.is_object()) fail(Status::bad_file, where, "expected an object, got ", json.type_name());
    return json;
}

/// The field, or `otherwise` if it is absent or null. Errors: bad_file, naming it, for another type.
template <class T>
T json_field(const nlohmann::json& object, const char* name, T otherwise, std::string_view where) {
    if (!object.is_object()) fail(Status::bad_file, where, "expected an object, got ", object.type_name());
    const auto found = object.find(name);
    if (found == object.end() || found->is_null()) return otherwise;
    bool fits = false;
    if constexpr (std::is_same_v<T, bool>)
        fits = found->is_boolean();
    else if constexpr (std::is_same_v<T, std::string>)
        fits = found->is_string();
    else
        fits = found->is_number_unsigned() && found->template get<uint64_t>() <= UINT32_MAX;
    if (!fits) fail(Status::bad_file, where, name, ": got ", found->dump().substr(0, 80));
    return found->template get<T>();
}

/// The field, which must be there. Errors: bad_file.
inline const nlohmann::json& json_member(const nlohmann::json& object, const char* name,
                                         std::string_view where) {
    if (!object.is_object() || !object.contains(name)) fail(Status::bad_file, where, name, " is missing");
    return object.at(name);
}

/// `indent` -1: one line. What is not UTF-8 becomes U+FFFD, since names come from files.
template <class Json> std::string json_text(const Json& json, int indent = -1) {
    return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace scoria
