// Blocks of a GGUF tensor to the float32 values they stand for, exactly as ggml's own code rounds them.
#pragma once

#include "architecture.h"

#include <cstddef>
#include <span>

namespace scoria::reference {

/// blocks: whole blocks of `type`, little-endian as in the file; out: as many values as they hold.
void dequantise(TensorType type, std::span<const std::byte> blocks, std::span<float> out);

}  // namespace scoria::reference
