// Quantised weights whose numbers and scales lie apart, as blocks that kernels know, or as floats where no
// block holds them (Decode::int8 and after).
#include "gather.h"
#include "half.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

namespace scoria {
namespace {

constexpr float e2m1[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

/// Of 4 bits, two in a byte.
std::byte number_of(const std::byte* pairs, size_t i) {
    return pairs[i / 2] >> int(4 * (i % 2)) & std::byte{15};
}

constexpr std::byte e4m3_magnitude{0x7F};
/// Of `count` floats of E4M3.
bool has_nan(const std::byte* codes, size_t count) {
    return std::any_of(codes, codes + count,
                       [](std::byte b) { return (b & e4m3_magnitude) == e4m3_magnitude; });
}

void write_fp4(std::span<const std::byte> exponents, const std::byte* pairs, std::byte* to) {
    for (size_t b = 0; b < exponents.size(); ++b) {
        *to++ = exponents[b];
        const std::byte* its = pairs + 16 * b;
        for (size_t j = 0; j < 16; ++j) *to++ = number_of(its, j) | number_of(its, j + 16) << 4;
    }
}

/// Blocks of F8_E4M3; one with a NaN is all NaN.
void write_floats(std::span<const float> scales, const std::byte* from, std::byte* to) {
    constexpr uint16_t nan = 0x7E00;
    for (const float scale : scales) {
        const uint16_t half = has_nan(from, 32) ? nan : to_half(256 * scale);
        std::memcpy(to, &half, sizeof half), to += sizeof half;
        std::memcpy(to, from, 32), from += 32, to += 32;
    }
}

std::byte* write_factor(float factor, std::byte* to) {
    std::memcpy(to, &factor, sizeof factor);
    return to + sizeof factor;
}

/// Blocks of NVFP4_S out of pairs of numbers and a scale of each 16. A scale's sign goes to its numbers; a
/// block one of whose scales is NaN is all NaN.
void write_nvfp4(std::span<const float> factors, const std::byte* scales, const std::byte* pairs,
                 std::byte* to) {
    constexpr std::byte both_signs{0x88};
    for (const float factor : factors) {
        to = write_factor(has_nan(scales, 4) ? std::numeric_limits<float>::quiet_NaN() : factor, to);
        for (size_t g = 0; g < 4; ++g) *to++ = scales[g] & e4m3_magnitude;
        for (size_t g = 0; g < 4; ++g, pairs += 8) {
            const std::byte turned = (*scales++ & ~e4m3_magnitude) == std::byte{} ? std::byte{} : both_signs;
            for (size_t j = 0; j < 8; ++j)
                *to++ = (number_of(pairs, j) | number_of(pairs, j + 8) << 4) ^ turned;
        }
    }
}

/// Blocks of NVFP4_S out of NVFP4's.
void write_blocks(std::span<const float> factors, const std::byte* from, std::byte* to) {
    constexpr size_t bytes = 36;
    for (const float factor : factors) {
        to = write_factor(factor, to);
        std::memcpy(to, from, bytes), from += bytes, to += bytes;
    }
}

/// 32 integers, what stands for 0 subtracted. Q4_0 has 8 for 0, Q5_0 16.
std::byte* write_block(TensorType type, float scale, const std::array<int32_t, 32>& numbers, std::byte* to) {
    const uint16_t half = to_half(scale);
    std::memcpy(to, &half, sizeof half), to += sizeof half;
    if (type == TensorType::q8_0) {
        for (const int32_t number : numbers) *to++ = static_cast<std::byte>(number);
        return to;
    }
    const int32_t shift = type == TensorType::q5_0 ? 16 : 8;
    if (type == TensorType::q5_0) {
        uint32_t fifth = 0;
        for (uint32_t j = 0; j < 32; ++j) fifth |= uint32_t(numbers[j] + shift) >> 4 << j;
        std::memcpy(to, &fifth, sizeof fifth), to += sizeof fifth;
    }
    for (size_t j = 0; j < 16; ++j)
        *to++ = static_cast<std::byte>(((numbers[j] + shift) & 15) | ((numbers[j + 16] + shift) & 15) << 4);
    return to;
}

/// A row of integers.
void write_integers(TensorType type, const Scales& scales, uint64_t row, std::span<const uint8_t> codes,
                    std::byte* to) {
    const uint64_t cols = codes.size(), each = tensor_type_info(type).block;
    std::vector<float> factors(cols / each), zeros(cols / each, scales.zero);
    scales.fill(scales.values, row * cols, each, factors);
    if (!scales.zeros.empty()) scales.fill(scales.zeros, row * cols, each, zeros);
    if (each == 1) {
        for (uint64_t c = 0; c < cols; ++c) factors[c] *= float(codes[c]) - zeros[c];
        return encode_floats(type, factors, to);
    }
    for (uint64_t b = 0; b < cols / each; ++b) {
        std::array<int32_t, 32> numbers;
        const auto zero = static_cast<int32_t>(zeros[b]);
        for (uint64_t j = 0; j < 32; ++j) numbers[j] = codes[b * each + j] - zero;
        to = write_block(type, factors[b], numbers, to);
    }
}

/// Codes 0, 1, 2 as TQ2_0, of whose halves byte j has the numbers j, j + 32, j + 64 and j + 96; or as floats.
void write_ternary(TensorType type, std::span<const uint8_t> codes, float scale, std::byte* to) {
    if (type != TensorType::tq2_0) {
        std::vector<float> values;
        for (const uint8_t code : codes) values.push_back((float(code) - 1) * scale);
        return encode_floats(type, values, to);
    }
    const uint16_t half = to_half(scale);
    for (size_t i = 0; i < codes.size(); i += 256) {
        for (size_t j = 0; j < 64; ++j) {
            const uint8_t* first = &codes[i + j / 32 * 128 + j % 32];
            *to++ = static_cast<std::byte>(first[0] | first[32] << 2 | first[64] << 4 | first[96] << 6);
        }
        std::memcpy(to, &half, sizeof half), to += sizeof half;
    }
}

/// Number i of those that follow each other, `bits` wide; byte(k) is the k-th of the `bytes` they lie in.
template <class Byte> uint8_t number_at(uint64_t i, uint32_t bits, uint64_t bytes, const Byte& byte) {
    const uint64_t at = i * bits, k = at / 8;
    uint32_t pair = uint32_t(byte(k));
    if (at % 8 + bits > 8 && k + 1 < bytes) pair |= uint32_t(byte(k + 1)) << 8;
    return static_cast<uint8_t>(pair >> at % 8 & ((1u << bits) - 1));
}

/// Bytes of a row, and how far into the first of them it begins, in numbers.
struct RowBytes {
    uint64_t first, count, skip = 0;
};

RowBytes bytes_of_row(Decode decode, const Scales& scales, uint64_t row, uint64_t cols) {
    switch (decode) {
    case Decode::words: {
        const uint64_t bytes = (cols * scales.bits + 31) / 32 * 4;
        return {row * bytes, bytes};
    }
    case Decode::table: {
        const uint64_t first = row * cols;
        return {first / 2, (first + cols + 1) / 2 - first / 2, first % 2};
    }
    case Decode::fp4:
    case Decode::nvfp4:
        return {row * cols / 2, cols / 2};
    case Decode::nvfp4_blocks:
        return {row * cols / 64 * 36, cols / 64 * 36};
    case Decode::ternary:
        return {row % (scales.rows / 4) * cols, cols};
    default:
        return {row * cols, cols};
    }
}

/// The row's numbers, each in a byte.
void unpack_row(Decode decode, const Scales& scales, uint64_t row, uint64_t skip,
                std::span<const std::byte> raw, std::span<uint8_t> codes) {
    const auto half = [&](uint64_t i, uint64_t upper) {
        return uint8_t(raw[i / 2]) >> (i % 2 == upper ? 4 : 0) & 15;
    };
    for (uint64_t c = 0; c < codes.size(); ++c) {
        if (decode == Decode::int8)
            codes[c] = uint8_t(raw[c]) ^ 128;
        else if (decode == Decode::words)
            codes[c] = number_at(c, scales.bits, raw.size(), [&](uint64_t k) { return raw[k]; });
        else if (decode == Decode::ternary)
            codes[c] = uint8_t(raw[c]) >> 2 * (row / (scales.rows / 4)) & 3;
        else
            codes[c] = static_cast<uint8_t>(half(c + skip, decode == Decode::table ? 0 : 1));
    }
}

}  // namespace

void GatheredTensors::gather_packed(const GatherRecipe& recipe, const Strip& strip, uint32_t first,
                                    uint32_t rows, std::span<std::byte> out) const {
    const Scales& scales = scales_[size_t(strip.scales)];
    const uint64_t cols = recipe.cols, row_bytes = stored_bytes(recipe.type, Decode::none, cols);
    const auto row_of = [&](uint32_t r) { return (strip.first + (first + r) * strip.row_stride) / cols; };
    const auto bytes_of = [&](uint32_t r) { return bytes_of_row(recipe.decode, scales, row_of(r), cols); };
    const bool neighbours = strip.row_stride == cols && recipe.decode != Decode::ternary;  // read as one
    // Of a row, where scales lie in the file.
    const uint64_t scale_bytes = recipe.decode == Decode::fp4     ? cols / 32
                                 : recipe.decode == Decode::nvfp4 ? cols / 16
                                                                  : 0;
    const uint32_t block = tensor_type_info(recipe.type).block;
    std::vector<std::byte> read, scales_read;
    std::vector<uint8_t> codes(cols);
    std::vector<float> values(cols), factors(cols / block);
    uint64_t from = 0;  // of the file's bytes, what was read
    for (uint32_t r = 0; r < rows; ++r) {
        const uint64_t row = row_of(r);
        std::byte* const to = out.data() + r * row_bytes;
        const RowBytes bytes = bytes_of(r);
        if (r == 0 || !neighbours) {
            const RowBytes last = neighbours ? bytes_of(rows - 1) : bytes;
            from = bytes.first;
            read.resize(last.first + last.count - from);
            files_[strip.file].read(strip.offset + from, read);
            scales_read.resize((neighbours ? rows : 1) * scale_bytes);
            if (scale_bytes != 0) files_[scales.file].read(scales.offset + row * scale_bytes, scales_read);
        }
        const std::span<const std::byte> its_scales =
            std::span(scales_read).subspan(neighbours ? r * scale_bytes : 0, scale_bytes);
        const std::span<const std::byte> raw = std::span(read).subspan(bytes.first - from, bytes.count);
        if (recipe.decode == Decode::fp4) {
            write_fp4(its_scales, raw.data(), to);
            continue;
        }
        if (recipe.type == TensorType::f8_e4m3 || recipe.type == TensorType::nvfp4_s) {
            scales.fill(scales.values, row * cols, block, factors);
            if (recipe.decode == Decode::float8)
                write_floats(factors, raw.data(), to);
            else if (recipe.decode == Decode::nvfp4)
                write_nvfp4(factors, its_scales.data(), raw.data(), to);
            else
                write_blocks(factors, raw.data(), to);
            continue;
        }
        unpack_row(recipe.decode, scales, row, bytes.skip, raw, codes);
        if (recipe.decode == Decode::ternary) {
            write_ternary(recipe.type, codes, scales.values[0], to);
        } else if (recipe.decode == Decode::nvfp4) {
            factors.resize(scale_bytes);
            decode_e4m3(its_scales.data(), factors);
            for (uint64_t c = 0; c < cols; ++c)
                values[c] = e2m1[codes[c]] * (factors[c / 16] * scales.values[0]);
            encode_floats(recipe.type, values, to);
        } else if (recipe.decode == Decode::table) {
            scales.fill(scales.values, row * cols, 1, values);
            for (uint64_t c = 0; c < cols; ++c) values[c] *= scales.table[codes[c]];
            encode_floats(recipe.type, values, to);
        } else {
            write_integers(recipe.type, scales, row, codes, to);
        }
    }
}

void GatheredTensors::gather_columns(const GatherRecipe& recipe, const Strip& strip, uint32_t first,
                                     uint32_t rows, std::span<std::byte> out) const {
    constexpr uint64_t word_rows = 8, worth_a_read = 16 << 10;
    const Scales& scales = scales_[size_t(strip.scales)];
    const bool awq = recipe.decode == Decode::awq;
    const uint64_t cols = recipe.cols, lines = awq ? cols : cols * scales.bits / 32;
    const uint64_t line = 4 * (awq ? scales.rows / word_rows : scales.rows);
    const auto row_of = [&](uint32_t r) { return (strip.first + (first + r) * strip.row_stride) / cols; };
    const auto byte_of = [&](uint64_t row) { return 4 * (awq ? row / word_rows : row); };
    // Of every line what these rows need, or all of it where that costs less than a read for each.
    const bool whole = line <= worth_a_read;
    const uint64_t low = whole ? 0 : byte_of(row_of(0)), high = whole ? line : byte_of(row_of(rows - 1)) + 4;
    std::vector<std::byte> words(lines * (high - low));
    for (uint64_t i = 0; i < (whole ? 1 : lines); ++i)
        files_[strip.file].read(strip.offset + i * line + low,
                                whole ? std::span(words)
                                      : std::span(words).subspan(i * (high - low), high - low));
    std::vector<uint8_t> codes(cols);
    const uint64_t row_bytes = stored_bytes(recipe.type, Decode::none, cols);
    for (uint32_t r = 0; r < rows; ++r) {
        const uint64_t row = row_of(r), at = byte_of(row) - low;
        const auto byte = [&](uint64_t k) { return words[k / 4 * (high - low) + at + k % 4]; };
        for (uint64_t c = 0; c < cols; ++c)
            codes[c] = awq ? number_at(c * 8 + awq_places[row % word_rows], 4, 4 * lines, byte)
                           : number_at(c, scales.bits, 4 * lines, byte);
        write_integers(recipe.type, scales, row, codes, out.data() + r * row_bytes);
    }
}

}  // namespace scoria
