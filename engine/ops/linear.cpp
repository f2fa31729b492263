// See linear.h; the kernels are shaders/linear_vec.comp, linear_tile.comp, linear_tile_int.comp and
// linear_coop.comp.
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
    const bool real = shader == Shader::linear_vec_sg || shader == Shader::linear_vec_sg_compact;
    const uint32_t subgroup = real ? caps.subgroup_size : WEIGHT_GROUP_PAIRS;
    // On a CPU driver a workgroup is a call, and lanes past a subgroup are a loop in it.
    const uint32_t wanted = caps.is_cpu() ? 2 * std::max<uint32_t>(WEIGHT_GROUP_PAIRS, subgroup) : 64;
    const uint32_t most = std::min({wanted, caps.max_invocations, caps.max_workgroup_x});
    const uint32_t workgroup = std::max(most / (subgroup * parts), 1u) * subgroup * parts;
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
            .name =
                cat(name, " ", subgroup, " tokens ", lane_tokens, " pairs ", lane_pairs, " parts ", parts)};
}

/// Whether this build's compiler knew what the shader needs.
bool built(Shader shader) { return !shader_module(shader).words.empty(); }

/// Types whose codes are small integers (weight_int_step of dequant.glsl).
constexpr TensorType int_types[] = {TensorType::q4_0, TensorType::q4_1, TensorType::q5_0, TensorType::q5_1,
                                    TensorType::q8_0, TensorType::q2_k, TensorType::q3_k, TensorType::q4_k,
                                    TensorType::q5_k, TensorType::q6_k};

bool multiplies_ints(const vk::Caps& caps, const LinearShape& shape) {
    return caps.int_dot && shape.precision == Precision::fast && built(Shader::linear_tile_int) &&
           std::ranges::find(int_types, shape.type) != std::end(int_types);
}

LinearVariant tile_int(const vk::Caps& caps) {
    // Compilers of Intel's and of GPUs that lack the instruction spill at 4 (tools/gates).
    const uint32_t lane_tokens = caps.int_dot_fast && caps.vendor_id != vk::vendor_intel ? 4 : 2;
    const uint32_t tokens = LINEAR_TILE_TOKENS / 4 * lane_tokens;
    return {.shader = Shader::linear_tile_int,
            .workgroup = LINEAR_TILE_WORKGROUP,
            .tokens = tokens,
            .rows = LINEAR_TILE_ROWS,
            .lane_tokens = lane_tokens,
            .name = cat("tile_int ", LINEAR_TILE_ROWS, "x", tokens)};
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
    if (!caps.cooperative_matrix || shape.precision == Precision::strict || !built(Shader::linear_coop))
        return variants;
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
    if (variant.shader == Shader::linear_tile_int) {
        add({{LINEAR_TOKENS, variant.lane_tokens}});
        return constants;
    }
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

/// Of packed x: words a token, and words behind all of them that say how to unpack a token.
struct PackedRow {
    uint32_t words, side_words;
};
PackedRow packed_row(LinearVariant::Operands operands, uint32_t cols) {
    const uint32_t blocks = (cols + WEIGHT_BLOCK - 1) / WEIGHT_BLOCK;
    if (operands == LinearVariant::Operands::halves) return {blocks * WEIGHT_BLOCK / 2, 1};
    return {blocks * WEIGHT_BLOCK / 4, 2 * blocks};
}

void record_pack(OpContext& context, const Matrix& x, LinearVariant::Operands operands, const vk::View& to) {
    const bool bytes = operands == LinearVariant::Operands::bytes;
    const LinearPackPush push{.tokens = x.rows,
                              .cols = x.cols,
                              .x_first = x.first,
                              .x_stride = x.stride,
                              .row_words = packed_row(operands, x.cols).words};
    const KernelVariant variant =
        bytes ? plain_variants(context.caps, Shader::linear_pack_int, 64).front()
              : subgroup_variants(context.caps, Shader::linear_pack_sg, Shader::linear_pack, 128).front();
    std::vector<vk::Constant> constants{{vk::constant_workgroup, variant.workgroup}};
    if (!bytes) constants.push_back({vk::constant_subgroup, variant.subgroup});
    const uint64_t blocks = push.row_words / (WEIGHT_BLOCK / 4);
    const vk::Pipeline& pipeline = context.recorder.pipelines().get(shader_module(variant.shader), constants);
    context.recorder.dispatch(pipeline, {x.view, to}, push,
                              bytes ? groups_for(x.rows * blocks, variant.workgroup) : x.rows, "linear pack");
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
    const uint32_t lane_pairs = best == Shader::linear_vec_sg_compact ? 2 : 1;
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
    std::vector<LinearVariant> ints;
    if (multiplies_ints(caps, shape))
        ints = {vec(caps, Shader::linear_vec_int, lane_tokens, 1, parts), tile_int(caps)};
    if (!caps.is_cpu() && shape.tokens > 8) {
        std::ranges::for_each(matrix, add);
        if (caps.int_dot_fast && !ints.empty()) add(ints.back());
        add(tile);
    }
    // One token waits for its weights; that more are multiplied in its shadow is what bytes are for.
    if (!caps.is_cpu() && caps.int_dot_fast && shape.tokens > 1 && !ints.empty()) add(ints.front());
    add(vec(caps, best, lane_tokens, lane_pairs, parts));
    if (native) add(vec(caps, Shader::linear_vec_sg, lane_tokens, 1, 3 - parts));
    add(vec(caps, Shader::linear_vec, lane_tokens, 1, parts));
    add(vec(caps, best, 2, 2, 1));
    add(tile);
    std::ranges::for_each(matrix, add);
    std::ranges::for_each(ints, add);
    assert(!variants.empty());
    return variants;
}

LinearVariant::Operands LinearVariant::operands() const {
    return shader == Shader::linear_coop                                           ? Operands::halves
           : shader == Shader::linear_vec_int || shader == Shader::linear_tile_int ? Operands::bytes
                                                                                   : Operands::floats;
}

uint64_t linear_operand_bytes(const LinearVariant& variant, uint32_t tokens, uint32_t cols) {
    if (variant.operands() == LinearVariant::Operands::floats) return 0;
    const PackedRow row = packed_row(variant.operands(), cols);
    return 4ull * tokens * (row.words + row.side_words);
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
    if (variant.operands() != LinearVariant::Operands::floats) {
        assert(args.operands.size >= linear_operand_bytes(variant, tokens, weight.cols));
        record_pack(context, args.x, variant.operands(), args.operands);
        x = args.operands;
        x_first = tokens * packed_row(variant.operands(), weight.cols).words;
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
