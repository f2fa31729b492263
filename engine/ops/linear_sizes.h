// Sizes of the linear kernels that suit a device, of which linear_variants.cpp makes its lists.
#pragma once

#include "linear.h"

namespace scoria {

// linear_vecs.cpp: rows times few tokens, by linear_vec.comp, linear_compact.comp and linear_group.comp.

/// `lanes`: invocations of a workgroup that are wanted; 0: as many as suit the device.
LinearVariant vec_variant(const vk::Caps& caps, Shader shader, uint32_t lane_tokens, uint32_t lane_pairs,
                          uint32_t parts, uint32_t lanes = 0);
Shader best_vec(const vk::Caps& caps, TensorType type);
/// A GPU wants thousands of subgroups, by whose loads it hides latency; few rows make them by sharing out the
/// columns. Each part keeps cells to go through, and the parts' sums 16 KiB of shared memory.
uint32_t vec_parts(const vk::Caps& caps, const LinearShape& shape, uint32_t lane_tokens);
/// Tokens of a lane; of more the sums spill.
uint32_t most_lane_tokens(const vk::Caps& caps);
/// Tokens of a lane whose words are fetched as texels, or 0 where that does not pay (tools/bench/RESULTS.md):
/// few gain unless codes are points of a grid, many always.
uint32_t texel_tokens(const vk::Caps& caps, const LinearShape& shape);

/// A subgroup for each group of rows; nothing where a subgroup has not whole groups of pairs.
std::optional<LinearVariant> group_variant(const vk::Caps& caps, Shader shader, uint32_t lane_tokens,
                                           uint32_t parts);
/// Parts of it, of which each goes through the columns at least once.
uint32_t group_parts(const vk::Caps& caps, const LinearShape& shape, Shader shader, uint32_t lane_tokens);
/// Of shared memory, of a part: x, and what it found.
uint32_t group_part_bytes(Shader shader, uint32_t subgroup, uint32_t lane_tokens);
/// Kernels of linear_group.comp, where they are what few tokens run: where a broadcast is a shuffle, x goes
/// through shared memory rather.
std::vector<Shader> default_groups(const vk::Caps& caps, const LinearShape& shape);

// linear_tiles.cpp: tiles of rows and tokens.

/// Kernels that make tiles, best first. `pays`: many tokens run it by default.
struct TileVariant {
    LinearVariant variant;
    bool pays;
};
std::vector<TileVariant> tile_variants(const vk::Caps& caps, const LinearShape& shape);
/// Of few tokens, but not of one: by subgroups that share out the columns of a tile.
std::vector<LinearVariant> deep_variants(const vk::Caps& caps, const LinearShape& shape);
/// Of matrix units, larger than any default.
std::vector<LinearVariant> largest_variants(const vk::Caps& caps, const LinearShape& shape);
/// How many parts of the columns make enough workgroups for the device where tiles alone do not; each keeps
/// at least 256 columns, since what a part computes it also writes, and a second dispatch reads.
uint32_t splits_for(const vk::Caps& caps, const LinearShape& shape, const LinearVariant& variant);
/// `tile` with its columns in `wanted` parts or fewer, none of them empty; `tile` itself where that is one.
LinearVariant split_columns(LinearVariant tile, const LinearShape& shape, uint32_t wanted);

// Of both.

/// Whether this build's compiler knew what the shader needs.
bool is_built(Shader shader);
/// By x of two bytes, or, of `precision` fast, of one.
bool multiplies_ints(const vk::Caps& caps, const LinearShape& shape, Precision precision = Precision::fast);
/// Adds a variant for which the device has what it takes, and that is not yet among `variants`.
void add_new(const vk::Caps& caps, std::vector<LinearVariant>& variants, const LinearVariant& variant);

}  // namespace scoria
