// The cases of the op benchmark, one function per op: operands, what they weigh, how to record it.
#include "fail.h"
#include "instruments/op_timer.h"
#include "ops/elementwise.h"
#include "ops/embed.h"
#include "ops/experts.h"
#include "ops/norm.h"
#include "ops/sample.h"
#include "ops/select.h"

namespace scoria {
namespace {

uint64_t bytes_of_rows(const DeviceWeight& w, uint64_t rows) {
    const TensorTypeInfo& info = tensor_type_info(w.type);
    return rows * w.cols / info.block * info.block_bytes;
}

void time_embed(OpTimer& t) {
    const OpSizes& s = t.sizes();
    uint32_t outputs = 0;
    const vk::View step = t.step(0, s.tokens, outputs);
    const DeviceWeight& table = t.weight(TensorType::q4_k, s.vocab, s.hidden);
    const Matrix out = t.matrix(s.tokens, s.hidden);
    t.rate(SimpleOp::embed, cat("Q4_K ", sizes_of(out)), bytes_of_rows(table, s.tokens) + 4 * floats_of(out),
           floats_of(out), [&](OpContext& ops, const KernelVariant& variant) {
               record_embed(ops, {table, step, out}, variant);
           });
}

void time_norm(OpTimer& t) {
    const OpSizes& s = t.sizes();
    const Matrix x = t.matrix(s.rows, s.hidden), out = t.matrix(s.rows, s.hidden);
    const vk::View weight = t.vector(s.hidden);
    t.rate(SimpleOp::norm, sizes_of(x), 8 * floats_of(x), 4 * floats_of(x),
           [&](OpContext& ops, const KernelVariant& variant) {
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

/// Ops of two matrices and of one. `flops`: of an element.
template <class Call>
void time_elements(OpTimer& t, SimpleOp op, uint64_t flops, bool binary, const Call& call) {
    const OpSizes& s = t.sizes();
    const Matrix a = t.matrix(s.rows, s.hidden), b = binary ? t.matrix(s.rows, s.hidden) : a,
                 out = t.matrix(s.rows, s.hidden);
    t.rate(op, sizes_of(a), 4 * floats_of(a) * (binary ? 3 : 2), flops * floats_of(a),
           [&](OpContext& ops, const KernelVariant& variant) { call(ops, a, b, out, variant); });
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
    t.rate(SimpleOp::mix, sizes_of(x), 4 * (floats_of(x) + floats_of(factors) + floats_of(out)),
           2 * count * floats_of(x), [&](OpContext& ops, const KernelVariant& variant) {
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
    for (const uint32_t tokens : {1u, s.rows}) {
        const Matrix scores = t.matrix(tokens, routing.experts), out = t.matrix(tokens, 2 * routing.used);
        t.rate(SimpleOp::route, cat(sizes_of(scores), ", 8 used"), 4 * (floats_of(scores) + floats_of(out)),
               3 * floats_of(scores), [&](OpContext& ops, const KernelVariant& variant) {
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
    t.rate(SimpleOp::expert_sum, sizes_of(x), 4 * (floats_of(x) + floats_of(out) + floats_of(routes)),
           2 * floats_of(x), [&](OpContext& ops, const KernelVariant& variant) {
               record_expert_sum(ops, {x, routes, out, bench_used}, variant);
           });
}

void time_select(OpTimer& t) {
    const OpSizes& s = t.sizes();
    uint32_t outputs = 0;
    const vk::View step = t.step(0, s.rows, outputs);
    const Matrix x = t.matrix(s.rows, s.hidden), out = t.matrix(s.rows, s.hidden);
    t.rate(SimpleOp::select, sizes_of(x), 8 * floats_of(x), 0,
           [&](OpContext& ops, const KernelVariant& variant) {
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
        t.rate(
            SimpleOp::sample, cat(greedy ? "greedy" : "top-k 40, top-p, min-p", ", ", s.vocab),
            4 * floats_of(logits), floats_of(logits), [&](OpContext& ops, const KernelVariant& variant) {
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
