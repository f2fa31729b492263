// See linear.h; the kernels are shaders/linear_vec.comp, linear_compact.comp, linear_group.comp,
// linear_tile.comp, linear_tile_half.comp, linear_tile_int.comp and linear_coop.comp (twice: coop and coop2),
// and linear_join.comp behind each of the latter; expert_sort.comp before any of them.
#include "linear.h"

#include "experts.push.h"
#include "kernel_variant.h"
#include "kv_layout.h"
#include "linear.push.h"
#include "weight_layout.h"
#include "weight_planes.h"

#include <cassert>

namespace scoria {
namespace {

static_assert(sizeof(LinearPush) <= 128);  // what Vulkan promises of every device

/// Whether rows are whole fours of words.
bool whole_quads(const Matrix& x) { return (x.first | x.stride | x.cols) % 4 == 0; }
bool whole_quads(const LinearArgs& args) {
    return whole_quads(args.x) && (!args.experts || (args.experts->slot_stride | args.weight.cols) % 4 == 0);
}

std::vector<vk::Constant> constants_of(const vk::Caps& caps, const LinearVariant& variant,
                                       const LinearArgs& args) {
    std::vector<vk::Constant> constants = {{2, uint32_t(args.weight.type)},
                                           {LINEAR_ACTIVATION, uint32_t(args.activation)}};
    if (args.experts)
        constants.push_back(
            {LINEAR_EXPERTS, uint32_t(variant.sorted ? LINEAR_EXPERTS_SORTED : LINEAR_EXPERTS_DIRECT)});
    const auto add = [&](std::initializer_list<vk::Constant> more) {
        constants.insert(constants.end(), more);
    };
    if (variant.shader == Shader::linear_tile) return constants;
    if (variant.shader == Shader::linear_tile_int || variant.shader == Shader::linear_tile_half) {
        add({{LINEAR_TOKENS, variant.lane_tokens}});
        return constants;
    }
    add({{vk::constant_workgroup, variant.workgroup}, {vk::constant_subgroup, variant.subgroup}});
    if (variant.part_rows)
        add({{LINEAR_COOP_ROWS, variant.rows},
             {LINEAR_COOP_TOKENS, variant.tokens},
             {LINEAR_PART_ROWS, variant.part_rows},
             {LINEAR_PART_TOKENS, variant.part_tokens}});
    if (variant.deep()) add({{LINEAR_PARTS, variant.parts}, {LINEAR_IN_STEP, uint32_t(caps.is_lavapipe())}});
    if (variant.shader == Shader::linear_coop)
        add({{LINEAR_M, caps.matrix_m}, {LINEAR_N, caps.matrix_n}, {LINEAR_K, caps.matrix_k}});
    else if (variant.shader == Shader::linear_coop2)
        add({{LINEAR_SCOPE, uint32_t(variant.whole ? LINEAR_OF_WORKGROUP : LINEAR_OF_SUBGROUP)}});
    else
        add({{LINEAR_TOKENS, variant.lane_tokens}});
    if (!variant.part_rows && !is_compact(variant.shader)) add({{LINEAR_PARTS, variant.parts}});
    const vk::Constant x_quads{LINEAR_X_QUADS, whole_quads(args)};
    if (variant.grouped())
        add({x_quads, {LINEAR_IN_STEP, uint32_t(caps.is_lavapipe())}, {LINEAR_NORMS, args.norm.has_value()}});
    else if (variant.lane_pairs)
        add({{LINEAR_PAIRS, variant.lane_pairs}});
    if (is_compact(variant.shader)) add({x_quads, {LINEAR_OLD_LAVAPIPE, uint32_t(caps.old_lavapipe())}});
    if (args.heads) add({{LINEAR_HEADS, 1}, {KV_TYPE_CONSTANT, uint32_t(args.heads->rope.kv->type)}});
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

/// Words of all tokens, before what says how to unpack them.
uint32_t packed_words(LinearVariant::Operands operands, uint32_t tokens, uint32_t cols) {
    if (operands == LinearVariant::Operands::halves)
        tokens = uint32_t(groups_for(tokens, LINEAR_PACK_TOKENS)) * LINEAR_PACK_TOKENS;
    return tokens * packed_row(operands, cols).words;
}

uint64_t operand_bytes(const LinearVariant& variant, uint32_t tokens, uint32_t cols) {
    const LinearVariant::Operands operands = variant.operands();
    if (operands == LinearVariant::Operands::floats) return 0;
    return 4ull * packed_words(operands, tokens, cols) +
           4ull * tokens * packed_row(operands, cols).side_words;
}
/// Where the sums of parts, or lists, stand in the scratch, behind `operands` bytes: as Vulkan lets every
/// device align views.
constexpr uint64_t behind(uint64_t operands) {
    constexpr uint64_t most_alignment = 256;
    return groups_for(operands, most_alignment) * most_alignment;
}

/// Places in the lists of experts whose tokens are sorted: whole tiles for what each is asked, `items` in
/// all.
uint32_t expert_places(const LinearVariant& variant, uint32_t items, uint32_t experts) {
    const uint32_t asked = std::min(items, experts);
    return (items + asked * (variant.tokens - 1)) / variant.tokens * variant.tokens;
}
/// See expert_sort.comp.
uint64_t list_bytes(const LinearVariant& variant, uint32_t places) {
    return 4ull * (2 * places + places / variant.tokens);
}

/// How `args` end: flags and what they mean, for rows from `first_row` on.
LinearPush epilogue(const LinearArgs& args, uint32_t first_row) {
    const uint32_t out_row = args.glu ? first_row / 2 : first_row;
    const Matrix& residual = args.residual ? *args.residual : args.x;
    assert(!(args.norm || args.heads) || !args.residual);
    LinearPush push{.tokens = args.out.rows,
                    .flags = (args.bias ? LINEAR_BIAS : 0) | (args.residual ? LINEAR_RESIDUAL : 0) |
                             (args.glu ? LINEAR_GLU : 0) | (args.activate ? LINEAR_ACTIVATE : 0) |
                             (args.norm ? LINEAR_NORM : 0),
                    .out_first = args.out.first + out_row,
                    .out_stride = args.out.stride,
                    .residual_first = residual.first + out_row,
                    .residual_stride = residual.stride,
                    .bias_first = first_row,
                    .splits = 1,
                    .scale = args.scale,
                    .epsilon = args.norm ? args.norm->epsilon : 0};
    if (!args.heads) return push;
    const RopeCacheArgs& rope = args.heads->rope;
    push.head_row = args.heads->first_row + first_row;
    push.first_token = args.heads->first_token;
    push.heads = rope.heads;
    push.kv_heads = rope.with_kv ? rope.kv->kv_heads : 0;
    push.head_dim = rope.kv->head_dim;
    push.width = rope.width;
    push.coarse_rows = rope_coarse_rows(rope);
    push.ring = rope.kv->ring;
    return push;
}

/// The same of a mixture's experts, of which a shard has `rows` from `first_row` on; `tokens`: as the kernel
/// counts them.
LinearPush expert_epilogue(const LinearArgs& args, uint32_t first_row, uint32_t rows, uint32_t tokens) {
    const LinearExperts& experts = *args.experts;
    LinearPush push = epilogue(args, 0);
    push.flags |= experts.routes ? 0 : LINEAR_IS_SLOT;
    push.tokens = tokens;
    if (experts.routes) {
        push.residual_first = experts.routes->first;
        push.residual_stride = experts.routes->stride;
    }
    push.experts = experts.experts;
    push.used = experts.used;
    push.first_row = first_row;
    push.shard_rows = rows;
    push.slot_stride = experts.slot_stride;
    return push;
}

/// out of the sums of parts, [part][token][row].
void record_join(OpContext& context, const LinearArgs& args, const Matrix& sums, uint32_t splits) {
    LinearPush push = epilogue(args, 0);
    push.rows = sums.cols;
    push.x_first = sums.first;
    push.x_stride = sums.stride;
    push.splits = splits;
    push.part_stride = sums.rows * sums.stride;
    const KernelVariant variant = plain_variants(context.caps, Shader::linear_join, 64).front();
    const bool quads = !args.glu && whole_quads(sums) && whole_quads(args.out) &&
                       (!args.residual || whole_quads(*args.residual));
    const vk::Pipeline& pipeline = pipeline_of(
        context, variant, {{LINEAR_ACTIVATION, uint32_t(args.activation)}, {LINEAR_X_QUADS, quads}});
    const vk::View residual = args.residual ? args.residual->view : args.x.view;
    context.recorder.dispatch(
        pipeline, {sums.view, sums.view, args.bias ? *args.bias : sums.view, residual, args.out.view}, push,
        groups_for(uint64_t(push.tokens) * groups_for(push.rows, quads ? 4 : 2), variant.workgroup),
        "linear join");
}

/// x as the variant's operands, `to`: so many rows.
void record_pack(OpContext& context, const LinearArgs& args, LinearVariant::Operands operands, uint32_t rows,
                 const vk::View& to) {
    const Matrix& x = args.x;
    const uint32_t cols = args.weight.cols;
    const bool bytes = operands == LinearVariant::Operands::bytes;
    const LinearPackPush push{.tokens = rows,
                              .cols = cols,
                              .x_first = x.first,
                              .x_stride = x.stride,
                              .slots = rows / x.rows,
                              .slot_stride = args.experts ? args.experts->slot_stride : 0,
                              .row_words = packed_row(operands, cols).words,
                              .side_first = packed_words(operands, rows, cols),
                              .epsilon = args.norm ? args.norm->epsilon : 0};
    const KernelVariant variant =
        bytes ? plain_variants(context.caps, Shader::linear_pack_int, 64).front()
              : subgroup_variants(context.caps, Shader::linear_pack_sg, Shader::linear_pack, 256).front();
    std::vector<vk::Constant> constants;
    std::vector<vk::View> views{x.view, to};
    if (!bytes) {
        constants = {{LINEAR_PACK_NORM, args.norm.has_value()}, {LINEAR_X_QUADS, whole_quads(args)}};
        views.push_back(args.norm ? args.norm->weight : x.view);
    }
    const uint64_t blocks = push.row_words / (WEIGHT_BLOCK / 4);
    context.recorder.dispatch(pipeline_of(context, variant, std::move(constants)), views,
                              vk::push_bytes(push),
                              bytes ? groups_for(rows * blocks, variant.workgroup) : rows,
                              args.norm ? "linear pack norm" : "linear pack");
}

/// Lists of what the experts are asked, `to`.
void record_sort(OpContext& context, const LinearArgs& args, const LinearVariant& variant, uint32_t places,
                 const vk::View& to) {
    const LinearExperts& experts = *args.experts;
    const Matrix routes = experts.routes.value_or(args.x);
    const bool packed = variant.operands() != LinearVariant::Operands::floats;
    const uint32_t slots = experts.slot_stride ? experts.used : 1;  // rows of x of a token
    const ExpertSortPush push{.tokens = args.out.rows,
                              .used = experts.used,
                              .is_slot = !experts.routes,
                              .routes_first = routes.first,
                              .routes_stride = routes.stride,
                              .tile = variant.tokens,
                              .places = places,
                              .x_stride = packed ? slots : args.x.stride,
                              .x_slot_stride = packed ? slots > 1 : experts.slot_stride,
                              .out_stride = args.out.stride,
                              .out_slot_stride = args.out.cols / experts.used};
    const KernelVariant sort =
        plain_variants(context.caps, Shader::expert_sort, context.caps.is_cpu() ? 64 : 256).front();
    context.recorder.dispatch(pipeline_of(context, sort, {{EXPERT_COUNT, experts.experts}}),
                              {routes.view, to}, push, experts.experts, "expert_sort");
}

/// What a kernel reads besides weights, as it is prepared for it.
struct Inputs {
    uint32_t tokens;  // as the kernel counts them
    vk::View x, lists;
    uint32_t x_first;
};
Inputs prepare(OpContext& context, const LinearArgs& args, const LinearVariant& variant) {
    const LinearVariant::Operands operands = variant.operands();
    const uint32_t cols = args.weight.cols, items = args.out.rows * (args.experts ? args.experts->used : 1),
                   x_rows = args.experts && args.experts->slot_stride ? items : args.x.rows;
    Inputs in{items, args.x.view, {}, args.x.first};
    if (operands != LinearVariant::Operands::floats) {
        in.x = args.scratch.slice(0, operand_bytes(variant, x_rows, cols));
        in.x_first = packed_words(operands, x_rows, cols);
        record_pack(context, args, operands, x_rows, in.x);
    }
    if (variant.sorted) {
        in.tokens = expert_places(variant, items, args.experts->experts);
        in.lists =
            args.scratch.slice(behind(operand_bytes(variant, x_rows, cols)), list_bytes(variant, in.tokens));
        record_sort(context, args, variant, in.tokens, in.lists);
    }
    return in;
}

/// What kernels bind behind weights, x, bias, residual and out.
void add_views(std::vector<vk::View>& views, const LinearArgs& args, const LinearVariant& variant,
               const WeightPlanes& planes) {
    const vk::View rows = views[0], x = views[1];
    if (variant.shader == Shader::linear_vec_sg_texels)
        views.insert(views.end(), {rows, x, args.norm ? args.norm->weight : x});
    if (variant.shader == Shader::linear_vec_sg_grid)
        views.push_back(rows.slice(planes.table, planes.bytes - planes.table));
    if (!args.heads) return;
    const RopeCacheArgs& rope = args.heads->rope;
    views.insert(views.end(), {rope.step, rope.tables, rope.kv->shards.front().view});
}

const char* label_of(const LinearArgs& args) {
    return args.experts ? (args.experts->routes ? "expert_linear" : "head_linear")
           : args.glu   ? "linear glu"
           : args.heads ? "linear heads"
                        : "linear";
}

}  // namespace

uint64_t linear_scratch_bytes(const LinearVariant& variant, uint32_t tokens, uint32_t rows, uint32_t cols) {
    const uint64_t operands = operand_bytes(variant, tokens, cols);
    if (variant.splits == 1) return operands;
    return behind(operands) + 4ull * variant.splits * tokens * rows;
}

uint64_t expert_scratch_bytes(const LinearVariant& variant, const ExpertShape& shape) {
    if (!variant.sorted) return 0;
    const uint32_t items = shape.tokens * shape.used;
    return behind(operand_bytes(variant, shape.per_slot ? items : shape.tokens, shape.cols)) +
           list_bytes(variant, expert_places(variant, items, shape.experts));
}

void record_linear(OpContext& context, const LinearArgs& all, const LinearVariant& variant) {
    const DeviceWeight& weight = all.weight;
    assert(all.experts ||
           (all.x.cols == weight.cols && all.out.cols == (all.glu ? weight.rows / 2 : weight.rows)));
    const vk::Pipeline& pipeline = context.recorder.pipelines().get(shader_module(variant.shader),
                                                                    constants_of(context.caps, variant, all));
    const auto& [tokens, x, lists, x_first] = prepare(context, all, variant);
    const uint64_t token_tiles = groups_for(tokens, variant.tokens);
    // Parts end plainly, in the scratch.
    const auto sums = [&, tokens = tokens] {
        const uint64_t first = behind(operand_bytes(variant, tokens, weight.cols));
        return Matrix{all.scratch.slice(first, 4ull * variant.splits * tokens * weight.rows), tokens,
                      weight.rows, weight.rows, 0};
    };
    assert(!all.norm || variant.folds_norm(tokens));
    LinearArgs args = variant.splits == 1 ? all : LinearArgs{.x = all.x, .out = sums(), .weight = weight};
    if (variant.operands() == LinearVariant::Operands::halves) args.norm.reset();  // it is packed
    const vk::View residual = variant.sorted                         ? lists
                              : args.residual                        ? args.residual->view
                              : args.norm                            ? args.norm->weight
                              : args.experts && args.experts->routes ? args.experts->routes->view
                                                                     : args.x.view;
    const bool streams = weight.over_bus && !all.experts;  // chosen experts are read where they are
    for (size_t i = 0; i < weight.shards.size(); ++i) {
        const DeviceWeight::Shard& shard = weight.shards[i];
        assert(shard.first_row % (args.experts ? WEIGHT_GROUP_ROWS : args.glu ? 2 : 1) == 0);
        const WeightPlanes planes = weight_planes(weight.type, shard.rows, weight.cols);
        LinearPush push = args.experts ? expert_epilogue(args, shard.first_row, shard.rows, tokens)
                                       : epilogue(args, shard.first_row);
        push.rows = args.experts ? weight.rows / args.experts->experts : shard.rows;
        push.cols = weight.cols;
        push.side_plane = uint32_t(planes.side / 4);
        push.table_plane = uint32_t(planes.table / 4);
        push.group_words = planes.group_words;
        push.x_first = x_first;
        push.x_stride = args.x.stride;
        push.splits = variant.splits;
        push.part_stride = tokens * weight.rows;
        uint64_t row_tiles = groups_for(push.rows, variant.rows);
        if (variant.sorted && args.experts->tiles) {
            push.first_tile = args.experts->first_tile;
            row_tiles = args.experts->tiles;
        }
        const vk::View rows = streams ? all.stream->fetch(context.recorder, shard) : shard.view;
        std::vector<vk::View> views{rows, x, args.bias ? *args.bias : x, residual, args.out.view};
        add_views(views, args, variant, planes);
        // Where there are no heads, what is written stands in for their buffers, one of which is written.
        views.resize(pipeline.module->bindings.size(), args.out.view);
        context.recorder.dispatch(pipeline, views, vk::push_bytes(push),
                                  row_tiles * token_tiles * variant.splits, label_of(all));
        if (!streams) continue;
        const bool last = i + 1 == weight.shards.size();
        if (const DeviceWeight::Shard* next = last ? all.after : &weight.shards[i + 1])
            all.stream->prefetch(context.recorder, *next);
    }
    if (variant.splits > 1) record_join(context, all, args.out, variant.splits);
}

}  // namespace scoria
