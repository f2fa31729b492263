// The paged key-value cache of one session: per slot (cache_slots: the layers, mostly) a pool of blocks of
// kv_block_tokens positions, sharded at the device's binding limit. Which blocks a sequence owns is its block
// table's business.
#pragma once

#include "architecture.h"
#include "ops/op.h"

namespace scoria {

class KvCache {
  public:
    KvCache() = default;
    /// Room for `positions` positions in every slot. Errors: out_of_device_memory.
    KvCache(vk::Device& device, const Architecture& architecture, KvType type, uint32_t positions);

    const DeviceKv& layer(uint32_t index) const { return layers_[index]; }
    uint32_t blocks() const { return blocks_; }
    uint32_t positions() const { return blocks_ * kv_block_tokens; }

    /// Device bytes that a cache of `positions` positions takes.
    static uint64_t bytes(const Architecture& architecture, KvType type, uint32_t positions);

  private:
    std::vector<vk::Buffer> buffers_;
    std::vector<DeviceKv> layers_;
    uint32_t blocks_ = 0;
};

}  // namespace scoria
