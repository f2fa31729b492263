// See rope.h.
#include "rope.h"

#include "kv_layout.h"
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

std::vector<float> rope_tables(const Rope& rope, uint32_t context, uint64_t length) {
    const std::vector<double> frequencies = rope_frequencies(rope, length);
    std::vector<float> table;
    table.reserve(rope_table_floats(rope, context));
    const auto append = [&](double position, double magnitude) {
        for (uint32_t i = 0; i < rope.width / 2; ++i) {
            const double angle = position * frequencies[i];
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

uint32_t rope_coarse_rows(const RopeCacheArgs& args) {
    return uint32_t(args.tables.size / (sizeof(float) * std::max(1u, args.width))) - fine_positions;
}

std::vector<vk::Constant> rope_constants(const RopeCacheArgs& args) {
    const uint32_t norm = !args.q_norm      ? ROPE_NORM_NONE
                          : args.norm_after ? ROPE_NORM_AFTER
                                            : ROPE_NORM_BEFORE;
    return {{ROPE_INTERLEAVED, args.pairs == RopePairs::interleaved},
            {ROPE_QK_NORM, norm},
            {ROPE_QUERIES_GROW, args.query_growth != 0}};
}

void record_rope_cache(OpContext& context, const RopeCacheArgs& args, const KernelVariant& variant) {
    const DeviceKv& kv = *args.kv;
    RopeCachePush push{};
    push.tokens = args.qkv.rows;
    push.heads = args.heads;
    push.kv_heads = args.with_kv ? kv.kv_heads : 0;
    push.head_dim = kv.head_dim;
    push.width = args.width;
    push.qkv_first = args.qkv.first;
    push.qkv_stride = args.qkv.stride;
    push.coarse_rows = rope_coarse_rows(args);
    push.ring = kv.ring;
    push.epsilon = args.epsilon;
    push.query_growth = args.query_growth;
    push.growth_length = args.growth_length;
    push.growth_offset = args.growth_offset;
    std::vector<vk::Constant> constants = rope_constants(args);
    constants.insert(constants.end(), {{KV_TYPE_CONSTANT, uint32_t(kv.type)},
                                       {KV_PLANES_CONSTANT, kv.planes},
                                       {ROPE_SPREAD_DIMS, kv_spread(kv.type, kv.planes) ? kv.head_dim : 1}});
    const vk::Pipeline& pipeline = pipeline_of(context, variant, std::move(constants));
    const uint64_t items = uint64_t(push.tokens) * (push.heads + kv.planes * push.kv_heads);
    for (const DeviceKv::Shard& shard : kv.shards) {
        push.first_block = shard.first_block;
        push.blocks = shard.blocks;
        push.rotate_q = &shard == kv.shards.data();
        if (!push.rotate_q && !args.with_kv) break;
        context.recorder.dispatch(pipeline,
                                  {args.qkv.view, args.tables, args.q_norm.value_or(args.tables),
                                   args.k_norm.value_or(args.tables), args.step, shard.view},
                                  push, groups_for(items, variant.workgroup / variant.subgroup),
                                  "rope_cache");
    }
}

}  // namespace scoria
