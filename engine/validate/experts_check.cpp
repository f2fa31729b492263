// Cases of route, expert_linear, head_linear and expert_sum.
#include "check_tools.h"
#include "checks.h"
#include "fail.h"
#include "linear.push.h"
#include "linear_tools.h"
#include "ops/experts.h"
#include "reference/elementwise.h"
#include "reference/experts.h"
#include "weight_check.h"
#include "weight_planes.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace scoria::validate {
namespace {

using Score = Routing::Score;

struct RouteCase {
    uint32_t tokens, experts, used;
    Score score;
    bool renormalise = false, choice_bias = false;
    uint32_t groups = 1, groups_used = 1;
    bool top2 = false, weight_scale = false;
};
constexpr RouteCase route_cases[] = {
    {1, 8, 2, Score::softmax, true},
    {70, 60, 4, Score::softmax},
    {3, 32, 4, Score::softmax_chosen},
    {5, 160, 6, Score::softmax, false, false, 8, 3},
    {4, 80, 36, Score::sigmoid, false, true, 20, 11,
     true},  // more groups and slots than many a subgroup has lanes
    {5, 256, 8, Score::sigmoid, true, true, 8, 4, true},
    {2, 4, 4, Score::sigmoid},
    {2, 1, 1, Score::softmax},
    {66, 40, 5, Score::softmax, true, false, 1, 1, false, true},
    {9, 16, 2, Score::softmax_near},
};

void check_route(CheckContext& context, const RouteCase& c) {
    const Routing routing{.experts = c.experts,
                          .used = c.used,
                          .score = c.score,
                          .renormalise = c.renormalise,
                          .scale = 2.5f,
                          .margin = 0.5f,
                          .choice_bias = c.choice_bias,
                          .weight_scale = c.weight_scale,
                          .groups = c.groups,
                          .groups_used = c.groups_used,
                          .group_by_top2 = c.top2};
    const std::vector<float> scores = random_floats(size_t(c.tokens) * c.experts, context.seed),
                             choice = random_floats(c.experts, context.seed + 1, 0.3f),
                             scale = random_floats(c.experts, context.seed + 2);
    const auto or_none = [](bool given, const std::vector<float>& values) {
        return given ? doubles(values) : std::vector<double>{};
    };
    std::vector<double> expected(size_t(c.tokens) * 2 * c.used);
    for (uint32_t t = 0; t < c.tokens; ++t)
        reference::route(doubles(std::span(scores).subspan(t * c.experts, c.experts)), routing,
                         or_none(c.choice_bias, choice), or_none(c.weight_scale, scale),
                         std::span(expected).subspan(t * 2 * c.used, 2 * c.used));
    const vk::Buffer scores_buffer = context.buffer_of<float>(scores),
                     choice_buffer = context.buffer_of<float>(choice),
                     scale_buffer = context.buffer_of<float>(scale);
    // Judged by slot: ids are exact or wrong by at least one.
    run_variants(context, "route",
                 cat("tokens ", c.tokens, " experts ", c.experts, " used ", c.used, " score ", int(c.score),
                     " groups ", c.groups_used, "/", c.groups, c.weight_scale ? " weights scaled" : ""),
                 route_variants(context.caps()), expected, 2 * c.used, bounds_of(24),
                 [&](OpContext& ops, const Matrix& out, const KernelVariant& variant) {
                     record_route(ops,
                                  {{scores_buffer.view(), c.tokens, c.experts, c.experts, 0},
                                   out,
                                   routing,
                                   c.choice_bias ? std::optional(choice_buffer.view()) : std::nullopt,
                                   c.weight_scale ? std::optional(scale_buffer.view()) : std::nullopt},
                                  variant);
                 });
}

struct LinearCase {
    TensorType type;
    uint32_t tokens, experts, used, rows, cols;
    bool per_slot = false, bias = false, glu = false;
    uint32_t shard_rows = 0;
    Activation activation = Activation::gelu_tanh;
    bool heads = false;  // head_linear: no routes
    uint32_t gap = 0;    // words before and between rows of x
    bool cut = false;    // in two parts, by tiles of the experts' rows, if sorted
    bool bad = false;    // a NaN in the first token, whose row of x places that nobody has multiply
    ExpertShape shape() const {
        return {tokens, experts, used, rows, cols, type, per_slot, heads, Precision::fast};
    }
};
constexpr LinearCase linear_cases[] = {
    {TensorType::f32, 1, 4, 2, 33, 45, false, true},
    {TensorType::q4_1, 7, 8, 2, 64, 96, false, false, true, 80},
    {TensorType::q4_1, 90, 6, 3, 80, 160, true, true, false, 96, Activation::gelu_tanh, false, 0, true},
    {TensorType::q8_0, 5, 3, 3, 48, 64, true, true, false, 48},
    {TensorType::q6_k, 2, 5, 1, 16, 256, true},
    {TensorType::mxfp4, 1, 6, 4, 32, 1056, false, true, true},
    {TensorType::iq2_s, 2, 3, 2, 24, 512, false, true},
    {TensorType::f16, 3, 4, 2, 40, 50, true, false, true, 64},
    {TensorType::iq4_nl, 520, 16, 4, 80, 160, false, true, true, 128},  // more routes than 8 a lane
    {TensorType::q4_k, 40, 300, 4, 32, 256, false, true},
    {TensorType::q4_1, 12, 3, 1, 32, 64, false, true, true, 0, Activation::gelu_tanh, false, 3, false, true},
    {TensorType::bf16, 20, 4, 4, 32, 40, true, false, false, 0, Activation::silu, true, 4},
};

/// Routes with ids in range and one past it, which counts as the last; weights of either sign.
std::vector<float> routes_for(uint32_t tokens, uint32_t experts, uint32_t used, uint64_t seed) {
    std::vector<float> routes = random_floats(size_t(tokens) * 2 * used, seed);
    for (uint32_t t = 0; t < tokens; ++t)
        for (uint32_t s = 0; s < used; ++s)
            routes[t * 2 * used + s] =
                t + 1 == tokens && s == 0 ? 1e9f : float((t * 5 + s * 3 + 1) % experts);
    return routes;
}

/// Zeros: in lists places of somebody.
vk::Buffer scratch_for(CheckContext& context, const std::vector<LinearVariant>& variants,
                       const ExpertShape& shape) {
    uint64_t bytes = 0;
    for (const LinearVariant& variant : variants)
        bytes = std::max(bytes, expert_scratch_bytes(variant, shape));
    return context.buffer_of<std::byte>(std::vector<std::byte>(bytes));
}

void check_expert_linear(CheckContext& context, const LinearCase& c,
                         const std::vector<LinearVariant>& variants) {
    const char* op = op_name(c.shape());
    const uint32_t rows = c.rows * c.experts, out_cols = c.glu ? c.rows / 2 : c.rows;
    const CheckWeight weight = check_weight(context, c.type, rows, c.cols,
                                            random_blocks(c.type, rows, c.cols, context.seed), c.shard_rows);
    const uint32_t x_cols = c.per_slot ? c.used * c.cols : c.cols;
    std::vector<float> x = random_floats(size_t(c.tokens) * x_cols, context.seed + 1);
    if (c.bad) x[c.cols / 2] = std::nanf("");
    leave_ties(x, c.cols, {});
    const uint32_t stride = x_cols + c.gap;
    std::vector<float> placed(c.gap + size_t(c.tokens) * stride);
    for (size_t i = 0; i < x.size(); ++i) placed[c.gap + i / x_cols * stride + i % x_cols] = x[i];
    const std::vector<float> bias = random_floats(rows, context.seed + 2),
                             routes = routes_for(c.tokens, c.experts, c.used, context.seed + 3);
    std::vector<double> known = doubles(routes);
    for (size_t i = 0; i < known.size(); ++i)
        known[i] = c.heads ? double(i % (2 * c.used)) : std::min(known[i], double(c.experts - 1));
    const auto expected_of = [&](const std::vector<double>& in) {
        std::vector<double> product(size_t(c.tokens) * c.used * c.rows);
        reference::expert_linear(in, known, weight.reference(),
                                 c.bias ? doubles(bias) : std::vector<double>{}, c.experts, c.used, product);
        if (!c.glu) return product;
        for (size_t i = 0; i < product.size() / 2; ++i)
            product[i] = reference::activate(product[2 * i], c.activation) * product[2 * i + 1];
        product.resize(product.size() / 2);
        return product;
    };
    std::map<uint32_t, std::vector<double>> expected;  // by levels
    const vk::Buffer x_buffer = context.buffer_of<float>(placed),
                     bias_buffer = context.buffer_of<float>(bias),
                     routes_buffer = context.buffer_of<float>(routes);
    const Matrix x_matrix{x_buffer.view(), c.tokens, x_cols, stride, c.gap},
        routes_matrix{routes_buffer.view(), c.tokens, 2 * c.used, 2 * c.used, 0};
    const auto record = [&](OpContext& ops, const Matrix& out, const LinearVariant& variant,
                            const vk::View& scratch, uint32_t first_tile, uint32_t tiles) {
        record_expert_linear(ops,
                             {x_matrix, c.heads ? std::nullopt : std::optional(routes_matrix), out,
                              weight.device, c.bias ? std::optional(bias_buffer.view()) : std::nullopt,
                              c.experts, c.used, c.glu, c.activation, scratch, first_tile, tiles},
                             variant);
    };
    for (const LinearVariant& variant : variants) {
        if (context.never_runs(op, variant) || takes_minutes(context, variant)) continue;
        const bool bytes = variant.operands() == LinearVariant::Operands::bytes;
        const uint32_t levels = bytes ? LINEAR_BYTE_LEVELS : variant.x_levels();
        if (!expected.contains(levels)) expected[levels] = expected_of(stepped(doubles(x), c.cols, levels));
        const vk::Buffer scratch = scratch_for(context, {variant}, c.shape());
        run_variants(
            context, op,
            cat(tensor_type_info(c.type).name, " tokens ", c.tokens, " experts ", c.used, "/", c.experts,
                " rows ", c.rows, " cols ", c.cols, c.per_slot ? " per slot" : "", c.bias ? " bias" : "",
                c.glu ? " glu" : "", c.shard_rows ? " sharded" : "", c.gap ? " strided" : "",
                c.cut ? " cut" : "", c.bad ? " NaN" : ""),
            std::span(&variant, 1), expected[levels], c.used * out_cols,
            linear_bounds(variant, c.type, variant.lane_tokens == 1 ? 1 : c.tokens, c.cols, c.glu),
            [&](OpContext& ops, const Matrix& out, const LinearVariant&) {
                const uint32_t tiles = variant.rows ? uint32_t(groups_for(c.rows, variant.rows)) : 0;
                const bool cut = c.cut && variant.sorted && tiles > 1;
                for (const uint32_t first : cut ? std::vector{0u, 1u} : std::vector{0u})
                    record(ops, out, variant, scratch.view(), first, !cut ? 0 : first ? tiles - 1 : 1);
            });
    }
}

/// Every way on one type, each kernel costing a CPU driver a compile; of others the first that sorts, and
/// what does not.
std::vector<LinearVariant> telling_variants(const CheckContext& context, const ExpertShape& shape) {
    std::vector<LinearVariant> variants = expert_linear_variants(context.caps(), shape);
    const auto sorted = std::ranges::find(variants, true, &LinearVariant::sorted);
    if (sorted == variants.end() || shape.type == TensorType::q4_1 || context.tier == Tier::full)
        return variants;
    const std::string first = sorted->name;
    std::erase_if(variants, [&](const LinearVariant& v) { return v.sorted && v.name != first; });
    return variants;
}

void check_head_linear(CheckContext& context) {
    constexpr uint32_t tokens = 3, heads = 4, rows = 32, cols = 32, first = 6, stride = 45;
    const CheckWeight weight =
        check_weight(context, TensorType::f32, heads * rows, cols,
                     random_blocks(TensorType::f32, heads * rows, cols, context.seed), 32);
    const std::vector<float> x = random_floats(tokens * heads * stride, context.seed + 1);
    std::vector<double> expected(tokens * heads * rows);
    reference::head_linear(doubles(x), tokens, weight.reference(), heads, first, expected);
    const vk::Buffer x_buffer = context.buffer_of<float>(x);
    const ExpertShape shape{tokens, heads, heads, rows, cols, TensorType::f32, true, true};
    const std::vector<LinearVariant> variants = telling_variants(context, shape);
    const vk::Buffer scratch = scratch_for(context, variants, shape);
    run_variants(context, "head_linear", cat("tokens ", tokens, " heads ", heads), variants, expected,
                 heads * rows, bounds_of(6 * 8),
                 [&](OpContext& ops, const Matrix& out, const LinearVariant& variant) {
                     record_expert_linear(ops,
                                          {.x = {x_buffer.view(), tokens, heads * stride, heads * stride, 0},
                                           .out = out,
                                           .weight = weight.device,
                                           .experts = heads,
                                           .used = heads,
                                           .scratch = scratch.view(),
                                           .first = first},
                                          variant);
                 });
}

void check_expert_sum(CheckContext& context, bool adds) {
    constexpr uint32_t tokens = 5, used = 3, cols = 37;
    constexpr float scale = 0.75f;
    const std::vector<float> x = random_floats(tokens * used * cols, context.seed),
                             routes = routes_for(tokens, 4, used, context.seed + 1),
                             residual = random_floats(tokens * cols, context.seed + 2);
    std::vector<double> expected(tokens * cols);
    reference::expert_sum(doubles(x), doubles(routes), used, expected);
    if (adds) reference::add(doubles(residual), std::vector(expected), scale, expected);
    const vk::Buffer x_buffer = context.buffer_of<float>(x), routes_buffer = context.buffer_of<float>(routes),
                     residual_buffer = context.buffer_of<float>(residual);
    const Matrix residual_matrix{residual_buffer.view(), tokens, cols, cols, 0};
    run_variants(context, "expert_sum",
                 cat("tokens ", tokens, " used ", used, " cols ", cols, adds ? " added" : ""),
                 expert_sum_variants(context.caps()), expected, cols, bounds_of(4),
                 [&](OpContext& ops, const Matrix& out, const KernelVariant& variant) {
                     record_expert_sum(ops,
                                       {{x_buffer.view(), tokens, used * cols, used * cols, 0},
                                        {routes_buffer.view(), tokens, 2 * used, 2 * used, 0},
                                        out,
                                        used,
                                        adds ? std::optional(residual_matrix) : std::nullopt,
                                        scale},
                                       variant);
                 });
}

}  // namespace

void check_experts(CheckContext& context) {
    for (const RouteCase& c : route_cases) check_route(context, c);
    for (const LinearCase& c : linear_cases)
        check_expert_linear(context, c, telling_variants(context, c.shape()));
    check_head_linear(context);
    for (const bool adds : {false, true}) check_expert_sum(context, adds);
}

void check_experts(CheckContext& context, const ModelExperts& m, const LinearVariant& variant) {
    // Few experts tell, where each has a tile of tokens and one more, and a tile of rows and more.
    constexpr uint32_t experts = 3, least_rows = 32;
    const uint32_t rows = std::max(least_rows, variant.rows + WEIGHT_GROUP_ROWS);
    const uint32_t used = m.shape.heads ? experts : std::min(m.shape.used, 2u);
    const uint32_t tokens = variant.sorted       ? (variant.tokens + 1) * experts / used
                            : m.shape.tokens > 1 ? 3
                                                 : 1;
    check_expert_linear(context,
                        {m.shape.type, tokens, experts, used, std::min(m.shape.rows, rows), m.shape.cols,
                         m.shape.per_slot, m.bias, m.glu, 0, m.activation, m.shape.heads},
                        {variant});
}

}  // namespace scoria::validate
