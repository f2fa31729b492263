// See linear.h; the kernels are shaders/linear_vec.comp, linear_tile.comp and linear_coop.comp.
#include "linear.h"

#include "fail.h"
#include "kernel_variant.h"
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
    return {.shader = shader,
            .workgroup = workgroup,
            .tokens = lane_tokens,
            .rows = rows,
            .subgroup = subgroup,
            .lane_tokens = lane_tokens,
            .lane_pairs = lane_pairs,
            .parts = parts,
            .name =
                cat(name, " ", subgroup, " tokens ", lane_tokens, " pairs ", lane_pairs, " parts ", parts)};
}

/// Tiles of linear_coop, large first: of a workgroup, and of a subgroup.
struct CoopTile {
    uint32_t rows, tokens, part_rows, part_tokens;
};
constexpr CoopTile coop_tiles[] = {{128, 128, 64, 64}, {128, 64, 32, 16}, {64, 64, 32, 32}, {64, 64, 32, 16},
                                   {64, 32, 32, 16},   {64, 32, 16, 16},  {32, 32, 16, 16}};

/// Words of sums and of the next block's operands that a lane holds without spilling, as compilers report
/// (validate
/// --compile-only). A thread of Intel's has 4 KiB of registers for 8 lanes and up, since Xe2 8 KiB for 16 and
/// up.
uint32_t lane_words(const vk::Caps& caps) {
    return caps.vendor_id == vk::vendor_intel ? 3 * caps.matrix_subgroup : 192;
}
LinearVariant coop(const vk::Caps& caps, const CoopTile& tile) {
    const uint32_t subgroups = tile.rows / tile.part_rows * (tile.tokens / tile.part_tokens);
    return {.shader = Shader::linear_coop,
            .workgroup = subgroups * caps.matrix_subgroup,
            .tokens = tile.tokens,
            .rows = tile.rows,
            .subgroup = caps.matrix_subgroup,
            .part_rows = tile.part_rows,
            .part_tokens = tile.part_tokens,
            .name = cat("coop ", tile.rows, "x", tile.tokens, " of ", tile.part_rows, "x", tile.part_tokens)};
}

uint64_t shared_bytes(const vk::Caps& caps, const LinearVariant& variant) {
    if (variant.shader == Shader::linear_coop)  // halves of both tiles, rows padded by eight, and the stage
        return uint64_t(variant.rows + variant.tokens) * 2 * (WEIGHT_BLOCK + 8) +
               4ull * variant.workgroup / variant.subgroup * WEIGHT_GROUP_ROWS * caps.matrix_n;
    return variant.parts > 1 ? 8ull * variant.workgroup * variant.lane_pairs * variant.lane_tokens : 0;
}

bool fits(const vk::Caps& caps, const LinearVariant& variant) {
    const bool loads_whole =
        variant.shader != Shader::linear_coop ||
        std::min(variant.rows, variant.tokens) * (WEIGHT_BLOCK / 8) % variant.workgroup == 0;
    return variant.workgroup <= std::min(caps.max_invocations, caps.max_workgroup_x) && loads_whole &&
           shared_bytes(caps, variant) <= caps.shared_memory;
}

/// The cooperative-matrix variants, best first.
std::vector<LinearVariant> coop_variants(const vk::Caps& caps, const LinearShape& shape) {
    std::vector<LinearVariant> variants;
    if (!caps.cooperative_matrix || shape.precision == Precision::strict) return variants;
    for (const CoopTile& tile : coop_tiles) {
        const LinearVariant variant = coop(caps, tile);
        const uint32_t operands = (tile.rows + tile.tokens) * (WEIGHT_BLOCK / 2) / variant.workgroup;
        const uint32_t sums = tile.part_rows * tile.part_tokens / variant.subgroup;
        if (sums + operands <= lane_words(caps) && fits(caps, variant)) variants.push_back(variant);
    }
    // The smallest tile that holds all tokens wastes least; a large one must leave enough workgroups.
    const auto first = std::ranges::find_if(variants, [&](const LinearVariant& variant) {
        return variant.tokens <= std::bit_ceil(shape.tokens) &&
               uint64_t(shape.rows / variant.rows) * (shape.tokens / variant.tokens + 1) >= 64;
    });
    if (first != variants.end())
        std::rotate(variants.begin(), first, first + 1);
    else
        std::ranges::reverse(variants);
    return variants;
}

std::vector<vk::Constant> constants_of(const vk::Caps& caps, const LinearVariant& variant, TensorType type,
                                       Activation activation) {
    std::vector<vk::Constant> constants = {{2, uint32_t(type)}, {LINEAR_ACTIVATION, uint32_t(activation)}};
    const auto add = [&](std::initializer_list<vk::Constant> more) {
        constants.insert(constants.end(), more);
    };
    if (variant.shader == Shader::linear_tile) return constants;
    add({{vk::constant_workgroup, variant.workgroup}, {vk::constant_subgroup, variant.subgroup}});
    if (variant.shader == Shader::linear_coop)
        add({{LINEAR_M, caps.matrix_m},
             {LINEAR_N, caps.matrix_n},
             {LINEAR_K, caps.matrix_k},
             {LINEAR_COOP_ROWS, variant.rows},
             {LINEAR_COOP_TOKENS, variant.tokens},
             {LINEAR_PART_ROWS, variant.part_rows},
             {LINEAR_PART_TOKENS, variant.part_tokens}});
    else
        add({{LINEAR_TOKENS, variant.lane_tokens},
             {LINEAR_PAIRS, variant.lane_pairs},
             {LINEAR_PARTS, variant.parts}});
    return constants;
}

