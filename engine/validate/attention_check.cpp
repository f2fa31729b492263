// Cases of attention.
#include "cache_tools.h"
#include "checks.h"
#include "fail.h"
#include "ops/attention.h"
#include "reference/attention.h"
#include "step.h"

#include <algorithm>

namespace scoria::validate {
namespace {

struct Case {
    uint32_t tokens, first;  // of the first sequence: positions first ..
    uint32_t heads, kv_heads, head_dim;
    KvType type;
    uint32_t window = 0, shards = 1;
    uint32_t sequences = 1;  // sequence i is i * 7 positions further
    float sigma = 1;         // of q: large ones saturate the softmax; below 0: every score is far below 0
    bool deep = false;
    Mask mask = Mask::causal;
    uint32_t stride = 0, summary = 0;
    PositionBias bias = PositionBias::none;
    float soft_cap = 0;
    bool sinks = false;
    uint32_t source = 0;  // keys of Mask::source, whatever the tokens' positions
    uint32_t low = 0;     // of Mask::compressed
    bool values = false;  // of distances
    bool wraps = false;   // positions, in as few blocks as may be
    bool latent = false;  // values are the keys
    bool grows = false;   // values double every four positions
    bool broken = false;  // the first key is no number
    bool small = false;   // values, so that scales of groups of them are subnormal halves
    bool cut = false;     // into two dispatches by rows, as the engine cuts what takes too long

