// GGUF files whose weights are made of their tensors' names (made_models.h), out of JSON.
#pragma once

#include "loader/gguf_builder.h"
#include "made_models.h"

namespace scoria::test {

inline GgufPart gguf_part(const nlohmann::json& value) {
    if (value.is_boolean()) return value.get<bool>();
    if (value.is_string()) return value.get<std::string>();
    if (value.is_array() && value.front().is_number_float()) return value.get<std::vector<float>>();
    if (value.is_array()) return value.get<std::vector<int32_t>>();
    if (value.is_number_float()) return value.get<float>();
    return value.get<uint32_t>();
}

/// `keys` get `prefix`; `tensors` are shapes by name, as PyTorch gives them.
inline GgufFile made_gguf(const nlohmann::json& keys, const std::string& prefix,
                          const nlohmann::json& tensors) {
    GgufFile file;
    for (const auto& [key, value] : keys.items()) file.metadata[prefix + key] = gguf_part(value);
    for (const auto& [name, sizes] : tensors.items()) {
        const std::vector<uint64_t> shape = sizes;
        file.tensors[name] = {{shape.rbegin(), shape.rend()}, 0, bytes_of(name, shape)};
    }
    return file;
}

}  // namespace scoria::test
