// JSON as values that a template computes with.
#pragma once

#include "jinja/runtime.h"

#include <nlohmann/json.hpp>

namespace scoria::jinja {

/// `from_input`: what its strings spell came from messages, tools or variables, and is no control token.
Value value_of_json(Runtime& runtime, const nlohmann::ordered_json& json, bool from_input);
/// The value that `text` spells. Errors: failed, also where it nests too deep.
Value read_json(Runtime& runtime, const Text& text);

}  // namespace scoria::jinja
