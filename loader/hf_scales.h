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
///   compressed-tensors  the same; integers X, or X_packed, by X_scale; X_packed of NVFP4 or MXFP4
///   gptq, awq           integers X.qweight by X.scales and X.qzeros
///   modelopt            8-bit floats as above; NVFP4 X by X_scale and X_scale_2
///   quark               8-bit floats as above; MXFP4 X by X_scale
///   mxfp4               X_blocks by X_scales: MXFP4
///   bitsandbytes        numbers of a table, X by X.absmax: floats; integers X by X.SCB
///   bitnet              codes X by X_scale: TQ2_0, or BF16 where rows are no multiple of 256 long
/// Integers become the smallest of Q4_0, Q5_0 and Q8_0 that holds them without their zero; or, where 32
/// neighbours have not one scale (act-order) or none is wide enough, floats of the type of their scales,
/// which is what the libraries compute. MXFP4 is kept; NVFP4 becomes NVFP4_S, or BF16 where rows are no
/// multiple of 64 long.
/// Nothing happens without quantization_config. Errors: unsupported, for other methods; bad_file, where a
/// tensor's scales are missing or of another shape.
std::vector<Scales> join_scales(const Settings& config, std::vector<StoredTensor>& tensors,
                                const GatheredTensors& source);

}  // namespace scoria
