// Model families as data: how the metadata keys and tensor names of a GGUF file become an Architecture
// and the roles of its weights. A new family of the same shape is one row of the table in families.cpp.
#pragma once

#include "architecture.h"
#include "gguf.h"

#include <vector>

namespace scoria {

struct ReadModel {
    Architecture architecture;
    Weights weights;
    std::vector<TensorView> unused;
};

class TensorSource;

/// `tensors` is asked only for small tensors that hold hyperparameters (frequencies). Errors: unsupported,
/// naming the architecture, the key or the tensor type; bad_file, naming the key or the tensor, when a size
/// is missing, out of range or contradicts a shape.
ReadModel read_architecture(const Gguf& gguf, const TensorSource& tensors);

}  // namespace scoria
