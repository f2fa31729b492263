// Cases of glu, add, soft_cap and select.
#include "check_tools.h"
#include "checks.h"
#include "fail.h"
#include "ops/elementwise.h"
#include "ops/select.h"
#include "reference/elementwise.h"
#include "step.h"

#include <algorithm>

namespace scoria::validate {
namespace {

struct Case {
    uint32_t rows, cols;
    float sigma;
};
constexpr Case cases[] = {{1, 1536, 1}, {3, 37, 1}, {1, 1, 1}, {5, 100, 60}, {2, 9, 1e-15f}, {128, 100, 1}};
constexpr Case large{1100, 32000, 1};  // more workgroups than one dimension of a grid holds

std::string shape_of(const Case& c) { return cat("rows ", c.rows, " cols ", c.cols, " sigma ", c.sigma); }

/// Inputs stand side by side in rows of 2 cols + 3, as the parts of a fused matrix would.
struct Pair {
    std::vector<float> values;
    vk::Buffer buffer;
    Matrix a, b;
    std::vector<double> a_values, b_values;

    Pair(CheckContext& context, const Case& c)
        : values(random_floats(size_t(c.rows) * (2 * c.cols + 3), context.seed, c.sigma)),
          buffer(context.buffer_of<float>(values)) {
        const uint32_t stride = 2 * c.cols + 3;
        const Matrix whole{buffer.view(), c.rows, stride, stride, 0};
        a = whole.columns(1, c.cols);
        b = whole.columns(c.cols + 2, c.cols);
        for (uint32_t r = 0; r < c.rows; ++r)
            for (uint32_t i = 0; i < c.cols; ++i) {
                a_values.push_back(double(values[size_t(r) * stride + 1 + i]));
                b_values.push_back(double(values[size_t(r) * stride + c.cols + 2 + i]));
            }
    }
};

}  // namespace

void check_glu(CheckContext& context) {
    for (const Case& c : cases) {
        const Pair in(context, c);
        std::vector<double> expected(in.a_values.size());
        reference::glu(in.a_values, in.b_values, Activation::silu, expected);
        // e^x may be off by 3 + 2 |x| units (Vulkan's table of precisions), which matters while e^-x is not
        // small.
        run_variants(context, "glu", shape_of(c), glu_variants(context.caps()), expected, c.cols,
                     bounds_of(16), [&](OpContext& ops, const Matrix& out, const KernelVariant& variant) {
                         record_glu(ops, {in.a, in.b, out, Activation::silu}, variant);
                     });
    }
}

void check_add(CheckContext& context) {
    std::vector<Case> all(std::begin(cases), std::end(cases));
    if (context.tier == Tier::full) all.push_back(large);
    for (const Case& c : all) {
        const Pair in(context, c);
        std::vector<double> expected(in.a_values.size());
        reference::add(in.a_values, in.b_values, expected);
        run_variants(context, "add", shape_of(c), add_variants(context.caps()), expected, c.cols,
                     bounds_of(1), [&](OpContext& ops, const Matrix& out, const KernelVariant& variant) {
                         record_add(ops, {in.a, in.b, out}, variant);
                     });
    }
}

void check_soft_cap(CheckContext& context) {
    for (const float cap : {30.0f, 1.5f})
        for (const Case& c : cases) {
            const Pair in(context, c);
            std::vector<double> expected(in.a_values.size());
            reference::soft_cap(in.a_values, double(cap), expected);
            run_variants(context, "soft_cap", cat(shape_of(c), " cap ", cap),
                         soft_cap_variants(context.caps()), expected, c.cols, bounds_of(16),
                         [&](OpContext& ops, const Matrix& out, const KernelVariant& variant) {
                             record_soft_cap(ops, {in.a, out, cap}, variant);
                         });
        }
}

void check_select(CheckContext& context) {
    constexpr uint32_t rows = 7, cols = 300, outputs_word = 77;
    const std::vector<float> x = random_floats(rows * cols, context.seed);
    const vk::Buffer buffer = context.buffer_of<float>(x);
    const std::vector<uint32_t> lists[] = {{6}, {0, 3, 3, 6}, {2, 1000}};  // the last one is out of range
    for (const std::vector<uint32_t>& list : lists) {
        std::vector<uint32_t> step(outputs_word + list.size());
        step[STEP_OUTPUT_COUNT] = uint32_t(list.size());
        std::ranges::copy(list, step.begin() + outputs_word);
        const vk::Buffer step_buffer = context.buffer_of<uint32_t>(step);
        std::vector<double> expected;
        for (const uint32_t row : list)
            for (uint32_t i = 0; i < cols; ++i)
                expected.push_back(double(x[std::min(row, rows - 1) * cols + i]));
        run_variants(
            context, "select", cat("outputs ", list.size()), select_variants(context.caps()), expected, cols,
            Bounds{0, 0, 0}, [&](OpContext& ops, const Matrix& out, const KernelVariant& variant) {
                record_select(ops,
                              {{buffer.view(), rows, cols, cols, 0}, out, step_buffer.view(), outputs_word},
                              variant);
            });
    }
}

}  // namespace scoria::validate
