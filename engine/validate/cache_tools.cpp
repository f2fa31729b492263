// See cache_tools.h.
#include "cache_tools.h"

#include "step.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

namespace scoria::validate {

uint16_t half_of(double value) {
    const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    const double size = std::min(std::abs(value), 65504.0);
    int exponent = 0;
    std::frexp(size, &exponent);
    exponent = std::max(exponent, -13);  // below 2^-14 halves are subnormal
    // nearbyint rounds to nearest even; 2^(exponent - 11) is the spacing of halves here.
    double steps = std::nearbyint(std::ldexp(size, 11 - exponent));
    if (steps == 2048) {
        steps = 1024;
        ++exponent;
    }
    if (steps < 1024) return uint16_t(sign | uint16_t(steps));
    return uint16_t(sign | (exponent + 14) << 10 | (uint16_t(steps) - 1024));
}

float float_of(uint16_t half) {
    const int exponent = half >> 10 & 31, fraction = half & 1023;
    double size = exponent ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24);
    if (exponent == 31) size = fraction ? NAN : INFINITY;
    return float(half & 0x8000 ? -size : size);
}

uint16_t bfloat_of(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    return uint16_t((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

HostCache::HostCache(KvType type_, uint32_t kv_heads_, uint32_t head_dim_, uint32_t positions,
                     uint32_t sequences, uint64_t seed, uint32_t planes_)
    : type(type_), kv_heads(kv_heads_), head_dim(head_dim_), planes(planes_) {
    const uint32_t owned = sequences * kv_blocks_for(positions);
    blocks = owned + owned / 2 + 1;
    words.assign(size_t(blocks) * block_words(), nan_word());
    free.resize(blocks);
    std::iota(free.begin(), free.end(), 0u);
    const std::vector<float> order = random_floats(blocks, seed);
    std::ranges::sort(free, [&](uint32_t a, uint32_t b) { return order[a] < order[b]; });
}

std::vector<uint32_t> HostCache::own(uint32_t positions) {
    const auto count = std::ptrdiff_t(kv_blocks_for(positions));
    std::vector<uint32_t> table(free.end() - count, free.end());
    free.resize(free.size() - size_t(count));
    return table;
}

HostCache::Field HostCache::field(const std::vector<uint32_t>& table, bool value, uint32_t position,
                                  uint32_t head, uint32_t bits, uint32_t index) const {
    const uint32_t block = table[position / kv_block_tokens % table.size()],
                   token = position % kv_block_tokens;
    const uint32_t numbers = kv_number_words(type, head_dim), word = index * bits / 32;
    value = value && planes == 2;
    const size_t head_first = size_t(block) * block_words() + size_t(value ? kv_heads + head : head) *
                                                                  kv_block_tokens *
                                                                  kv_row_words(type, head_dim);
    const bool transposed = !value || word >= numbers;
    return {head_first + (transposed ? word * kv_block_tokens + token : token * numbers + word),
            index * bits % 32, uint32_t((1ull << bits) - 1)};
}

HostCache::Field HostCache::number(const std::vector<uint32_t>& table, bool value, uint32_t position,
                                   uint32_t column) const {
    return field(table, value, position, column / head_dim, 32 / kv_per_word(type), column % head_dim);
}

HostCache::Field HostCache::scale(const std::vector<uint32_t>& table, bool value, uint32_t position,
                                  uint32_t column) const {
    const uint32_t first = 2 * kv_number_words(type, head_dim);
    return field(table, value, position, column / head_dim, 16, first + column % head_dim / kv_group_dims);
}

double HostCache::step(const std::vector<uint32_t>& table, bool value, uint32_t position,
                       uint32_t column) const {
    return double(float_of(uint16_t(read(scale(table, value, position, column)))));
}

double HostCache::get(const std::vector<uint32_t>& table, bool value, uint32_t position,
                      uint32_t column) const {
    const uint32_t bits = read(number(table, value, position, column));
    switch (type) {
    case KvType::f32:
        return double(std::bit_cast<float>(bits));
    case KvType::f16:
        return double(float_of(uint16_t(bits)));
    case KvType::bf16:
        return double(std::bit_cast<float>(bits << 16));
    case KvType::q8_0:
        return int8_t(bits) * step(table, value, position, column);
    case KvType::q4_0:
        return (int(bits) - 8) * step(table, value, position, column);
    }
    return NAN;
}

void HostCache::set(const std::vector<uint32_t>& table, bool value, uint32_t position,
                    std::span<const float> to) {
    for (uint32_t column = 0; column < to.size(); ++column) {
        const Field where = number(table, value, position, column);
        if (type == KvType::f32) write(where, std::bit_cast<uint32_t>(to[column]));
        if (type == KvType::f16) write(where, half_of(to[column]));
        if (type == KvType::bf16) write(where, bfloat_of(to[column]));
        if (!kv_quantised(type)) continue;
        const uint32_t in_head = column % head_dim, in_group = in_head % kv_group_dims;
        if (in_group == 0) {
            const auto group = to.subspan(column, std::min(kv_group_dims, head_dim - in_head));
            const float furthest =
                *std::ranges::max_element(group, {}, [](float number) { return std::abs(number); });
            write(scale(table, value, position, column),
                  half_of(type == KvType::q8_0 ? std::abs(furthest) / 127 : furthest / -8));
        }
        const double one = step(table, value, position, column);
        const double steps = one == 0 ? 0 : std::nearbyint(double(to[column]) / one);
        write(where, uint32_t(int(type == KvType::q8_0 ? std::clamp(steps, -127.0, 127.0)
                                                       : std::clamp(steps + 8, 0.0, 15.0))));
    }
}

CheckCache::CheckCache(CheckContext& context, const HostCache& host, uint32_t shards, uint32_t ring)
    : device{host.type, host.kv_heads, host.head_dim, {}, ring, host.planes} {
    const uint64_t block_words = host.block_words();
    const uint32_t most =
        kv_blocks_within(context.caps().max_binding, {host.type, host.kv_heads, host.head_dim, host.planes});
    const uint32_t each = std::min(most, (host.blocks + shards - 1) / shards);
    for (uint32_t first = 0; first < host.blocks; first += each) {
        const uint32_t count = std::min(each, host.blocks - first);
        // Blocks of later shards are there too, full of NaN: a kernel that mistakes them for its own shows.
        std::vector<uint32_t> words(size_t(std::min(most, host.blocks - first)) * block_words,
                                    host.nan_word());
        std::copy_n(host.words.begin() + std::ptrdiff_t(size_t(first) * block_words),
                    size_t(count) * block_words, words.begin());
        buffers.push_back(context.buffer_of<uint32_t>(words));
        device.shards.push_back({buffers.back().view(), first, count});
    }
}

void CheckCache::download(CheckContext& context, HostCache& host) const {
    const uint64_t block_words = host.block_words();
    for (size_t i = 0; i < buffers.size(); ++i) {
        const std::vector<std::byte> bytes = context.download(buffers[i].view());
        std::vector<uint32_t> words(bytes.size() / 4);
        std::memcpy(words.data(), bytes.data(), bytes.size());
        const auto own = words.begin() + std::ptrdiff_t(size_t(device.shards[i].blocks) * block_words);
        std::copy(words.begin(), own,
                  host.words.begin() + std::ptrdiff_t(size_t(device.shards[i].first_block) * block_words));
        const auto stray =
            std::find_if(own, words.end(), [&](uint32_t word) { return word != host.nan_word(); });
        if (stray != words.end())
            host.stray = cat("word ", stray - own, " past the blocks of shard ", i, " was overwritten");
    }
}

std::string stray_writes(const HostCache& before, const HostCache& after) {
    if (!after.stray.empty()) return after.stray;
    const uint64_t block_words = before.block_words();
    for (size_t i = 0; i < before.words.size(); ++i) {
        const bool owned = std::ranges::find(before.free, uint32_t(i / block_words)) == before.free.end();
        if (!owned && before.words[i] != after.words[i])
            return cat("word ", i, " of the cache was overwritten");
    }
    return {};
}

std::vector<uint32_t> step_words(std::span<const CheckSequence> sequences) {
    uint32_t tokens = 0;
    for (const CheckSequence& s : sequences) tokens += s.tokens;
    std::vector<uint32_t> words(STEP_TOKENS + tokens * STEP_TOKEN_WORDS);
    words[STEP_TOKEN_COUNT] = tokens;
    uint32_t slot = STEP_TOKENS;
    for (const CheckSequence& s : sequences) {
        for (uint32_t i = 0; i < s.tokens; ++i, slot += STEP_TOKEN_WORDS) {
            words[slot + STEP_TOKEN_POSITION] = s.first + i;
            words[slot + STEP_TOKEN_TABLE] = uint32_t(words.size());
        }
        words.insert(words.end(), s.table.begin(), s.table.end());
    }
    return words;
}

Rope check_rope(RopePairs pairs, uint32_t width, double magnitude) {
    Rope rope{.pairs = pairs,
              .width = width,
              .inverse_frequencies = {},
              .magnitude = magnitude,
              .long_inverse_frequencies = {}};
    for (uint32_t i = 0; i < width / 2; ++i)
        rope.inverse_frequencies.push_back(std::pow(10000.0, -2.0 * i / width));
    return rope;
}

Bounds held_bounds(KvType type, const Bounds& bounds) {
    return type == KvType::f16    ? bounds + bounds_of(1, half_unit_roundoff)
           : type == KvType::bf16 ? bounds + bounds_of(1, bfloat_unit_roundoff)
                                  : bounds;
}

Pieces add_pieces(std::vector<uint32_t>& step, std::span<const std::array<uint32_t, PIECE_WORDS>> pieces) {
    const Pieces where{uint32_t(pieces.size()), uint32_t(step.size())};
    for (const auto& piece : pieces) step.insert(step.end(), piece.begin(), piece.end());
    if (pieces.size() > 1)
        for (uint32_t i = 0; i < pieces.size(); ++i) step.insert(step.end(), pieces[i][PIECE_TOKENS], i);
    return where;
}

}  // namespace scoria::validate
