// Whether a model written in another form is read as what it was.
#pragma once

#include "architecture.h"

#include <string>

namespace scoria {

/// What of `ours` a file does not say that is read as `read`; empty: nothing. Scales went through 32 bits,
/// frequencies through tensors: what is near is taken for equal. `tiles_heads`: whose heads the file tiles.
std::string what_differs(const Architecture& ours, const Architecture& read, bool tiles_heads);

}  // namespace scoria
