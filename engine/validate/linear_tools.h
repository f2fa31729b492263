// What the checks of linear share: how far sums may be off, and x as the kernels multiply it.
#pragma once

#include "check.h"
#include "ops/linear.h"

namespace scoria::validate {

/// Sums of `cols` products of random sign, rounded at every step, err by about sqrt(cols) * 2^-24 of their
/// size (the partial sums grow as a random walk). Digits and codes of 2 to 6 bits are multiplied as values in
/// [1, 2) (dequant_bits.glsl), which cancels up to two bits and a half; GLU multiplies two sums. Each bound
/// leaves as much room as the largest of thousands of such errors needs: 6 standard deviations for an
/// element. Halves round both operands by up to 2^-11 (drivers may round towards zero), which the signs of
/// products make random. What bytes round is no part of it: the reference multiplies the bytes (packed_x,
/// stepped).
/// Sums of halves, of 16 products each, are rounded at every step to 2^-11 of their size so far: in all by
/// sqrt(sum of j / 16, j = 1 .. 16) = sqrt(8.5) times what one rounding of a product would be.
/// `two_sums`: as of GLU.
Bounds linear_bounds(const LinearVariant& variant, TensorType type, uint32_t tokens, uint32_t cols,
                     bool two_sums);

/// Whether a CPU driver compiles the variant's large matrix tile for minutes: the full tier proves those.
bool takes_minutes(CheckContext& context, const LinearVariant& variant);

/// The largest of so many values; NaN where one is no number.
double largest_of(std::span<const double> block);
/// x [tokens, cols] in whole steps, of which `levels` are the largest of 32 columns (byte_operands.glsl), of
/// blocks that are zero past the end. Without levels as it is.
std::vector<double> stepped(std::vector<double> x, uint32_t cols, uint32_t levels);
/// Moves values of x [tokens, cols] that are about halfway between two such steps, whether of one byte or of
/// two, where they are multiplied by `weight`, if there is one, first.
void leave_ties(std::vector<float>& x, uint32_t cols, std::span<const float> weight);

inline constexpr float norm_epsilon = 1e-5f;
/// Rows of x as they are multiplied: RMS-normalised, if there is a weight [cols].
std::vector<double> normed(std::span<const float> x, std::span<const float> weight);

}  // namespace scoria::validate
