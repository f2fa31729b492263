// Models whose weights are made of their tensors' names (tests/model/made_values.py), for programs that know
// files alone.
#pragma once

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
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
    const double middle = norm ? 1 : name.ends_with("ssm_a") ? -1 : 0;
    const double root = std::sqrt(double(shape.back()));
    std::vector<float> values;
    for (uint64_t i = 1; i <= count; ++i) {
        uint64_t z = seed + i * 0x9E3779B97F4A7C15;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
        const double u = double((z ^ (z >> 31)) >> 40) / double(1 << 23) - 1;
        values.push_back(float(matrix ? u * 2.5 / root : middle + 0.3 * u));
    }
    std::string bytes(4 * count, '\0');
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

/// The first model of tests/model/FILE as a Hugging Face folder, or its target, which lives as long as the
/// object.
class MadeFolder {
  public:
    explicit MadeFolder(const std::string& file, bool target = false)
        : path_(std::filesystem::temp_directory_path() /
                ("scoria-made-" + std::to_string(std::random_device()()))) {
        std::ifstream lines(std::string(SCORIA_SOURCE_DIR) + "/tests/model/" + file);
        std::string line, data;
        std::getline(lines, line);
        const nlohmann::json all = nlohmann::json::parse(line), made = target ? all["target"] : all;
        nlohmann::json header;
        for (const auto& [name, shape] : made["tensors"].items()) {
            const size_t begin = data.size();
            data += bytes_of(target ? "target." + name : name, shape);
            header[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {begin, data.size()}}};
        }
        const std::string text = header.dump();
        const uint64_t length = text.size();
        std::filesystem::create_directory(path_);
        std::ofstream(path_ / "config.json") << made["config"];
        std::ofstream(path_ / "model.safetensors", std::ios::binary)
            << std::string(reinterpret_cast<const char*>(&length), sizeof length) << text << data;
        const nlohmann::json files = made.value("files", nlohmann::json::object());
        for (const auto& [name, content] : files.items()) {
            std::filesystem::create_directories((path_ / name).parent_path());
            std::ofstream(path_ / name) << content.get<std::string>();
        }
        pairs_ = made.value("pairs", nlohmann::json::array());
    }
    ~MadeFolder() { std::filesystem::remove_all(path_); }
    MadeFolder(const MadeFolder&) = delete;
    std::string path() const { return path_.string(); }
    /// Of a model that ranks: query, document, prompt, score, ...
    const nlohmann::json& pairs() const { return pairs_; }

  private:
    std::filesystem::path path_;
    nlohmann::json pairs_;
};

}  // namespace scoria::test
