// Fields of a request, checked as they are read.
#pragma once

#include "fail.h"
#include "requests.h"

namespace scoria::server {

[[noreturn]] inline void expected(std::string_view field, std::string_view what, const Json& got) {
    fail(Status::bad_argument, "request", "expected ", field, " as ", what, ", got ",
         json_text(got).substr(0, 80));
}

/// The field; nullptr if it is absent or null.
inline const Json* field(const Json& body, const char* name) {
    const auto found = body.find(name);
    return found == body.end() || found->is_null() ? nullptr : &*found;
}

/// An array that is there and not empty.
inline const Json& filled(const Json& body, const char* name, const char* what) {
    const Json* const value = field(body, name);
    if (!value || !value->is_array() || value->empty()) expected(name, what, value ? *value : Json());
    return *value;
}

inline float number(const char* name, const Json& value) {
    if (!value.is_number()) expected(name, "a number", value);
    return value.get<float>();
}
inline uint32_t whole(const char* name, const Json& value, uint32_t least, uint32_t most) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() < least || value.get<uint64_t>() > most)
        expected(name, cat("a whole number from ", least, " to ", most), value);
    return value.get<uint32_t>();
}
inline bool truth(const Json& body, const char* name, bool otherwise = false) {
    const Json* const value = field(body, name);
    if (value && !value->is_boolean()) expected(name, "true or false", *value);
    return value ? value->get<bool>() : otherwise;
}
inline std::string text(const char* name, const Json& value) {
    if (!value.is_string()) expected(name, "a string", value);
    return value;
}
inline std::vector<std::string> texts(const char* name, const Json& value) {
    if (value.is_string()) return {value.get<std::string>()};
    if (!value.is_array()) expected(name, "a string or an array of them", value);
    std::vector<std::string> all;
    for (const Json& each : value) all.push_back(text(name, each));
    return all;
}

/// What is known and cannot be done.
inline void refuse(const Json& body, std::initializer_list<const char*> names) {
    for (const char* name : names)
        if (const Json* value = field(body, name); value && *value != false && *value != "")
            fail(Status::unsupported, "request", "expected no ", name, ", which is not supported, got one");
}

}  // namespace scoria::server
