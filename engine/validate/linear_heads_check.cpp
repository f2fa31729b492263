// Cases of linear whose rows are heads of q | k | v: against the double-precision product, rotated, and what
// the paged cache then holds.
#include "cache_tools.h"
#include "check_tools.h"
#include "checks.h"
#include "linear_tools.h"
#include "reference/rope.h"
#include "weight_check.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

namespace scoria::validate {
namespace {

struct Case {
    TensorType type;
    uint32_t tokens, sequences, first;  // sequence i begins at position first + 7 i
    uint32_t heads, kv_heads, head_dim, width;
    KvType kv;
    uint32_t cols;
    uint32_t first_head = 0, end_head = 0;  // of q | k | v those that this matrix makes; end_head 0: all
    uint32_t shard_rows = 0;
    bool bias = false, norm = false;
    bool wraps = false;   // positions, in as few blocks as may be
    bool cut = false;     // into two dispatches by tokens
    bool broken = false;  // the bias of a value is no number, and so is that value alone

    uint32_t all_heads() const { return heads + 2 * kv_heads; }
    uint32_t end() const { return end_head ? end_head : all_heads(); }
    uint32_t rows() const { return (end() - first_head) * head_dim; }
    uint32_t batch() const { return tokens * sequences; }
    uint32_t ring() const { return wraps ? kv_ring_blocks(1, tokens) : UINT32_MAX; }
    /// Positions that the cache has room for.
    uint32_t held() const { return wraps ? ring() * kv_block_tokens : first + tokens + 7 * (sequences - 1); }
};

constexpr KvType f32 = KvType::f32, f16 = KvType::f16, bf16 = KvType::bf16;
constexpr TensorType q4_1 = TensorType::q4_1, q6_k = TensorType::q6_k;
constexpr Case cases[] = {
    {q4_1, 1, 1, 0, 4, 2, 32, 32, f16, 160},
    {q4_1, 1, 1, 290, 4, 2, 20, 12, f16, 96, 0, 0, 34, true},
    {q4_1, 1, 1, 95, 3, 1, 64, 64, bf16, 320, 0, 0, 0, false, true},
    {q6_k, 1, 1, 33, 3, 3, 16, 16, f32, 256, 0, 0, 0, true, true},
    {q4_1, 1, 5, 250, 4, 2, 32, 32, f16, 96, 0, 0, 0, true},
    {q4_1, 4, 1, 253, 4, 2, 32, 16, f32, 96, 0, 0, 0, true, false, false, true},
    {q4_1, 1, 3, 500, 2, 1, 32, 32, f16, 64, 0, 0, 0, false, false, true},
    {q4_1, 7, 1, 60, 2, 2, 16, 0, f16, 64, 0, 0, 0, true, false, false, false, true},
    // One matrix has q and k, the other v; and where there are no queries.
    {q4_1, 2, 1, 31, 4, 2, 32, 32, f16, 96, 0, 6},
    {q6_k, 2, 1, 31, 4, 2, 32, 32, f16, 256, 6, 8, 0, true},
    {q4_1, 2, 1, 31, 0, 2, 32, 32, f32, 96},
    // More than a tile of tokens and of rows.
    {q4_1, 35, 1, 60, 4, 2, 20, 12, f16, 96, 0, 0, 34, true},
    {q6_k, 20, 2, 250, 2, 1, 32, 32, f16, 256, 0, 0, 0, false, true},
};

std::string shape_of(const Case& c) {
    return cat("heads ", c.heads, "/", c.kv_heads, " dim ", c.head_dim, " width ", c.width, " ",
               kv_type_names[size_t(c.kv)], " of ", c.first_head, " to ", c.end(), ", ",
               tensor_type_info(c.type).name, " cols ", c.cols, " tokens ", c.tokens, " at ", c.first,
               " sequences ", c.sequences, c.shard_rows ? " sharded" : "", c.bias ? " bias" : "",
               c.norm ? " norm" : "", c.wraps ? " ring" : "", c.cut ? " cut" : "", c.broken ? " broken" : "");
}

/// What the kernels read, and what of it the reference makes.
class Scene {
  public:
    const Case c;

