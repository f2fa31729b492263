// Models of texts and images in Hugging Face folders: the part that computes texts, which is what runs here.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace scoria {

/// What `config` says of texts, in its text_config or another section, or all of it where it has none.
nlohmann::json text_section(const nlohmann::json& config);

/// The config of the part for texts, by itself: `config`'s text_config where it has one, under the name of
/// the family whose texts are the same, with the fields of its class that published ones leave out. Other
/// configs are returned as they are, but under a name of its own where a model_type stands for two families.
nlohmann::json text_part(nlohmann::json config);

/// The name of a tensor of that part as a model of texts alone has it.
std::string text_part_name(std::string name);

/// Whether the config tells of parts for images or sounds beside that one.
bool has_other_parts(const nlohmann::json& config);

/// Whether a tensor belongs to such a part, and so to nothing that runs.
bool is_of_images(std::string_view tensor);

}  // namespace scoria
