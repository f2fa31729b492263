// One model on several devices, shared by layers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace scoria {

struct Architecture;
struct Graph;

/// Layers [first, end) of a model, which one of several devices computes: the first device embeds too, and
/// the last one has the head.
struct LayerRange {
    uint32_t first = 0, end = UINT32_MAX;
    bool has(size_t layer) const { return layer >= first && layer < end; }
};

/// The ops of some layers alone; tensors keep their ids.
Graph part_of(Graph whole, LayerRange layers);

/// Where a model of `bytes` (of the embedding, each layer, the head) is cut for devices with `rooms` bytes
/// each, so that each gets its share, and one layer at least. Errors: bad_argument, for more devices than
/// layers; unsupported, for models that cannot be cut so.
std::vector<LayerRange> share_layers(const Architecture& architecture, std::span<const uint64_t> bytes,
                                     std::span<const uint64_t> rooms);

}  // namespace scoria
