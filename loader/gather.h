// Weights that a file does not hold as the graph wants them: rows of a fused tensor, a transposed matrix,
// experts from a file each, numbers in a type no device reads or apart from their scales, norms stored less
// one. They are gathered when they are read, so no model is copied.
#pragma once

#include "file.h"
#include "held_floats.h"
#include "model.h"
#include "tensors.h"

#include <string>
#include <vector>

namespace scoria {

/// How a file spells numbers that no TensorType stands for.
enum class Decode : uint8_t {
    none,
    f64,
    f8_e4m3,
    f8_e5m2,
    i8,
    u8,
    i16,
    u16,
    i32,
    u32,
    i64,
    u64,
    // Integers of Scales::bits, apart from their scales: blocks, or floats where no block holds them.
    int8,     // bytes, with their sign
    words,    // of 32 bits, in which a row's numbers follow each other from the lowest bit on
    gptq,     // likewise, one below the other: [cols * bits / 32, rows]
    awq,      // of 4 bits: a word of [cols, rows / 8] has 8 rows of a column, even ones first
    ternary,  // 0, 1, 2 for -1, 0, 1: of n rows each n / 4 rows in two bits of n / 4 rows of bytes
    float8,   // F8_E4M3, bytes apart from scales of whole blocks
    // Numbers of 4 bits, columns 2i and 2i + 1 in byte i.
    fp4,           // MXFP4
    nvfp4,         // NVFP4_S, or floats
    nvfp4_blocks,  // NVFP4_S, its blocks apart from their factors
    table,         // floats, those of Scales::table; all rows as one, column 2i in the upper half of byte i
};

/// Which four bits of a word of Decode::awq, from the lowest on, are those of row r: awq_places[r % 8].
inline constexpr uint64_t awq_places[] = {0, 4, 1, 5, 2, 6, 3, 7};

/// Whether whole rows are read, as blocks or as floats.
inline bool is_packed(Decode decode) { return decode >= Decode::int8; }

/// A tensor as its file describes it.
struct StoredTensor {
    std::string name;
    TensorType type = TensorType::f32;  // as it is read, if it is decoded
    Decode decode = Decode::none;
    std::vector<uint64_t> shape;  // slowest first; empty for one number
    uint32_t file = 0;
    uint64_t offset = 0;  // bytes from the start of that file
    int32_t scales = -1;  // of the source's; -1: none
    bool blocks = false;  // Decode::f8_e4m3, nvfp4: rows may be read as F8_E4M3 (Decode::float8), NVFP4_S
    std::string in_file = {};  // its name there, where not `name`
    void rename(std::string to) {
        if (in_file.empty() && to != name) in_file = name;
        name = std::move(to);
    }
    const std::string& name_in_file() const { return in_file.empty() ? name : in_file; }
};

/// The rows of all its matrices, as they are stored.
TensorView view_of(const StoredTensor& tensor);

/// What a stored tensor's numbers are multiplied by, its rows being all but the last of its dimensions.
struct Scales {
    uint64_t rows = 0, cols = 0;  // of the tensor
    /// Of element (r, c): values[r / rows_each * across + g], g being c / cols_each or groups[c]. Decode::fp4
    /// has none; nvfp4's scales are multiplied by them.
    HeldFloats values;
    uint64_t rows_each = 1, cols_each = 1, across = 1;
    HeldFloats zeros;   // likewise, the integer that stands for 0; empty: `zero` for all
    uint32_t file = 0;  // Decode::fp4, nvfp4: where the scales lie, a byte for 32 columns or for 16
    uint64_t offset = 0;
    std::vector<uint32_t> groups;  // of columns that are no neighbours; else empty
    float zero = 0;
    uint32_t bits = 4;         // of an integer
    std::vector<float> table;  // what a number of 4 bits stands for
    /// Those, values or zeros, of elements first, first + stride, ...
    void fill(const HeldFloats& those, uint64_t first, uint64_t stride, std::span<float> out) const;
    /// Whether rows that begin with elements a and b have the same ones.
    bool alike(uint64_t a, uint64_t b) const {
        return a % cols == b % cols && a / cols / rows_each == b / cols / rows_each;
    }
};

/// Rows of one stored tensor. Element (r, c) is its element first + r * row_stride + c * col_stride.
struct Strip {
    uint64_t first = 0, row_stride = 0, col_stride = 1;
    uint32_t rows = 0;
    uint32_t file = 0;
    uint64_t offset = 0;  // of the stored tensor
    int32_t scales = -1;  // likewise
    float factor = 1;     // multiplies the result, too
};

/// Strips one after the other, all stored alike; or values that no file holds.
struct GatherRecipe {
    uint32_t cols = 0;  // of a strip; a vector is gathered as rows of one column
    TensorType stored = TensorType::f32;
    Decode decode = Decode::none;
    TensorType type = TensorType::f32;  // of the result
    float add = 0;
    bool negative_exp = false;
    std::vector<Strip> strips;
    std::vector<float> values;  // if not empty: the result, F32
};

/// All rows of a tensor as they are read, in its type.
GatherRecipe whole_of(const StoredTensor& tensor);

/// Bytes of `weights` weights, a multiple of the type's block.
uint64_t stored_bytes(TensorType type, Decode decode, uint64_t weights);
/// out.size() floats of E4M3, a byte each.
void decode_e4m3(const std::byte* from, std::span<float> out);
/// Writes values as F32, or as the nearest F16 or BF16.
void encode_floats(TensorType type, std::span<const float> values, std::byte* to);

/// The tensors of some files, as they are or by recipe. Ranges that do not begin and end at rows cost a copy.
class GatheredTensors final : public TensorSource {
  public:
    explicit GatheredTensors(std::vector<File> files) : files_(std::move(files)) {}
    void set_recipes(std::vector<GatherRecipe> recipes) { recipes_ = std::move(recipes); }
    void set_scales(std::vector<Scales> scales) { scales_ = std::move(scales); }
    const std::vector<File>& files() const { return files_; }
    void read(const TensorView& tensor, uint64_t first, std::span<std::byte> out) const override;
    /// All elements of a tensor that is not of blocks.
    std::vector<float> floats(const StoredTensor& tensor) const;

  private:
    void gather(const GatherRecipe& recipe, uint64_t first, std::span<std::byte> out) const;
    void gather_strip(const GatherRecipe& recipe, const Strip& strip, uint32_t first, uint32_t rows,
                      std::span<std::byte> out) const;
    // gather_packed.cpp
    void gather_packed(const GatherRecipe& recipe, const Strip& strip, uint32_t first, uint32_t rows,
                       std::span<std::byte> out) const;
    void gather_columns(const GatherRecipe& recipe, const Strip& strip, uint32_t first, uint32_t rows,
                        std::span<std::byte> out) const;

    std::vector<File> files_;
    std::vector<GatherRecipe> recipes_;
    std::vector<Scales> scales_;
};

}  // namespace scoria
