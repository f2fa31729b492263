// What follows from an Architecture: length-dependent rotary frequencies, how queries grow, the cache's
// slots.
#include "architecture.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace scoria {

std::vector<double> rope_frequencies(const Rope& rope, uint64_t length) {
    if (rope.short_length == 0 || length <= rope.short_length) return rope.inverse_frequencies;
    if (!rope.long_inverse_frequencies.empty()) return rope.long_inverse_frequencies;
    const double width = rope.width;
    const double stretch =
        rope.ntk_factor * static_cast<double>(length) / rope.short_length - (rope.ntk_factor - 1);
    const double base = rope.ntk_base * std::pow(stretch, width / (width - 2));
    std::vector<double> frequencies;
    for (uint32_t i = 0; i < rope.width / 2; ++i) frequencies.push_back(std::pow(base, -2.0 * i / width));
    return frequencies;
}

double query_length(const Rope& rope, uint64_t position) {
    return 1 + rope.query_growth *
                   std::log1p(static_cast<double>((position + rope.growth_offset) / rope.growth_length));
}

uint32_t Attention::reach() const {
    const auto within = [&](uint32_t positions) { return window ? std::min(window, positions) : positions; };
    switch (mask) {
    case Mask::causal:
    case Mask::strided:
    case Mask::fixed_summary:
    case Mask::strided_union:
    case Mask::fixed_union:
        return window;
    case Mask::fixed_block:
        return within(stride);
    case Mask::local_block:
        return within(stride + summary);
    case Mask::bidirectional:
    case Mask::prefix:
    case Mask::source:
    case Mask::global_keys:
    case Mask::global_rows:
    case Mask::compressed:
    case Mask::chosen:
        return 0;
    }
    return 0;
}

Chunks Chunks::for_length(uint64_t tokens) const {
    if (unfactored == 0) return *this;
    Chunks chunks = *this;
    chunks.unfactored = 0;
    const auto power = static_cast<uint32_t>(std::bit_width(std::max<uint64_t>(padded(tokens) / length, 1)));
    if (uint64_t{1} << power <= unfactored)
        chunks.buckets = {1u << power};
    else
        chunks.buckets = {1u << power / 2, 1u << (power - power / 2)};
    return chunks;
}

CompressedWindow compressed_window(const CompressedMemory& memory, uint32_t index) {
    CompressedWindow window;
    uint32_t slots = 0;
    for (uint32_t i = 1; i <= index; ++i) {
        const uint32_t start = i * memory.segment, kept = start - std::min(start, memory.memory);
        slots = std::min(memory.slots, slots + (kept - window.memory) / memory.rate);
        window.memory = kept;
    }
    window.low = window.memory - slots;
    return window;
}

std::vector<Attention> cache_slots(const Architecture& architecture) {
    std::vector<Attention> slots;
    const auto add = [&](const Attention& attention) { slots.push_back(kernel_attention(attention)); };
    if (architecture.recomputes()) return slots;
    if (architecture.bidirectional()) {
        add(architecture.layers.front().attention);
        return slots;
    }
    for (const Layer& layer : architecture.layers) add(layer.attention);
    if (architecture.indexed())
        for (const Layer& layer : architecture.layers) add(index_attention(layer.attention));
    if (architecture.encoder.empty()) return slots;
    for (const Layer& layer : architecture.layers) {
        add(layer.cross);
        slots.back().kv_layer = -1;
    }
    add(architecture.encoder.front().layers.front().attention);
    return slots;
}

}  // namespace scoria
