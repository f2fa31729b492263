// What the rows of families with recurrences (struct Recurrence) share, in both file formats.
#pragma once

#include "architecture.h"
#include "settings.h"

#include <string_view>
#include <vector>

namespace scoria {

constexpr uint64_t most_taps = 16, most_state_dim = 256;

/// Whether a type of layer in config.json is a recurrence's: whose, the family knows.
bool is_recurrent_type(std::string_view type);
/// By "layer_types"; where the file has no such list all but those whose indices the field `attention` lists,
/// or none.
std::vector<bool> recurrent_layers(const Settings& settings, size_t layers, const char* attention = nullptr);

/// Layers that recur have this in place of attention. Errors: unsupported, if none is left with attention:
/// the cache counts a sequence's positions.
void use_recurrence(const Settings& settings, Architecture& architecture, const std::vector<bool>& recurs,
                    Recurrence recurrence);

/// Every layer has this beside attention.
void use_beside_attention(Architecture& architecture, Recurrence recurrence);

/// LFM2's, as many taps as the field `taps` says.
Recurrence short_convolution(const Settings& settings, const char* taps, uint32_t hidden);

/// Errors: bad_file, naming `heads`, where heads are not a multiple of groups or the state is too large.
void check_heads(const Settings& settings, const char* heads, const Recurrence& recurrence);

}  // namespace scoria
