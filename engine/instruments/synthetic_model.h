// Models without a file, to measure with: the shapes of published ones, weights that mean nothing.
#pragma once

#include "model.h"

#include <string>

namespace scoria {

/// What may be asked for, "A, B, ...".
std::string synthetic_sizes();

/// A Llama of one of these sizes with matrices of `type`, vectors of ones; it has no vocabulary. Weights are
/// made as they are read, from blocks that repeat after some hundred kilobytes: the host never holds more.
/// Errors: bad_argument, for another size.
Model synthetic_model(const std::string& size, TensorType type);

}  // namespace scoria
