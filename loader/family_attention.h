// Heads, windows and rotations of a family's layers.
#pragma once

#include "families.h"

namespace scoria {

constexpr uint64_t most_heads = 1 << 16;

/// Of every layer; 0 of either: it has no attention.
struct LayerHeads {
    std::vector<uint32_t> queries, keys;
    bool any(size_t layer) const { return queries[layer] != 0 && keys[layer] != 0; }
};
LayerHeads read_heads(const Settings& settings, size_t layers);
/// Errors: bad_file.
void set_heads(const Settings& settings, uint32_t kv_heads, uint32_t head_dim, Attention& attention);
/// That of the first layer which has any heads.
Attention read_attention(const Family& family, const Settings& settings, const Architecture& architecture,
                         const LayerHeads& heads);
void read_windows(const Family& family, const Settings& settings, Architecture& architecture);
/// config.json's sizes of heads by numbers of layers, or of all layers without a window.
void read_layer_heads(const Settings& settings, Architecture& architecture);
/// GGUF's size of heads in layers with a window.
void read_windowed_heads(const Settings& keys, Architecture& architecture);
/// Errors: bad_file, for a list, `what` of the layers, that is there and not as long as they are many.
void check_length(const Settings& settings, const char* name, size_t length, size_t layers, const char* what);

/// A list of one number for each layer; those of layers that guess tokens ahead are left out. Empty if it is
/// absent. Errors: bad_file.
std::vector<double> layer_numbers(const Settings& settings, const char* name, size_t layers);

/// Heads of v have `size` elements, of every layer. Errors: unsupported, where those of q and k have fewer.
void set_value_dim(const Settings& settings, const char* name, uint32_t size, Architecture& architecture);

/// Of the first layer that has a window, or has none; of any where there is no such layer.
uint32_t head_dim_of(const Architecture& architecture, bool windowed);

/// Which layers rotate, by no_rope_layers, or but every `every`-th (0: all do).
std::vector<bool> rotating_layers(const Settings& settings, uint32_t every, size_t layers);
/// The bases of layer_rope_theta, each once; 0 there: the layer does not rotate. Errors: bad_file.
std::vector<double> rope_bases(const Family& family, const Settings& settings);
/// Sets every layer's Attention::rope: which of `ropes` by its base or window; where it does not rotate
/// -1, or that of grow_unrotated.
void assign_ropes(const Family& family, const Settings& settings, Architecture& architecture);

}  // namespace scoria
