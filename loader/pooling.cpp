// See pooling.h.
#include "pooling.h"

#include "fail.h"
#include "file.h"
#include "tokenizer/json.h"

#include <algorithm>
#include <utility>

namespace scoria {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t most_features = 1 << 20;

std::string read_small(const fs::path& folder, const std::string& name) {
    return read_file((folder / path_of(name)).string(), 1 << 20);
}

/// "torch.nn.modules.activation.Tanh" is Tanh.
std::string class_name(const std::string& whole) { return whole.substr(whole.rfind('.') + 1); }

/// Newer files name the mode, older ones have a flag for each.
std::optional<Pooling> read_pooling(const fs::path& folder, const std::string& where) {
    const nlohmann::json config = parse_json(read_small(folder, where), where);
    struct Row {
        const char *name, *flag;
        std::optional<Pooling> pooling;
    };
    const Row rows[] = {{"mean", "pooling_mode_mean_tokens", Pooling::mean},
                        {"cls", "pooling_mode_cls_token", Pooling::first},
                        {"lasttoken", "pooling_mode_lasttoken", Pooling::last},
                        {"max", "pooling_mode_max_tokens", {}},
                        {"mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens", {}},
                        {"weightedmean", "pooling_mode_weightedmean_tokens", {}}};
    const auto refuse = [&](const std::string& got) {
        fail(Status::unsupported, where, "expected one of the modes mean, cls and lasttoken, got ", got);
    };
    std::optional<Pooling> chosen;
    const auto choose = [&](const Row& row, const char* name) {
        if (!row.pooling || chosen) refuse(name);
        chosen = row.pooling;
    };
    if (const auto mode = config.find("pooling_mode"); mode != config.end()) {
        for (const Row& row : rows)
            if (*mode == row.name) choose(row, row.name);
        if (!chosen) refuse(mode->dump().substr(0, 80));
        return chosen;
    }
    for (const Row& row : rows)
        if (const auto found = config.find(row.flag); found != config.end() && *found != false)
            choose(row, row.flag);
    return chosen;
}

EmbeddingModules::Dense read_dense(const fs::path& folder, const std::string& path) {
    const std::string where = path + "/config.json";
    const nlohmann::json config = parse_json(read_small(folder, where), where);
    EmbeddingModules::Dense dense{path};
    const auto size = [&](const char* key) {
        const uint32_t value = json_field(config, key, 0u, where);
        if (value == 0 || value > most_features)
            fail(Status::bad_file, where, key, ": expected 1 to ", most_features, ", got ", value);
        return value;
    };
    dense.in = size("in_features");
    dense.out = size("out_features");
    dense.bias = json_field(config, "bias", true, where);
    struct Row {
        const char* name;
        Activation activation;
    };
    constexpr Row rows[] = {{"Identity", Activation::identity}, {"Tanh", Activation::tanh},
                            {"ReLU", Activation::relu},         {"GELU", Activation::gelu},
                            {"SiLU", Activation::silu},         {"Sigmoid", Activation::sigmoid}};
    const std::string name =
        class_name(json_field(config, "activation_function", std::string("Tanh"), where));
    const auto row = std::ranges::find(rows, name, [](const Row& each) { return std::string(each.name); });
    if (row == std::end(rows))
        fail(Status::unsupported, where,
             "activation_function: expected Identity, Tanh, ReLU, GELU, SiLU or Sigmoid, got ", name);
    dense.activation = row->activation;
    const std::string of_texts = "sentence_embedding";
    for (const char* key : {"module_input_name", "module_output_name"})
        if (const std::string got = json_field(config, key, of_texts, where); got != of_texts)
            fail(Status::unsupported, where, key, ": expected ", of_texts, ", got ", got);
    return dense;
}

/// Of LogitScore: of "yes" and, where there is one, of "no".
std::vector<int32_t> read_answers(const fs::path& folder, const std::string& path) {
    const std::string where = path + "/config.json";
    const nlohmann::json config = parse_json(read_small(folder, where), where);
    constexpr uint32_t none = INT32_MAX;
    std::vector<int32_t> tokens;
    for (const char* key : {"true_token_id", "false_token_id"}) {
        const uint32_t token = json_field(config, key, none, where);
        if (token < none)
            tokens.push_back(int32_t(token));
        else if (tokens.empty() || token > none)
            fail(Status::bad_file, where, key, ": expected the id of a token");
    }
    return tokens;
}

}  // namespace

EmbeddingModules read_embedding_modules(const fs::path& folder) {
    EmbeddingModules modules;
    const std::string where = "modules.json", pooling = "1_Pooling/config.json";
    if (!fs::exists(folder / where)) {
        if (fs::exists(folder / path_of(pooling))) modules.pooling = read_pooling(folder, pooling);
        return modules;
    }
    const nlohmann::json list = parse_shallow<nlohmann::json>(read_small(folder, where), where);
    if (!list.is_array()) fail(Status::bad_file, where, "expected a list");
    bool pools = false;
    for (const nlohmann::json& module : list) {
        const std::string type = class_name(json_field(module, "type", std::string(), where)),
                          path = json_field(module, "path", std::string(), where);
        if (path != path_of(path).filename().string() || path.starts_with('.'))
            fail(Status::bad_file, where, "path: expected the name of a folder in this one, got ", path);
        if (type == "Pooling") {
            if (std::exchange(pools, true)) fail(Status::unsupported, where, "expected one Pooling");
            modules.pooling = read_pooling(folder, path + "/config.json");
        } else if (type == "LogitScore") {
            modules.answers = read_answers(folder, path);
        } else if (type == "Dense" && pools) {
            modules.dense.push_back(read_dense(folder, path));
        } else if (type != "Transformer" && type != "Normalize") {
            fail(Status::unsupported, where,
                 "expected the modules Transformer, Pooling, then Dense and Normalize, got ", type);
        }
    }
    return modules;
}

std::vector<double> pooled(std::span<const float> hidden, uint32_t size, Pooling pooling) {
    const size_t tokens = hidden.size() / size;
    std::vector<double> sum(size);
    const size_t first = pooling == Pooling::last ? tokens - 1 : 0,
                 last = pooling == Pooling::first ? 1 : tokens;
    for (size_t t = first; t < last; ++t)
        for (uint32_t i = 0; i < size; ++i) sum[i] += double(hidden[t * size + i]) / double(last - first);
    return sum;
}

}  // namespace scoria
