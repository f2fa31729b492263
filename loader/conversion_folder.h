// Hugging Face folders as sources of a conversion; open_conversion_source comes here.
#pragma once

#include "conversion_source.h"
#include "model.h"

namespace scoria {

/// A folder with config.json and safetensors, or its config (hf_folder.h). Errors: those of open_model;
/// unsupported, naming the model_type, the tensor, or what the GGUF would not say.
std::unique_ptr<const ConversionSource> open_conversion_folder(const std::filesystem::path& path);

/// One part of it, opened with Floats8::bf16 (conversion_ahead.cpp joins them).
std::unique_ptr<const ConversionSource> open_conversion_part(const std::filesystem::path& path, Model part);

/// The keys tokenizer.* from tokenizer.json for `vocab` ids; nothing without one. Errors: unsupported,
/// where GGUF has no name for what they say; bad_file.
void add_folder_vocabulary(const std::filesystem::path& folder, uint32_t vocab, GgufWriter& out);

}  // namespace scoria
