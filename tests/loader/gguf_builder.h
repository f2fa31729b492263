// Writes small GGUF files for tests: a valid model whose parts a case then changes.
#pragma once

#include "architecture.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace scoria::test {

using GgufPart = std::variant<uint32_t, float, bool, std::string, std::vector<std::string>,
                              std::vector<int32_t>, std::vector<float>>;

struct GgufFile {
    struct Tensor {
        std::vector<uint64_t> dimensions;
        uint32_t type = 0;
        std::string data;
    };
    uint32_t version = 3;
    std::map<std::string, GgufPart> metadata;
    std::map<std::string, Tensor> tensors;

    /// An F32 tensor with every element `value`.
    void add(const std::string& name, std::vector<uint64_t> dimensions, float value = 0.5f);
    std::string bytes() const;
};

/// The bytes of a number as files store it.
template <class T> void put(std::string& out, T value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// A llama of one layer: 16 tokens, hidden 8, 2 heads, 1 key/value head, feed-forward 12; no vocabulary.
GgufFile tiny_llama();
/// Adds a byte-level vocabulary: one token per byte-spelling in `tokens`, with these merges.
void add_vocabulary(GgufFile& file, std::vector<std::string> tokens, std::vector<std::string> merges);

/// A file that lives as long as the object.
class TemporaryFile {
  public:
    explicit TemporaryFile(const std::string& bytes, const std::string& extension = ".gguf");
    ~TemporaryFile() { std::filesystem::remove(path_); }
    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;
    const std::string& path() const { return path_; }

  private:
    std::string path_;
};

}  // namespace scoria::test
