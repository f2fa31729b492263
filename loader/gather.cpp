// See gather.h.
#include "gather.h"

#include "fail.h"
#include "half.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

namespace scoria {
namespace {

template <class T> T load(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

/// An IEEE-like float of `bits` exponent and mantissa bits below a sign. `finite`: the largest exponent holds
/// numbers, and only all ones is NaN (E4M3, Micikevicius et al. 2022).
float small_float(uint32_t bits, int exponent_bits, int mantissa_bits, bool finite) {
    const uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
    const uint32_t most = (1u << exponent_bits) - 1, exponent = bits >> mantissa_bits & most;
    const float sign = bits >> (exponent_bits + mantissa_bits) & 1 ? -1.0f : 1.0f;
    const int bias = int(most >> 1);
    if (exponent == most && (!finite || mantissa == (1u << mantissa_bits) - 1))
        return mantissa == 0 ? sign * std::numeric_limits<float>::infinity()
                             : std::numeric_limits<float>::quiet_NaN();
    if (exponent == 0) return sign * std::ldexp(float(mantissa), 1 - bias - mantissa_bits);
    return sign * std::ldexp(float(mantissa | 1u << mantissa_bits), int(exponent) - bias - mantissa_bits);
}

std::array<float, 256> small_floats(int exponent_bits, int mantissa_bits, bool finite) {
    std::array<float, 256> table;
    for (uint32_t bits = 0; bits < table.size(); ++bits)
        table[bits] = small_float(bits, exponent_bits, mantissa_bits, finite);
    return table;
}

template <class T> void convert(const std::byte* from, std::span<float> out) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(load<T>(from + i * sizeof(T)));
}

void look_up(const std::array<float, 256>& table, const std::byte* from, std::span<float> out) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = table[size_t(from[i])];
}

void decode(TensorType type, Decode decode, const std::byte* from, std::span<float> out) {
    static const auto e5m2 = small_floats(5, 2, false);
    switch (decode) {
    case Decode::none:
    case Decode::int8:  // by gather_packed, as the others down to
    case Decode::words:
    case Decode::gptq:
    case Decode::awq:
    case Decode::ternary:
    case Decode::float8:
    case Decode::fp4:
    case Decode::nvfp4:
    case Decode::nvfp4_blocks:
    case Decode::table:
        break;
    case Decode::f64:
        return convert<double>(from, out);
    case Decode::f8_e4m3:
        return decode_e4m3(from, out);
    case Decode::f8_e5m2:
        return look_up(e5m2, from, out);
    case Decode::i8:
        return convert<int8_t>(from, out);
    case Decode::u8:
        return convert<uint8_t>(from, out);
    case Decode::i16:
        return convert<int16_t>(from, out);
    case Decode::u16:
        return convert<uint16_t>(from, out);
    case Decode::i32:
        return convert<int32_t>(from, out);
    case Decode::u32:
        return convert<uint32_t>(from, out);
    case Decode::i64:
        return convert<int64_t>(from, out);
    case Decode::u64:
        return convert<uint64_t>(from, out);
    }
    if (type == TensorType::f32) return convert<float>(from, out);
    for (size_t i = 0; i < out.size(); ++i) {
        const auto bits = load<uint16_t>(from + 2 * i);  // or F16, the only other type that is converted
        out[i] = type == TensorType::bf16 ? from_bf16(bits) : from_half(bits);
    }
}

constexpr uint64_t element_bytes[] = {0, 8, 1, 1, 1, 1, 2, 2, 4, 4, 8,
                                      8, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};  // by Decode
static_assert(std::size(element_bytes) == static_cast<size_t>(Decode::table) + 1);

}  // namespace

TensorView view_of(const StoredTensor& tensor) {
    uint64_t weights = 1;
    for (const uint64_t size : tensor.shape) weights *= size;
    const uint64_t cols = tensor.shape.empty() ? 1 : tensor.shape.back();
    const uint64_t rows = cols == 0 ? 0 : weights / cols;
    return {tensor.name, tensor.type,  static_cast<uint32_t>(rows), static_cast<uint32_t>(cols),
            tensor.file, tensor.offset};
}

