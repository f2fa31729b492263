// See shader_elements.h.
#include "shader_elements.h"

#include "cache_tools.h"
#include "fail.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstring>

namespace scoria::validate {
namespace {

using vk::NumberKind;

/// As NumPy converts: what is past the largest half is infinite (half_of() clamps, as caches do).
uint16_t ieee_half(double value) {
    if (std::isnan(value)) return 0x7E00;
    if (std::abs(value) >= 65520) return value < 0 ? 0xFC00 : 0x7C00;
    return half_of(value);
}

uint64_t bits_at(std::span<const std::byte> bytes, size_t i, const Element& element) {
    uint64_t bits = 0;
    std::memcpy(&bits, &bytes[i * element.bytes], element.bytes);
    return bits;
}

}  // namespace

uint64_t unwritten_bits(const Element& element) {
    return element.bytes == 2 ? 0x7EEF : element.bytes == 8 ? 0x7FF8BEEF7FC0BEEF : unwritten_word;
}

std::pair<double, double> range_of(const Element& element) {
    if (element.kind == NumberKind::signed_integer) return {INT32_MIN, INT32_MAX};
    if (element.kind == NumberKind::unsigned_integer) return {0, UINT32_MAX};
    const double most = element.bytes == 2 ? 65504.0 : element.bytes == 4 ? double(FLT_MAX) : DBL_MAX;
    return {-most, most};
}

double rounded(double value, const Element& element) {
    if (element.kind != NumberKind::float_number) return std::round(value);
    return element.bytes == 2   ? double(float_of(ieee_half(value)))
           : element.bytes == 4 ? double(float(value))
                                : value;
}

std::vector<std::byte> packed(std::span<const double> values, const Element& element) {
    std::vector<std::byte> bytes(values.size() * element.bytes);
    for (size_t i = 0; i < values.size(); ++i) {
        uint64_t bits = 0;
        if (element.kind != NumberKind::float_number)
            bits = uint64_t(int64_t(values[i]));
        else if (element.bytes == 2)
            bits = ieee_half(values[i]);
        else if (element.bytes == 8)
            bits = std::bit_cast<uint64_t>(values[i]);
        else
            bits = std::bit_cast<uint32_t>(float(values[i]));
        std::memcpy(&bytes[i * element.bytes], &bits, element.bytes);
    }
    return bytes;
}

double value_at(std::span<const std::byte> bytes, size_t i, const Element& element) {
    const uint64_t bits = bits_at(bytes, i, element);
    return element.kind == NumberKind::signed_integer     ? double(int32_t(bits))
           : element.kind == NumberKind::unsigned_integer ? double(bits)
           : element.bytes == 2                           ? double(float_of(uint16_t(bits)))
           : element.bytes == 8                           ? std::bit_cast<double>(bits)
                                                          : double(std::bit_cast<float>(uint32_t(bits)));
}

std::vector<float> floats_of(std::span<const std::byte> bytes, const Element& element) {
    std::vector<float> values(bytes.size() / element.bytes);
    for (size_t i = 0; i < values.size(); ++i)
        values[i] =
            element.kind == NumberKind::float_number && bits_at(bytes, i, element) == unwritten_bits(element)
                ? std::bit_cast<float>(unwritten_word)
                : float(value_at(bytes, i, element));
    return values;
}

std::string integer_error(std::span<const double> expected, std::span<const std::byte> bytes,
                          const Element& element) {
    for (size_t i = 0; i < std::min(expected.size(), bytes.size() / element.bytes); ++i)
        if (const double actual = value_at(bytes, i, element); actual != expected[i])
            return cat("element ", i, ": expected ", int64_t(expected[i]), ", got ", int64_t(actual),
                       bits_at(bytes, i, element) == unwritten_bits(element) ? " (never written)" : "");
    return {};
}

}  // namespace scoria::validate
