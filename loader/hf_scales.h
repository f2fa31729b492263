// Quantised Hugging Face folders, whose scales are tensors of their own: what quantization_config says, and
// which tensors belong together.
#pragma once

#include "gather.h"
#include "settings.h"

#include <vector>

namespace scoria {

/// Gives quantised tensors their scales, which leave the list, as do those of activations: these stay floats
/// here.
///   fp8, compressed-tensors   8-bit floats X by X_scale_inv or X_scale, of blocks, rows or all; read as BF16
///   mxfp4                     X_blocks by X_scales, read as MXFP4
///   bitnet                    codes X by X_scale, read as TQ2_0, or as BF16 if rows are no multiple of 256
///   long
/// Nothing happens without quantization_config. Errors: unsupported, for other methods; bad_file, where a
/// tensor's scales are missing or of another shape.
std::vector<Scales> join_scales(const Settings& config, std::vector<StoredTensor>& tensors,
                                const GatheredTensors& source);

}  // namespace scoria
