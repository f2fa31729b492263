// The models of made_models.jsonl: see made_models.py, which made it.
#pragma once

#include "fail.h"
#include "loader/hf_builder.h"
#include "support/compare.h"
#include "support/made_folder.h"
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
    std::vector<TokenId> ids, source;              // source: the encoder's, where there is one
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
        MadeModel made{json["name"], json["config"].value("model_type", ""),       {},
                       json["ids"],  json.value("source", std::vector<TokenId>()), {}};
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
