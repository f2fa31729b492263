// The families that a Hugging Face folder may be of to become a GGUF, one row each, and how their tensors are
// called in both. For conversion_folder.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace scoria::conversion {

/// What a tensor goes through. rotated: rows of heads, turned from halves to pairs where the family wants it;
/// plus_one: norms whose folder holds them less one.
enum class Lay : uint8_t { as_is, rotated, plus_one };
/// '@' in `theirs`: the expert's number, of a tensor for each.
struct Name {
    const char *theirs, *ours;
    Lay lay = Lay::as_is;
    bool optional = false;
};
using Names = std::span<const Name>;
/// Keys of config.json and of the GGUF, without the architecture.
struct Key {
    const char *theirs, *ours;
};
/// When a folder's sliding_window counts.
enum class Window : uint8_t { never, if_used, always };
/// What GGUF's architecture takes for granted of config.json.
struct Must {
    const char* key;
    const char* value;  // as JSON; a missing key is right
};
struct ConversionFamily {
    const char *model_type, *architecture;
    std::array<Names, 4> layer_names;
    bool paired_rows = false;  // rotates (2i, 2i+1)
    bool layer_norm = false;   // with that one's epsilon
    bool plus_one = false;     // of the last norm
    Window window = Window::never;
    std::span<const Key> floats{};
    std::array<Must, 4> must{};
    const char* activation = "silu";
    uint32_t full_every = 0;     // of windowed layers, every n-th sees all
    uint32_t no_rope_every = 0;  // every n-th does not rotate
};
std::span<const ConversionFamily> conversion_families();

}  // namespace scoria::conversion
