// Cases of glu, add, gate, map, pack, mix and select.
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
    float mean = 0;
    bool nan = false;  // the first element of `a`, and of the outputs no other
};
constexpr Case cases[] = {
    {1, 1536, 1},   {3, 37, 1},         {1, 1, 1},         {5, 100, 60},
    {2, 9, 1e-15f}, {128, 100, 1},      {2, 64, 0.5f, -4},  // small tails of activations
    {2, 70, 1e18f}, {3, 40, 1, 0, true}};
/// What activations differ in: their middle, their tails, what overflows in them.
bool tells_activations(const Case& c) {
    return (c.rows == 1 && c.cols > 1) || c.mean != 0 || c.sigma == 60 || c.sigma == 1e18f;
}
constexpr Case large{1100, 32000, 1};  // more workgroups than one dimension of a grid holds

std::string shape_of(const Case& c) {
    return cat("rows ", c.rows, " cols ", c.cols, " sigma ", c.sigma,
               c.mean != 0 ? cat(" mean ", c.mean) : "", c.nan ? " NaN" : "");
}

Bounds elementwise_bounds(double units) {
    Bounds bounds = bounds_of(units);
    bounds.floor = 1e-35;  // what is smaller may be flushed to zero
    return bounds;
}

std::vector<float> inputs_for(const CheckContext& context, const Case& c) {
    std::vector<float> values = random_floats(size_t(c.rows) * (2 * c.cols + 3), context.seed, c.sigma);
    for (float& value : values) value += c.mean;
    if (c.nan) values[1] = NAN;
    return values;
}

/// Inputs stand side by side in rows of 2 cols + 3, as the parts of a fused matrix would.
struct Pair {
    std::vector<float> values;
    vk::Buffer buffer;
    Matrix a, b;
    std::vector<double> a_values, b_values;

