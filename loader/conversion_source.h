// A model as `scoria quantize` reads it: what its GGUF will say, and named tensors whose rows are read a few
// at a time. A file format joins by one more class and a line in open_conversion_source.
#pragma once

#include "architecture.h"
#include "gguf_writer.h"

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace scoria {

class ConversionSource {
  public:
    struct Tensor {
        std::string name;                  // GGUF's
        std::vector<uint64_t> dimensions;  // fastest first
        TensorType type = TensorType::f32;
        uint64_t cols() const { return dimensions[0]; }
        uint64_t rows() const;
    };
    /// What the choice of types asks for.
    struct Facts {
        uint64_t layers = 0, heads = 0, kv_heads = 0, experts = 0;
        uint32_t alignment = 32;
    };

    virtual ~ConversionSource() = default;
    const std::vector<Tensor>& tensors() const { return tensors_; }
    const Facts& facts() const { return facts_; }
    /// The files it reads, which must not be written to meanwhile.
    virtual std::vector<std::string> paths() const = 0;
    /// Sets every key but those of quantisation.
    virtual void metadata(GgufWriter& out) const = 0;
    /// Whole rows of tensors()[tensor], as stored in its type. Thread-safe. Errors: bad_file.
    virtual void read_rows(size_t tensor, uint64_t first_row, std::span<std::byte> out) const = 0;

  protected:
    std::vector<Tensor> tensors_;
    Facts facts_;
};

/// A GGUF file, or all files of a split one given any, or a Hugging Face folder (conversion_folder.h).
/// Errors: those of open_gguf_files, tensor_view and open_conversion_folder.
std::unique_ptr<const ConversionSource> open_conversion_source(const std::filesystem::path& path);

}  // namespace scoria
