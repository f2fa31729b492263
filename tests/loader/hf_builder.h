// Writes small Hugging Face folders for tests: a valid model whose parts a case then changes.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace scoria::test {

struct HfFolder {
    struct Tensor {
        std::string type;  // "F32"
        std::vector<uint64_t> shape;
        std::string bytes;
    };
    nlohmann::json config;
    std::map<std::string, Tensor> tensors;
    std::map<std::string, std::string> files;  // more of them: name and content

    /// An F32 tensor with the elements first, first + 1, ...
    void add(const std::string& name, std::vector<uint64_t> shape, float first = 0);
    /// Takes out tensors with that in their names.
    void drop(std::string_view part);
};

/// A llama of one layer: 16 tokens, hidden 8, 2 heads, 1 key/value head, feed-forward 12.
HfFolder tiny_hf_llama();

/// A folder as it is on disk, its model.safetensors as tensors.
HfFolder hf_folder(const std::filesystem::path& path);

/// The bytes of a safetensors file.
std::string safetensors_bytes(const std::map<std::string, HfFolder::Tensor>& tensors);

/// A folder that lives as long as the object: config.json, the other files, and model.safetensors unless
/// `files` has weights or an index of them.
class TemporaryFolder {
  public:
    explicit TemporaryFolder(const HfFolder& folder);
    ~TemporaryFolder() { std::filesystem::remove_all(path_); }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path path_;
};

/// What opening the folder as a model says, or "no error".
std::string refusal_of(const HfFolder& folder);

}  // namespace scoria::test
