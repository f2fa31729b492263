// Cases of hash, sort and chunk_attention.
#include "check_tools.h"
#include "checks.h"
#include "fail.h"
#include "ops/chunk_attention.h"
#include "reference/chunk_attention.h"

namespace scoria::validate {
namespace {

Attention attention_of(uint32_t heads, uint32_t head_dim, const Chunks& chunks, bool causal = true) {
    Attention attention;
    attention.heads = attention.kv_heads = heads;
    attention.head_dim = head_dim;
    attention.scale = float(1 / std::sqrt(double(head_dim)));
    attention.mask = causal ? Mask::causal : Mask::bidirectional;
    attention.chunks = chunks;
    return attention;
}

struct HashCase {
    uint32_t tokens, heads, head_dim, rounds;
    std::vector<uint32_t> buckets;
};
/// A function, since a library has no static initialisers.
std::vector<HashCase> hash_cases() {
    return {{7, 4, 16, 2, {8}}, {70, 1, 12, 1, {2}}, {33, 3, 64, 3, {6, 4}}, {5, 2, 5, 2, {2, 4, 6, 8}}};
}

void check_hash(CheckContext& context, const HashCase& c) {
    const Attention shape = attention_of(c.heads, c.head_dim, {.rounds = c.rounds, .buckets = c.buckets});
    const uint32_t cols = c.heads * c.head_dim, lists = c.heads * c.rounds;
    std::vector<float> x = random_floats(size_t(c.tokens) * cols, context.seed),
                       rotations =
                           random_floats(size_t(cols) * c.rounds * shape.chunks.rotated(), context.seed + 1);
    // In sixteenths: sums are exact, so the largest is the same in any order of adding; some are equal.
    for (std::vector<float>* values : {&x, &rotations})
        for (float& value : *values) value = std::round(16 * value) / 16;
    std::vector<double> expected(size_t(c.tokens) * lists);
    reference::hash(doubles(x), doubles(rotations), shape, expected);
    const vk::Buffer x_buffer = context.buffer_of<float>(x),
                     rotations_buffer = context.buffer_of<float>(rotations);
    run_variants(context, "hash",
                 cat("tokens ", c.tokens, " heads ", c.heads, " dim ", c.head_dim, " rounds ", c.rounds,
                     " buckets ", shape.chunks.bucket_count()),
                 hash_variants(context.caps()), expected, lists, {0, 0, 0},
                 [&](OpContext& ops, const Matrix& out, const KernelVariant& variant) {
                     record_hash(
                         ops,
                         {{x_buffer.view(), c.tokens, cols, cols, 0}, out, rotations_buffer.view(), shape},
                         variant);
                 });
}

struct SortCase {
    uint32_t rows, cols, below;
};
constexpr SortCase sort_cases[] = {{1, 3, 8}, {7, 2, 2}, {129, 3, 8}, {300, 5, 17}, {1000, 2, 70000}};

std::vector<float> random_buckets(uint32_t rows, uint32_t cols, uint32_t below, uint64_t seed) {
    std::vector<float> numbers = random_floats(size_t(rows) * cols, seed, 0.3f);
    for (float& number : numbers)
        number = std::clamp(std::floor((number + 0.5f) * float(below)), 0.0f, float(below - 1));
    return numbers;
}

void check_sort(CheckContext& context, const SortCase& c) {
    const std::vector<float> x = random_buckets(c.rows, c.cols, c.below, context.seed);
    std::vector<double> expected(2 * x.size());
    reference::sort(doubles(x), c.cols, expected);
    const vk::Buffer x_buffer = context.buffer_of<float>(x);
    run_variants(context, "sort", cat("rows ", c.rows, " cols ", c.cols, " below ", c.below),
                 sort_variants(context.caps()), expected, 2 * c.cols, {0, 0, 0},
                 [&](OpContext& ops, const Matrix& out, const KernelVariant& variant) {
                     record_sort(ops, {{x_buffer.view(), c.rows, c.cols, c.cols, 0}, out, c.below}, variant);
                 });
}

struct ChunkCase {
    uint32_t tokens, heads, head_dim;
    Chunks chunks;
    bool causal = true;
};
std::vector<ChunkCase> chunk_cases() {
    return {
        {100, 2, 16, {.length = 8, .before = 1, .multiple = 8, .above = 8, .buckets = {}}},
        {100, 2, 16, {.length = 8, .before = 1, .multiple = 8, .above = 8, .rounds = 2, .buckets = {8}}},
        {37,
         3,
         20,
         {.length = 4, .before = 2, .after = 1, .multiple = 12, .above = 4, .rounds = 3, .buckets = {4}},
         false},
        {48, 1, 68, {.length = 12, .after = 2, .multiple = 24, .above = 12, .buckets = {}}, false},
        {7, 2, 16, {.length = 8, .before = 1, .multiple = 8, .above = 8, .rounds = 2, .buckets = {8}}},
        {10,
         2,
         16,
         {.length = 8, .before = 5, .multiple = 8, .above = 8, .buckets = {}}},  // past a whole turn
        {1, 1, 4, {.length = 1, .multiple = 1, .above = 1, .rounds = 1, .buckets = {2}}},
        {130, 1, 130, {.length = 64, .before = 1, .multiple = 64, .above = 64, .rounds = 1, .buckets = {2}}},
    };
}

void check_chunks(CheckContext& context, const ChunkCase& c) {
    const Attention shape = attention_of(c.heads, c.head_dim, c.chunks, c.causal);
    const uint32_t cols = c.heads * c.head_dim, lists = c.heads * c.chunks.rounds;
    const size_t count = size_t(c.tokens) * cols;
    const std::vector<float> q = random_floats(count, context.seed),
                             k = random_floats(count, context.seed + 1),
                             v = random_floats(count, context.seed + 2);
    std::vector<double> sorted(2 * size_t(c.tokens) * lists), expected(count);
    if (lists)
        reference::sort(doubles(random_buckets(c.tokens, lists, c.chunks.bucket_count(), context.seed + 3)),
                        lists, sorted);
    reference::chunk_attention(shape, doubles(q), doubles(k), doubles(v), sorted, expected);
    const std::vector<float> sorted_floats(sorted.begin(), sorted.end());
    const vk::Buffer q_buffer = context.buffer_of<float>(q), k_buffer = context.buffer_of<float>(k),
                     v_buffer = context.buffer_of<float>(v),
                     sorted_buffer = context.buffer_of<float>(lists ? sorted_floats : q);
    const auto matrix = [&](const vk::Buffer& buffer, uint32_t width) {
        return Matrix{buffer.view(), c.tokens, width, width, 0};
    };
    // As attention's own check: a score's error is absolute under exp and grows with it.
    const double seen = double(chunk_ring(c.chunks, c.tokens).seen());
    const double units = 64 * (4 + std::sqrt(double(c.head_dim)) + std::sqrt(seen));
    run_variants(context, "chunk_attention",
                 cat("tokens ", c.tokens, " heads ", c.heads, " dim ", c.head_dim, " chunks of ",
                     c.chunks.length, " -", c.chunks.before, " +", c.chunks.after, " rounds ",
                     c.chunks.rounds, c.causal ? "" : " both ways"),
                 chunk_attention_variants(context.caps()), expected, cols, bounds_of(units),
                 [&](OpContext& ops, const Matrix& out, const KernelVariant& variant) {
                     record_chunk_attention(
                         ops,
                         {matrix(q_buffer, cols), matrix(k_buffer, cols), matrix(v_buffer, cols),
                          lists ? std::optional(matrix(sorted_buffer, 2 * lists)) : std::nullopt, out, shape},
                         variant);
                 });
}

}  // namespace

void check_chunk_attention(CheckContext& context) {
    for (const HashCase& c : hash_cases()) check_hash(context, c);
    for (const SortCase& c : sort_cases) check_sort(context, c);
    for (const ChunkCase& c : chunk_cases()) check_chunks(context, c);
}

}  // namespace scoria::validate
