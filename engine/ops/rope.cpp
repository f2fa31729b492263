// See rope.h.
#include "rope.h"

#include "rope_cache.push.h"

#include <cmath>

namespace scoria {
namespace {

constexpr uint32_t fine_positions = 256;
uint32_t coarse_rows(uint32_t context) {
    return std::max(1u, (context + fine_positions - 1) / fine_positions);
}

}  // namespace

uint64_t rope_table_floats(const Rope& rope, uint32_t context) {
    return uint64_t(coarse_rows(context) + fine_positions) * rope.width;
}

std::vector<float> rope_tables(const Rope& rope, uint32_t context) {
    std::vector<float> table;
    table.reserve(rope_table_floats(rope, context));
    const auto append = [&](double position, double magnitude) {
        for (uint32_t i = 0; i < rope.width / 2; ++i) {
            const double angle = position * rope.inverse_frequencies[i];
            table.push_back(float(magnitude * std::cos(angle)));
            table.push_back(float(magnitude * std::sin(angle)));
        }
    };
    for (uint32_t i = 0; i < coarse_rows(context); ++i) append(double(i) * fine_positions, rope.magnitude);
    for (uint32_t i = 0; i < fine_positions; ++i) append(i, 1);
    return table;
}

std::vector<KernelVariant> rope_cache_variants(const vk::Caps& caps) {
    return subgroup_variants(caps, Shader::rope_cache_sg, Shader::rope_cache, 64);
}

void record_rope_cache(OpContext& context, const RopeCacheArgs& args, const KernelVariant& variant) {
    const DeviceKv& kv = *args.kv;
    const uint64_t row_bytes = sizeof(float) * std::max(1u, args.width);
    RopeCachePush push{};
    push.tokens = args.qkv.rows;
    push.heads = args.heads;
    push.kv_heads = kv.kv_heads;
    push.head_dim = kv.head_dim;
    push.width = args.width;
    push.qkv_first = args.qkv.first;
    push.qkv_stride = args.qkv.stride;
    push.coarse_rows = uint32_t(args.tables.size / row_bytes) - fine_positions;
    push.epsilon = args.epsilon;
    const vk::Pipeline& pipeline = context.recorder.pipelines().get(
        shader_module(variant.shader), {{vk::constant_workgroup, variant.workgroup},
                                        {vk::constant_subgroup, variant.subgroup},
                                        {ROPE_KV_F16, kv.type == KvType::f16},
                                        {ROPE_INTERLEAVED, args.pairs == RopePairs::interleaved},
                                        {ROPE_QK_NORM, args.q_norm.has_value()}});
    const uint64_t items = uint64_t(push.tokens) * (push.heads + 2 * push.kv_heads);
    for (const DeviceKv::Shard& shard : kv.shards) {
        push.first_block = shard.first_block;
        push.blocks = shard.blocks;
        push.rotate_q = &shard == kv.shards.data();
        context.recorder.dispatch(pipeline,
                                  {args.qkv.view, args.tables, args.q_norm.value_or(args.tables),
                                   args.k_norm.value_or(args.tables), args.step, shard.view},
                                  push, groups_for(items, variant.workgroup / variant.subgroup),
                                  "rope_cache");
    }
}

}  // namespace scoria
