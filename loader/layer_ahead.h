// The layer behind a model's last that guesses the token behind the next one (Architecture::ahead), as a
// model of its own: what a file says of it, under the names that a model of one layer would have, with the
// embedding and the head of the file's model where it has none of its own. Of several such layers the first.
#pragma once

#include "binding.h"

#include <nlohmann/json.hpp>

namespace scoria {

/// `values`: of the architecture's section, `tensors`: of the whole file; both are then the layer's. Errors:
/// unsupported, where there is none.
void take_gguf_layer_ahead(nlohmann::json& values, std::vector<StoredTensor>& tensors);
/// The same of config.json's part for texts.
void take_folder_layer_ahead(nlohmann::json& config, std::vector<StoredTensor>& tensors);

/// What a tensor of a model of that layer alone is called in the GGUF of a model of `layers`; empty: nothing.
std::string gguf_name_ahead(const std::string& name, size_t layers);

/// The family's rows and those of the layer's own roles, whose norms lie as the family's.
std::vector<std::span<const TensorRow>> with_rows_ahead(std::span<const std::span<const TensorRow>> family);

/// What the tensors say of it.
void set_ahead(const Catalog& catalog, Architecture& architecture);

}  // namespace scoria
