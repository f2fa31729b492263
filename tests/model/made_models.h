// The models of made_models.jsonl: see made_models.py, which made it.
#pragma once

#include "fail.h"
#include "loader/hf_builder.h"
#include "support/compare.h"
#include "tokenizer/tokenizer.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace scoria::test {

/// splitmix64 of a name's FNV-1a hash, scaled so that the stream keeps its size.
inline std::string bytes_of(const std::string& name, const std::vector<uint64_t>& shape) {
    uint64_t seed = 0xCBF29CE484222325, count = 1;
    for (const char c : name) seed = (seed ^ uint8_t(c)) * 0x100000001B3;
    for (const uint64_t size : shape) count *= size;
    const bool matrix = shape.size() > 1 && shape[0] > 1;
    const bool norm = (name.find("norm") != name.npos && name.ends_with("weight")) ||
                      name.ends_with("scale") || name.ends_with("scalar") || name.ends_with("freqs.weight");
    const double root = std::sqrt(double(shape.back()));
    std::vector<float> values;
    for (uint64_t i = 1; i <= count; ++i) {
        uint64_t z = seed + i * 0x9E3779B97F4A7C15;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
        const double u = double((z ^ (z >> 31)) >> 40) / double(1 << 23) - 1;
        values.push_back(float(matrix ? u * 2.5 / root : norm ? 1 + 0.3 * u : 0.3 * u));
    }
    std::string bytes(4 * count, '\0');
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

/// Of the rows there are, of logits [tokens, vocab].
double largest_error(const std::map<size_t, std::vector<double>>& rows, const auto& logits) {
    double most = 0;
    for (const auto& [row, expected] : rows)
        most = std::max(
            most, largest_error(expected, std::span(logits).subspan(row * expected.size(), expected.size())));
    return most;
}

struct MadeModel {
    std::string name, family;
    HfFolder folder;
    std::vector<TokenId> ids;
    std::map<size_t, std::vector<double>> logits;  // by row
};

/// All of a file's, or those whose name `wanted` takes.
inline std::vector<MadeModel> made_models(const std::function<bool(const std::string&)>& wanted = {},
                                          const char* file = "made_models.jsonl") {
    std::vector<MadeModel> all;
    std::ifstream lines(std::string(SCORIA_SOURCE_DIR) + "/tests/model/" + file);
    for (std::string line; std::getline(lines, line);) {
        const nlohmann::json json = nlohmann::json::parse(line);
        if (wanted && !wanted(json["name"])) continue;
        MadeModel made{json["name"], json["config"]["model_type"], {}, json["ids"], {}};
        made.folder.config = json["config"];
        for (const auto& [name, sizes] : json["tensors"].items()) {
            const std::vector<uint64_t> shape = sizes;
            made.folder.tensors[name] = {"F32", shape, bytes_of(name, shape)};
        }
        for (const auto& [row, values] : json["logits"].items())
            made.logits[std::stoul(row)] = values.get<std::vector<double>>();
        all.push_back(std::move(made));
    }
    return all;
}

inline MadeModel made_model(const std::string& name) {
    std::vector<MadeModel> found = made_models([&](const std::string& each) { return each == name; });
    if (found.empty()) fail(Status::failed, "test", name, " is missing");
    return std::move(found.front());
}

}  // namespace scoria::test
