// See layer_shares.h.
#include "layer_shares.h"

#include "fail.h"
#include "graph.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace scoria {
namespace {

/// Whether no layer from `at` on reads what one before it cached or chose, or its values.
bool can_cut(const Architecture& architecture, uint32_t at) {
    const auto apart = [&](const Layer& layer) {
        return layer.attention.kv_layer < 0 || layer.attention.kv_layer >= int32_t(at);
    };
    if (architecture.layers[at].attention.indexer.shared || architecture.recurrence().shifts_x())
        return false;
    return std::all_of(architecture.layers.begin() + at, architecture.layers.end(), apart);
}

}  // namespace

std::vector<LayerRange> share_layers(const Architecture& architecture, std::span<const uint64_t> bytes,
                                     std::span<const uint64_t> rooms) {
    const auto layers = uint32_t(architecture.layers.size()), parts = uint32_t(rooms.size());
    if (parts > layers)
        fail(Status::bad_argument, "device", "expected at most ", layers, " devices for as many layers, got ",
             parts);
    std::vector<double> before{double(bytes[0])};  // [layers + 1]: bytes up to each layer
    for (uint32_t i = 0; i < layers; ++i) before.push_back(before.back() + double(bytes[i + 1]));
    const double all = before.back() + double(bytes[layers + 1]);
    const double room = std::accumulate(rooms.begin(), rooms.end(), 0.0);
    std::vector<LayerRange> ranges;
    double due = 0;
    for (uint32_t part = 0, first = 0; part < parts; ++part) {
        due += all * double(rooms[part]) / room;
        uint32_t end = layers;
        if (part + 1 < parts) {
            end = first;
            for (uint32_t at = first + 1; at <= layers - (parts - 1 - part); ++at)
                if (can_cut(architecture, at) &&
                    (end == first || std::abs(before[at] - due) < std::abs(before[end] - due)))
                    end = at;
        }
        if (end == first)
            fail(Status::unsupported, "device", "expected layers that can be cut in ", parts,
                 ", got some that share keys or values");
        ranges.push_back({first, end});
        first = end;
    }
    return ranges;
}

Graph part_of(Graph whole, LayerRange layers) {
    const auto count = uint32_t(whole.hidden.size()) - 1;
    layers.end = std::min(layers.end, count);
    if (layers.first == 0 && layers.end == count) return whole;
    std::vector<Op> ops = std::exchange(whole.ops, {});
    const std::vector<int32_t> of = std::exchange(whole.layers, {});
    bool behind_embedding = false;
    for (size_t i = 0; i < ops.size(); ++i) {
        behind_embedding = behind_embedding || of[i] >= 0;
        const bool here = of[i] >= 0         ? layers.has(size_t(of[i]))
                          : behind_embedding ? layers.end == count
                                             : layers.first == 0;
        if (!here) continue;
        whole.ops.push_back(std::move(ops[i]));
        whole.layers.push_back(of[i]);
    }
    return whole;
}

}  // namespace scoria