GatherRecipe whole_of(const StoredTensor& tensor) {
    const TensorView view = view_of(tensor);
    Strip strip;
    strip.row_stride = view.cols;
    strip.rows = view.rows;
    strip.file = tensor.file;
    strip.offset = tensor.offset;
    strip.scales = tensor.scales;
    GatherRecipe recipe;
    recipe.cols = view.cols;
    recipe.stored = recipe.type = tensor.type;
    recipe.decode = tensor.decode;
    recipe.strips = {strip};
    return recipe;
}

void decode_e4m3(const std::byte* from, std::span<float> out) {
    static const auto table = small_floats(4, 3, true);
    look_up(table, from, out);
}

void encode_floats(TensorType type, std::span<const float> values, std::byte* to) {
    if (type == TensorType::f32) {
        std::memcpy(to, values.data(), values.size_bytes());
        return;
    }
    for (const float value : values) {
        const uint16_t nearest = type == TensorType::f16 ? to_half(value) : to_bf16(value);
        std::memcpy(to, &nearest, sizeof nearest), to += sizeof nearest;
    }
}

uint64_t stored_bytes(TensorType type, Decode decode, uint64_t weights) {
    if (decode != Decode::none) return weights * element_bytes[static_cast<size_t>(decode)];
    const TensorTypeInfo& info = tensor_type_info(type);
    return weights / info.block * info.block_bytes;
}

void Scales::fill(const HeldFloats& those, uint64_t first, uint64_t stride, std::span<float> out) const {
    for (uint64_t i = 0; i < out.size(); ++i) {
        const uint64_t at = first + i * stride;
        const uint64_t col = at % cols, group = groups.empty() ? col / cols_each : groups[col];
        out[i] = those[at / cols / rows_each * across + group];
    }
}

void GatheredTensors::gather_strip(const GatherRecipe& recipe, const Strip& strip, uint32_t first,
                                   uint32_t rows, std::span<std::byte> out) const {
    if (recipe.decode == Decode::gptq || recipe.decode == Decode::awq)
        return gather_columns(recipe, strip, first, rows, out);
    if (is_packed(recipe.decode)) return gather_packed(recipe, strip, first, rows, out);
    const auto bytes_of = [&](uint64_t weights) {
        return stored_bytes(recipe.stored, recipe.decode, weights);
    };
    const uint64_t cols = recipe.cols, weights = rows * cols, start = strip.first + first * strip.row_stride;
    const File& file = files_[strip.file];
    const bool convert = recipe.decode != Decode::none || recipe.add != 0 || recipe.negative_exp ||
                         strip.factor != 1 || recipe.type != recipe.stored;
    std::vector<std::byte> raw(convert ? bytes_of(weights) : 0);
    const std::span<std::byte> to = convert ? std::span(raw) : out;

    if (strip.col_stride == 1 && strip.row_stride == cols) {
        file.read(strip.offset + bytes_of(start), to);
    } else if (strip.col_stride == 1 && cols > 1) {
        for (uint32_t r = 0; r < rows; ++r)
            file.read(strip.offset + bytes_of(start + r * strip.row_stride),
                      to.subspan(bytes_of(r * cols), bytes_of(cols)));
    } else {  // never a type of blocks
        const uint64_t element = bytes_of(1), high = (rows - 1) * strip.row_stride + 1;
        // One read of everything in between, if that costs less than a read per column.
        constexpr uint64_t worth_a_read = 16 << 10, most = 64 << 20;
        const uint64_t whole = element * (high + (cols - 1) * strip.col_stride);
        const bool at_once = whole <= most && whole <= cols * worth_a_read;
        std::vector<std::byte> piece(at_once ? whole : element * high);
        for (uint64_t c = 0; c < cols; ++c) {
            if (!at_once || c == 0) file.read(strip.offset + element * (start + c * strip.col_stride), piece);
            const std::byte* column = piece.data() + (at_once ? element * c * strip.col_stride : 0);
            for (uint64_t r = 0; r < rows; ++r)
                std::memcpy(to.data() + element * (r * cols + c), column + element * r * strip.row_stride,
                            element);
        }
    }
    if (!convert) return;
    const Scales* scales = strip.scales < 0 ? nullptr : &scales_[size_t(strip.scales)];
    std::vector<float> factors(cols, 1.0f), values(cols);
    std::optional<uint64_t> filled;  // where the row begins whose factors these are
    for (uint32_t r = 0; r < rows; ++r) {
        const uint64_t at = start + r * strip.row_stride;
        if (scales && !(filled && strip.col_stride == 1 && scales->alike(*filled, at))) {
            scales->fill(scales->values, at, strip.col_stride, factors);
            filled = at;
        }
        decode(recipe.stored, recipe.decode, raw.data() + bytes_of(r * cols), values);
        for (uint64_t c = 0; c < cols; ++c) {
            values[c] = values[c] * factors[c] * strip.factor + recipe.add;
            if (recipe.negative_exp) values[c] = -std::exp(values[c]);
        }
        encode_floats(recipe.type, values, out.data() + stored_bytes(recipe.type, Decode::none, r * cols));
    }
}

