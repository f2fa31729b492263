// What a precision class and a cache type round, done by the reference: the error that a right device may
// make.
#pragma once

#include "ops/op.h"
#include "reference/rounding.h"

#include <vector>

namespace scoria::validate {

/// Each a way to compute that a device may take; none where nothing is coarser than float32. Matrices and
/// what they are multiplied with are halves from `balanced` on, weights rounded to nearest or towards zero,
/// as Vulkan leaves to the driver (OpFConvert). `fast` rounds activations to bytes, 32 by 32.
std::vector<reference::Rounding> class_roundings(Precision precision, KvType kv);

}  // namespace scoria::validate
