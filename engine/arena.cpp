// Places tensors in one arena by lifetime.
#include "plan.h"

#include <algorithm>
#include <numeric>

namespace scoria {

Arena place(std::span<const Storage> storages, uint32_t tokens, uint32_t outputs, uint64_t alignment) {
    const auto bytes = [&](const Storage& s) {
        const uint64_t size = 4ull * s.cols * (s.rows == RowKind::outputs ? outputs : tokens);
        return (size + alignment - 1) / alignment * alignment;
    };
    std::vector<uint32_t> order(storages.size());
    std::iota(order.begin(), order.end(), 0u);
    std::ranges::stable_sort(order,
                             [&](uint32_t a, uint32_t b) { return bytes(storages[a]) > bytes(storages[b]); });

    Arena arena;
    arena.offsets.resize(storages.size());
    std::vector<uint32_t> placed;
    for (const uint32_t index : order) {
        const Storage& storage = storages[index];
        std::vector<std::pair<uint64_t, uint64_t>> taken;  // [first, last) of storages alive at the same time
        for (const uint32_t other : placed)
            if (storages[other].begin <= storage.end && storage.begin <= storages[other].end)
                taken.emplace_back(arena.offsets[other], arena.offsets[other] + bytes(storages[other]));
        std::ranges::sort(taken);
        uint64_t offset = 0;
        for (const auto& [first, last] : taken) {
            if (offset + bytes(storage) <= first) break;
            offset = std::max(offset, last);
        }
        arena.offsets[index] = offset;
        arena.bytes = std::max(arena.bytes, offset + bytes(storage));
        placed.push_back(index);
    }
    return arena;
}

}  // namespace scoria
