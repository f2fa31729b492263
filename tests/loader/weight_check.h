// That a model has what its architecture needs.
#pragma once

#include "model.h"

namespace scoria::test {

/// Each weight that the architecture has is there, in its shape, and can be read to its end; no other is.
void check_weights(const Model& model);
/// All of a weight as floats; of the float types.
std::vector<float> floats_of(const Model& model, WeightRef ref);

}  // namespace scoria::test
