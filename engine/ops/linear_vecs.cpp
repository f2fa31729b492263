// Sizes of linear_vec.comp, linear_compact.comp and linear_group.comp: see linear_sizes.h.
#include "linear_sizes.h"

#include "fail.h"
#include "kernel_variant.h"
#include "quant_grids.h"
#include "weight_planes.h"

#include <algorithm>
#include <bit>

namespace scoria {

bool is_built(Shader shader) { return !shader_module(shader).words.empty(); }

namespace {

/// Types whose codes are small integers (weight_step of dequant.glsl).
constexpr TensorType int_types[] = {
    TensorType::q4_0,  TensorType::q4_1,    TensorType::q5_0,    TensorType::q5_1,   TensorType::q8_0,
    TensorType::q2_k,  TensorType::q3_k,    TensorType::q4_k,    TensorType::q5_k,   TensorType::q6_k,
    TensorType::iq1_s, TensorType::iq1_m,   TensorType::iq2_xxs, TensorType::iq2_xs, TensorType::iq2_s,
    TensorType::iq3_s, TensorType::iq3_xxs, TensorType::tq1_0,   TensorType::tq2_0,  TensorType::q1_0,
    TensorType::q2_0};

}  // namespace

bool multiplies_ints(const vk::Caps& caps, const LinearShape& shape, Precision precision) {
    return caps.int_dot && shape.precision >= precision && is_built(Shader::linear_tile_int) &&
           std::ranges::find(int_types, shape.type) != std::end(int_types);
}

LinearVariant vec_variant(const vk::Caps& caps, Shader shader, uint32_t lane_tokens, uint32_t lane_pairs,
                          uint32_t parts, uint32_t lanes) {
    // Without real subgroups a logical one is only a way to count lanes: as many as a row group has pairs.
    const uint32_t subgroup = shader == Shader::linear_vec ? WEIGHT_GROUP_PAIRS : caps.subgroup_size;
    // On a CPU driver a workgroup is a call, and lanes past a subgroup are a loop in it.
    const uint32_t wanted = caps.is_cpu() ? 2 * std::max<uint32_t>(WEIGHT_GROUP_PAIRS, subgroup) : 64;
    const auto workgroup_of = [&](uint32_t size) {
        const uint32_t most = std::min({size, caps.max_invocations, caps.max_workgroup_x});
        return std::max(most / (subgroup * parts), 1u) * subgroup * parts;
    };
    const uint32_t workgroup = workgroup_of(lanes ? lanes : wanted);
    const uint32_t rows = workgroup / parts * 2 * lane_pairs;
    const std::string_view name = shader_name(shader).substr(std::string_view("linear_").size());
    return {.shader = shader,
            .workgroup = workgroup,
            .tokens = lane_tokens,
            .rows = rows,
            .subgroup = subgroup,
            .lane_tokens = lane_tokens,
            .lane_pairs = lane_pairs,
            .parts = parts,
            .name = cat(name, " ", subgroup, " tokens ", lane_tokens, " pairs ", lane_pairs, " parts ", parts,
                        workgroup == workgroup_of(wanted) ? std::string() : cat(" lanes ", workgroup))};
}

Shader best_vec(const vk::Caps& caps, TensorType type) {
    return !caps.native_subgroups() || !caps.subgroup_ballot         ? Shader::linear_vec
           : !(caps.is_cpu() && caps.subgroup_shuffle && caps.int64) ? Shader::linear_vec_sg
           : caps.uniform_scalars && quant_grid(type)                ? Shader::linear_vec_sg_grid
                                                                     : Shader::linear_vec_sg_compact;
}

namespace {
constexpr uint32_t group_lanes = WEIGHT_GROUP_ROWS / 4;  // of a cell
}

uint32_t group_part_bytes(Shader shader, uint32_t subgroup, uint32_t lane_tokens) {
    const uint32_t chunk = shader == Shader::linear_group_int    ? 8
                           : shader == Shader::linear_group_wide ? 16
                                                                 : 32;
    const uint32_t cell = WEIGHT_BLOCK / 8 * chunk + std::min(chunk, 16u);
    return lane_tokens * (subgroup / group_lanes * cell + 4 * WEIGHT_GROUP_ROWS) + 4;
}

std::optional<LinearVariant> group_variant(const vk::Caps& caps, Shader shader, uint32_t lane_tokens,
                                           uint32_t parts) {
    const uint32_t subgroup = caps.subgroup_size;
    if (!caps.native_subgroups() || !caps.subgroup_shuffle || subgroup % WEIGHT_GROUP_PAIRS) return {};
    return LinearVariant{.shader = shader,
                         .workgroup = parts * subgroup,
                         .tokens = lane_tokens,
                         .rows = WEIGHT_GROUP_ROWS,
                         .subgroup = subgroup,
                         .lane_tokens = lane_tokens,
                         .lane_pairs = 2,
                         .parts = parts,
                         .name = cat(shader_name(shader).substr(std::string_view("linear_").size()), " ",
                                     subgroup, " tokens ", lane_tokens, " parts ", parts)};
}

uint32_t group_parts(const vk::Caps& caps, const LinearShape& shape, Shader shader, uint32_t lane_tokens) {
    constexpr uint32_t enough_subgroups = 4096, most_bytes = 32768;
    // Of one token, as an H200 likes it (tools/bench/RESULTS.md).
    const uint32_t most = shader == Shader::linear_group_wide && lane_tokens == 1 ? 8 : 16;
    const bool many = uint64_t{shape.rows} / WEIGHT_GROUP_ROWS * most > enough_subgroups;
    const uint32_t most_parts =
        caps.is_cpu() ? 2 : most / (many ? 2 : 1) / lane_tokens;  // each size a compile there
    const uint32_t turns = shape.cols * group_lanes / WEIGHT_BLOCK / caps.subgroup_size;
    const uint32_t room = std::min(std::min(caps.max_invocations, caps.max_workgroup_x) / caps.subgroup_size,
                                   most_bytes / group_part_bytes(shader, caps.subgroup_size, lane_tokens));
    return std::bit_floor(std::clamp(turns, 1u, std::max(std::min(most_parts, room), 1u)));
}

uint32_t texel_tokens(const vk::Caps& caps, const LinearShape& shape) {
    constexpr uint32_t few = 4, many = 8;
    if (!caps.texel_words || shape.cols * sizeof(float) < vk::texel_bytes) return 0;
    if (shape.tokens > few) return many;
    // One token's codes of six bits, and of two with minima, are loaded rather.
    const bool loads = shape.type == TensorType::q6_k || shape.type == TensorType::q2_k;
    if (loads && shape.tokens == 1 && caps.old_lavapipe()) return 0;
    return quant_grid(shape.type) ? 0 : std::bit_ceil(shape.tokens);
}

uint32_t most_lane_tokens(const vk::Caps& caps) {
    return caps.is_cpu() || caps.small_register_file() ? 4 : 8;
}

uint32_t vec_parts(const vk::Caps& caps, const LinearShape& shape, uint32_t lane_tokens) {
    constexpr uint32_t most_parts = 16, least_cells = 4, most_words = 4096;
    // Adreno's lanes have the fewer registers the more there are, and spill with 1024 (tools/gates).
    const uint32_t good_workgroup = caps.subgroup_size < 128 ? 512 : 256;
    if (caps.is_cpu()) return 1;
    const uint64_t enough = caps.type == vk::DeviceType::discrete ? 2048 : 512;
    const uint32_t lanes = caps.native_subgroups() ? caps.subgroup_size : WEIGHT_GROUP_PAIRS;
    const uint64_t subgroups = groups_for(shape.rows, 2 * lanes) * groups_for(shape.tokens, lane_tokens);
    const uint32_t most_lanes = std::min({good_workgroup, caps.max_invocations, caps.max_workgroup_x,
                                          std::min(most_words, caps.shared_memory / 8) / (2 * lane_tokens)});
    uint32_t parts = 1;
    while (2 * parts <= most_parts && parts * subgroups < enough &&
           2 * parts * least_cells * WEIGHT_BLOCK <= shape.cols && 2 * parts * lanes <= most_lanes)
        parts *= 2;
    return parts;
}

std::vector<Shader> default_groups(const vk::Caps& caps, const LinearShape& shape) {
    std::vector<Shader> shaders;
    const bool fast = caps.int_dot_fast && caps.native_subgroups() && caps.subgroup_ballot;
    const bool bytes = fast && multiplies_ints(caps, shape);
    const bool nvidia = caps.vendor_id == vk::vendor_nvidia;
    // Of grids' points AMD's lanes make floats for longer than memory takes (tools/bench/RESULTS.md); several
    // tokens have linear_vec_int for bytes.
    const bool grids =
        caps.vendor_id == vk::vendor_amd && quant_grid(shape.type) && !(bytes && shape.tokens > 1);
    if (caps.is_cpu() || !(nvidia || grids)) return shaders;
    if (bytes) shaders.push_back(Shader::linear_group_int);
    // Two products of four bytes take the place of four of floats, and nothing is converted.
    if (fast && multiplies_ints(caps, shape, Precision::balanced))
        shaders.push_back(Shader::linear_group_wide);
    if (nvidia) shaders.push_back(Shader::linear_group);
    return shaders;
}

}  // namespace scoria
