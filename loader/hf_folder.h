// A Hugging Face folder: config.json (or a file of that form), model.safetensors or the shards that
// model.safetensors.index.json lists, and the tokenizer's files, which may be missing.
#pragma once

#include "gather.h"
#include "model.h"
#include "safetensors.h"

#include <nlohmann/json.hpp>

namespace scoria {

/// An array of a safetensors file that is number `file` of some. Errors: unsupported, for its element type
/// or size, with its name.
StoredTensor stored_tensor(const std::string& name, const SafetensorsArray& array, uint32_t file);

/// True for a folder, and for a path that ends in .json.
bool is_hugging_face_model(const std::filesystem::path& path);

/// Where a model's files are: `path` is the folder, or its config.
struct HuggingFacePaths {
    std::filesystem::path folder, config;
};
HuggingFacePaths hugging_face_paths(const std::filesystem::path& path);

/// config.json. Python writes Infinity where JSON has no number: it becomes a string. Errors: bad_file.
nlohmann::json read_config(const std::filesystem::path& config);

/// Tokens that are never sampled; GGUF's key of them, of which those beyond the vocabulary count for nothing.
inline constexpr const char* suppressed_key = "suppress_tokens";
inline constexpr const char* gguf_suppressed_key = "tokenizer.ggml.suppress_tokens";

/// Ids of tokens that `name` of generation_config.json says, one or a list; or where that says nothing,
/// config.json: those below `tokens`, as they stand there. Errors: bad_file.
std::vector<TokenId> stated_tokens(const std::filesystem::path& folder, const char* name, size_t tokens);

/// Of a file of its own, or tokenizer_config.json; empty: none.
std::string chat_template_of(const std::filesystem::path& folder);

/// `path`: the folder, or its config. Errors: as open_model.
Model open_hugging_face_model(const std::filesystem::path& path, Reads reads, Floats8 floats8,
                              ModelPart part);

/// Whether nobody misses a tensor that no role claims: frequencies, masks, and what a head has twice.
bool is_spare(const Model& model, const TensorView& unused);

}  // namespace scoria