    uint32_t keys() const { return mask == Mask::source ? source : first + tokens; }
};
/// What turns a case into one with this flag.
constexpr auto with(bool Case::*flag) {
    return [flag](Case c) {
        c.*flag = true;
        return c;
    };
}
constexpr auto latent = with(&Case::latent), growing = with(&Case::grows), broken = with(&Case::broken),
               small = with(&Case::small), cut = with(&Case::cut), wrapped = with(&Case::wraps);
constexpr KvType f32 = KvType::f32, f16 = KvType::f16, bf16 = KvType::bf16, q8_0 = KvType::q8_0,
                 q4_0 = KvType::q4_0;
constexpr uint32_t bias_span = 20;

/// A case of masks and terms of the score.
constexpr Case special(uint32_t tokens, uint32_t first, Mask mask, uint32_t stride, uint32_t summary,
                       PositionBias bias, float soft_cap, bool sinks, uint32_t shards = 1) {
    return {tokens, first, 4,    2,      12,      f32,  0,        shards, 1,
            1,      false, mask, stride, summary, bias, soft_cap, sinks};
}
/// Of code that all variants share, whatever their width.
constexpr bool is_special(const Case& c) { return c.mask != Mask::causal || c.bias >= PositionBias::table; }
constexpr PositionBias no_bias = PositionBias::none;
// A pipeline per (head_dim, type, variant) takes seconds to compile on CPU drivers, so the quick cases share
// a few.
constexpr Case cases[] = {
    {1, 0, 1, 1, 4, f32},
    {1, 199, 9, 3, 64, f16},
    {1, 399, 4, 2, 12, f16},  // narrow heads: CPU drivers load ahead as GPUs do
    {5, 30, 9, 3, 64, f16},
    {40, 0, 4, 2, 12, f32},
    {33, 31, 4, 2, 12, f32},
    {3, 100, 6, 1, 12, f32, 16},
    {70, 10, 4, 2, 12, f32, 33},
    {2, 300, 9, 3, 64, f16, 0, 3},
    {40, 30, 4, 2, 7, f32},
    {3, 90, 6, 3, 7, f16, 0, 2},
    {40, 30, 4, 2, 7, q8_0, 0, 1, 1, 1, true},
    {130, 0, 9, 3, 64, f16},
    {40, 30, 4, 2, 130, f16},  // tiles of 32 rows
    growing({70, 10, 4, 2, 12, f32}),
    broken({70, 10, 4, 2, 12, f32}),
    broken({1, 199, 9, 3, 64, f16}),
    cut({70, 10, 4, 2, 12, f32, 33}),
    {2, 40, 4, 2, 12, f32, 0, 1, 5},
    {30, 40, 4, 2, 12, f32, 33, 1, 3},  // tiles with rows of two sequences
    {2, 90, 4, 2, 64, f16, 0, 2, 3, 30},
    {1, 199, 9, 3, 64, f16, 0, 1, 1, -3},
    {1, 199, 9, 3, 64, q8_0},
    {70, 31, 9, 3, 64, q8_0, 0, 2},
    small({1, 199, 9, 3, 64, q8_0}),
    small({70, 31, 9, 3, 64, q8_0, 0, 2}),
    small({1, 199, 9, 3, 64, q4_0}),
    {1, 199, 9, 3, 64, q4_0, 0, 2},
    {1, 199, 4, 2, 128, q8_0},
    {70, 31, 9, 3, 64, q4_0, 0, 2, 1, 1, true},
    {40, 30, 4, 2, 12, bf16, 0, 1, 1, 1, true},
    {5, 40, 4, 2, 12, q8_0, 0, 1, 2, 1, true},
    {70, 10, 4, 2, 80, q8_0, 33, 1, 1, 1, true},
    {70, 10, 4, 2, 100, q4_0, 33, 1, 1, 1, true},
    {1, 300, 8, 2, 128, q4_0, 0, 3, 1, 1, true},
    {70, 10, 4, 4, 32, bf16, 33, 1, 1, 1, true},
    {40, 0, 4, 2, 12, f32, 0, 1, 1, -3},
    {1, 200, 9, 3, 64, f32, 0, 1, 1, 1, true},
    {33, 31, 4, 2, 12, f16, 0, 1, 1, 1, true},
    {3, 100, 6, 1, 20, f32, 16, 1, 1, 1, true},
    {70, 10, 4, 4, 32, f16, 33, 1, 1, 1, true},
    {2, 300, 8, 2, 128, f16, 0, 3, 1, 1, true},
    {1, 600, 3, 3, 256, f32, 0, 2, 1, 1, true},
    {200, 64, 9, 3, 64, f16, 100, 2, 1, 1, true},
    {1, 4095, 32, 8, 128, f16, 0, 1, 1, 1, true},
    {40, 90, 8, 2, 128, f16, 0, 1, 1, 1, true},
    {40, 90, 8, 2, 256, f16, 0, 1, 1, 1, true},
    {40, 90, 8, 2, 288, f16, 0, 2, 1, 1, true},
    {40, 90, 8, 2, 100, f16, 0, 1, 1, 1, true},
    {512, 512, 9, 3, 64, f16, 0, 1, 1, 1, true},
    special(40, 30, Mask::causal, 0, 0, no_bias, 0, true, 2),
    special(40, 30, Mask::causal, 0, 0, PositionBias::linear, 2, false),
    special(3, 90, Mask::causal, 0, 0, PositionBias::table, 0, false),
    special(40, 30, Mask::strided, 7, 0, no_bias, 0, false),
    special(40, 30, Mask::fixed_block, 16, 0, no_bias, 0, false),
    special(40, 30, Mask::fixed_summary, 16, 3, no_bias, 0, false),
    special(40, 30, Mask::strided_union, 7, 0, no_bias, 0, false),
    special(40, 30, Mask::fixed_union, 16, 3, no_bias, 0, false),
    special(40, 30, Mask::local_block, 16, 5, no_bias, 0, false),
    // Blocks that nobody sees.
    special(40, 300, Mask::strided, 100, 0, no_bias, 0, false),
    special(40, 300, Mask::fixed_summary, 128, 3, no_bias, 0, false),
    special(40, 300, Mask::strided_union, 70, 0, no_bias, 0, false),
    special(40, 300, Mask::fixed_union, 128, 3, no_bias, 0, false),
    {200, 0, 4, 2, 12, f32, 9, 1, 1, 1, false, Mask::global_keys},
    special(70, 0, Mask::bidirectional, 0, 0, no_bias, 0, false),
    {50, 0, 4, 2, 12, f32, 13, 1, 1, 1, false, Mask::bidirectional},
    special(45, 0, Mask::bidirectional, 0, 0, PositionBias::table_both, 0, false),
    special(45, 0, Mask::bidirectional, 0, 0, PositionBias::linear, 0, false),
    {5, 30, 4, 2, 12, f32, 0, 1, 1, 1, false, Mask::source, 0, 0, no_bias, 0, false, 61},
    {33, 0, 4, 2, 12, f32, 0, 2, 1, 1, false, Mask::source, 0, 0, no_bias, 0, false, 20},
    special(40, 30, Mask::local_block, 16, 5, PositionBias::by_query, 0, false),
    cut(special(40, 30, Mask::local_block, 16, 5, PositionBias::by_query, 0, false)),
    special(70, 0, Mask::bidirectional, 0, 0, PositionBias::by_pair, 0, false, 2),
    cut(special(40, 0, Mask::bidirectional, 0, 0, PositionBias::by_pair, 0, false)),
    {40, 30,    4, 2, 16,  f32, 0, 1, 2, 1, false, Mask::causal, 0, 0, PositionBias::by_query,
     0,  false, 0, 0, true},
    {40, 30,    4, 2, 7,   f32, 0, 1, 1, 1, true, Mask::causal, 0, 0, PositionBias::by_query,
     0,  false, 0, 0, true},
    {40, 30, 4, 2, 12, f32, 0, 1, 1, 1, false, Mask::compressed, 0, 0, PositionBias::by_query, 0, false, 0,
     17},
    {50, 0, 4, 2, 12, f32, 9, 1, 1, 1, false, Mask::global_keys},
    special(40, 30, Mask::chosen, 0, 0, no_bias, 0, false),
    latent({1, 200, 9, 1, 80, f16, 0, 2, 2, 1, false, Mask::chosen}),
    cut(latent({70, 131, 6, 1, 20, f32, 0, 1, 1, 1, false, Mask::chosen})),
    latent({40, 90, 16, 1, 576, f16, 0, 1, 1, 1, true, Mask::chosen}),
    latent({1, 200, 9, 1, 80, f16, 0, 2}),
    latent({70, 31, 6, 1, 20, f32}),
    latent({5, 70, 6, 1, 80, q8_0, 0, 1, 2}),
    latent({130, 20, 16, 1, 576, q4_0, 0, 1, 1, 1, true}),
    // The blocks are just full: the first query's oldest key stands beside the last token's.
    wrapped({64, 333, 4, 2, 12, f32, 33}),
    wrapped({1, 500, 9, 3, 64, f16, 64}),
    wrapped({63, 450, 9, 3, 64, f16, 66, 2}),
    wrapped({2, 190, 4, 2, 64, f16, 31, 2, 3, 30}),
    wrapped({1, 500, 9, 3, 64, q8_0, 96, 2}),
    wrapped({1, 500, 9, 3, 64, q4_0, 64}),
    wrapped({3, 300, 4, 2, 12, bf16, 30, 1, 1, 1, true}),
    wrapped({512, 2000, 9, 3, 64, f16, 129, 1, 1, 1, true}),
    wrapped(special(40, 330, Mask::fixed_block, 16, 0, no_bias, 0, false)),
    wrapped(special(44, 330, Mask::local_block, 16, 5, no_bias, 0, true, 2)),
};

std::string shape_of(const Case& c, uint32_t splits) {
    return cat("tokens ", c.tokens, " at ", c.first, " heads ", c.heads, "/", c.kv_heads, " dim ", c.head_dim,
               " ", kv_type_names[size_t(c.type)], " window ", c.window, " shards ", c.shards, " sequences ",
               c.sequences, " sigma ", c.sigma, " splits ", splits, " mask ", int(c.mask), " bias ",
               int(c.bias), " cap ", c.soft_cap, c.sinks ? " sinks" : "", " keys ", c.keys(),
               c.values ? " values" : "", c.wraps ? " ring" : "", c.latent ? " latent" : "",
               c.grows ? " growing" : "", c.broken ? " broken" : "", c.small ? " small" : "",
               c.cut ? " cut" : "");
}

/// Keys and values as the cache holds them, for positions [0, end).
std::vector<double> fill(HostCache& cache, const CheckSequence& s, uint32_t end, bool value, uint64_t seed,
                         const Case& c) {
    const uint32_t cols = cache.kv_heads * cache.head_dim;
    std::vector<float> random = random_floats(size_t(end) * cols, seed);
    if (!value && c.sigma < 0)
        for (float& number : random) number = std::abs(number);
    if (!value && c.broken) random[1] = NAN;
    if (value && c.grows)
        for (size_t i = 0; i < random.size(); ++i) random[i] *= std::exp2(float(i / cols / 4));
    if (value && c.small)
        for (float& number : random) number *= 1e-4f;
    std::vector<double> held;
    for (uint32_t p = 0; p < end; ++p) {
        cache.set(s.table, value, p, std::span(random).subspan(size_t(p) * cols, cols));
        for (uint32_t i = 0; i < cols; ++i) held.push_back(cache.get(s.table, value, p, i));
    }
    return held;
}

/// A score sums head_dim products and its error is absolute under exp, so it grows with the score; the
/// weighted sum adds sqrt(keys) roundings. exp itself is good to 3 + 2 |x| units (Vulkan's table of
/// precisions).
///
/// Halves round q, k, the weights and v by up to 2^-11 each. Products of a score err with random signs, so
/// the score, whose size is sigma, errs by sqrt(2) * 2^-11 sigma, as weights then do relatively; errors of
/// weights are independent, so a row errs by as much of its own size, and by sqrt(2) * 2^-11 for what weights
/// and v are rounded.
Bounds bounds_for(const Case& c, const AttentionVariant& variant) {
    const double score = 1 + 4 * std::abs(double(c.sigma));
    const double sums = 4 * (4 + std::sqrt(double(c.head_dim)) + std::sqrt(double(c.keys()))) * score;
    const bool halves = variant.on_matrix_units();
    const double rounding = halves ? std::sqrt(2 + 2 * double(c.sigma) * double(c.sigma)) : 0;
    return bounds_of(sums + rounding * half_unit_roundoff / unit_roundoff);
}

/// Of a token's keys, chosen_bits each.
uint32_t chosen_cols(const Case& c) {
    const uint32_t keys = std::max(c.first + c.tokens, c.keys()) + 7 * (c.sequences - 1);
    return c.mask == Mask::chosen ? (keys + chosen_bits - 1) / chosen_bits : 0;
}
/// A quarter of them, and the token's own.
std::vector<float> chosen_numbers(const Case& c, uint64_t seed) {
    const uint32_t cols = chosen_cols(c);
    const auto random = [&](uint64_t of, size_t i) {
        return uint32_t((of * 1000003 + i) * 0x9E3779B97F4A7C15u >> 40) & ((1u << chosen_bits) - 1);
    };
    std::vector<float> numbers(std::max<size_t>(1, size_t{c.tokens} * c.sequences * cols));
    for (size_t i = 0; cols != 0 && i < numbers.size(); ++i) {
        const size_t token = i / cols, own = c.first + 7 * (token / c.tokens) + token % c.tokens;
        uint32_t bits = random(seed, i) & random(seed + 1, i);
        if (own / chosen_bits == i % cols) bits |= 1u << own % chosen_bits;
        numbers[i] = float(bits);
    }
    return numbers;
}

/// Random numbers, in double for the reference and in a buffer for the kernels; all negative if sigma is.
struct Operand {
    std::vector<double> values;
    vk::Buffer buffer;

