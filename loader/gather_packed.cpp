// Quantised weights whose numbers and scales lie apart, as blocks that kernels know (Decode::fp4 and after).
#include "gather.h"
#include "half.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace scoria {
namespace {

/// 32 numbers, neighbours in a byte, as blocks have them: j and j + 16 in byte j.
std::byte* join_pairs(const std::byte* pairs, std::byte* to) {
    const auto number = [&](size_t i) { return pairs[i / 2] >> int(4 * (i % 2)) & std::byte{15}; };
    for (size_t j = 0; j < 16; ++j) *to++ = number(j) | number(j + 16) << 4;
    return to;
}

void write_fp4(std::span<const std::byte> exponents, const std::byte* pairs, std::byte* to) {
    for (size_t b = 0; b < exponents.size(); ++b) {
        *to++ = exponents[b];
        to = join_pairs(pairs + 16 * b, to);
    }
}

/// Blocks of F8_E4M3; one with a NaN is all NaN.
void write_floats(std::span<const float> scales, const std::byte* from, std::byte* to) {
    constexpr uint16_t nan = 0x7E00;
    for (const float scale : scales) {
        const bool finite = std::none_of(
            from, from + 32, [](std::byte b) { return (b & std::byte{0x7F}) == std::byte{0x7F}; });
        const uint16_t half = finite ? to_half(256 * scale) : nan;
        std::memcpy(to, &half, sizeof half), to += sizeof half;
        std::memcpy(to, from, 32), from += 32, to += 32;
    }
}

/// Blocks of Q4_0 or Q8_0.
void write_integers(Decode decode, std::span<const float> scales, const std::byte* from, std::byte* to) {
    for (const float scale : scales) {
        const uint16_t half = to_half(scale);
        std::memcpy(to, &half, sizeof half), to += sizeof half;
        if (decode == Decode::int4) {
            to = join_pairs(from, to), from += 16;
            continue;
        }
        const std::byte zero{uint8_t(decode == Decode::uint8 ? 128 : 0)};
        for (size_t j = 0; j < 32; ++j) *to++ = *from++ ^ zero;
    }
}

/// One of Q4_0, whose zero is 8, or of Q5_0, where it is 16.
std::byte* write_block(TensorType type, uint16_t scale, uint32_t zero,
                       const std::array<uint32_t, 32>& numbers, std::byte* to) {
    std::memcpy(to, &scale, sizeof scale), to += sizeof scale;
    const uint32_t shift = (type == TensorType::q5_0 ? 16 : 8) - zero;
    if (type == TensorType::q5_0) {
        uint32_t fifth = 0;
        for (uint32_t j = 0; j < 32; ++j) fifth |= (numbers[j] + shift) >> 4 << j;
        std::memcpy(to, &fifth, sizeof fifth), to += sizeof fifth;
    }
    for (size_t j = 0; j < 16; ++j)
        *to++ = static_cast<std::byte>(((numbers[j] + shift) & 15) | ((numbers[j + 16] + shift) & 15) << 4);
    return to;
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

}  // namespace

void GatheredTensors::gather_packed(const GatherRecipe& recipe, const Strip& strip, uint32_t first,
                                    uint32_t rows, std::span<std::byte> out) const {
    const Scales& scales = scales_[size_t(strip.scales)];
    const uint64_t cols = recipe.cols, row_bytes = stored_bytes(recipe.type, Decode::none, cols);
    const bool pairs = recipe.decode == Decode::fp4 || recipe.decode == Decode::int4;
    const uint64_t stored_rows = recipe.decode == Decode::ternary ? scales.rows / 4 : scales.rows;
    const uint64_t bytes = pairs ? cols / 2 : cols;
    const bool neighbours = strip.row_stride == cols && recipe.decode != Decode::ternary;
    std::vector<std::byte> raw(bytes * (neighbours ? rows : 1)), exponents(cols / 32);
    std::vector<float> factors(cols / 32);
    std::vector<uint8_t> digits(cols);
    for (uint32_t r = 0; r < rows; ++r) {
        const uint64_t row = (strip.first + (first + r) * strip.row_stride) / cols;
        std::byte* const to = out.data() + r * row_bytes;
        if (r == 0 || !neighbours) files_[strip.file].read(strip.offset + bytes * (row % stored_rows), raw);
        const std::byte* const codes = raw.data() + (neighbours ? r * bytes : 0);
        if (recipe.decode == Decode::ternary) {
            for (uint64_t c = 0; c < cols; ++c)
                digits[c] = static_cast<uint8_t>(codes[c] >> int(2 * (row / stored_rows)) & std::byte{3});
            write_ternary(recipe.type, digits, scales.values[0], to);
        } else if (recipe.decode == Decode::fp4) {
            files_[scales.file].read(scales.offset + row * exponents.size(), exponents);
            write_fp4(exponents, codes, to);
        } else {
            scales.fill(scales.values, row * cols, 32, factors);
            if (recipe.decode == Decode::float8)
                write_floats(factors, codes, to);
            else
                write_integers(recipe.decode, factors, codes, to);
        }
    }
}

void GatheredTensors::gather_columns(const GatherRecipe& recipe, const Strip& strip, uint32_t first,
                                     uint32_t rows, std::span<std::byte> out) const {
    constexpr uint64_t word_rows = 8, worth_a_read = 16 << 10;
    const Scales& scales = scales_[size_t(strip.scales)];
    const bool awq = recipe.decode == Decode::awq;
    const uint64_t cols = recipe.cols, lines = awq ? cols : cols / 8;
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
    std::vector<float> factors(cols / 32), zeros(cols / 32);
    std::byte* to = out.data();
    for (uint32_t r = 0; r < rows; ++r) {
        const uint64_t row = row_of(r), at = byte_of(row) - low;
        scales.fill(scales.values, row * cols, 32, factors);
        scales.fill(scales.zeros, row * cols, 32, zeros);
        for (uint64_t b = 0; b < cols / 32; ++b) {
            std::array<uint32_t, 32> numbers;
            for (uint64_t j = 0; j < 32; ++j) {
                const uint64_t c = 32 * b + j, place = awq ? awq_places[row % word_rows] : c % 8;
                const std::byte pair = words[(awq ? c : c / 8) * (high - low) + at + place / 2];
                numbers[j] = uint32_t(pair) >> (4 * (place % 2)) & 15;
            }
            to = write_block(recipe.type, to_half(factors[b]), uint32_t(zeros[b]), numbers, to);
        }
    }
}

}  // namespace scoria
