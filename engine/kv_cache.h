// The paged key-value cache (Kwon et al. 2023) of one session, or of several that share it: per slot
// (cache_slots: the layers, mostly) blocks of kv_block_tokens positions, sharded at the device's binding
// limit. Which blocks a sequence owns, its block table says. Where nobody looks further back than a window,
// positions wrap: the slot holds what the queries of one chunk see, of each sequence, and no more. And what
// recurrences remember in the place of keys and values: states, of every sequence that has a place.
#pragma once

#include "architecture.h"
#include "block_pool.h"
#include "layer_shares.h"
#include "ops/recurrence.h"

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

namespace scoria {

/// What a cache is for: so many positions of a sequence, of which at most `chunk` are computed at a time, by
/// these layers; and so many sequences, which have `shared` positions together (0: `positions` each).
struct KvLength {
    uint32_t positions = 0, chunk = 0;
    LayerRange layers = {};
    uint32_t sequences = 1, shared = 0;
    uint64_t room = UINT64_MAX;  // bytes of device memory; slots past it, in their order, stand on the host
    uint32_t blocks() const;     // of all sequences, where positions do not wrap
};

/// Slots that are alike.
struct KvPart {
    enum class Kind : uint8_t { full, window, latent, index, shared } kind = Kind::full;
    uint32_t slots = 0;
    uint32_t positions = 0;  // that each holds, of all sequences; 0: it reads another's
    uint64_t bytes = 0;      // of all of them
};
inline constexpr const char* kv_part_names[] = {"full", "window", "latent", "index", "shared"};

class KvCache {
  public:
    /// Errors: out_of_device_memory.
    KvCache(vk::Device& device, const Architecture& architecture, KvType type, KvLength length,
            vk::MemoryUse use = vk::MemoryUse::device);

    const DeviceKv& layer(uint32_t index) const { return layers_[index]; }
    uint32_t positions() const { return blocks_ * kv_block_tokens; }  // of one sequence, at most
    uint32_t sequences() const { return sequences_; }
    BlockPool& pool() { return pool_; }
    const BlockPool& pool() const { return pool_; }
    uint32_t free_blocks() const { return pool_.free(); }
    /// What a layer remembers of the sequence in that place, or of all.
    DeviceStates states(uint32_t layer, std::optional<uint32_t> sequence) const;
    /// Records a copy of one slot of a sequence's states to another, in every layer (StateSlots).
    void copy_states(vk::Recorder& recorder, uint32_t sequence, uint32_t from, uint32_t to) const;
    /// Of its sequences, one whose states nobody has. Thread-safe, and so is its return.
    uint32_t take_place();
    bool has_place();
    void leave_place(uint32_t sequence) noexcept;
    /// Records a copy of all that block `from` holds to block `to`, in every slot.
    void copy_block(vk::Recorder& recorder, uint32_t from, uint32_t to) const;
    /// Whether a sequence of which `written` positions were computed can go on at `position`: what is seen
    /// from there was not overwritten.
    bool holds(uint32_t position, uint32_t written) const;

    /// Entries of a block table that every slot uses: all, or those after which positions wrap; 0: it reads
    /// another's, or is of no layer here.
    static std::vector<uint32_t> slot_entries(const Architecture& architecture, KvLength length);
    /// Blocks of every slot.
    static std::vector<uint32_t> slot_blocks(const Architecture& architecture, KvLength length);
    /// Bytes of every slot.
    static std::vector<uint64_t> slot_bytes(const Architecture& architecture, KvType type, KvLength length);
    /// Bytes that a cache takes, by kind of slot.
    static std::vector<KvPart> parts(const Architecture& architecture, KvType type, KvLength length);
    /// Of device memory, and of the host's.
    struct Bytes {
        uint64_t device = 0, host = 0;
    };
    static Bytes bytes(const Architecture& architecture, KvType type, KvLength length);

  private:
    std::vector<vk::Buffer> buffers_;
    std::vector<DeviceKv> layers_;
    const uint32_t blocks_, sequences_;
    BlockPool pool_;
    struct States {
        uint64_t slot = 0, stride = 0;  // bytes, of a sequence; 0: it remembers none
        std::vector<vk::Buffer> buffers;
        uint32_t together = 1;  // sequences in each: all, unless no allocation is so large
        vk::View view(uint32_t sequence, uint64_t first, uint64_t bytes) const {
            return buffers[sequence / together].view(sequence % together * stride + first, bytes);
        }
    };
    std::vector<States> states_;  // by layer
    std::mutex places_mutex_;
    std::vector<bool> places_;  // by sequence, whether it is taken
    struct Ring {
        uint32_t positions, reach;
    };
    std::vector<Ring> rings_;
};

/// One sequence's part of a cache: its block table. Not thread-safe; others have their own.
class KvShare {
  public:
    KvShare() = default;
    /// Alone in its cache, a sequence has all blocks at once, in order.
    explicit KvShare(std::shared_ptr<KvCache> cache);
    ~KvShare() { leave(); }
    KvShare(KvShare&& other) noexcept { *this = std::move(other); }
    KvShare& operator=(KvShare&& other) noexcept;

    explicit operator bool() const { return cache_ != nullptr; }
    const KvCache& operator*() const { return *cache_; }
    const KvCache* operator->() const { return cache_.get(); }
    const std::shared_ptr<KvCache>& cache() const { return cache_; }
    std::span<const uint32_t> table() const { return table_; }
    uint32_t place() const { return place_; }  // where its states are

    /// Has blocks for positions [0, positions); false: others have them, and nothing changed.
    bool reach(uint64_t positions);
    /// Keeps those of positions [0, positions).
    void shrink(uint64_t positions);

    // Sequences that begin alike have blocks in common (block_pool.h):
    /// Lets others have the blocks that `computed` fills, the sequence's first tokens, and takes theirs in
    /// place of own ones of the same tokens.
    void publish(std::span<const TokenId> computed);
    /// Goes on with others' blocks that hold what follows the first `computed` of `tokens`, which were
    /// published. Positions of all blocks that are then known, or 0: none were found.
    uint32_t adopt(std::span<const TokenId> tokens, uint32_t computed);
    /// Before positions from `first` on are written: no other sequence has a block that holds one of them.
    /// false: a copy must be made, and there is no room for it.
    bool own(uint32_t first, const std::function<void(uint32_t from, uint32_t to)>& copy);

    /// Entries of a copy of the table, on the device, that are as they are here: each whoever writes it sets.
    enum class Copy : uint8_t { session, batcher };
    size_t& current(Copy copy) { return current_[size_t(copy)]; }

  private:
    void leave() noexcept;
    void changed(size_t first) {
        for (size_t& entries : current_) entries = std::min(entries, first);
    }

    std::shared_ptr<KvCache> cache_;
    uint32_t place_ = 0;
    std::vector<uint32_t> table_;
    size_t known_ = 0;  // entries, from the first on, whose blocks the pool may know
    std::array<size_t, 2> current_{};
};

}  // namespace scoria