    Operand(CheckContext& context, size_t count, uint64_t seed, float sigma = 1)
        : Operand(context, numbers(count, seed, sigma)) {}
    Operand(CheckContext& context, std::span<const float> from)
        : values(doubles(from)), buffer(context.buffer_of<float>(from)) {}

  private:
    static std::vector<float> numbers(size_t count, uint64_t seed, float sigma) {
        std::vector<float> random = random_floats(count, seed, sigma);
        if (sigma < 0)
            for (float& number : random) number = -std::abs(number);
        return random;
    }
};

Attention attention_of(const Case& c) {
    return {.heads = c.heads,
            .kv_heads = c.kv_heads,
            .head_dim = c.head_dim,
            .scale = 1 / std::sqrt(float(c.head_dim)),
            .soft_cap = c.soft_cap,
            .window = c.window,
            .mask = c.mask,
            .stride = c.stride,
            .summary = c.summary,
            .qk_norm = {},
            .bias = c.bias,
            .bias_span = bias_span,
            .distance_values = c.values,
            .sinks = c.sinks};
}

/// All that a case's attention reads.
class Scene {
  public:
    const Case c;
    const Attention shape;
    const uint32_t tokens, cols;  // of q

    Scene(CheckContext& context, const Case& of)
        : c(of), shape(attention_of(c)), tokens(c.tokens * c.sequences), cols(c.heads * c.head_dim),
          q_(context, size_t{tokens} * cols, context.seed + 1, c.sigma),
          bias_(context, c.heads * shape.bias_cols(), context.seed + 7),
          sinks_(context, c.heads, context.seed + 8),
          distances_(context, std::max(size_t{tokens} * distance_cols(), size_t{1}), context.seed + 9),
          distance_table_(context, bias_span * c.head_dim, context.seed + 11),
          chosen_(context, chosen_numbers(c, context.seed + 12)),
          marks_(c.mask >= Mask::global_keys ? c.tokens : 0) {
        for (const uint32_t i : {0u, 37u})
            if (i < marks_.size()) marks_[i] = 1;
        fill_cache(context);
        fill_step(context);
    }

