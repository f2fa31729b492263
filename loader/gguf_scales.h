// What GGUF files keep apart from their weights: of NVFP4, the scale of all (llama.cpp's "scale" tensors).
#pragma once

#include "gather.h"

#include <string_view>
#include <vector>

namespace scoria {

/// Gives each tensor X.weight of NVFP4 the factor of its matrix, or of each of its matrices, that is X.scale
/// [1] or [matrices]: it is read as NVFP4_S then. What was joined leaves the list, and X.input_scale, for
/// activations that are quantised. `family` is that of general.architecture, some of which name tensors so
/// that mean something else. Errors: bad_file, for another shape, and a factor that is not finite;
/// unsupported, for weights of another type.
std::vector<Scales> join_gguf_scales(std::string_view family, std::vector<StoredTensor>& tensors,
                                     const GatheredTensors& source);

}  // namespace scoria
