// Cases of norm.
#include "check_tools.h"
#include "checks.h"
#include "fail.h"
#include "ops/norm.h"
#include "patterns.h"
#include "reference/norm.h"

namespace scoria::validate {
namespace {

using enum NormKind;
enum Parameters { none, weight_only, weight_and_bias };

struct Case {
    uint32_t rows, cols, group;
    float sigma;  // of x
    NormKind kind = rms;
    Parameters parameters = weight_only;
    bool own_weights = false;
    uint32_t extra = 0;  // columns of x's rows that are not part of it
    Pattern pattern = Pattern::normal;
    bool nan = false;  // in row 1, which then is NaN, and no other
};
constexpr Case cases[] = {
    {1, 576, 576, 1},
    {3, 1, 1, 1},
    {7, 37, 37, 1, rms, weight_only, false, 5},
    {128, 576, 576, 1},
    {5, 96, 12, 1, rms, weight_only, false, 3},
    {2, 4096, 4096, 1},
    {2, 64, 64, 1e-6f},
    {2, 64, 64, 1e15f},
    {70000, 4, 4, 1},
    {3, 576, 576, 1, layer, weight_and_bias},
    {7, 37, 37, 100, layer, weight_only, false, 5},
    {2, 96, 96, 1, layer, none},
    {5, 96, 12, 1, layer, weight_and_bias, true, 3},
    {4, 64, 16, 1, rms, weight_and_bias, true},
    {3, 300, 300, 1, layer, weight_only, false, 0, Pattern::offset},
    {3, 300, 300, 1, rms, weight_only, false, 0, Pattern::alternating},
    {3, 576, 576, 1, rms, weight_only, false, 0, Pattern::spikes},
    {3, 129, 129, 1, rms, weight_only, false, 0, Pattern::huge},
    {3, 129, 129, 1, layer, weight_and_bias, false, 0, Pattern::tiny},
    {2, 96, 96, 1, layer, weight_only, false, 0, Pattern::zeros},
    {3, 100, 100, 1, rms, weight_only, false, 0, Pattern::normal, true},
    {3, 100, 100, 1, layer, weight_only, false, 0, Pattern::normal, true},
    {7, 37, 37, 1, scale, weight_only, false, 5},
    {2, 96, 96, 1, scale, none},
    {5, 96, 32, 1, match, none, false, 3},
    {128, 1152, 576, 3, match, none},
    {2, 64, 64, 1e-6f, match, none},  // shorter than the least length
    {3, 100, 100, 1, match, none, false, 0, Pattern::normal, true},
    {7, 37, 37, 100, cut, none, false, 5},
    {3, 1536, 1536, 1, cut, none},
    {3, 300, 300, 1, cut, none, false, 0, Pattern::offset},
    {3, 100, 100, 1, cut, none, false, 0, Pattern::normal, true},
};

void run_case(CheckContext& context, const Case& c) {
    const float epsilon = c.kind == cut ? 1.5f : 1e-5f;
    const uint32_t stride = c.cols + c.extra, weights = c.own_weights ? c.cols : c.group;
    std::vector<float> x = pattern_floats(c.pattern, size_t(c.rows) * stride + c.extra, context.seed);
    for (float& value : x) value *= c.sigma;
    if (c.nan) x[c.extra + stride + c.cols / 2] = NAN;
    const std::vector<float> weight = random_floats(weights, context.seed + 1),
                             bias = random_floats(weights, context.seed + 2);
    std::vector<double> used, expected(size_t(c.rows) * c.cols);
    for (uint32_t r = 0; r < c.rows; ++r)
        for (uint32_t i = 0; i < c.cols; ++i) used.push_back(double(x[c.extra + r * stride + i]));
    const std::vector<double> no_values;
    std::vector<float> like;
    std::vector<double> used_like;
    const uint32_t like_stride = c.group + 2;
    if (c.kind == match) like = random_floats(size_t(c.rows) * like_stride, context.seed + 3, 2);
    for (uint32_t r = 0; r < c.rows && !like.empty(); ++r)
        for (uint32_t i = 0; i < c.group; ++i)
            used_like.push_back(double(like[size_t(r) * like_stride + 1 + i]));
    reference::norm(used, c.kind, c.group, c.parameters == none ? no_values : doubles(weight),
                    c.parameters == weight_and_bias ? doubles(bias) : no_values, double(epsilon), expected,
                    used_like);

    const vk::Buffer x_buffer = context.buffer_of<float>(x), weight_buffer = context.buffer_of<float>(weight),
                     bias_buffer = context.buffer_of<float>(bias);
    const Matrix x_matrix{x_buffer.view(), c.rows, c.cols, stride, c.extra};
    NormArgs args{.x = x_matrix,
                  .out = {},
                  .kind = c.kind,
                  .weight = {},
                  .bias = {},
                  .epsilon = epsilon,
                  .group = c.group,
                  .own_weights = c.own_weights};
    vk::Buffer like_buffer;
    if (c.kind == match) {
        like_buffer = context.buffer_of<float>(like);
        args.like = Matrix{like_buffer.view(), c.rows, c.group, like_stride, 1};
    }
    if (c.parameters != none) args.weight = weight_buffer.view();
    if (c.parameters == weight_and_bias) args.bias = bias_buffer.view();
    // The sum of squares, and of values: sqrt(group) roundings of random sign; then root, division and
    // two products. An offset of 1000 beside a deviation of 1 makes the mean's error 1000 times as large.
    // What is above a cut is a fifth of what it was cut from, and one element in 15.
    Bounds bounds = bounds_of((4 + 2 * std::sqrt(double(c.group))) *
                              (c.pattern == Pattern::offset ? 1000 : 1) * (c.kind == cut ? 20 : 1));
    bounds.floor = 1e-35;  // what is smaller may be flushed to zero
    run_variants(context, "norm",
                 cat(norm_kind_names[size_t(c.kind)], " rows ", c.rows, " cols ", c.cols, " group ", c.group,
                     " sigma ", c.sigma, c.parameters == none ? " plain" : "",
                     c.parameters == weight_and_bias ? " bias" : "", c.own_weights ? " own weights" : "",
                     c.pattern == Pattern::normal ? "" : cat(" ", pattern_name(c.pattern)),
                     c.nan ? " NaN" : ""),
                 proven_variants(context.caps(), norm_variants), expected, c.cols, bounds,
                 [&](OpContext& ops, const Matrix& out, const KernelVariant& variant) {
                     args.out = out;
                     record_norm(ops, args, variant);
                 });
}

}  // namespace

void check_norm(CheckContext& context) {
    for (const Case& c : cases) run_case(context, c);
}

void check_norm(CheckContext& context, const ModelNorm& shape) {
    run_case(context, {shape.rows, shape.cols, shape.group, 1, shape.kind,
                       shape.bias     ? weight_and_bias
                       : shape.weight ? weight_only
                                      : none,
                       shape.own_weights});
}

}  // namespace scoria::validate