    /// Most positions of a sequence.
    uint32_t longest() const { return std::max(c.first + c.tokens, c.keys()) + 7 * (c.sequences - 1); }
    /// Of the last sequence.
    uint32_t last_keys() const { return c.keys() + 7 * (c.sequences - 1); }
    uint32_t shards() const { return uint32_t(cache_->device.shards.size()); }

    /// For `count` tokens of a sequence from the `from`-th.
    reference::AttentionInputs inputs(uint32_t sequence, uint32_t from, uint32_t count) const {
        const auto of = [&](const std::vector<double>& values, size_t width) {
            return std::span(values).subspan((sequence * c.tokens + from) * width, count * width);
        };
        const auto rows = [&](const Operand& operand, size_t width) { return of(operand.values, width); };
        const std::span<const double> none;
        return {.q = rows(q_, cols),
                .keys = keys_[sequence],
                .values = c.latent ? keys_[sequence] : values_[sequence],
                .first = c.first + 7 * sequence + from,
                .low = c.low,
                .global = marks_,
                .bias = bias_.values,
                .sinks = c.sinks ? std::span(sinks_.values) : none,
                .distances = !distant()                        ? none
                             : c.bias == PositionBias::by_pair ? std::span(distances_.values)
                                                               : rows(distances_, distance_cols()),
                .distance_values = c.values ? std::span(distance_table_.values) : none,
                .chosen = rows(chosen_, chosen_cols(c)),
                .chosen_cols = chosen_cols(c)};
    }

