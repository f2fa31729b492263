// Whether a model written in another form is read as what it was.
#pragma once

#include "gguf_families.h"
#include "gguf_writer.h"

#include <string>
#include <vector>

namespace scoria {

/// What a file is read as that begins with `bytes`: the writer's header, and of the data what is read for it.
ReadModel read_back(const GgufWriter& writer, const std::vector<std::byte>& bytes, ModelPart part);

/// What a file says beside its tensors.
GgufMetadata metadata_read_back(GgufWriter writer);

/// What of `ours` a file does not say that is read as `read`; empty: nothing. Scales went through 32 bits,
/// frequencies through tensors: what is near is taken for equal. `tiles_heads`: whose heads the file tiles.
std::string what_differs(const Architecture& ours, const Architecture& read, bool tiles_heads);

}  // namespace scoria