    Scene(CheckContext& context, const Case& of)
        : c(of),
          weight_(check_weight(context, c.type, c.rows(), c.cols,
                               random_blocks(c.type, std::min(c.rows(), weight_period), c.cols, context.seed),
                               c.shard_rows)),
          x_(random_floats(size_t{c.batch()} * c.cols, context.seed + 1)),
          bias_(random_floats(c.rows(), context.seed + 2)),
          norm_(c.norm ? random_floats(c.cols, context.seed + 3) : std::vector<float>()),
          empty_(c.kv, c.kv_heads, c.head_dim, c.held(), c.sequences, context.seed),
          rope_(check_rope(RopePairs::interleaved, c.width, 1.25)) {
        leave_ties(x_, c.cols, norm_);
        if (c.broken) bias_.back() = NAN;
        for (uint32_t i = 0; i < c.sequences; ++i)
            sequences_.push_back({c.first + 7 * i, c.tokens, empty_.own(c.held())});
        x_buffer_.emplace(context.buffer_of<float>(x_));
        bias_buffer_.emplace(context.buffer_of<float>(bias_));
        norm_buffer_.emplace(context.buffer_of<float>(c.norm ? norm_ : bias_));
        step_.emplace(context.buffer_of<uint32_t>(step_words(sequences_)));
        tables_.emplace(context.buffer_of<float>(
            c.width ? rope_tables(rope_, c.first + c.tokens + 7 * c.sequences) : std::vector<float>(2)));
    }

    void run(CheckContext& context, const LinearVariant& variant) {
        const CheckCache cache(context, empty_, 1, c.ring());
        if (cache.device.shards.size() != 1) return;  // as the engine does
        const RopeCacheArgs rope{.qkv = {},
                                 .heads = c.heads,
                                 .pairs = RopePairs::interleaved,
                                 .width = c.width,
                                 .tables = tables_->view(),
                                 .q_norm = {},
                                 .k_norm = {},
                                 .step = step_->view(),
                                 .kv = &cache.device};
        const vk::View bias = bias_buffer_->view();
        const vk::Buffer scratch = context.buffer_of<std::byte>(
            std::vector(std::max<uint64_t>(4, linear_scratch_bytes(variant, c.batch(), c.rows(), c.cols)),
                        std::byte{0x7D}));
        const auto record = [&](OpContext& op, const CheckContext::Output& output, uint32_t from,
                                uint32_t count) {
            const auto rows = [&](const Matrix& all) { return all.row_range(from, count); };
            record_linear(
                op,
                {.x = rows({x_buffer_->view(), c.batch(), c.cols, c.cols, 0}),
                 .out = rows({output.buffer.view(), c.batch(), c.rows(), c.rows(), output.first}),
                 .weight = weight_.device,
                 .bias = c.bias ? &bias : nullptr,
                 .norm = c.norm ? std::optional(RmsNorm{norm_buffer_->view(), norm_epsilon}) : std::nullopt,
                 .heads = LinearHeads{rope, c.first_head * c.head_dim, from},
                 .scratch = scratch.view()},
                variant);
        };
        std::string error;
        const std::vector<float> out = context.run_twice(
            c.batch() * c.rows(),
            [&](OpContext& op, const CheckContext::Output& output) {
                const uint32_t first = c.cut ? c.batch() / 3 : c.batch();
                record(op, output, 0, first);
                if (c.cut) record(op, output, first, c.batch() - first);
            },
            error);
        HostCache after = empty_;
        cache.download(context, after);
        if (error.empty()) error = stray_writes(empty_, after);
        if (error.empty() && others_changed(after)) error = "another position of the cache was overwritten";

        const std::vector<double> expected = expected_rows(variant.x_levels());
        // The table and the sum of angles round four times, the rotation thrice.
        const Bounds bounds = linear_bounds(variant, c.type, c.batch(), c.cols, false) + bounds_of(6);
        compare_queries(context, variant, expected, out, bounds, error);
        for (const bool value : {false, true})
            compare_cached(context, variant, value, expected, after, held_bounds(c.kv, bounds), error);
    }

  private:
    /// [batch, rows], where heads of q and k are rotated.
    std::vector<double> expected_rows(uint32_t x_levels) const {
        std::vector<double> x = stepped(normed(x_, norm_), c.cols, x_levels),
                            rows(size_t{c.batch()} * c.rows()), bias;
        if (c.bias) bias.assign(bias_.begin(), bias_.end());
        reference::linear(x, weight_.reference(), bias, rows);
        const uint32_t rotating =
            std::min(c.end(), c.heads + c.kv_heads) - std::min(c.first_head, c.heads + c.kv_heads);
        for (uint32_t t = 0; rotating && t < c.batch(); ++t) {
            const CheckSequence& s = sequences_[t / c.tokens];
            const std::span heads = std::span(rows).subspan(size_t{t} * c.rows(), rotating * c.head_dim);
            reference::rope(heads, rotating, c.head_dim, rope_, s.first + t % c.tokens, heads);
        }
        return rows;
    }
    /// Heads [from, to) of q | k | v, as far as they are of this matrix.
    std::pair<uint32_t, uint32_t> columns(uint32_t from, uint32_t to) const {
        const uint32_t first = std::clamp(from, c.first_head, c.end()),
                       end = std::clamp(to, c.first_head, c.end());
        return {(first - c.first_head) * c.head_dim, (end - c.first_head) * c.head_dim};
    }