    /// For `count` rows of q from the `from`-th.
    AttentionArgs args(uint32_t from, uint32_t count, const Matrix& out, const vk::View& partials) const {
        const auto rows = [&](const Operand& operand, uint32_t width) {
            return Matrix{operand.buffer.view(), tokens, width, width, 0}.row_range(from, count);
        };
        const auto view = [](bool there, const Operand& operand) {
            return there ? std::optional(operand.buffer.view()) : std::nullopt;
        };
        return {.q = rows(q_, cols),
                .out = out,
                .step = step_->view(),
                .kv = &cache_->device,
                .partials = partials,
                .shape = shape,
                .bias = view(c.bias != no_bias, bias_),
                .sinks = view(c.sinks, sinks_),
                .distances = distant() ? std::optional(rows(distances_, distance_cols())) : std::nullopt,
                .distance_values = view(c.values, distance_table_),
                .chosen =
                    c.mask == Mask::chosen ? std::optional(rows(chosen_, chosen_cols(c))) : std::nullopt,
                .first_token = from};
    }

  private:
    uint32_t ring() const { return c.wraps ? kv_ring_blocks(shape.reach(), c.tokens) : UINT32_MAX; }
    uint32_t distance_cols() const { return shape.distance_cols(); }
    bool distant() const { return distance_cols() != 0; }

