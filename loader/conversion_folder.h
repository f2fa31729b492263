// Hugging Face folders as sources of a conversion; open_conversion_source comes here.
#pragma once

#include "conversion_source.h"

namespace scoria {

/// A folder with config.json and safetensors. Errors: unsupported, naming the model_type, the rope_type or
/// the tensor; bad_file, naming the key or the tensor.
std::unique_ptr<const ConversionSource> open_conversion_folder(const std::filesystem::path& folder);

/// The keys tokenizer.* from tokenizer.json for `vocab` ids; nothing without one. Errors: unsupported,
/// where GGUF has no name for what they say; bad_file.
void add_folder_vocabulary(const std::filesystem::path& folder, uint32_t vocab, GgufWriter& out);

}  // namespace scoria
