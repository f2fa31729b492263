// Which type each tensor of a model gets. A recipe is a type for most tensors and rules that give the
// sensitive ones a wider type; names, rules and fallbacks are the field's (llama.cpp's quantize), so that a
// file of the same name has the same types tensor by tensor.
#pragma once

#include "conversion_source.h"

#include <span>
#include <string_view>
#include <vector>

namespace scoria {

struct Recipe {
    const char* name;    // "Q4_K_M"
    TensorType type;     // of most tensors
    uint32_t file_type;  // value of general.file_type
    bool int8 = false;   // Q8_0 blocks with one scale per row (quantise_row_int8)
};

std::span<const Recipe> recipes();
/// Any case; "Q4_K" means "Q4_K_M" and the like. Null if there is none.
const Recipe* find_recipe(std::string_view name);

/// One type per tensor of the source. Kept as they are: vectors (in F32), norms, routers and other small or
/// delicate tensors. pure: no rules. A row that is no multiple of a type's block gets the fallback of that
/// type, or F16.
std::vector<TensorType> choose_types(const ConversionSource& source, const Recipe& recipe, bool pure,
                                     bool with_importance);

}  // namespace scoria
