// Elements of somebody's buffers (own_shader.h): f16, f32, f64, int, uint, as bits and as numbers.
#pragma once

#include "reflect.h"
#include "tensors.h"

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace scoria::validate {

/// What the shader sees of one tensor: elements of `kind` and `bytes`.
struct Element {
    vk::NumberKind kind = vk::NumberKind::float_number;
    uint32_t bytes = 4;
    const TensorTypeInfo* blocks = nullptr;  // of this type as in a GGUF file; then `bytes` is 1
};

/// What elements of an output start as: NaN, or an integer that is seldom.
uint64_t unwritten_bits(const Element& element);
/// The least and the largest finite number.
std::pair<double, double> range_of(const Element& element);
/// The nearest number; floats beyond the range become infinite.
double rounded(double value, const Element& element);
/// Of values that are rounded.
std::vector<std::byte> packed(std::span<const double> values, const Element& element);
/// Of element `i`.
double value_at(std::span<const std::byte> bytes, size_t i, const Element& element);
/// With unwritten_word for floats that were never written.
std::vector<float> floats_of(std::span<const std::byte> bytes, const Element& element);
/// Integers have no rounding errors: says which differs first, if one does.
std::string integer_error(std::span<const double> expected, std::span<const std::byte> bytes,
                          const Element& element);

}  // namespace scoria::validate
