// See choose.h.
#include "choose.h"

#include "attention.push.h"
#include "choose.push.h"

#include <algorithm>

namespace scoria {
namespace {

static_assert(uint32_t(Mask::chosen) == MASK_CHOSEN && chosen_bits == CHOSEN_BITS);

constexpr uint32_t narrow_lanes = 128;  // of CPU drivers, which have no latency to hide

/// Tokens whose scores stand in memory together.
uint32_t tokens_at_once(uint32_t tokens, uint32_t positions) {
    constexpr uint64_t most_bytes = 16 << 20;
    return uint32_t(std::clamp<uint64_t>(most_bytes / (4 * uint64_t{positions}), 1, tokens));
}

void record_scores(OpContext& context, const ChooseArgs& args, uint32_t first, uint32_t count) {
    const DeviceKv& kv = *args.kv;
    const KernelVariant variant = plain_variants(context.caps, Shader::index_scores, 64).front();
    const Matrix q = args.q.row_range(first, count), weights = args.weights.row_range(first, count);
    AttentionPush push{};
    push.first_token = args.first_token + first;
    push.tokens = count;
    push.heads = args.indexer.heads;
    push.kv_heads = 1;
    push.q_first = q.first;
    push.q_stride = q.stride;
    push.out_stride = args.positions;
    push.ring = kv.ring;
    push.stride = args.indexer.top;
    push.bias_first = weights.first;
    push.bias_stride = weights.stride;
    const vk::Pipeline& pipeline = pipeline_of(context, variant,
                                               {{KV_TYPE_CONSTANT, uint32_t(kv.type)},
                                                {KV_PLANES_CONSTANT, kv.planes},
                                                {ATTENTION_HEAD_DIM, kv.head_dim}});
    for (const DeviceKv::Shard& shard : kv.shards) {
        push.first_block = shard.first_block;
        push.blocks = shard.blocks;
        std::vector<vk::View> views{q.view,       args.step,    shard.view,  args.scratch,
                                    weights.view, weights.view, weights.view};
        views.resize(pipeline.module->bindings.size());
        context.recorder.dispatch(pipeline, views, vk::push_bytes(push),
                                  count * groups_for(args.positions, variant.workgroup), "index_scores");
    }
}

}  // namespace

std::vector<KernelVariant> choose_variants(const vk::Caps& caps) {
    return plain_variants(caps, Shader::choose, caps.is_cpu() ? narrow_lanes : CHOOSE_LANES);
}

uint64_t choose_scratch_bytes(uint32_t tokens, uint32_t positions) {
    return 4 * uint64_t{positions} * tokens_at_once(tokens, positions);
}

void record_choose(OpContext& context, const ChooseArgs& args, const KernelVariant& variant) {
    const uint32_t step = tokens_at_once(args.q.rows, args.positions);
    const vk::Pipeline& pipeline =
        pipeline_of(context, variant, {{CHOOSE_LOADS, variant.workgroup > narrow_lanes ? 8u : 1u}});
    for (uint32_t first = 0; first < args.q.rows; first += step) {
        const uint32_t count = std::min(step, args.q.rows - first);
        if (args.positions > args.indexer.top) record_scores(context, args, first, count);
        const Matrix out = args.out.row_range(first, count);
        const ChoosePush push{.first_token = args.first_token + first,
                              .tokens = count,
                              .top = args.indexer.top,
                              .scores_stride = args.positions,
                              .out_first = out.first,
                              .out_stride = out.stride,
                              .out_cols = out.cols};
        context.recorder.dispatch(pipeline, {args.scratch, args.step, out.view}, push, count, "choose");
    }
}

}  // namespace scoria