uint32_t packed_row_words(uint32_t cols) {
    return (cols + WEIGHT_BLOCK - 1) / WEIGHT_BLOCK * WEIGHT_BLOCK / 2;
}

void record_pack(OpContext& context, const Matrix& x, const vk::View& operands) {
    const KernelVariant variant =
        subgroup_variants(context.caps, Shader::linear_pack_sg, Shader::linear_pack, 128).front();
    const LinearPackPush push{.tokens = x.rows,
                              .cols = x.cols,
                              .x_first = x.first,
                              .x_stride = x.stride,
                              .row_words = packed_row_words(x.cols)};
    const vk::Pipeline& pipeline = context.recorder.pipelines().get(
        shader_module(variant.shader),
        {{vk::constant_workgroup, variant.workgroup}, {vk::constant_subgroup, variant.subgroup}});
    context.recorder.dispatch(pipeline, {x.view, operands}, push, x.rows, "linear pack");
}

}  // namespace

std::vector<LinearVariant> linear_variants(const vk::Caps& caps, const LinearShape& shape) {
    const bool native = caps.native_subgroups() && caps.subgroup_ballot;
    const Shader best = !native         ? Shader::linear_vec
                        : caps.is_cpu() ? Shader::linear_vec_sg_compact
                                        : Shader::linear_vec_sg;
    // A CPU driver pays for each pipeline with a fifth of a second of compiling: one token, or four at a
    // time.
    const uint32_t most = caps.is_cpu() || caps.small_register_file() ? 4 : 8;
    const uint32_t few = caps.is_cpu() ? most : std::min(std::bit_ceil(shape.tokens), most);
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
    const std::vector<LinearVariant> matrix = coop_variants(caps, shape);
    if (!caps.is_cpu() && shape.tokens > 8) {
        std::ranges::for_each(matrix, add);
        add(tile);
    }
    add(vec(caps, best, lane_tokens, lane_pairs, parts));
    if (native) add(vec(caps, Shader::linear_vec_sg, lane_tokens, 1, 3 - parts));
    add(vec(caps, Shader::linear_vec, lane_tokens, 1, parts));
    add(vec(caps, best, 2, 2, 1));
    add(tile);
    std::ranges::for_each(matrix, add);
    assert(!variants.empty());
    return variants;
}

uint64_t linear_operand_bytes(const LinearVariant& variant, uint32_t tokens, uint32_t cols) {
    return variant.half_operands() ? 4ull * tokens * (packed_row_words(cols) + 1) : 0;
}

void record_linear(OpContext& context, const LinearArgs& args, const LinearVariant& variant) {
    const DeviceWeight& weight = args.weight;
    assert(args.x.cols == weight.cols && args.out.cols == (args.glu ? weight.rows / 2 : weight.rows));
    const vk::Pipeline& pipeline = context.recorder.pipelines().get(
        shader_module(variant.shader), constants_of(context.caps, variant, weight.type, args.activation));

    const uint32_t tokens = args.out.rows;
    const uint64_t token_tiles = (uint64_t(tokens) + variant.tokens - 1) / variant.tokens;
    vk::View x = args.x.view;
    uint32_t x_first = args.x.first;
    if (variant.half_operands()) {
        assert(args.operands.size >= linear_operand_bytes(variant, tokens, weight.cols));
        record_pack(context, args.x, args.operands);
        x = args.operands;
        x_first = tokens * packed_row_words(weight.cols);
    }
    const Matrix& residual = args.residual ? *args.residual : args.x;
    for (size_t i = 0; i < weight.shards.size(); ++i) {
        const DeviceWeight::Shard& shard = weight.shards[i];
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
                              .x_first = x_first,
                              .x_stride = args.x.stride,
                              .out_first = args.out.first + out_row,
                              .out_stride = args.out.stride,
                              .residual_first = residual.first + out_row,
                              .residual_stride = residual.stride,
                              .bias_first = shard.first_row,
                              .scale = args.scale};
        const uint64_t row_tiles = (uint64_t(shard.rows) + variant.rows - 1) / variant.rows;
        const vk::View rows = weight.on_host ? args.stream->fetch(context.recorder, shard) : shard.view;
        context.recorder.dispatch(pipeline,
                                  {rows, x, args.bias ? *args.bias : x, residual.view, args.out.view}, push,
                                  row_tiles * token_tiles, args.glu ? "linear glu" : "linear");
        if (!weight.on_host) continue;
        const bool last = i + 1 == weight.shards.size();
        if (const DeviceWeight::Shard* next = last ? args.after : &weight.shards[i + 1])
            args.stream->prefetch(context.recorder, *next);
    }
}

}  // namespace scoria