    Pair(CheckContext& context, const Case& c)
        : values(inputs_for(context, c)), buffer(context.buffer_of<float>(values)) {
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

constexpr struct {
    Activation activation;
    const char* name;
} activations[] = {
    {Activation::identity, "identity"},
    {Activation::silu, "silu"},
    {Activation::gelu, "gelu"},
    {Activation::gelu_tanh, "gelu_tanh"},
    {Activation::gelu_quick, "gelu_quick"},
    {Activation::relu, "relu"},
    {Activation::relu_squared, "relu^2"},
    {Activation::sigmoid, "sigmoid"},
    {Activation::elu, "elu"},
    {Activation::selu, "selu"},
    {Activation::softplus, "softplus"},
    {Activation::tanh, "tanh"},
};
// e^x may be off by 3 + 2 |x| units (Vulkan's table of precisions), which matters while e^-x is not small.
// Arguments of an activation go through at most one product before.
constexpr double exp_units = 16;

void run_glu(CheckContext& context, const Case& c, Activation activation, const char* name) {
    const Pair in(context, c);
    std::vector<double> expected(in.a_values.size());
    reference::glu(in.a_values, in.b_values, activation, {}, expected);
    run_variants(context, "glu", cat(name, " ", shape_of(c)), binary_variants(context.caps()), expected,
                 c.cols, elementwise_bounds(exp_units),
                 [&](OpContext& ops, const Matrix& out, const KernelVariant& variant) {
                     record_glu(ops, {in.a, in.b, out, activation}, variant);
                 });
}

}  // namespace

void check_glu(CheckContext& context, uint32_t rows, uint32_t cols, Activation activation) {
    for (const auto& each : activations)
        if (each.activation == activation) run_glu(context, {rows, cols, 1}, activation, each.name);
}

void check_glu(CheckContext& context) {
    for (const auto& [activation, name] : activations)
        for (const Case& c : cases) {
            // map checks the others, by the same function.
            const bool telling =
                activation == Activation::silu || (activation == Activation::gelu && &c == &cases[0]);
            if (!telling && context.tier == Tier::quick) continue;
            run_glu(context, c, activation, name);
        }
    constexpr GluClamp clamps[] = {
        {.limit = 2, .slope = 1.702f, .offset = 1}, {.limit = 1.5f}, {.limit = 1.25f, .activated = true}};
    for (const GluClamp& clamp : clamps)
        for (const Case& c : cases) {
            const Pair in(context, c);
            std::vector<double> expected(in.a_values.size());
            reference::glu(in.a_values, in.b_values, Activation::silu, clamp, expected);
            run_variants(
                context, "glu",
                cat(clamp.activated ? "activated " : "", "clamped to ", clamp.limit, " ", shape_of(c)),
                binary_variants(context.caps()), expected, c.cols, elementwise_bounds(exp_units),
                [&](OpContext& ops, const Matrix& out, const KernelVariant& variant) {
                    record_glu(ops, {in.a, in.b, out, Activation::silu, clamp}, variant);
                });
        }
}

namespace {

void run_add(CheckContext& context, const Case& c, float scale) {
    const Pair in(context, c);
    std::vector<double> expected(in.a_values.size());
    reference::add(in.a_values, in.b_values, double(scale), expected);
    run_variants(context, "add", cat(shape_of(c), " scale ", scale), binary_variants(context.caps()),
                 expected, c.cols, elementwise_bounds(2),
                 [&](OpContext& ops, const Matrix& out, const KernelVariant& variant) {
                     record_add(ops, {in.a, in.b, out, scale}, variant);
                 });
}

}  // namespace

void check_add(CheckContext& context, uint32_t rows, uint32_t cols, float scale) {
    run_add(context, {rows, cols, 1}, scale);
}

void check_add(CheckContext& context) {
    std::vector<Case> all(std::begin(cases), std::end(cases));
    if (context.tier == Tier::full) all.push_back(large);
    for (const float scale : {1.0f, 0.22f})
        for (const Case& c : all) run_add(context, c, scale);
}

void check_pack(CheckContext& context) {
    constexpr uint32_t rows = 5, heads = 3, a_cols = 10, b_cols = 7;
    constexpr op::HeadColumns from_a{4, 6}, from_b{0, 7};
    const std::vector<float> a = random_floats(rows * heads * a_cols, context.seed),
                             b = random_floats(rows * heads * b_cols, context.seed + 1);
    std::vector<double> expected;
    for (uint32_t i = 0; i < rows * heads; ++i) {
        for (uint32_t c = 0; c < from_a.count; ++c)
            expected.push_back(double(a[i * a_cols + from_a.first + c]));
        for (uint32_t c = 0; c < from_b.count; ++c)
            expected.push_back(double(b[i * b_cols + from_b.first + c]));
    }
    const vk::Buffer a_buffer = context.buffer_of<float>(a), b_buffer = context.buffer_of<float>(b);
    run_variants(context, "pack", cat("rows ", rows, " heads ", heads), pack_variants(context.caps()),
                 expected, heads * (from_a.count + from_b.count), Bounds{0, 0, 0},
                 [&](OpContext& ops, const Matrix& out, const KernelVariant& variant) {
                     record_pack(ops,
                                 {{a_buffer.view(), rows, heads * a_cols, heads * a_cols, 0},
                                  {b_buffer.view(), rows, heads * b_cols, heads * b_cols, 0},
                                  out,
                                  heads,
                                  from_a,
                                  from_b},
                                 variant);
                 });
}

void check_mix(CheckContext& context) {
    struct MixCase {
        uint32_t rows, width, streams, inputs, kept;  // of x, of y, of out
        bool factors;
        float offset;
        uint32_t first;
    };
    constexpr MixCase mixes[] = {{3, 37, 4, 4, 4, true, 0, 0},
                                 {2, 300, 4, 1, 4, true, 1, 0},
                                 {5, 64, 4, 1, 4, false, 1, 1},
                                 {3, 33, 4, 3, 1, false, 1, 0},
                                 {130, 17, 2, 2, 2, true, 0.5f, 1}};
    constexpr float factor = 0.25f;
    for (const MixCase& c : mixes) {
        const uint32_t x_cols = c.streams * c.width, y_cols = c.inputs * c.width, count = c.kept * c.inputs;
        const std::vector<float> x = random_floats(size_t(c.rows) * x_cols, context.seed),
                                 y = random_floats(size_t(c.rows) * y_cols, context.seed + 1),
                                 factors = random_floats(size_t(c.rows) * count, context.seed + 2);
        std::vector<double> expected(size_t(c.rows) * c.kept * c.width);
        reference::mix(doubles(x), doubles(y), c.factors ? doubles(factors) : std::vector<double>(), c.rows,
                       c.width, double(c.offset), double(factor), c.first, expected);
        const vk::Buffer x_buffer = context.buffer_of<float>(x), y_buffer = context.buffer_of<float>(y),
                         factor_buffer = context.buffer_of<float>(factors);
        MixArgs args{.x = {x_buffer.view(), c.rows, x_cols, x_cols, 0},
                     .y = {y_buffer.view(), c.rows, y_cols, y_cols, 0},
                     .out = {},
                     .factors = {},
                     .width = c.width,
                     .offset = c.offset,
                     .factor = factor,
                     .first = c.first};
        if (c.factors) args.factors = Matrix{factor_buffer.view(), c.rows, count, count, 0};
        run_variants(context, "mix",
                     cat("rows ", c.rows, " width ", c.width, " streams ", c.streams, " inputs ", c.inputs,
                         " of ", c.kept, c.factors ? " by factors" : "", " from ", c.first),
                     mix_variants(context.caps()), expected, c.kept * c.width,
                     elementwise_bounds(2 + 2 * c.inputs),
                     [&](OpContext& ops, const Matrix& out, const KernelVariant& variant) {
                         args.out = out;
                         record_mix(ops, args, variant);
                     });
    }
}

void check_gate(CheckContext& context) {
    for (const Case& c : cases) {
        if (c.sigma > 50) continue;  // a gate below e^-87 makes a whole row underflow, or leaves e^88
        const uint32_t gates_of_row = c.cols % 5 == 0 ? 5 : c.cols % 3 == 0 ? 3 : 1;
        const Pair in(context, c);
        const Matrix gate = in.b.columns(0, gates_of_row);
        std::vector<double> gates, expected(in.a_values.size());
        for (uint32_t r = 0; r < c.rows; ++r)
            for (uint32_t i = 0; i < gates_of_row; ++i) gates.push_back(in.b_values[size_t(r) * c.cols + i]);
        for (const Activation activation : {Activation::sigmoid, Activation::identity}) {
            reference::gate(in.a_values, gates, activation, expected);
            run_variants(context, "gate",
                         cat(shape_of(c), activation == Activation::identity ? " as it is" : ""),
                         binary_variants(context.caps()), expected, c.cols, elementwise_bounds(exp_units),
                         [&](OpContext& ops, const Matrix& out, const KernelVariant& variant) {
                             record_gate(ops, {in.a, gate, out, activation}, variant);
                         });
        }
    }
}

void check_map(CheckContext& context) {
    constexpr float fall = 0.8f;
    const auto check = [&](const std::string& name, MapKind kind, float value, Activation activation,
                           const auto& reference) {
        for (const Case& c : cases) {
            // Which of NaN and a number is the larger one, GLSL leaves open.
            if (kind == MapKind::activate &&
                (c.nan || (!tells_activations(c) && context.tier == Tier::quick)))
                continue;
            const Pair in(context, c);
            std::vector<double> expected(in.a_values.size());
            reference(in.a_values, expected);
            run_variants(context, "map", cat(name, " ", shape_of(c)), map_variants(context.caps()), expected,
                         c.cols, elementwise_bounds(exp_units),
                         [&](OpContext& ops, const Matrix& out, const KernelVariant& variant) {
                             record_map(ops, {in.a, out, kind, value, fall, activation}, variant);
                         });
        }
    };
    for (const float value : {30.0f, 1.5f}) {
        const double exact = double(value);
        check(cat("soft cap ", value), MapKind::soft_cap, value, {},
              [=](const auto& x, auto& out) { reference::soft_cap(x, exact, out); });
        check(cat("scale ", value), MapKind::scale, value, {},
              [=](const auto& x, auto& out) { reference::scale(x, exact, out); });
        check(cat("clamp ", value), MapKind::clamp, value, {},
              [=](const auto& x, auto& out) { reference::clamp(x, exact, out); });
    }
    check("xielu", MapKind::xielu, 1.25f, {},
          [](const auto& x, auto& out) { reference::xielu(x, 1.25, double(fall), out); });
    for (const auto& each : activations) {
        const Activation activation = each.activation;
        check(each.name, MapKind::activate, 0, activation,
              [=](const auto& x, auto& out) { reference::activate(x, activation, out); });
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
