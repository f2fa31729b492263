// The two things `forward` needs of safetensors: integer inputs read, results written.
// Format: 8 bytes little-endian header length, a JSON header, then the data.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace scoria::cli {

/// A one-dimensional I64 or I32 tensor. Errors: bad_file, naming the field that lies or the missing tensor.
std::vector<int64_t> read_integers(const std::filesystem::path& path, const std::string& name);

/// One tensor to write; does not own its data.
struct OutputTensor {
    std::string name;
    const char* type;             // "F32", "I64"
    std::vector<uint64_t> shape;
    std::span<const std::byte> data;
};

/// Writes beside `path` and renames, so that a file there is whole. Errors: failed.
void write_safetensors(const std::filesystem::path& path, std::span<const OutputTensor> tensors);

}  // namespace scoria::cli
