// Cases of rope_cache: rotated q, and the cache's blocks afterwards.
#include "cache_tools.h"
#include "checks.h"
#include "fail.h"
#include "ops/rope.h"
#include "reference/norm.h"
#include "reference/rope.h"

#include <algorithm>
#include <bit>

namespace scoria::validate {
namespace {

struct Case {
    uint32_t tokens, first;
    uint32_t heads, kv_heads, head_dim, width;
    RopePairs pairs;
    KvType type;
    enum Norm { none, before, after } norm = none;
    uint32_t shards = 1, extra = 0;  // extra: columns of a row that are not q | k | v
    uint32_t ring = UINT32_MAX;      // blocks after which positions wrap
    uint32_t planes = 2;             // 1: there is no v
    bool grows = false;              // queries do
    bool small = false;              // values, so that scales of groups of them are subnormal halves

    uint32_t held() const {
        return uint32_t(std::min<uint64_t>(first + tokens, uint64_t{ring} * kv_block_tokens));
    }
};
constexpr RopePairs halves = RopePairs::halves, interleaved = RopePairs::interleaved;
constexpr KvType f32 = KvType::f32, f16 = KvType::f16, bf16 = KvType::bf16, q8_0 = KvType::q8_0,
                 q4_0 = KvType::q4_0;
constexpr Case cases[] = {
    {1, 0, 1, 1, 4, 4, halves, f32},
    {1, 5, 9, 3, 64, 64, interleaved, f16},
    {3, 255, 9, 3, 64, 64, halves, f32},
    {40, 250, 4, 2, 16, 16, interleaved, f32, Case::none, 3},
    {33, 31, 4, 2, 12, 10, halves, f16, Case::none, 1, 7},
    {7, 3, 4, 1, 20, 6, interleaved, f16},
    {5, 1000, 3, 1, 128, 128, halves, f16, Case::before},
    {2, 60, 4, 2, 16, 8, interleaved, f32, Case::before, 2},
    {2, 32766, 2, 1, 16, 16, halves, f32},
    {1, 32767, 2, 1, 32, 16, interleaved, f16},
    {3, 20, 4, 2, 16, 16, halves, f32, Case::after},
    {3, 20, 4, 2, 16, 0, halves, f32},
    {5, 28, 0, 2, 16, 0, halves, f32},
    {33, 31, 4, 2, 7, 4, halves, f32},
    {7, 3, 4, 1, 15, 6, interleaved, f16, Case::before, 2},
    {40, 20, 4, 2, 9, 4, halves, q8_0, Case::none, 2, 7},
    {40, 250, 4, 2, 16, 16, interleaved, bf16, Case::none, 3},
    {3, 255, 9, 3, 64, 64, halves, q8_0},
    {40, 20, 4, 2, 12, 10, halves, q8_0, Case::none, 2, 7},
    {3, 255, 9, 3, 64, 64, interleaved, q4_0},
    {40, 20, 4, 2, 12, 10, interleaved, q4_0, Case::none, 2, 7},
    {5, 1000, 3, 1, 100, 100, interleaved, q4_0, Case::before},
    {5, 30, 9, 1, 80, 16, interleaved, f16, Case::none, 2, 0, UINT32_MAX, 1},
    {5, 30, 9, 1, 80, 16, interleaved, q8_0, Case::none, 2, 3, UINT32_MAX, 1},
    {1, 999, 9, 3, 64, 64, interleaved, f16, Case::none, 1, 0, 3},
    {64, 250, 4, 2, 16, 16, interleaved, f32, Case::none, 2, 0, 2},
    {40, 250, 4, 2, 16, 16, interleaved, bf16, Case::none, 3, 0, 3},
    {40, 90, 4, 2, 12, 10, halves, q8_0, Case::none, 2, 7, 2},
    {40, 90, 4, 2, 12, 10, interleaved, q4_0, Case::none, 2, 7, 2},
    {3, 255, 9, 3, 64, 64, halves, q8_0, Case::none, 1, 0, UINT32_MAX, 2, false, true},
    {3, 255, 9, 3, 64, 64, interleaved, q4_0, Case::none, 1, 0, UINT32_MAX, 2, false, true},
    {40, 250, 4, 2, 16, 12, interleaved, f16, Case::none, 2, 0, UINT32_MAX, 2, true},
    {5, 106, 9, 1, 80, 16, halves, q8_0, Case::before, 1, 0, UINT32_MAX, 2, true},
    {3, 106, 4, 2, 16, 16, halves, f32, Case::after, 1, 0, UINT32_MAX, 2, true},
};

std::string shape_of(const Case& c) {
    return cat("tokens ", c.tokens, " at ", c.first, " heads ", c.heads, "/", c.kv_heads, " dim ", c.head_dim,
               " width ", c.width, c.pairs == halves ? " halves" : " interleaved", " ",
               kv_type_names[size_t(c.type)],
               c.norm == Case::before ? " normed"
               : c.norm               ? " normed after"
                                      : "",
               " shards ", c.shards, c.ring == UINT32_MAX ? "" : cat(" ring ", c.ring),
               c.planes == 1 ? " latent" : "", c.grows ? " growing" : "", c.small ? " small" : "");
}

Rope rope_of(const Case& c) {
    Rope rope = check_rope(c.pairs, c.width, 1.25);
    if (c.grows) rope.query_growth = 0.1, rope.growth_length = 36, rope.growth_offset = 3;
    return rope;
}

/// Steps up and down from 0 that a quantised type has.
std::pair<double, double> levels(KvType type) {
    return type == q8_0 ? std::pair{127.0, 127.0} : std::pair{7.0, 8.0};
}

struct Inputs {
    std::vector<float> qkv, q_norm, k_norm;
    std::vector<double> q, k, v;  // expected
};

Inputs inputs_of(const Case& c, uint64_t seed, float epsilon) {
    const uint32_t q_cols = c.heads * c.head_dim, kv_cols = c.kv_heads * c.head_dim,
                   stride = q_cols + c.planes * kv_cols + c.extra;
    Inputs in{random_floats(size_t(c.tokens) * stride, seed),
              random_floats(c.head_dim, seed + 1),
              random_floats(c.head_dim, seed + 2),
              {},
              {},
              {}};
    // Values beyond the largest half are clamped, small ones are subnormal halves or round to zero.
    for (size_t i = 0; i < in.qkv.size(); ++i) {
        if (i % stride < q_cols + kv_cols || i % stride >= q_cols + c.planes * kv_cols) continue;
        constexpr float scales[] = {1, 1, 1e6f, 1e-6f, 1, -1e9f, 1e-12f};
        in.qkv[i] *= c.small ? 1e-4f : scales[i % 7];
    }
    for (uint32_t t = 0; t < c.tokens; ++t) {
        const auto row = in.qkv.begin() + std::ptrdiff_t(size_t(t) * stride);
        in.q.insert(in.q.end(), row, row + q_cols);
        in.k.insert(in.k.end(), row + q_cols, row + q_cols + kv_cols);
        in.v.insert(in.v.end(), row + q_cols + kv_cols, row + q_cols + c.planes * kv_cols);
    }
    const auto normed = [&](bool here) {
        if (!here) return;
        reference::norm(in.q, NormKind::rms, c.head_dim, doubles(in.q_norm), {}, double(epsilon), in.q);
        reference::norm(in.k, NormKind::rms, c.head_dim, doubles(in.k_norm), {}, double(epsilon), in.k);
    };
    normed(c.norm == Case::before);
    const Rope rope = rope_of(c);
    if (c.heads) reference::rope(in.q, c.heads, c.head_dim, rope, c.first, in.q, true);
    reference::rope(in.k, c.kv_heads, c.head_dim, rope, c.first, in.k);
    normed(c.norm == Case::after);
    if (kv_spread(c.type, c.planes)) {
        spread_heads(std::span(in.q), c.head_dim);
        spread_heads(std::span(in.k), c.head_dim);
    }
    for (double& value : in.v)
        if (c.type == f16)  // a value is only rounded: exactly
            value = double(float_of(half_of(float(value))));
        else if (c.type == bf16)
            value = double(std::bit_cast<float>(uint32_t(bfloat_of(float(value))) << 16));
        else if (kv_quantised(c.type))  // the scale is a half
            value = std::clamp(value, -65504 * levels(c.type).second, 65504 * levels(c.type).second);
    return in;
}

/// Quantised keys or values [tokens, kv_heads * head_dim] against their own scale: it is that of the furthest
/// number of its group, and each number is at the nearest step that there is.
std::string off_step(const Case& c, const HostCache& cache, const CheckSequence& s, bool value,
                     std::span<const double> expected) {
    const auto [top, bottom] = levels(c.type);
    for (size_t i = 0; i < expected.size(); ++i) {
        const uint32_t cols = c.kv_heads * c.head_dim, column = uint32_t(i % cols),
                       in_head = column % c.head_dim;
        const uint32_t position = c.first + uint32_t(i / cols), in_group = in_head % kv_group_dims;
        const auto group =
            expected.subspan(i - in_group, std::min(kv_group_dims, c.head_dim - in_head + in_group));
        const double furthest = *std::ranges::max_element(group, {}, [](double x) { return std::abs(x); });
        const double wanted = c.type == q8_0 ? std::abs(furthest) / top : -furthest / bottom;
        const double step = cache.step(s.table, value, position, column);
        const double slack = 1.01 * half_unit_roundoff * std::abs(wanted) + 0x1p-25;
        if (std::abs(std::abs(step) - std::abs(wanted)) > slack)
            return cat("position ", position, " column ", column, ": expected a step of ", wanted, ", got ",
                       step);
        if (step == 0) continue;
        // Four bits reach from -8 to 7, so the furthest number, or one as far, is at -8.
        const double lowest = *std::ranges::min_element(group, {}, [&](double x) { return x / step; }) / step;
        if (c.type == q4_0 && lowest > bottom * (slack / std::abs(step) - 1))
            return cat("position ", position, " column ", column, ": expected a number ", -bottom,
                       " steps away, got ", lowest);
        const double steps = expected[i] / step, over = std::max(steps - top, -steps - bottom);
        const double off = std::abs(cache.get(s.table, value, position, column) / step - steps);
        if (off > std::max(0.5, over) + 0.01)
            return cat("position ", position, " column ", column, ": expected ", steps, " steps, got one ",
                       off, " away");
    }
    return {};
}

/// Nothing of q | k | v | extra changes but q.
std::string untouched(const Case& c, std::span<const float> before, std::span<const float> after) {
    const size_t q_cols = c.heads * c.head_dim, stride = before.size() / c.tokens;
    for (size_t i = 0; i < before.size(); ++i)
        if (i % stride >= q_cols && before[i] != after[i])
            return cat("column ", i % stride, " of row ", i / stride, " changed");
    return {};
}

void run_case(CheckContext& context, const Case& c) {
    constexpr float epsilon = 1e-6f;
    const Inputs in = inputs_of(c, context.seed, epsilon);
    const uint32_t end = c.first + c.tokens, q_cols = c.heads * c.head_dim, kv_cols = c.kv_heads * c.head_dim;
    HostCache empty(c.type, c.kv_heads, c.head_dim, c.held(), 1, context.seed, c.planes);
    const CheckSequence sequence{c.first, c.tokens, empty.own(c.held())};
    const vk::Buffer step = context.buffer_of<uint32_t>(step_words(std::span(&sequence, 1)));
    const vk::Buffer tables =
        context.buffer_of<float>(c.width ? rope_tables(rope_of(c), end) : std::vector<float>{0});
    const vk::Buffer q_norm = context.buffer_of<float>(in.q_norm),
                     k_norm = context.buffer_of<float>(in.k_norm);

    // Table and angle addition round 4 times, the norm as norm does, a spread sum of a group at each of its
    // terms; f16 adds half a unit of its own.
    const double units = 6 + (c.norm ? std::sqrt(double(c.head_dim)) : 0) +
                         (kv_spread(c.type, c.planes) ? std::sqrt(double(kv_group_dims)) : 0);
    const Bounds bounds = bounds_of(units);
    Bounds cached = held_bounds(c.type, bounds);
    if (kv_quantised(c.type)) {  // off_step() says more: a step, of the largest number there may be
        const double error = std::sqrt(double(c.head_dim)) / levels(c.type).second;
        cached = {error * error, error, error};
    }
    const auto run = [&](const KernelVariant& variant) {
        const vk::Buffer qkv = context.buffer_of<float>(in.qkv);
        const CheckCache cache(context, empty, c.shards, c.ring);
        const uint32_t stride = uint32_t(in.qkv.size() / c.tokens);
        RopeCacheArgs args{.qkv = {qkv.view(), c.tokens, q_cols + c.planes * kv_cols, stride, 0},
                           .heads = c.heads,
                           .pairs = c.pairs,
                           .width = c.width,
                           .tables = c.width ? tables.view() : step.view(),
                           .q_norm = {},
                           .k_norm = {},
                           .norm_after = c.norm == Case::after,
                           .epsilon = epsilon,
                           .step = step.view(),
                           .kv = &cache.device,
                           .query_growth = float(rope_of(c).query_growth),
                           .growth_length = rope_of(c).growth_length,
                           .growth_offset = rope_of(c).growth_offset};
        if (c.norm) {
            args.q_norm = q_norm.view();
            args.k_norm = k_norm.view();
        }
        context.run([&](OpContext& ops) { record_rope_cache(ops, args, variant); });

        HostCache after = empty;
        cache.download(context, after);
        return std::pair{context.download(qkv.view()), std::move(after)};
    };
    for (const KernelVariant& variant : proven_variants(context.caps(), rope_cache_variants)) {
        if (context.leaves_out("rope_cache", variant)) continue;
        const uint32_t stride = uint32_t(in.qkv.size() / c.tokens);
        const auto [bytes, after] = run(variant);
        const auto [bytes_again, after_again] = run(variant);
        const bool differs = bytes != bytes_again || after.words != after_again.words;
        const std::string rerun = differs ? "a second run differs" : "";
        const std::span<const float> rows(reinterpret_cast<const float*>(bytes.data()), in.qkv.size());
        std::vector<float> q;
        for (uint32_t t = 0; t < c.tokens; ++t)
            q.insert(q.end(), rows.begin() + std::ptrdiff_t(size_t(t) * stride),
                     rows.begin() + std::ptrdiff_t(size_t(t) * stride + q_cols));
        if (c.heads)
            context.compare("rope_cache", variant.name, shape_of(c) + " q", in.q, q, c.head_dim, bounds,
                            differs ? rerun : untouched(c, in.qkv, rows));

        for (const bool value : {false, true}) {
            if (value && c.planes == 1) continue;
            std::vector<float> actual;
            for (uint32_t p = c.first; p < end; ++p)
                for (uint32_t i = 0; i < kv_cols; ++i)
                    actual.push_back(float(after.get(sequence.table, value, p, i)));
            const bool quantised = kv_quantised(c.type);
            std::string error = differs ? rerun : stray_writes(empty, after);
            if (quantised && error.empty()) error = off_step(c, after, sequence, value, value ? in.v : in.k);
            context.compare("rope_cache", variant.name, shape_of(c) + (value ? " v" : " k"),
                            value ? in.v : in.k, actual, c.head_dim,
                            value && !quantised ? Bounds{0, 0, 0} : cached, error);
        }
    }
}

}  // namespace

void check_rope_cache(CheckContext& context) {
    for (const Case& c : cases) run_case(context, c);
}

void check_rope_cache(CheckContext& context, const ModelRope& m) {
    constexpr uint32_t first = 250;  // tokens on both sides of a step of the coarse table
    Case c{m.tokens, first, m.heads, m.kv_heads, m.head_dim, m.width, m.pairs, m.type};
    c.norm = m.norm_after ? Case::after : m.normed ? Case::before : Case::none;
    c.planes = m.latent ? 1 : 2;
    c.grows = m.grows;
    if (m.wraps) c.ring = kv_ring_blocks(1, m.tokens) + 1;
    run_case(context, c);
}

}  // namespace scoria::validate