    void fill_cache(CheckContext& context) {
        const uint32_t held = c.wraps ? ring() * kv_block_tokens : longest();
        HostCache host(c.type, c.kv_heads, c.head_dim, held, c.sequences, context.seed, c.latent ? 1 : 2);
        for (uint32_t i = 0; i < c.sequences; ++i) {
            sequences_.push_back({c.first + 7 * i, c.tokens, host.own(held)});
            const CheckSequence& s = sequences_.back();
            const uint32_t end = c.keys() + 7 * i;
            keys_.push_back(fill(host, s, end, false, context.seed + 10 + i, c));
            if (!c.latent) values_.push_back(fill(host, s, end, true, context.seed + 90 + i, c));
        }
        cache_.emplace(context, host, c.shards, ring());
    }

    void fill_step(CheckContext& context) {
        std::vector<uint32_t> words = step_words(sequences_);
        words[STEP_SOURCE] = c.source;
        words[STEP_LOW] = c.low;
        for (size_t t = 0; t < marks_.size(); ++t) {
            words[STEP_TOKENS + t * STEP_TOKEN_WORDS + STEP_TOKEN_TYPE] = marks_[t] ? STEP_TOKEN_GLOBAL : 0;
            if (marks_[t]) words[STEP_GLOBALS] = uint32_t(t) + 1;
        }
        step_.emplace(context.buffer_of<uint32_t>(words));
    }

