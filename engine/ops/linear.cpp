// See linear.h; the kernels are shaders/linear_vec.comp and linear_tile.comp.
#include "linear.h"

#include "fail.h"
#include "linear.push.h"
#include "weight_layout.h"
#include "weight_planes.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace scoria {
namespace {

LinearVariant vec(const vk::Caps& caps, Shader shader, uint32_t lane_tokens, uint32_t lane_pairs,
                  uint32_t parts) {
    // Without real subgroups a logical one is only a way to count lanes: as many as a row group has pairs.
    const uint32_t subgroup = shader == Shader::linear_vec ? WEIGHT_GROUP_PAIRS : caps.subgroup_size;
    // On a CPU driver a workgroup is a call, and lanes past a subgroup are a loop in it.
    const uint32_t wanted = caps.is_cpu() ? 2 * std::max<uint32_t>(WEIGHT_GROUP_PAIRS, subgroup) : 64;
    const uint32_t most = std::min({wanted, caps.max_invocations, caps.max_workgroup_x});
    const uint32_t workgroup = std::max(most / (subgroup * parts), 1u) * subgroup * parts;
    const uint32_t rows = workgroup / parts * 2 * lane_pairs;
    const char* name = shader == Shader::linear_vec      ? "vec"
                       : shader == Shader::linear_vec_sg ? "vec_sg"
                                                         : "vec_sg_compact";
    return {shader,
            workgroup,
            lane_tokens,
            rows,
            subgroup,
            lane_tokens,
            lane_pairs,
            parts,
            cat(name, subgroup, " tokens ", lane_tokens, " pairs ", lane_pairs, " parts ", parts)};
}

bool fits(const vk::Caps& caps, const LinearVariant& variant) {
    const uint32_t sums =
        variant.parts > 1 ? variant.workgroup * 2 * variant.lane_pairs * variant.lane_tokens : 0;
    return variant.workgroup <= std::min(caps.max_invocations, caps.max_workgroup_x) &&
           4 * sums <= caps.shared_memory;
}

}  // namespace

std::vector<LinearVariant> linear_variants(const vk::Caps& caps, const LinearShape& shape) {
    const bool native = caps.native_subgroups() && caps.subgroup_ballot;
    const Shader best = !native         ? Shader::linear_vec
                        : caps.is_cpu() ? Shader::linear_vec_sg_compact
                                        : Shader::linear_vec_sg;
    // A CPU driver pays for each pipeline with a fifth of a second of compiling: one token, or four at a
    // time.
    const uint32_t few = caps.is_cpu() ? 4 : std::min(std::bit_ceil(shape.tokens), 8u);
    const uint32_t lane_tokens = shape.tokens == 1 ? 1 : few;
    // Two pairs share each load of x; a GPU rather has more subgroups.
    const uint32_t lane_pairs = best == Shader::linear_vec_sg_compact && shape.tokens > 1 ? 2 : 1;
    // A GPU wants thousands of subgroups; few rows make them by sharing out the columns.
    const uint32_t parts = !caps.is_cpu() && shape.rows < 16384 && shape.cols >= 256 ? 2 : 1;

    const LinearVariant tile{.shader = Shader::linear_tile,
                             .workgroup = LINEAR_TILE_WORKGROUP,
                             .tokens = LINEAR_TILE_TOKENS,
                             .rows = LINEAR_TILE_ROWS,
                             .name = "tile 64x64"};
    std::vector<LinearVariant> variants;
    const auto add = [&](const LinearVariant& variant) {
        const auto same = [&](const LinearVariant& other) { return other.name == variant.name; };
        if (fits(caps, variant) && std::ranges::none_of(variants, same)) variants.push_back(variant);
    };
    if (!caps.is_cpu() && shape.tokens > 8) add(tile);
    add(vec(caps, best, lane_tokens, lane_pairs, parts));
    if (native) add(vec(caps, Shader::linear_vec_sg, lane_tokens, 1, 3 - parts));
    add(vec(caps, Shader::linear_vec, lane_tokens, 1, parts));
    add(vec(caps, best, 2, 2, 1));
    add(tile);
    assert(!variants.empty());
    return variants;
}

void record_linear(OpContext& context, const LinearArgs& args, const LinearVariant& variant) {
    const DeviceWeight& weight = args.weight;
    assert(args.x.cols == weight.cols && args.out.cols == (args.glu ? weight.rows / 2 : weight.rows));
    const vk::Constant constants[] = {{vk::constant_workgroup, variant.workgroup},
                                      {2, uint32_t(weight.type)},
                                      {vk::constant_subgroup, variant.subgroup},
                                      {LINEAR_TOKENS, variant.lane_tokens},
                                      {LINEAR_PAIRS, variant.lane_pairs},
                                      {LINEAR_PARTS, variant.parts},
                                      {LINEAR_ACTIVATION, uint32_t(args.activation)}};
    const vk::Constant tile_constants[] = {{2, uint32_t(weight.type)},
                                           {LINEAR_ACTIVATION, uint32_t(args.activation)}};
    const bool tile = variant.shader == Shader::linear_tile;
    const vk::Pipeline& pipeline = context.recorder.pipelines().get(
        shader_module(variant.shader),
        tile ? std::span<const vk::Constant>(tile_constants) : std::span<const vk::Constant>(constants));

    const uint32_t tokens = args.out.rows;
    const uint64_t token_tiles = (uint64_t(tokens) + variant.tokens - 1) / variant.tokens;
    const Matrix& residual = args.residual ? *args.residual : args.x;
    for (const DeviceWeight::Shard& shard : weight.shards) {
        assert(!args.glu || shard.first_row % 2 == 0);
        const WeightPlanes planes = weight_planes(weight.type, shard.rows, weight.cols);
        const uint32_t out_row = args.glu ? shard.first_row / 2 : shard.first_row;
        const LinearPush push{.rows = shard.rows,
                              .cols = weight.cols,
                              .tokens = tokens,
                              .flags = (args.bias ? LINEAR_BIAS : 0) | (args.residual ? LINEAR_RESIDUAL : 0) |
                                       (args.glu ? LINEAR_GLU : 0) | (args.activate ? LINEAR_ACTIVATE : 0),
                              .side_plane = uint32_t(planes.side / 4),
                              .table_plane = uint32_t(planes.table / 4),
                              .x_first = args.x.first,
                              .x_stride = args.x.stride,
                              .out_first = args.out.first + out_row,
                              .out_stride = args.out.stride,
                              .residual_first = residual.first + out_row,
                              .residual_stride = residual.stride,
                              .bias_first = shard.first_row,
                              .scale = args.scale};
        const uint64_t row_tiles = (uint64_t(shard.rows) + variant.rows - 1) / variant.rows;
        context.recorder.dispatch(
            pipeline,
            {shard.view, args.x.view, args.bias ? *args.bias : args.x.view, residual.view, args.out.view},
            push, row_tiles * token_tiles, args.glu ? "linear glu" : "linear");
    }
}

}  // namespace scoria
