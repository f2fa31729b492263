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

struct MadeGguf {
    std::string name;
    GgufFile file;
    std::vector<TokenId> ids;
    std::map<size_t, std::vector<double>> logits;  // by row
};

/// Of made_ggufs.jsonl, and of what else holds some.
inline std::vector<MadeGguf> made_ggufs(const std::function<bool(const std::string&)>& wanted = {}) {
    std::vector<MadeGguf> all;
    for (const char* file : {"made_ggufs.jsonl", "made_plamo2.jsonl", "made_grok.jsonl", "made_rwkv.jsonl"}) {
        std::ifstream lines(std::string(SCORIA_SOURCE_DIR) + "/tests/model/" + file);
        for (std::string line; std::getline(lines, line);) {
            const nlohmann::json json = nlohmann::json::parse(line);
            if (wanted && !wanted(json["name"])) continue;
            const std::string architecture = json["architecture"];
            MadeGguf made{
                json["name"], made_gguf(json["keys"], architecture + ".", json["tensors"]), json["ids"], {}};
            made.file.metadata["general.architecture"] = architecture;
            for (const auto& [row, values] : json["logits"].items())
                made.logits[std::stoul(row)] = values.get<std::vector<double>>();
            all.push_back(std::move(made));
        }
    }
    return all;
}

}  // namespace scoria::test
