// A paged cache for checks: made on the host from the layout's description (ops/kv_layout.h) and not with the
// kernels' code, blocks in shuffled order, blocks that nobody owns full of NaN.
#pragma once

#include "check_tools.h"
#include "ops/kv_layout.h"
#include "ops/recurrence.h"
#include "recurrence.push.h"

namespace scoria::validate {

/// float -> half, to nearest even, clamped to +-65504; and back.
uint16_t half_of(double value);
float float_of(uint16_t half);
/// float -> bfloat16, to nearest even. Not for NaN.
uint16_t bfloat_of(float value);

/// One sequence's keys or values are [positions, kv_heads * head_dim].
struct HostCache {
    KvType type;
    uint32_t kv_heads, head_dim, planes, blocks;  // planes 1: values are the keys
    std::vector<uint32_t> words;                  // all blocks, one after the other
    std::vector<uint32_t> free;                   // block ids not owned yet, shuffled
    std::string stray;                            // what a download found overwritten outside of the blocks
    /// No number in any format; the scale of quantised rows, which makes NaN of all of theirs.
    uint32_t nan_word() const {
        return type == KvType::f32 || type == KvType::bf16 ? 0x7FC07FC1u : 0x7E007E01u;
    }

    /// Owns enough blocks for `positions` of each of `sequences`, and half as many nobody owns.
    HostCache(KvType type, uint32_t kv_heads, uint32_t head_dim, uint32_t positions, uint32_t sequences,
              uint64_t seed, uint32_t planes = 2);
    uint64_t block_words() const { return KvRows{type, kv_heads, head_dim, planes}.block_words(); }
    /// Block table of a new sequence of `positions`; further ones wrap.
    std::vector<uint32_t> own(uint32_t positions);
    double get(const std::vector<uint32_t>& table, bool value, uint32_t position, uint32_t column) const;
    /// Stores [kv_heads * head_dim] numbers, rounded as the format wants.
    void set(const std::vector<uint32_t>& table, bool value, uint32_t position, std::span<const float> to);
    /// Quantised ones: between neighbouring numbers; its sign is the stored one.
    double step(const std::vector<uint32_t>& table, bool value, uint32_t position, uint32_t column) const;

  private:
    /// `bits` bits of the row of a head, the `index`-th such; bits divides 32.
    struct Field {
        size_t word;
        uint32_t shift, mask;
    };
    Field field(const std::vector<uint32_t>& table, bool value, uint32_t position, uint32_t head,
                uint32_t bits, uint32_t index) const;
    Field number(const std::vector<uint32_t>& table, bool value, uint32_t position, uint32_t column) const;
    Field scale(const std::vector<uint32_t>& table, bool value, uint32_t position, uint32_t column) const;
    uint32_t read(const Field& f) const { return words[f.word] >> f.shift & f.mask; }
    void write(const Field& f, uint32_t bits) {
        words[f.word] = (words[f.word] & ~(f.mask << f.shift)) | (bits & f.mask) << f.shift;
    }
};

/// The cache on the device in `shards` buffers, or as many as its bindings need.
struct CheckCache {
    std::vector<vk::Buffer> buffers;
    DeviceKv device;
    CheckCache(CheckContext& context, const HostCache& host, uint32_t shards, uint32_t ring = UINT32_MAX);
    void download(CheckContext& context, HostCache& host) const;
};

/// Says which word of a block that no sequence owns was overwritten, if one was.
std::string stray_writes(const HostCache& before, const HostCache& after);

/// A rope of base 10000.
Rope check_rope(RopePairs pairs, uint32_t width, double magnitude);
/// Of keys that a cache without scales holds, computed to `bounds`.
Bounds held_bounds(KvType type, const Bounds& bounds);

/// Tokens of one sequence in a batch.
struct CheckSequence {
    uint32_t first, tokens;  // positions first .. first + tokens - 1
    std::vector<uint32_t> table;
};
/// The step buffer (shaders/step.h) of a batch of sequences.
std::vector<uint32_t> step_words(std::span<const CheckSequence> sequences);
/// Adds what recurrences want to know of each piece (recurrence.push.h).
Pieces add_pieces(std::vector<uint32_t>& step, std::span<const std::array<uint32_t, PIECE_WORDS>> pieces);

}  // namespace scoria::validate
