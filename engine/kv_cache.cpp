// See kv_cache.h.
#include "kv_cache.h"

#include "fail.h"
#include "ops/kv_layout.h"
#include "states.h"

#include <algorithm>
#include <utility>

namespace scoria {
namespace {

/// The furthest that any slot which reads slot `index` looks back; 0: at everything.
uint32_t reach_of(const std::vector<Attention>& slots, size_t index) {
    uint32_t furthest = 0;
    for (size_t i = 0; i < slots.size(); ++i) {
        if (i != index && slots[i].kv_layer != int32_t(index)) continue;
        const uint32_t reach = slots[i].reach();
        if (reach == 0) return 0;
        furthest = std::max(furthest, reach);
    }
    return furthest;
}

/// Those of slot_entries after which positions wrap.
std::vector<uint32_t> rings_of(std::span<const uint32_t> entries, uint32_t all) {
    std::vector<uint32_t> rings;
    for (const uint32_t count : entries)
        if (count != 0 && count < all) rings.push_back(count);
    return rings;
}

}  // namespace

uint32_t KvLength::blocks() const {
    return shared ? kv_blocks_for(shared) : sequences * kv_blocks_for(positions);
}

std::vector<uint32_t> KvCache::slot_entries(const Architecture& architecture, KvLength length) {
    const std::vector<Attention> slots = cache_slots(architecture);
    const uint32_t all = kv_blocks_for(length.positions);
    std::vector<uint32_t> blocks;
    for (size_t i = 0; i < slots.size(); ++i) {
        const uint32_t reach = reach_of(slots, i);
        const bool none = slots[i].kv_layer >= 0 || slots[i].heads == 0 ||
                          !length.layers.has(layer_of_slot(architecture, i));
        blocks.push_back(none ? 0 : reach ? std::min(all, kv_ring_blocks(reach, length.chunk)) : all);
    }
    return blocks;
}

std::vector<uint32_t> KvCache::slot_blocks(const Architecture& architecture, KvLength length) {
    const uint32_t each = kv_blocks_for(length.positions), all = length.blocks();
    std::vector<uint32_t> blocks = slot_entries(architecture, length);
    for (uint32_t& count : blocks)
        count = count == each ? all : uint32_t(std::min<uint64_t>(all, uint64_t{count} * length.sequences));
    return blocks;
}

KvCache::KvCache(vk::Device& device, const Architecture& architecture, KvType type, KvLength length,
                 vk::MemoryUse use)
    : blocks_(kv_blocks_for(length.positions)), sequences_(length.sequences),
      pool_(length.blocks(), length.sequences, rings_of(slot_entries(architecture, length), blocks_)),
      places_(length.sequences) {
    const std::vector<uint64_t> strides =
        state_strides(architecture, length.layers, device.caps().storage_alignment);
    for (size_t i = 0; i < strides.size(); ++i) {
        States& of = states_.emplace_back();
        if (strides[i] == 0) continue;
        of.slot = state_bytes(architecture.layers[i].recurrence);
        of.stride = strides[i];
        of.together = uint32_t(std::clamp<uint64_t>(device.caps().max_allocation / of.stride, 1, sequences_));
        for (uint32_t first = 0; first < sequences_; first += of.together)
            of.buffers.emplace_back(device, of.stride * std::min(of.together, sequences_ - first), use);
    }
    const std::vector<Attention> slots = cache_slots(architecture);
    const std::vector<uint32_t> entries = slot_entries(architecture, length),
                                blocks = slot_blocks(architecture, length);
    const std::vector<uint64_t> bytes = slot_bytes(architecture, type, length);
    uint64_t taken = 0;
    for (size_t i = 0; i < slots.size(); ++i) {
        const Attention& a = slots[i];
        const KvRows rows = kv_rows(type, a);
        taken += bytes[i];
        if (use == vk::MemoryUse::device && taken > length.room) use = vk::MemoryUse::staging;
        DeviceKv kv{type, a.kv_heads, a.head_dim, {}, UINT32_MAX, rows.planes};
        if (entries[i] != 0 && entries[i] < blocks_) {
            kv.ring = entries[i];
            rings_.push_back({entries[i] * kv_block_tokens, reach_of(slots, i)});
        }
        const uint32_t most = blocks[i] ? kv_blocks_within(device.caps().max_binding, rows) : 0;
        for (uint32_t first = 0; first < blocks[i]; first += most) {
            const uint32_t count = std::min(most, blocks[i] - first);
            buffers_.emplace_back(device, count * rows.block_bytes(), use);
            kv.shards.push_back({buffers_.back().view(), first, count});
        }
        layers_.push_back(std::move(kv));
    }
}

DeviceStates KvCache::states(uint32_t layer, std::optional<uint32_t> sequence) const {
    const States& of = states_[layer];
    return {sequence ? of.view(*sequence, 0, of.stride) : of.buffers.front().view(), of.stride};
}

void KvCache::copy_states(vk::Recorder& recorder, uint32_t sequence, uint32_t from, uint32_t to) const {
    for (const States& of : states_) {
        const auto slot = [&](uint32_t index) { return of.view(sequence, index * of.slot, of.slot); };
        if (of.stride != 0) recorder.copy(slot(from), slot(to));
    }
}

uint32_t KvCache::take_place() {
    const std::lock_guard lock(places_mutex_);
    const auto free = std::ranges::find(places_, false);
    if (free == places_.end())
        fail(Status::failed, "cache", "expected a place for one of ", sequences_, " sequences, got none");
    *free = true;
    return uint32_t(free - places_.begin());
}

bool KvCache::has_place() {
    const std::lock_guard lock(places_mutex_);
    return std::ranges::find(places_, false) != places_.end();
}

void KvCache::leave_place(uint32_t sequence) noexcept {
    const std::lock_guard lock(places_mutex_);
    places_[sequence] = false;
}

void KvCache::copy_block(vk::Recorder& recorder, uint32_t from, uint32_t to) const {
    for (const DeviceKv& layer : layers_) {
        const uint64_t bytes = KvRows{layer.type, layer.kv_heads, layer.head_dim, layer.planes}.block_bytes();
        const auto block = [&](uint32_t id) {
            const auto shard = std::ranges::find_if(
                layer.shards, [&](const DeviceKv::Shard& s) { return id - s.first_block < s.blocks; });
            return shard->view.slice((id - shard->first_block) * bytes, bytes);
        };
        if (!layer.shards.empty()) recorder.copy(block(from), block(to));
    }
}

bool KvCache::holds(uint32_t position, uint32_t written) const {
    return std::ranges::all_of(rings_, [&](const Ring& ring) {
        const uint32_t oldest = written - std::min(written, ring.positions);
        return oldest <= position - std::min(position, ring.reach - 1);
    });
}

std::vector<uint64_t> KvCache::slot_bytes(const Architecture& architecture, KvType type, KvLength length) {
    const std::vector<Attention> slots = cache_slots(architecture);
    const std::vector<uint32_t> blocks = slot_blocks(architecture, length);
    std::vector<uint64_t> bytes;
    for (size_t i = 0; i < slots.size(); ++i)
        bytes.push_back(blocks[i] * kv_rows(type, slots[i]).block_bytes());
    return bytes;
}

std::vector<KvPart> KvCache::parts(const Architecture& architecture, KvType type, KvLength length) {
    const std::vector<Attention> slots = cache_slots(architecture);
    const std::vector<uint32_t> entries = slot_entries(architecture, length),
                                blocks = slot_blocks(architecture, length);
    const std::vector<uint64_t> bytes = slot_bytes(architecture, type, length);
    std::vector<KvPart> parts;
    for (size_t i = 0; i < slots.size(); ++i) {
        if (!length.layers.has(layer_of_slot(architecture, i)) || slots[i].heads == 0) continue;
        const Attention& a = slots[i];
        const KvPart::Kind kind = entries[i] == 0 ? KvPart::Kind::shared
                                  : a.indexer.chooses() && i >= architecture.layers.size()
                                      ? KvPart::Kind::index
                                  : a.latent.kv_rank                             ? KvPart::Kind::latent
                                  : entries[i] < kv_blocks_for(length.positions) ? KvPart::Kind::window
                                                                                 : KvPart::Kind::full;
        const uint32_t positions = blocks[i] * kv_block_tokens;
        auto part = std::ranges::find_if(
            parts, [&](const KvPart& p) { return p.kind == kind && p.positions == positions; });
        if (part == parts.end()) part = parts.insert(part, {kind, 0, positions, 0});
        ++part->slots;
        part->bytes += bytes[i];
    }
    return parts;
}

KvCache::Bytes KvCache::bytes(const Architecture& architecture, KvType type, KvLength length) {
    uint64_t all = 0, device = 0;
    for (const uint64_t slot : slot_bytes(architecture, type, length)) {
        all += slot;
        if (all <= length.room) device = all;
    }
    return {device, all - device};
}

KvShare::KvShare(std::shared_ptr<KvCache> cache) : cache_(std::move(cache)), place_(cache_->take_place()) {
    if (cache_->sequences() == 1) reach(cache_->positions());
}

KvShare& KvShare::operator=(KvShare&& other) noexcept {
    leave();
    cache_ = std::exchange(other.cache_, nullptr);
    place_ = other.place_;
    table_ = std::exchange(other.table_, {});
    known_ = std::exchange(other.known_, 0);
    current_ = std::exchange(other.current_, {});
    return *this;
}

void KvShare::leave() noexcept {
    shrink(0);
    if (cache_) cache_->leave_place(place_);
}

bool KvShare::reach(uint64_t positions) {
    const size_t entries = kv_blocks_for(uint32_t(positions));
    return entries <= table_.size() || cache_->pool().extend(table_, entries);
}

void KvShare::shrink(uint64_t positions) {
    const size_t entries = kv_blocks_for(uint32_t(positions));
    if (entries >= table_.size()) return;
    cache_->pool().give_back(std::span(table_).subspan(entries));
    table_.resize(entries);
    known_ = std::min(known_, entries);
    changed(entries);
}

void KvShare::publish(std::span<const TokenId> computed) {
    const size_t full = computed.size() / kv_block_tokens;
    if (full <= known_) return;
    changed(cache_->pool().publish(table_, known_, computed));
}

uint32_t KvShare::adopt(std::span<const TokenId> tokens, uint32_t computed) {
    const size_t full = computed / kv_block_tokens;
    if (full > known_ || !cache_->pool().adopt(table_, full, tokens)) return 0;
    changed(full);
    known_ = table_.size();
    return uint32_t(known_) * kv_block_tokens;
}

bool KvShare::own(uint32_t first, const std::function<void(uint32_t from, uint32_t to)>& copy) {
    const size_t entry = first / kv_block_tokens;
    if (entry >= known_) return true;
    shrink(first);
    if (table_.size() > entry && !cache_->pool().forget(table_[entry])) {
        std::vector<uint32_t> block;
        if (!cache_->pool().extend(block, 1)) return false;
        try {
            copy(table_[entry], block[0]);
        } catch (...) {
            cache_->pool().give_back(block);
            throw;
        }
        std::swap(table_[entry], block[0]);
        cache_->pool().give_back(block);
        changed(entry);
    }
    known_ = entry;
    return true;
}

}  // namespace scoria
