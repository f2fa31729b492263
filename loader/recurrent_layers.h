// What the rows of families with recurrences (struct Recurrence) share, in both file formats.
#pragma once

#include "architecture.h"
#include "families.h"
#include "settings.h"

#include <string_view>
#include <vector>

namespace scoria {

constexpr uint64_t most_taps = 16, most_state_dim = 256, most_wkv_dim = 128;

/// Whether a type of layer in config.json is a recurrence's: whose, the family knows.
bool is_recurrent_type(std::string_view type);
/// By "layer_types"; where the file has no such list all but those whose indices the field `attention` lists,
/// or none.
std::vector<bool> recurrent_layers(const Settings& settings, size_t layers, const char* attention = nullptr);

/// Layers that recur have this in place of attention.
void use_recurrence(Architecture& architecture, const std::vector<bool>& recurs, Recurrence recurrence);

/// Every layer has this, beside attention where it has any.
void use_in_all_layers(Architecture& architecture, Recurrence recurrence);

/// LFM2's, as many taps as the field `taps` says.
Recurrence short_convolution(const Settings& settings, const char* taps, uint32_t hidden);

/// Where a config.json has the sizes of Mamba-2, and what they are where it does not say.
struct StateSpaceFields {
    struct Size {
        const char* name;
        uint32_t otherwise;
    };
    const char *taps, *taps_bias, *heads;  // otherwise 4, with one, and 128
    Size groups, key_dim, value_dim;       // value_dim otherwise 0: the width's share
};
/// `width`: of all heads, where value_dim may be its share. Errors: unsupported, where steps are clamped;
/// those of check_heads.
Recurrence read_state_space(const Settings& settings, const StateSpaceFields& names, float epsilon,
                            uint64_t width = 0);

/// MiniMax-Text-01's lightning attention in the layers that recur. Slopes are ALiBi's for a power of two,
/// 2^(-8 h / n), h from 1, times 1 - i / (layers - 1 + e) + 1e-5 in layer i. What layers add is added to the
/// norm that they read (NormPlacement::normed). Errors: those of check_heads.
void use_lightning(Reading& reading, const std::vector<bool>& recurs, double e);

/// Kimi Linear's and Ling 3's, but for sizes.
Recurrence delta_by_key(float epsilon);

/// Recurrence::bound. Errors: bad_file, where the file has no number below 0.
float read_bound(const Settings& settings, const char* name, double otherwise);

/// Errors: bad_file, naming `heads`, where heads are not a multiple of groups or the state is too large.
void check_heads(const Settings& settings, const char* heads, const Recurrence& recurrence);

}  // namespace scoria
