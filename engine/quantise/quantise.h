// Rows of float32 weights to the blocks of a GGUF type: the inverse of reference/dequantise.h, as near as the
// type allows. Scales minimise the squared error of a block's weights (scale_search.h). Each counts by
//   importance * sqrt(mean(x^2) + x^2)
// since a large weight meets the activations for which it became large; importance is 1, or measured (the
// mean square of the activation of a column, loader/importance.h). Without importance all weights of Q4_0,
// Q4_1, Q5_0 and Q5_1 count alike: the perplexity of SmolLM2 is 2 % lower in Q4_0 so. A scale shared by
// scales (the K types) is fitted after them, then each in turn again at its true, rounded value. Q8_0 takes
// the largest weight of a block as 127, and the float types round to nearest even.
#pragma once

#include "architecture.h"

#include <cstddef>
#include <span>

namespace scoria {

/// The types that quantise_row writes.
bool can_quantise(TensorType type);

/// The largest magnitude that `type` (its scales, if it has any) can hold; beyond it quantise_row is
/// undefined.
float largest_value(TensorType type);

/// row: finite, a multiple of the type's block, at most largest_value; importance: empty, or one number of 0
/// or more per weight; out: as many bytes as the blocks take. Equal inputs give equal bytes.
void quantise_row(TensorType type, std::span<const float> row, std::span<const float> importance,
                  std::span<std::byte> out);

/// Plain int8 per row ("channel"): q = round(127 x / max|x|), stored as Q8_0 whose blocks all repeat the
/// row's scale, so that everything that reads Q8_0 runs it. Shapes as above.
void quantise_row_int8(std::span<const float> row, std::span<std::byte> out);

}  // namespace scoria
