// The paged key-value cache of one session: per slot (cache_slots: the layers, mostly) a pool of blocks of
// kv_block_tokens positions, sharded at the device's binding limit. Which blocks a sequence owns is its block
// table's business. Where nobody looks further back than a window, positions wrap: the slot holds what the
// queries of one chunk see, and no more.
#pragma once

#include "architecture.h"
#include "layer_shares.h"
#include "ops/op.h"

namespace scoria {

/// What a cache is for: so many positions of a sequence, of which at most `chunk` are computed at a time, by
/// these layers.
struct KvLength {
    uint32_t positions = 0, chunk = 0;
    LayerRange layers = {};
};

/// Slots that are alike.
struct KvPart {
    enum class Kind : uint8_t { full, window, latent, shared } kind = Kind::full;
    uint32_t slots = 0;
    uint32_t positions = 0;  // that each holds; 0: it reads another's
    uint64_t bytes = 0;      // of all of them
};
inline constexpr const char* kv_part_names[] = {"full", "window", "latent", "shared"};

class KvCache {
  public:
    KvCache() = default;
    /// Errors: out_of_device_memory.
    KvCache(vk::Device& device, const Architecture& architecture, KvType type, KvLength length);

    const DeviceKv& layer(uint32_t index) const { return layers_[index]; }
    uint32_t blocks() const { return blocks_; }
    uint32_t positions() const { return blocks_ * kv_block_tokens; }
    /// Whether a sequence of which `written` positions were computed can go on at `position`: what is seen
    /// from there was not overwritten.
    bool holds(uint32_t position, uint32_t written) const;

    /// Blocks of every slot; 0: it reads another's, or is of no layer here.
    static std::vector<uint32_t> slot_blocks(const Architecture& architecture, KvLength length);
    /// Device bytes that a cache takes, by kind of slot.
    static std::vector<KvPart> parts(const Architecture& architecture, KvType type, KvLength length);
    static uint64_t bytes(const Architecture& architecture, KvType type, KvLength length);

  private:
    std::vector<vk::Buffer> buffers_;
    std::vector<DeviceKv> layers_;
    uint32_t blocks_ = 0;
    struct Ring {
        uint32_t positions, reach;
    };
    std::vector<Ring> rings_;
};

}  // namespace scoria