void GatheredTensors::gather(const GatherRecipe& recipe, uint64_t first, std::span<std::byte> out) const {
    if (!recipe.values.empty()) {
        const auto bytes = std::as_bytes(std::span(recipe.values));
        std::memcpy(out.data(), bytes.data() + first, out.size());
        return;
    }
    const uint64_t row_bytes = stored_bytes(recipe.type, Decode::none, recipe.cols);
    const uint64_t from = first / row_bytes, to = (first + out.size() + row_bytes - 1) / row_bytes;
    const uint64_t skip = first - from * row_bytes;
    std::vector<std::byte> whole;  // rows that are cut by the range
    std::span<std::byte> rows = out;
    if (skip != 0 || out.size() != (to - from) * row_bytes) {
        whole.resize((to - from) * row_bytes);
        rows = whole;
    }
    uint64_t base = 0;  // first row of the strip
    for (const Strip& strip : recipe.strips) {
        const uint64_t low = std::clamp(from, base, base + strip.rows),
                       high = std::clamp(to, base, base + strip.rows);
        if (low < high)
            gather_strip(recipe, strip, uint32_t(low - base), uint32_t(high - low),
                         rows.subspan((low - from) * row_bytes, (high - low) * row_bytes));
        base += strip.rows;
    }
    if (!whole.empty()) std::memcpy(out.data(), whole.data() + skip, out.size());
}

std::vector<float> GatheredTensors::floats(const StoredTensor& tensor) const {
    if (is_packed(tensor.decode))
        fail(Status::unsupported, "tensor", tensor.name, ": expected numbers that are not packed");
    GatherRecipe recipe = whole_of(tensor);
    recipe.type = TensorType::f32;
    const Strip& strip = recipe.strips.front();
    std::vector<float> values(size_t{strip.rows} * recipe.cols);
    if (!values.empty())
        gather_strip(recipe, strip, 0, strip.rows, std::as_writable_bytes(std::span(values)));
    return values;
}

void GatheredTensors::read(const TensorView& tensor, uint64_t first, std::span<std::byte> out) const {
    const uint64_t bytes = tensor.bytes();
    if (tensor.file >= files_.size() || first > bytes || out.size() > bytes - first ||
        (tensor.recipe >= 0 && size_t(tensor.recipe) >= recipes_.size())) {
        fail(Status::bad_argument, "tensor", tensor.name, ": expected a range inside ", bytes, " bytes, got ",
             out.size(), " at ", first);
    }
    if (out.empty()) return;
    if (tensor.recipe < 0)
        files_[tensor.file].read(tensor.offset + first, out);
    else
        gather(recipes_[size_t(tensor.recipe)], first, out);
}

}  // namespace scoria
