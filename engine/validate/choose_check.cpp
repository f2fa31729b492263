// Cases of choose. Numbers are few and small, so that sums are exact in any order and many scores equal.
#include "cache_tools.h"
#include "check_tools.h"
#include "checks.h"
#include "fail.h"
#include "ops/choose.h"
#include "reference/choose.h"

#include <limits>

namespace scoria::validate {
namespace {

struct Case {
    uint32_t tokens, first;  // of the first sequence; sequence i is i * 7 positions further
    uint32_t heads, head_dim, top;
    KvType type;
    uint32_t sequences = 1, shards = 1, step = 8;  // numbers are in steps of 1 / step
    bool broken = false;                           // a weight is no number
};
constexpr Case cases[] = {
    {1, 0, 1, 4, 1, KvType::f32},
    {1, 299, 9, 16, 37, KvType::f16},
    {70, 31, 3, 12, 8, KvType::f32, 1, 2},
    {2, 90, 8, 16, 64, KvType::f16, 3, 2},
    {20, 0, 4, 7, 40, KvType::f32},             // all keys
    {40, 20, 4, 64, 33, KvType::bf16},          // all, then not
    {5, 200, 2, 16, 31, KvType::f16, 1, 1, 1},  // mostly equal
    {5, 200, 17, 32, 100, KvType::f32, 1, 1, 64},
    {3, 150, 6, 128, 60, KvType::f16},
    {3, 100, 4, 16, 20, KvType::f32, 1, 1, 8, true},
};

/// Of -1, .. 1.
std::vector<float> in_steps(size_t count, uint64_t seed, uint32_t step) {
    std::vector<float> numbers = random_floats(count, seed, 0.5f);
    for (float& number : numbers)
        number = std::clamp(std::round(number * float(step)) / float(step), -1.0f, 1.0f);
    return numbers;
}

void run_case(CheckContext& context, const Case& c) {
    const Indexer indexer{.heads = c.heads, .head_dim = c.head_dim, .top = c.top};
    const uint32_t tokens = c.tokens * c.sequences, q_cols = c.heads * c.head_dim,
                   positions = kv_blocks_for(c.first + c.tokens + 7 * c.sequences) * kv_block_tokens,
                   cols = positions / chosen_bits;
    const std::vector<float> q = in_steps(size_t(tokens) * q_cols, context.seed, c.step);
    std::vector<float> weights = in_steps(size_t(tokens) * c.heads, context.seed + 1, c.step);
    if (c.broken) weights[c.heads] = std::numeric_limits<float>::quiet_NaN();  // of the second token
    HostCache host(c.type, 1, c.head_dim, positions, c.sequences, context.seed, 1);
    std::vector<CheckSequence> sequences;
    std::vector<double> expected(size_t(tokens) * cols);
    for (uint32_t s = 0; s < c.sequences; ++s) {
        const uint32_t end = c.first + c.tokens + 7 * s;
        sequences.push_back({c.first + 7 * s, c.tokens, host.own(positions)});
        const std::vector<float> keys = in_steps(size_t(end) * c.head_dim, context.seed + 2 + s, c.step);
        for (uint32_t p = 0; p < end; ++p)
            host.set(sequences[s].table, false, p,
                     std::span(keys).subspan(size_t(p) * c.head_dim, c.head_dim));
        const auto part = [&](auto& values, size_t width) {
            return std::span(values).subspan(s * c.tokens * width, c.tokens * width);
        };
        const std::vector<double> q_part = doubles(part(q, q_cols)), w_part = doubles(part(weights, c.heads));
        reference::choose(indexer, q_part, w_part, doubles(keys), sequences[s].first, part(expected, cols));
    }
    const CheckCache cache(context, host, c.shards);
    const vk::Buffer step = context.buffer_of<uint32_t>(step_words(sequences)),
                     q_buffer = context.buffer_of<float>(q),
                     weights_buffer = context.buffer_of<float>(weights),
                     scratch(context.device, choose_scratch_bytes(tokens, positions), vk::MemoryUse::device);
    run_variants(context, "choose",
                 cat("tokens ", c.tokens, " at ", c.first, " heads ", c.heads, " dim ", c.head_dim, " top ",
                     c.top, " ", kv_type_names[size_t(c.type)], " sequences ", c.sequences, " shards ",
                     c.shards, " steps of 1/", c.step, c.broken ? " broken" : ""),
                 proven_variants(context.caps(), choose_variants), expected, cols, {0, 0, 0},
                 [&](OpContext& ops, const Matrix& out, const KernelVariant& variant) {
                     const auto rows = [&](uint32_t from, uint32_t count) {
                         record_choose(
                             ops,
                             {.q = Matrix{q_buffer.view(), tokens, q_cols, q_cols, 0}.row_range(from, count),
                              .weights = Matrix{weights_buffer.view(), tokens, c.heads, c.heads, 0}.row_range(
                                  from, count),
                              .out = out.row_range(from, count),
                              .step = step.view(),
                              .kv = &cache.device,
                              .scratch = scratch.view(),
                              .positions = positions,
                              .indexer = indexer,
                              .first_token = from},
                             variant);
                     };
                     const uint32_t cut = tokens / 3;  // as the engine cuts what takes too long
                     if (cut != 0) rows(0, cut);
                     rows(cut, tokens - cut);
                 });
}

}  // namespace

void check_choose(CheckContext& context) {
    for (const Case& c : cases) run_case(context, c);
}

}  // namespace scoria::validate
