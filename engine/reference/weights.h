// A model's weights as the reference ops want them: rows of doubles, dequantised on demand.
#pragma once

#include "linear.h"
#include "model.h"

namespace scoria::reference {

/// Rows of `tensor`. They are read ahead, so the result serves one thread; `source` must outlive it.
Rows rows_of(const TensorSource& source, const TensorView& tensor);

/// All values of `tensor`, row-major.
std::vector<double> values_of(const TensorSource& source, const TensorView& tensor);

}  // namespace scoria::reference
