// Writes the header of a GGUF file, version 3: metadata, tensor table, and the place of every tensor's data.
// The data are the caller's to write.
#pragma once

#include "architecture.h"
#include "gguf.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace scoria {

class GgufWriter {
  public:
    struct Tensor {
        std::string name;
        std::vector<uint64_t> dimensions;  // fastest first
        TensorType type;
        uint64_t bytes = 0;
        uint64_t offset = 0;  // from the start of the file, after header()
    };

    /// A key that is there already is replaced in its place.
    void set(std::string_view key, uint32_t value);
    void set(std::string_view key, float value);
    void set(std::string_view key, bool value);
    void set(std::string_view key, std::string_view value);
    void set(std::string_view key, const char* value) { set(key, std::string_view(value)); }
    void set(std::string_view key, std::span<const std::string> values);
    void set(std::string_view key, std::span<const int32_t> values);
    void set(std::string_view key, std::span<const float> values);
    void set(std::string_view key, const std::vector<bool>& values);
    /// value: as it lies in another file (GgufEntry).
    void set_raw(std::string_view key, uint32_t type, std::span<const std::byte> value);
    void remove(std::string_view key);

    /// The row length must be a multiple of the type's block.
    void add(std::string name, std::vector<uint64_t> dimensions, TensorType type);

    /// The bytes up to the first tensor's data, tensors lying in the order of add() on multiples of
    /// `alignment`; sets their offsets.
    std::vector<std::byte> header(uint32_t alignment);
    const std::vector<Tensor>& tensors() const { return tensors_; }
    /// Of the whole file. Valid after header().
    uint64_t file_bytes() const { return file_bytes_; }

  private:
    struct Pair {
        std::string key;
        uint32_t type;
        std::string value;
    };
    Pair& slot(std::string_view key, uint32_t type);
    std::vector<Pair> pairs_;
    std::vector<Tensor> tensors_;
    uint64_t file_bytes_ = 0;
};

}  // namespace scoria
