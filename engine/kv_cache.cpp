// See kv_cache.h.
#include "kv_cache.h"

#include "ops/kv_layout.h"

#include <algorithm>

namespace scoria {

KvCache::KvCache(vk::Device& device, const Architecture& architecture, KvType type, uint32_t positions)
    : blocks_(kv_blocks_for(positions)) {
    for (const Attention& a : cache_slots(architecture)) {
        DeviceKv kv{type, a.kv_heads, a.head_dim, {}};
        if (a.kv_layer >= 0) {  // reads another layer's
            layers_.push_back(std::move(kv));
            continue;
        }
        const uint64_t block_bytes = kv_block_bytes(type, a.kv_heads, a.head_dim);
        const uint32_t most = kv_blocks_within(device.caps().max_binding, type, a.kv_heads, a.head_dim);
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
        if (a.kv_layer < 0) total += kv_blocks_for(positions) * kv_block_bytes(type, a.kv_heads, a.head_dim);
    return total;
}

}  // namespace scoria
