// Cases of the op benchmark whose ops go by a token's place in its sequence: what is cached, sorted, or goes
// on from token to token.
#include "fail.h"
#include "instruments/op_timer.h"
#include "ops/attention.h"
#include "ops/choose.h"
#include "ops/chunk_attention.h"
#include "ops/compress.h"
#include "ops/rope.h"
#include "recurrence.push.h"

#include <cmath>

namespace scoria {
namespace {

uint64_t half_cache_bytes(const OpSizes& s, uint64_t positions) {  // keys and values, f16
    return positions * s.kv_heads * s.head_dim * 2 * 2;
}
Attention plain_attention(const OpSizes& s) {
    Attention shape;
    shape.heads = s.heads;
    shape.kv_heads = s.kv_heads;
    shape.head_dim = s.head_dim;
    shape.scale = float(1 / std::sqrt(double(s.head_dim)));
    return shape;
}

/// Of Gated DeltaNet, with as many channels as heads of attention have, twice.
Recurrence plain_recurrence(const OpSizes& s) {
    Recurrence shape;
    shape.kind = RecurrenceKind::delta;
    shape.taps = 4;
    shape.heads = 2 * s.heads;
    shape.groups = s.heads;
    shape.key_dim = shape.value_dim = std::min(s.head_dim, 128u);
    shape.width = shape.heads * shape.value_dim;
    return shape;
}

Recurrence plain_wkv(const OpSizes& s) {
    Recurrence shape;
    shape.kind = RecurrenceKind::wkv;
    shape.taps = 2;
    shape.key_dim = shape.value_dim = std::min(s.head_dim, 128u);
    shape.heads = shape.groups = 2 * s.heads;
    shape.width = shape.heads * shape.value_dim;
    shape.by_key = true;
    shape.bound = -0.6f;
    return shape;
}

/// One token and a chunk, each the last of the positions.
void each_batch(OpTimer& t, const auto& time) {
    const OpSizes& s = t.sizes();
    uint32_t outputs = 0;
    Pieces pieces;
    for (const uint32_t tokens : {1u, s.tokens}) {
        const vk::View step = t.step(s.positions - tokens, tokens, outputs, &pieces);
        time(tokens, step, pieces);
    }
}

}  // namespace

void time_rope_cache(OpTimer& t) {
    const OpSizes& s = t.sizes();
    uint32_t outputs = 0;
    const vk::View step = t.step(0, s.tokens, outputs);
    const Matrix qkv = t.matrix(s.tokens, (s.heads + 2 * s.kv_heads) * s.head_dim);
    Rope rope{.width = s.head_dim};
    for (uint32_t i = 0; i < s.head_dim / 2; ++i)
        rope.inverse_frequencies.push_back(std::pow(10000.0, -2.0 * i / s.head_dim));
    const vk::View tables = t.floats(rope_tables(rope, s.positions));
    const DeviceKv& kv = t.cache(s.positions);
    // q is read and written, k and v are read and go to the cache as halves.
    const uint64_t q = uint64_t{s.tokens} * s.heads * s.head_dim;
    t.rate(SimpleOp::rope_cache, sizes_of(qkv), 4 * (floats_of(qkv) + q) + half_cache_bytes(s, s.tokens),
           3 * floats_of(qkv), [&](OpContext& ops, const KernelVariant& variant) {
               record_rope_cache(ops,
                                 {.qkv = qkv,
                                  .heads = s.heads,
                                  .pairs = RopePairs::halves,
                                  .width = rope.width,
                                  .tables = tables,
                                  .step = step,
                                  .kv = &kv},
                                 variant);
           });
}

void time_attention(OpTimer& t) {
    const OpSizes& s = t.sizes();
    const Attention shape = plain_attention(s);
    for (const uint32_t tokens : {1u, s.tokens}) {
        uint32_t outputs = 0;
        const uint32_t first = s.positions - tokens;
        const vk::View step = t.step(first, tokens, outputs);
        const DeviceKv& kv = t.cache(s.positions);
        const Matrix q = t.matrix(tokens, s.heads * s.head_dim), out = t.matrix(tokens, q.cols);
        const AttentionShape sizes{.tokens = tokens,
                                   .heads = s.heads,
                                   .kv_heads = s.kv_heads,
                                   .head_dim = s.head_dim,
                                   .context = s.positions,
                                   .precision = t.precision()};
        const AttentionVariant variant = attention_variants(t.caps(), sizes).front();
        const vk::View partials = t.room(attention_partial_bytes(variant, sizes));
        const uint64_t pairs = uint64_t{tokens} * first + uint64_t{tokens} * (tokens + 1) / 2;
        t.rate("attention", variant.name, cat(tokens, " tokens, ", s.positions, " keys, f16"),
               half_cache_bytes(s, s.positions) + 8 * floats_of(q), 4 * pairs * q.cols, [&](OpContext& ops) {
                   record_attention(ops, {q, out, step, &kv, partials, shape, {}, {}}, variant);
               });
    }
}

void time_compress(OpTimer& t) {
    const OpSizes& s = t.sizes();
    const uint32_t segment = s.positions / 8;
    const CompressedMemory memory{segment, segment, segment / 4, 4};
    const CompressedWindow before = compressed_window(memory, 4), after = compressed_window(memory, 5);
    uint32_t outputs = 0;
    const vk::View step = t.step(s.positions - 1, 1, outputs);
    const uint32_t table = outputs - s.positions / kv_block_tokens;
    const DeviceKv& kv = t.cache(s.positions);
    t.rate(SimpleOp::compress, cat(segment, " positions by ", memory.rate),
           half_cache_bytes(s, after.memory - before.memory) + half_cache_bytes(s, after.memory - after.low),
           uint64_t{segment} * s.kv_heads * s.head_dim * 2,
           [&](OpContext& ops, const KernelVariant& variant) {
               record_compress(ops, {step, table, &kv, before, after, memory.rate}, variant);
           });
}

void time_hash(OpTimer& t) {
    const OpSizes& s = t.sizes();
    const uint32_t rows = 4 * s.tokens;
    Attention shape = plain_attention(s);
    shape.chunks = {.length = 64, .before = 1, .rounds = 4, .buckets = {32}};
    const uint32_t lists = s.heads * shape.chunks.rounds;
    const Matrix x = t.matrix(rows, s.heads * s.head_dim), out = t.matrix(rows, lists);
    const uint32_t rotated = shape.chunks.rotated();
    const vk::View rotations = t.vector(x.cols * shape.chunks.rounds * rotated);
    t.rate(SimpleOp::hash, cat(sizes_of(x), ", ", shape.chunks.rounds, " rounds of 32"),
           4 * (floats_of(x) + floats_of(out)) + rotations.size,
           2 * floats_of(x) * shape.chunks.rounds * rotated,
           [&](OpContext& ops, const KernelVariant& variant) {
               record_hash(ops, {x, out, rotations, shape}, variant);
           });
}

void time_sort(OpTimer& t) {
    const OpSizes& s = t.sizes();
    const uint32_t rows = 16 * s.tokens;
    constexpr uint32_t below = 64;
    std::vector<float> buckets(size_t{rows} * s.heads * 4);
    for (size_t i = 0; i < buckets.size(); ++i) buckets[i] = float((i * 2654435761u >> 8) % below);
    const Matrix x{t.floats(buckets), rows, s.heads * 4, s.heads * 4, 0}, out = t.matrix(rows, 2 * x.cols);
    t.rate(SimpleOp::sort, cat(sizes_of(x), " below ", below), 4 * (floats_of(x) + floats_of(out)),
           floats_of(x), [&](OpContext& ops, const KernelVariant& variant) {
               record_sort(ops, {x, out, below}, variant);
           });
}

/// DeepSeek-V3.2's indexer, of a context of which half is chosen.
void time_choose(OpTimer& t) {
    const OpSizes& s = t.sizes();
    const Indexer indexer{.heads = 64, .head_dim = 128, .top = s.positions / 2};
    const KvRows keys{KvType::f16, 1, indexer.head_dim, 1};
    for (const uint32_t tokens : {1u, s.tokens}) {
        uint32_t outputs = 0;
        const uint32_t first = s.positions - tokens;
        const vk::View step = t.step(first, tokens, outputs);
        const DeviceKv& kv = t.cache(s.positions, keys);
        const Matrix q = t.matrix(tokens, indexer.heads * indexer.head_dim),
                     weights = t.matrix(tokens, indexer.heads),
                     out = t.matrix(tokens, s.positions / chosen_bits);
        const vk::View scratch = t.room(choose_scratch_bytes(tokens, s.positions));
        const uint64_t pairs = uint64_t{tokens} * first + uint64_t{tokens} * (tokens + 1) / 2;
        t.rate(SimpleOp::choose, cat(tokens, " tokens, ", s.positions, " keys, f16"),
               uint64_t{s.positions} * 4 * keys.row_words() + 4 * (floats_of(q) + floats_of(out)) + 8 * pairs,
               2 * pairs * q.cols, [&](OpContext& ops, const KernelVariant& variant) {
                   record_choose(ops, {q, weights, out, step, &kv, scratch, s.positions, indexer}, variant);
               });
    }
}

void time_chunk_attention(OpTimer& t) {
    const OpSizes& s = t.sizes();
    Attention shape = plain_attention(s);
    shape.kv_heads = s.heads;
    shape.chunks = {.length = 64, .before = 1};
    const uint32_t cols = s.heads * s.head_dim;
    const uint32_t rows = 2 * s.tokens;
    const Matrix q = t.matrix(rows, cols), k = t.matrix(rows, cols), v = t.matrix(rows, cols),
                 out = t.matrix(rows, cols);
    // Of its own chunk a query sees half, and the one before.
    t.rate(SimpleOp::chunk_attention, cat(sizes_of(q), ", chunks of 64"), 16 * floats_of(q),
           4 * floats_of(q) * (shape.chunks.length * 3 / 2),
           [&](OpContext& ops, const KernelVariant& variant) {
               record_chunk_attention(ops, {q, k, v, std::nullopt, out, shape}, variant);
           });
}

void time_convolve(OpTimer& t) {
    const Recurrence shape = plain_recurrence(t.sizes());
    each_batch(t, [&](uint32_t tokens, const vk::View& step, const Pieces& pieces) {
        const Matrix x = t.matrix(tokens, shape.channels()), out = t.matrix(tokens, x.cols);
        const ConvolveArgs args{x,
                                out,
                                t.vector(x.cols * shape.taps),
                                {},
                                step,
                                {t.room(STATE_SLOTS * state_bytes(shape))},
                                pieces,
                                Activation::silu,
                                shape};
        t.rate(SimpleOp::convolve, cat(sizes_of(x), ", ", shape.taps, " taps"),
               8 * floats_of(x) + args.taps.size + 8 * shape.convolved_floats(),
               2 * floats_of(x) * shape.taps,
               [&](OpContext& ops, const KernelVariant& variant) { record_convolve(ops, args, variant); });
    });
}

void time_scan(OpTimer& t) {
    const Recurrence shape = plain_recurrence(t.sizes());
    each_batch(t, [&](uint32_t tokens, const vk::View& step, const Pieces& pieces) {
        const Matrix x = t.matrix(tokens, shape.channels()), out = t.matrix(tokens, shape.width),
                     steps = t.matrix(tokens, shape.heads);
        const ScanArgs args{x,
                            x,
                            shape.q_channel(),
                            shape.k_channel(),
                            shape.v_channel(),
                            1,
                            1,
                            steps,
                            steps,
                            out,
                            t.vector(3 * shape.heads),
                            step,
                            {t.room(STATE_SLOTS * state_bytes(shape))},
                            pieces,
                            shape};
        const uint64_t cells = uint64_t{shape.width} * shape.key_dim;
        t.rate(SimpleOp::scan,
               cat(tokens, " tokens, ", shape.heads, " states of ", shape.key_dim, " x ", shape.value_dim),
               8 * cells + 4 * (floats_of(x) + floats_of(out)), 10 * tokens * cells,
               [&](OpContext& ops, const KernelVariant& variant) { record_scan(ops, args, variant); });
    });
}

void time_shift(OpTimer& t) {
    const Recurrence shape = plain_wkv(t.sizes());
    each_batch(t, [&](uint32_t tokens, const vk::View& step, const Pieces& pieces) {
        const Matrix x = t.matrix(tokens, shape.width), out = t.matrix(tokens, 6 * shape.width);
        const ShiftArgs args{x,      out,  t.vector(out.cols),
                             false,  step, {t.room(STATE_SLOTS * state_bytes(shape))},
                             pieces, shape};
        t.rate(SimpleOp::shift, cat(sizes_of(x), " x 6"), 4 * (floats_of(x) + floats_of(out)),
               3 * floats_of(out),
               [&](OpContext& ops, const KernelVariant& variant) { record_shift(ops, args, variant); });
    });
}

void time_wkv(OpTimer& t) {
    const Recurrence shape = plain_wkv(t.sizes());
    each_batch(t, [&](uint32_t tokens, const vk::View& step, const Pieces& pieces) {
        const Matrix rk = t.matrix(tokens, 2 * shape.width), v = t.matrix(tokens, shape.width);
        const ScanArgs args{rk,
                            v,
                            0,
                            shape.width,
                            0,
                            1,
                            1,
                            v,
                            v,
                            t.matrix(tokens, 2 * shape.width),
                            t.vector(3 * shape.width),
                            step,
                            {t.room(STATE_SLOTS * state_bytes(shape))},
                            pieces,
                            shape};
        t.rate(SimpleOp::wkv, cat(tokens, " tokens, ", shape.heads, " states of ", shape.key_dim),
               8 * shape.scanned_floats() + 8 * floats_of(rk), 12 * tokens * shape.scanned_floats(),
               [&](OpContext& ops, const KernelVariant& variant) { record_wkv(ops, args, variant); });
    });
}

}  // namespace scoria
