// nlohmann-json for untrusted files: bounded depth, and getters that name the field.
#pragma once

#include "fail.h"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace scoria {

/// Errors: bad_file, if it is no JSON or deeper than any real file: copies and readers recurse.
template <class Json> Json parse_shallow(std::string_view text, std::string_view where) {
    constexpr int most_depth = 64;
    const auto limit = [&](int depth, typename Json::parse_event_t, Json&) {
        if (depth > most_depth)
            fail(Status::bad_file, where, "expected at most ", most_depth, " levels of nesting, got more");
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
