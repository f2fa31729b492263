// The safetensors format: named arrays behind a JSON header. Goldens are read from it and `scoria forward`
// writes it. A file is untrusted: the header is at most 100 MB, and the arrays must tile the data without
// overlap or hole, as the format demands (https://github.com/huggingface/safetensors).
#pragma once

#include "file.h"

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace scoria {

struct SafetensorsArray {
    std::string type;             // "F32", "I64", as in the file
    std::vector<uint64_t> shape;  // slowest first; empty for one number
    uint64_t offset = 0;          // bytes from the start of the file
    uint64_t bytes = 0;
    uint64_t elements() const;
};

class Safetensors {
  public:
    /// Errors: bad_file, naming the array; unsupported, naming an unknown element type.
    explicit Safetensors(const std::string& path);
    const std::map<std::string, SafetensorsArray, std::less<>>& arrays() const { return arrays_; }
    bool has(std::string_view name) const { return arrays_.find(name) != arrays_.end(); }
    /// Errors: bad_argument, if there is no such array.
    const SafetensorsArray& array(std::string_view name) const;
    /// All elements in order, for T float, double, int32_t, int64_t or uint8_t. Errors: bad_argument, if the
    /// array is missing or of another type; bad_file.
    template <class T> std::vector<T> read(std::string_view name) const;

  private:
    File file_;
    std::map<std::string, SafetensorsArray, std::less<>> arrays_;
};

/// An array to write; it refers to the caller's memory.
struct NamedArray {
    template <class T>
    NamedArray(std::string name_, std::vector<uint64_t> shape_, const std::vector<T>& values);
    std::string name;
    const char* type;
    std::vector<uint64_t> shape;
    std::span<const std::byte> bytes;
};

/// Replaces `path` once the whole file is written. Errors: failed; bad_argument, if a shape and the number of
/// elements differ or a name recurs.
void write_safetensors(const std::string& path, std::span<const NamedArray> arrays);

}  // namespace scoria
