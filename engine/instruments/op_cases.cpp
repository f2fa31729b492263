// The cases of the op benchmark, one function per op: operands, what they weigh, how to record it.
#include "fail.h"
#include "instruments/op_timer.h"
#include "ops/choose.h"
#include "ops/chunk_attention.h"
#include "ops/compress.h"
#include "ops/elementwise.h"
#include "ops/embed.h"
#include "ops/experts.h"
#include "ops/norm.h"
#include "ops/recurrence.h"
#include "ops/rope.h"
#include "ops/sample.h"
#include "ops/select.h"
#include "recurrence.push.h"
#include "session.h"

#include <cmath>

namespace scoria {
namespace {

uint64_t floats_of(const Matrix& m) { return uint64_t{m.rows} * m.cols; }
std::string sizes_of(const Matrix& m) { return cat(m.rows, " x ", m.cols); }
uint64_t bytes_of_rows(const DeviceWeight& w, uint64_t rows) {
    const TensorTypeInfo& info = tensor_type_info(w.type);
    return rows * w.cols / info.block * info.block_bytes;
}
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

void time_embed(OpTimer& t) {
    const OpSizes& s = t.sizes();
    uint32_t outputs = 0;
    const vk::View step = t.step(0, s.tokens, outputs);
    const DeviceWeight& table = t.weight(TensorType::q4_k, s.vocab, s.hidden);
    const Matrix out = t.matrix(s.tokens, s.hidden);
    const KernelVariant variant = t.variant(SimpleOp::embed);
    t.rate("embed", variant.name, cat("Q4_K ", sizes_of(out)),
           bytes_of_rows(table, s.tokens) + 4 * floats_of(out), floats_of(out), [&](OpContext& ops) {
               record_embed(ops, {table, step, out}, variant);
           });
}

void time_norm(OpTimer& t) {
    const OpSizes& s = t.sizes();
    const Matrix x = t.matrix(s.rows, s.hidden), out = t.matrix(s.rows, s.hidden);
    const vk::View weight = t.vector(s.hidden);
    const KernelVariant variant = t.variant(SimpleOp::norm);
    t.rate("norm", variant.name, sizes_of(x), 8 * floats_of(x), 4 * floats_of(x), [&](OpContext& ops) {
        record_norm(ops, {x, out, NormKind::rms, weight, std::nullopt, 1e-5f, s.hidden}, variant);
    });
}

void time_linear(OpTimer& t) {
    const OpSizes& s = t.sizes();
    const auto one = [&](TensorType type, uint32_t tokens, uint32_t rows) {
        const DeviceWeight& w = t.weight(type, rows, s.hidden);
        const Matrix x = t.matrix(tokens, s.hidden), out = t.matrix(tokens, rows);
        const LinearVariant variant =
            linear_variants(t.caps(), {tokens, rows, s.hidden, type, t.precision()}).front();
        const vk::View scratch = t.room(linear_scratch_bytes(variant, tokens, rows, s.hidden));
        t.rate("linear", variant.name,
               cat(tensor_type_info(type).name, ' ', rows, " x ", s.hidden, ", ", tokens, " tokens"),
               bytes_of_rows(w, rows) + 4 * (floats_of(x) + floats_of(out)), 2 * floats_of(out) * s.hidden,
               [&](OpContext& ops) {
                   record_linear(ops, {.x = x, .out = out, .weight = w, .scratch = scratch}, variant);
               });
    };
    for (const TensorTypeInfo& info : tensor_types()) one(info.type, 1, s.vocab);
    for (const TensorType type : {TensorType::q4_k, TensorType::q8_0, TensorType::bf16})
        one(type, s.tokens, s.feed_forward);
}

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
    const KernelVariant variant = t.variant(SimpleOp::rope_cache);
    // q is read and written, k and v are read and go to the cache as halves.
    const uint64_t q = uint64_t{s.tokens} * s.heads * s.head_dim;
    t.rate("rope_cache", variant.name, sizes_of(qkv),
           4 * (floats_of(qkv) + q) + half_cache_bytes(s, s.tokens), 3 * floats_of(qkv), [&](OpContext& ops) {
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
    const KernelVariant variant = t.variant(SimpleOp::compress);
    t.rate("compress", variant.name, cat(segment, " positions by ", memory.rate),
           half_cache_bytes(s, after.memory - before.memory) + half_cache_bytes(s, after.memory - after.low),
           uint64_t{segment} * s.kv_heads * s.head_dim * 2, [&](OpContext& ops) {
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
    const KernelVariant variant = t.variant(SimpleOp::hash);
    t.rate("hash", variant.name, cat(sizes_of(x), ", ", shape.chunks.rounds, " rounds of 32"),
           4 * (floats_of(x) + floats_of(out)) + rotations.size,
           2 * floats_of(x) * shape.chunks.rounds * rotated, [&](OpContext& ops) {
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
    const KernelVariant variant = t.variant(SimpleOp::sort);
    t.rate("sort", variant.name, cat(sizes_of(x), " below ", below), 4 * (floats_of(x) + floats_of(out)),
           floats_of(x), [&](OpContext& ops) {
               record_sort(ops, {x, out, below}, variant);
           });
}

/// DeepSeek-V3.2's indexer, of a context of which half is chosen.
void time_choose(OpTimer& t) {
    const OpSizes& s = t.sizes();
    const Indexer indexer{.heads = 64, .head_dim = 128, .top = s.positions / 2};
    const KvRows keys{KvType::f16, 1, indexer.head_dim, 1};
    const KernelVariant variant = t.variant(SimpleOp::choose);
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
        t.rate("choose", variant.name, cat(tokens, " tokens, ", s.positions, " keys, f16"),
               uint64_t{s.positions} * 4 * keys.row_words() + 4 * (floats_of(q) + floats_of(out)) + 8 * pairs,
               2 * pairs * q.cols, [&](OpContext& ops) {
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
    const KernelVariant variant = t.variant(SimpleOp::chunk_attention);
    // Of its own chunk a query sees half, and the one before.
    t.rate("chunk_attention", variant.name, cat(sizes_of(q), ", chunks of 64"), 16 * floats_of(q),
           4 * floats_of(q) * (shape.chunks.length * 3 / 2), [&](OpContext& ops) {
               record_chunk_attention(ops, {q, k, v, std::nullopt, out, shape}, variant);
           });
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

void time_convolve(OpTimer& t) {
    const OpSizes& s = t.sizes();
    const Recurrence shape = plain_recurrence(s);
    uint32_t outputs = 0;
    Pieces pieces;
    for (const uint32_t tokens : {1u, s.tokens}) {
        const vk::View step = t.step(s.positions - tokens, tokens, outputs, &pieces);
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
        const KernelVariant variant = t.variant(SimpleOp::convolve);
        t.rate("convolve", variant.name, cat(sizes_of(x), ", ", shape.taps, " taps"),
               8 * floats_of(x) + args.taps.size + 8 * shape.convolved_floats(),
               2 * floats_of(x) * shape.taps, [&](OpContext& ops) { record_convolve(ops, args, variant); });
    }
}

void time_scan(OpTimer& t) {
    const OpSizes& s = t.sizes();
    const Recurrence shape = plain_recurrence(s);
    uint32_t outputs = 0;
    Pieces pieces;
    for (const uint32_t tokens : {1u, s.tokens}) {
        const vk::View step = t.step(s.positions - tokens, tokens, outputs, &pieces);
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
        const KernelVariant variant = t.variant(SimpleOp::scan);
        t.rate("scan", variant.name,
               cat(tokens, " tokens, ", shape.heads, " states of ", shape.key_dim, " x ", shape.value_dim),
               8 * cells + 4 * (floats_of(x) + floats_of(out)), 10 * tokens * cells,
               [&](OpContext& ops) { record_scan(ops, args, variant); });
    }
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

void time_shift(OpTimer& t) {
    const OpSizes& s = t.sizes();
    const Recurrence shape = plain_wkv(s);
    uint32_t outputs = 0;
    Pieces pieces;
    for (const uint32_t tokens : {1u, s.tokens}) {
        const vk::View step = t.step(s.positions - tokens, tokens, outputs, &pieces);
        const Matrix x = t.matrix(tokens, shape.width), out = t.matrix(tokens, 6 * shape.width);
        const ShiftArgs args{x,      out,  t.vector(out.cols),
                             false,  step, {t.room(STATE_SLOTS * state_bytes(shape))},
                             pieces, shape};
        const KernelVariant variant = t.variant(SimpleOp::shift);
        t.rate("shift", variant.name, cat(sizes_of(x), " x 6"), 4 * (floats_of(x) + floats_of(out)),
               3 * floats_of(out), [&](OpContext& ops) { record_shift(ops, args, variant); });
    }
}

void time_wkv(OpTimer& t) {
    const OpSizes& s = t.sizes();
    const Recurrence shape = plain_wkv(s);
    uint32_t outputs = 0;
    Pieces pieces;
    for (const uint32_t tokens : {1u, s.tokens}) {
        const vk::View step = t.step(s.positions - tokens, tokens, outputs, &pieces);
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
        const KernelVariant variant = t.variant(SimpleOp::wkv);
        t.rate("wkv", variant.name, cat(tokens, " tokens, ", shape.heads, " states of ", shape.key_dim),
               8 * shape.scanned_floats() + 8 * floats_of(rk), 12 * tokens * shape.scanned_floats(),
               [&](OpContext& ops) { record_wkv(ops, args, variant); });
    }
}

/// Ops of two matrices and of one. `flops`: of an element.
template <class Call>
void time_elements(OpTimer& t, SimpleOp op, uint64_t flops, bool binary, const Call& call) {
    const OpSizes& s = t.sizes();
    const Matrix a = t.matrix(s.rows, s.hidden), b = binary ? t.matrix(s.rows, s.hidden) : a,
                 out = t.matrix(s.rows, s.hidden);
    const KernelVariant variant = t.variant(op);
    t.rate(op_name(op), variant.name, sizes_of(a), 4 * floats_of(a) * (binary ? 3 : 2), flops * floats_of(a),
           [&](OpContext& ops) { call(ops, a, b, out, variant); });
}

void time_glu(OpTimer& t) {
    time_elements(t, SimpleOp::glu, 4, true, [](auto& ops, auto& a, auto& b, auto& out, auto& variant) {
        record_glu(ops, {a, b, out}, variant);
    });
}
void time_add(OpTimer& t) {
    time_elements(t, SimpleOp::add, 2, true, [](auto& ops, auto& a, auto& b, auto& out, auto& variant) {
        record_add(ops, {a, b, out}, variant);
    });
}
void time_map(OpTimer& t) {
    time_elements(t, SimpleOp::map, 4, false, [](auto& ops, auto& a, auto&, auto& out, auto& variant) {
        record_map(ops, {a, out, MapKind::activate, 0, 0, Activation::silu}, variant);
    });
}
void time_gate(OpTimer& t) {
    const Matrix gate = t.matrix(t.sizes().rows, 1);
    time_elements(t, SimpleOp::gate, 1, false, [&](auto& ops, auto& a, auto&, auto& out, auto& variant) {
        record_gate(ops, {a, gate, out}, variant);
    });
}
void time_pack(OpTimer& t) {  // half of each head from either side
    const OpSizes& s = t.sizes();
    const uint32_t half = s.head_dim / 2, heads = s.hidden / s.head_dim;
    time_elements(t, SimpleOp::pack, 0, false, [&](auto& ops, auto& a, auto&, auto& out, auto& variant) {
        record_pack(ops, {a, a, out, heads, {0, half}, {half, half}}, variant);
    });
}

void time_mix(OpTimer& t) {  // four streams, each of all four
    const uint32_t rows = t.sizes().rows, width = t.sizes().hidden, count = 4;
    const Matrix x = t.matrix(rows, count * width), out = t.matrix(rows, count * width),
                 factors = t.matrix(rows, count * count);
    const KernelVariant variant = t.variant(SimpleOp::mix);
    t.rate("mix", variant.name, sizes_of(x), 4 * (floats_of(x) + floats_of(factors) + floats_of(out)),
           2 * count * floats_of(x), [&](OpContext& ops) {
               record_mix(ops, {x, x, out, factors, width, 0, 1, 0}, variant);
           });
}

constexpr uint32_t bench_experts = 16, bench_used = 2;

vk::View bench_routes(OpTimer& t, uint32_t tokens) {
    std::vector<float> routes;
    for (uint32_t i = 0; i < tokens; ++i) {
        for (uint32_t k = 0; k < bench_used; ++k) routes.push_back(float((i * 5 + k * 3) % bench_experts));
        for (uint32_t k = 0; k < bench_used; ++k) routes.push_back(0.5f);
    }
    return t.floats(routes);
}

void time_route(OpTimer& t) {
    const OpSizes& s = t.sizes();
    const Routing routing{.experts = 128, .used = 8};
    const KernelVariant variant = t.variant(SimpleOp::route);
    for (const uint32_t tokens : {1u, s.rows}) {
        const Matrix scores = t.matrix(tokens, routing.experts), out = t.matrix(tokens, 2 * routing.used);
        t.rate("route", variant.name, cat(sizes_of(scores), ", 8 used"),
               4 * (floats_of(scores) + floats_of(out)), 3 * floats_of(scores), [&](OpContext& ops) {
                   record_route(ops, {scores, out, routing, std::nullopt, std::nullopt}, variant);
               });
    }
}

void time_expert_linear(OpTimer& t) {
    const OpSizes& s = t.sizes();
    const uint32_t rows = s.feed_forward / 2;
    for (const uint32_t tokens : {1u, s.tokens}) {
        const ExpertShape shape{.tokens = tokens,
                                .experts = bench_experts,
                                .used = bench_used,
                                .rows = rows,
                                .cols = s.hidden,
                                .type = TensorType::q4_k,
                                .precision = t.precision()};
        const DeviceWeight& w = t.weight(shape.type, bench_experts * rows, s.hidden);
        const Matrix x = t.matrix(tokens, s.hidden), out = t.matrix(tokens, bench_used * rows),
                     routes{bench_routes(t, tokens), tokens, 2 * bench_used, 2 * bench_used, 0};
        const LinearVariant variant = expert_linear_variants(t.caps(), shape).front();
        const uint64_t read = std::min(tokens * bench_used, bench_experts);
        const vk::View room = t.room(expert_scratch_bytes(variant, shape));
        t.rate("expert_linear", variant.name,
               cat("Q4_K ", rows, " x ", s.hidden, ", ", bench_used, " of ", bench_experts, " experts, ",
                   tokens, " tokens"),
               bytes_of_rows(w, read * rows) + 4 * (floats_of(x) + floats_of(out)),
               2 * floats_of(out) * s.hidden, [&](OpContext& ops) {
                   record_expert_linear(ops,
                                        {x, routes, out, w, std::nullopt, bench_experts, bench_used, false,
                                         Activation::silu, room},
                                        variant);
               });
    }
}

void time_head_linear(OpTimer& t) {
    const OpSizes& s = t.sizes();
    const uint32_t rows = 4 * s.head_dim;  // the rank of latent attention, of one token
    const DeviceWeight& w = t.weight(TensorType::bf16, s.heads * rows, s.head_dim);
    const Matrix x = t.matrix(1, s.heads * s.head_dim), out = t.matrix(1, s.heads * rows);
    const LinearVariant variant = expert_linear_variants(t.caps(), {1, s.heads, s.heads, rows, s.head_dim,
                                                                    TensorType::bf16, true, true})
                                      .front();
    t.rate("head_linear", variant.name, cat("BF16 ", s.heads, " heads of ", rows, " x ", s.head_dim),
           bytes_of_rows(w, w.rows) + 4 * (floats_of(x) + floats_of(out)), 2 * floats_of(out) * s.head_dim,
           [&](OpContext& ops) {
               record_expert_linear(ops, {x, {}, out, w, std::nullopt, s.heads, s.heads}, variant);
           });
}

void time_expert_sum(OpTimer& t) {
    const OpSizes& s = t.sizes();
    const Matrix x = t.matrix(s.rows, bench_used * s.hidden), out = t.matrix(s.rows, s.hidden),
                 routes{bench_routes(t, s.rows), s.rows, 2 * bench_used, 2 * bench_used, 0};
    const KernelVariant variant = t.variant(SimpleOp::expert_sum);
    t.rate("expert_sum", variant.name, sizes_of(x), 4 * (floats_of(x) + floats_of(out) + floats_of(routes)),
           2 * floats_of(x), [&](OpContext& ops) {
               record_expert_sum(ops, {x, routes, out, bench_used}, variant);
           });
}

void time_select(OpTimer& t) {
    const OpSizes& s = t.sizes();
    uint32_t outputs = 0;
    const vk::View step = t.step(0, s.rows, outputs);
    const Matrix x = t.matrix(s.rows, s.hidden), out = t.matrix(s.rows, s.hidden);
    const KernelVariant variant = t.variant(SimpleOp::select);
    t.rate("select", variant.name, sizes_of(x), 8 * floats_of(x), 0, [&](OpContext& ops) {
        record_select(ops, {x, out, step, outputs}, variant);
    });
}

void time_sample(OpTimer& t) {
    const OpSizes& s = t.sizes();
    constexpr uint32_t slots = 2;
    SamplingOptions sampled;
    sampled.temperature = 0.7f;
    for (const SamplingOptions& options : {SamplingOptions{}, sampled}) {
        const bool greedy = options.temperature == 0;
        uint32_t outputs = 0;
        const vk::View step = t.step(0, 1, outputs);
        std::vector<uint32_t> state = sampler_state(options, {}, s.vocab);
        state.resize(sampler_words(s.vocab));
        const vk::View sampler = t.words(state), scratch = t.room(sample_scratch_bytes(s.vocab)),
                       results = t.room(8 * slots);
        const Matrix logits = t.matrix(1, s.vocab);
        const KernelVariant variant = t.variant(SimpleOp::sample);
        t.rate(
            "sample", variant.name, cat(greedy ? "greedy" : "top-k 40, top-p, min-p", ", ", s.vocab),
            4 * floats_of(logits), floats_of(logits), [&](OpContext& ops) {
                record_sample(ops, {logits, sampler, scratch, step, results, slots, 0, 0, greedy}, variant);
            });
    }
}

}  // namespace

std::span<const OpCase> op_cases() {
    static constexpr OpCase table[] = {
        {"embed", time_embed},
        {"norm", time_norm},
        {"linear", time_linear},
        {"rope_cache", time_rope_cache},
        {"attention", time_attention},
        {"compress", time_compress},
        {"hash", time_hash},
        {"sort", time_sort},
        {"chunk_attention", time_chunk_attention},
        {"choose", time_choose},
        {"convolve", time_convolve},
        {"shift", time_shift},
        {"scan", time_scan},
        {"wkv", time_wkv},
        {"glu", time_glu},
        {"add", time_add},
        {"gate", time_gate},
        {"map", time_map},
        {"pack", time_pack},
        {"mix", time_mix},
        {"route", time_route},
        {"expert_linear", time_expert_linear},
        {"head_linear", time_head_linear},
        {"expert_sum", time_expert_sum},
        {"select", time_select},
        {"sample", time_sample},
    };
    return table;
}

}  // namespace scoria
