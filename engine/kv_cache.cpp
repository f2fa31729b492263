// See kv_cache.h.
#include "kv_cache.h"

#include "ops/kv_layout.h"

#include <algorithm>

namespace scoria {
namespace {
uint32_t blocks_for(uint32_t positions) { return (positions + kv_block_tokens - 1) / kv_block_tokens; }
}  // namespace

KvCache::KvCache(vk::Device& device, const Architecture& architecture, KvType type, uint32_t positions)
    : blocks_(blocks_for(positions)) {
    for (const Attention& a : cache_slots(architecture)) {
        DeviceKv kv{type, a.kv_heads, a.head_dim, {}};
        if (a.kv_layer >= 0) {  // reads another layer's
            layers_.push_back(std::move(kv));
            continue;
        }
        const uint64_t block_bytes = kv_block_bytes(type, a.kv_heads, a.head_dim);
        const uint32_t most = uint32_t(std::max<uint64_t>(1, device.caps().max_binding / block_bytes));
        for (uint32_t first = 0; first < blocks_; first += most) {
            const uint32_t count = std::min(most, blocks_ - first);
            buffers_.emplace_back(device, count * block_bytes, vk::MemoryUse::device);
            kv.shards.push_back({buffers_.back().view(), first, count});
        }
        layers_.push_back(std::move(kv));
    }
}

uint64_t KvCache::bytes(const Architecture& architecture, KvType type, uint32_t positions) {
    uint64_t total = 0;
    for (const Attention& a : cache_slots(architecture))
        if (a.kv_layer < 0) total += blocks_for(positions) * kv_block_bytes(type, a.kv_heads, a.head_dim);
    return total;
}

}  // namespace scoria
