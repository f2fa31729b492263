// Cases of rms_norm.
#include "check_tools.h"
#include "checks.h"
#include "fail.h"
#include "ops/rms_norm.h"
#include "reference/rms_norm.h"

namespace scoria::validate {
namespace {

struct Case {
    uint32_t rows, cols, group;
    float sigma;         // of x
    uint32_t extra = 0;  // columns of x's rows that are not part of it
};
constexpr Case cases[] = {
    {1, 576, 576, 1},   {3, 1, 1, 1},       {7, 37, 37, 1, 5},  {128, 576, 576, 1}, {5, 96, 12, 1, 3},
    {2, 4096, 4096, 1}, {2, 64, 64, 1e-6f}, {2, 64, 64, 1e15f}, {70000, 4, 4, 1},
};

}  // namespace

void check_rms_norm(CheckContext& context) {
    constexpr float epsilon = 1e-5f;
    for (const Case& c : cases) {
        const uint32_t stride = c.cols + c.extra;
        const std::vector<float> x = random_floats(size_t(c.rows) * stride + c.extra, context.seed, c.sigma);
        const std::vector<float> weight = random_floats(c.group, context.seed + 1);
        std::vector<double> used, expected(size_t(c.rows) * c.cols);
        for (uint32_t r = 0; r < c.rows; ++r)
            for (uint32_t i = 0; i < c.cols; ++i) used.push_back(double(x[c.extra + r * stride + i]));
        reference::rms_norm(used, doubles(weight), double(epsilon), expected);

        const vk::Buffer x_buffer = context.buffer_of<float>(x),
                         weight_buffer = context.buffer_of<float>(weight);
        const Matrix x_matrix{x_buffer.view(), c.rows, c.cols, stride, c.extra};
        // The sum of squares: sqrt(group) roundings of random sign; then root, division and two products.
        run_variants(
            context, "rms_norm",
            cat("rows ", c.rows, " cols ", c.cols, " group ", c.group, " sigma ", c.sigma),
            rms_norm_variants(context.caps()), expected, c.cols, bounds_of(4 + std::sqrt(double(c.group))),
            [&](OpContext& ops, const Matrix& out, const KernelVariant& variant) {
                record_rms_norm(ops, {x_matrix, out, weight_buffer.view(), epsilon, c.group}, variant);
            });
    }
}

}  // namespace scoria::validate