    /// Whether positions changed that are none of the batch's.
    bool others_changed(HostCache after) const {
        HostCache before = empty_;
        const std::vector<float> zeros(c.kv_heads * c.head_dim);
        for (uint32_t t = 0; t < c.batch(); ++t)
            for (const bool value : {false, true})
                for (HostCache* cache : {&before, &after}) {
                    const CheckSequence& s = sequences_[t / c.tokens];
                    cache->set(s.table, value, s.first + t % c.tokens, zeros);
                }
        return before.words != after.words;
    }

    void compare_queries(CheckContext& context, const LinearVariant& variant,
                         const std::vector<double>& expected, const std::vector<float>& out,
                         const Bounds& bounds, std::string error) const {
        const auto [first, end] = columns(0, c.heads);
        std::vector<double> wanted;
        std::vector<float> actual;
        for (uint32_t t = 0; t < c.batch(); ++t)
            for (uint32_t column = 0; column < c.rows(); ++column) {
                const size_t i = size_t{t} * c.rows() + column;
                if (column >= first && column < end) {
                    wanted.push_back(expected[i]);
                    actual.push_back(out[i]);
                } else if (std::bit_cast<uint32_t>(out[i]) != unwritten_word && error.empty()) {
                    error = cat("row ", t, " column ", column, ", which is cached, was written");
                }
            }
        if (!wanted.empty() || !error.empty())
            context.compare("linear", variant.name, shape_of(c) + " q", wanted, actual,
                            std::max(1u, end - first), bounds, error);
    }

    void compare_cached(CheckContext& context, const LinearVariant& variant, bool value,
                        const std::vector<double>& expected, const HostCache& after, const Bounds& bounds,
                        const std::string& error) const {
        const uint32_t plane = c.heads + (value ? c.kv_heads : 0);
        const auto [first, end] = columns(plane, plane + c.kv_heads);
        std::vector<double> wanted;
        std::vector<float> actual;
        for (uint32_t t = 0; t < c.batch(); ++t) {
            const CheckSequence& s = sequences_[t / c.tokens];
            const uint32_t position = s.first + t % c.tokens;
            for (uint32_t column = first; column < end; ++column) {
                wanted.push_back(expected[size_t{t} * c.rows() + column]);
                const uint32_t in_plane = column + (c.first_head - plane) * c.head_dim;
                actual.push_back(float(after.get(s.table, value, position, in_plane)));
            }
        }
        if (!wanted.empty())
            context.compare("linear", variant.name, shape_of(c) + (value ? " v" : " k"), wanted, actual,
                            end - first, bounds, error);
    }

    CheckWeight weight_;
    std::vector<float> x_, bias_, norm_;
    HostCache empty_;
    const Rope rope_;
    std::vector<CheckSequence> sequences_;
    std::optional<vk::Buffer> x_buffer_, bias_buffer_, norm_buffer_, step_, tables_;
};

}  // namespace

void check_linear_heads(CheckContext& context) {
    for (const Case& c : cases) {
        std::optional<Scene> scene;
        for (const LinearVariant& variant :
             linear_variants(context.caps(), {c.batch(), c.rows(), c.cols, c.type, Precision::fast})) {
            const RopeShape rope{c.head_dim, c.width, RopePairs::interleaved, c.kv};
            if (!ends_heads(variant, rope) || (c.norm && !variant.folds_norm(c.batch())) ||
                context.leaves_out("linear", variant) || takes_minutes(context, variant))
                continue;
            if (!scene) scene.emplace(context, c);
            scene->run(context, variant);
        }
    }
}

void check_linear_heads(CheckContext& context, const ModelLinear& m, const ModelRope& rope,
                        uint32_t first_head, const LinearVariant& variant) {
    constexpr uint32_t first = 250;  // tokens on both sides of a step of the coarse table
    Case c{m.type,        m.tokens,      1,          first,     rope.heads,
           rope.kv_heads, rope.head_dim, rope.width, rope.type, m.cols};
    c.first_head = first_head;
    c.end_head = first_head + m.rows / rope.head_dim;
    c.bias = m.bias;
    c.norm = m.norm;
    c.wraps = rope.wraps;
    Scene(context, c).run(context, variant);
}

}  // namespace scoria::validate