    Operand q_, bias_, sinks_, distances_, distance_table_, chosen_;
    std::vector<uint8_t> marks_;  // of Mask::global_keys
    std::vector<CheckSequence> sequences_;
    std::vector<std::vector<double>> keys_, values_;  // of each sequence
    std::optional<CheckCache> cache_;
    std::optional<vk::Buffer> step_;
};

/// Of `only`, if given, and of some of the tokens; else of all variants and tokens.
void run_case(CheckContext& context, const Case& c, const AttentionVariant* only = nullptr) {
    const Scene scene(context, c);
    const uint32_t tokens = scene.tokens, cols = scene.cols;
    const RowSample sample = only ? RowSample{c.tokens, sampled(c.tokens, 6)} : RowSample{};
    std::vector<double> expected;
    const auto expect = [&](uint32_t sequence, uint32_t from, uint32_t count) {
        const size_t before = expected.size();
        expected.resize(before + size_t{count} * cols);
        reference::attention(scene.shape, scene.inputs(sequence, from, count),
                             std::span(expected).subspan(before));
    };
    for (uint32_t i = 0; i < c.sequences; ++i)
        if (!only) expect(i, 0, c.tokens);
    for (const uint32_t token : sample.compared) expect(0, token, 1);

    const AttentionShape sizes{tokens,          c.heads,        c.kv_heads, c.head_dim,
                               scene.longest(), scene.shards(), c.values,   Precision::fast};
    std::vector<AttentionVariant> variants = attention_variants(context.caps(), sizes);
    // What is special is common code: quickly, each on the default variant and on matrix units, and sinks
    // with biases on all.
    const bool special = is_special(c);
    if (special && context.tier == Tier::quick)
        variants.erase(
            std::remove_if(variants.begin() + 1, variants.end(),
                           [](const AttentionVariant& variant) { return !variant.on_matrix_units(); }),
            variants.end());
    // CPU drivers never run those by default, and compile them for seconds.
    const bool telling = c.tokens == 1 && !context.only_subgroups && c.type == KvType::f16;
    if (context.caps().is_cpu_driver() && context.tier == Tier::quick && !telling)
        std::erase_if(variants, [](const AttentionVariant& variant) { return variant.shares > 1; });
    if (only) variants = {*only};
    for (AttentionVariant variant : variants) {
        if (context.never_runs("attention", variant)) continue;
        for (const uint32_t splits : {variant.splits, 3u}) {
            if (only && splits != only->splits) continue;
            variant.splits = splits;
            if (variant.part_keys != 0 && !only) variant.part_keys = 1;  // so that few keys make parts, too
            const vk::Buffer partials(context.device,
                                      std::max<uint64_t>(4, attention_partial_bytes(variant, sizes)),
                                      vk::MemoryUse::device);
            context.run([&](OpContext& ops) { clear_arrivals(ops.recorder, partials.view()); });
            run_variants(
                context, "attention", shape_of(c, splits), std::vector{variant}, expected, cols,
                bounds_for(c, variant),
                [&](OpContext& ops, const Matrix& out, const AttentionVariant& v) {
                    const auto rows = [&](uint32_t from, uint32_t count) {
                        record_attention(
                            ops, scene.args(from, count, out.row_range(from, count), partials.view()), v);
                    };
                    const uint32_t first = c.cut ? tokens / 3 : tokens;
                    rows(0, first);
                    if (c.cut) rows(first, tokens - first);
                },
                sample);
        }
    }
}

/// The map of the last token.
void run_map_case(CheckContext& context, const Case& c) {
    const Scene scene(context, c);
    const uint32_t keys = scene.last_keys();
    const reference::AttentionInputs inputs = scene.inputs(c.sequences - 1, c.tokens - 1, 1);
    std::vector<double> expected(size_t{c.heads} * keys);
    std::vector<std::pair<size_t, double>> row;
    for (uint32_t head = 0; head < c.heads; ++head) {
        reference::attention_weights(scene.shape, inputs, 0, head, row);
        for (const auto& [key, weight] : row) expected[size_t{head} * keys + key] = weight;
    }
    run_variants(context, "attention_map", shape_of(c, 1), attention_map_variants(context.caps()), expected,
                 keys, bounds_for(c, AttentionVariant{}),
                 [&](OpContext& ops, const Matrix& out, const KernelVariant& v) {
                     Matrix rows = out;
                     rows.stride -= keys;  // what lies between rows
                     record_attention_map(ops, scene.args(scene.tokens - 1, 1, rows, {}), keys + 40, v);
                 });
}

}  // namespace

void check_attention(CheckContext& context) {
    for (const Case& c : cases)
        if (context.tier == Tier::full || !(c.deep || (context.only_subgroups && is_special(c))))
            run_case(context, c);
}

/// Of decoders: encoders have no last token.
void check_attention_map(CheckContext& context) {
    const auto of_decoder = [](Mask mask) {
        return mask < Mask::bidirectional || mask == Mask::prefix || mask >= Mask::compressed;
    };
    // Only the last token counts: more of them are for other reasons than this op.
    const auto telling = [](const Case& c) {
        return !c.deep && (c.tokens <= 5 || c.mask != Mask::causal || c.bias != no_bias || c.sinks);
    };
    for (const Case& c : cases)
        if (of_decoder(c.mask) && (telling(c) || context.tier == Tier::full)) run_map_case(context, c);
}

void check_attention(CheckContext& context, const ModelAttention& m, const AttentionVariant& variant) {
    constexpr uint32_t most_window = 256;  // of a ring; it is no constant of the pipeline, and the reference
                                           // reads all that was ever written
    scoria::Attention shape = m.shape;
    if (m.wraps && shape.window) shape.window = std::min(shape.window, most_window);
    Case c{.tokens = m.tokens,
           .first = m.first,
           .heads = shape.heads,
           .kv_heads = shape.kv_heads,
           .head_dim = shape.head_dim,
           .type = m.type};
    c.window = shape.window;
    c.mask = shape.mask;
    c.stride = shape.stride;
    c.summary = shape.summary;
    c.bias = shape.bias;
    c.soft_cap = shape.soft_cap;
    c.sinks = shape.sinks;
    c.values = shape.distance_values;
    if (c.mask == Mask::source) c.source = std::max(m.tokens, 61u);
    c.wraps = m.wraps;
    c.latent = shape.latent.kv_rank != 0;
    if (c.wraps) c.first += kv_ring_blocks(shape.reach(), c.tokens) * kv_block_tokens;
    run_case(context, c, &variant);
}

}  // namespace scoria::validate
