// Quantised Hugging Face folders, whose scales are tensors of their own: what quantization_config says, and
// which tensors belong together.
#pragma once

#include "gather.h"
#include "settings.h"

#include <vector>

namespace scoria {

/// Gives quantised tensors their scales, which leave the list, as do those of activations: these stay floats
/// here. By quant_method, what X is read as:
///   fp8                 8-bit floats X by X_scale_inv or X_scale, of blocks, rows or all: F8_E4M3, or BF16
///   compressed-tensors  the same; symmetric integers X, or X_packed, by X_scale, of rows or of groups of 32
///   n
///                       columns: Q8_0, or Q4_0 where they have 4 bits
///   gptq, awq           4 bits, X.qweight by X.scales and X.qzeros, groups of neighbours: Q4_0, or Q5_0
///   where
///                       0 is another number than 8
///   mxfp4               X_blocks by X_scales: MXFP4
///   bitnet              codes X by X_scale: TQ2_0, or BF16 where rows are no multiple of 256 long
/// Nothing happens without quantization_config. Errors: unsupported, for other methods; bad_file, where a
/// tensor's scales are missing or of another shape.
std::vector<Scales> join_scales(const Settings& config, std::vector<StoredTensor>& tensors,
                                const GatheredTensors& source);

}  // namespace scoria
