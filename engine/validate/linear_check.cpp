// Checks of linear: every weight type and variant against the double-precision product.
#include "check_tools.h"
#include "checks.h"
#include "linear_tools.h"
#include "reference/elementwise.h"
#include "weight_check.h"
#include "weight_planes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

namespace scoria::validate {
namespace {

struct Case {
    uint32_t tokens, rows, cols;
    bool bias = false, residual = false, in_place = false, glu = false, strided = false;
    uint32_t shard_rows = 0;
    Tier tier = Tier::quick;
    bool activate = false;  // also scales
    float bad = 0;          // NaN or Inf in the second token or the only one, whose outputs are none then
    bool ints = false;      // kernels of integer products and deep tiles too, of every type
    bool norm = false;      // variants that fold it alone
    bool kernels = false;   // all kernels on CPU drivers, too, of types of each kind
};

constexpr Case cases[] = {
    {40, 1, 32},
    {1, 576, 576, true, true},
    {1, 77, 1536, true, true, true, false, true, 20},
    {1, 96, 256, true, false, false, true, true, 34, Tier::quick, false, 0, false, false, true},
    {3, 49, 96, true, true, false, false, true, 0, Tier::quick, false, 0, true},
    {2, 64, 320, false, false, false, true},
    {70, 130, 160, true, true, true, false, true, 64},
    {67, 98, 64, true, false, false, true, false, 50},
    {1, 64, 96, true, true, false, false, false, 0, Tier::quick, true},
    {70, 64, 96, true, false, false, false, false, 0, Tier::quick, true},
    {5, 64, 96, true, true, false, false, false, 0, Tier::quick, false, NAN},
    {5, 130, 96, true, true, false, false, false, 0, Tier::quick, false, INFINITY},
    {1, 98, 96, true, false, false, false, true, 34, Tier::quick, true, 0, false, true},
    {1, 64, 320, false, false, false, true, false, 0, Tier::quick, false, 0, false, true, true},
    {40, 98, 96, true, false, false, false, true, 34, Tier::quick, false, 0, false, true},
    {1, 64, 320, true, false, false, false, false, 0, Tier::quick, false, NAN, false, true},
    {1, 64, 320, true, false, false, false, false, 0, Tier::quick, false, INFINITY, false, true},
    // Several units of what blocks share.
    {20, 34, 576, false, false, false, false, false, 0, Tier::quick, false, 0, false, false, true},
    {300, 4096, 32},  // 76,800 groups at one token and 16 rows each: the grid folds
    {1, 70000, 64, false, false, false, false, false, 0, Tier::full},
    {128, 1536, 576, false, true, true, false, false, 0, Tier::full},
    {8, 576, 1536, true, true, false, false, false, 0, Tier::full},
};
// Float rows may end anywhere.
constexpr Case float_cases[] = {{1, 9, 1},
                                {2, 33, 45, true, true, false, false, true},
                                {67, 65, 577},
                                {1, 34, 36, false, false, false, false, true},
                                {9, 34, 36, false, false, false, false, true}};

std::vector<float> rows_of(std::span<const float> x, uint32_t cols, std::span<const uint32_t> at) {
    std::vector<float> rows;
    for (const uint32_t t : at)
        rows.insert(rows.end(), x.begin() + std::ptrdiff_t(t) * cols,
                    x.begin() + std::ptrdiff_t(t + 1) * cols);
    return rows;
}

/// Rows `at` of x [tokens, cols] as the device packed them, if the variant multiplies bytes, else as they
/// are. `fault` says what is not the nearest byte, or not the sum of bytes.
std::vector<double> packed_x(CheckContext& context, const LinearVariant& variant, const vk::Buffer& operands,
                             std::span<const float> x, uint32_t cols, std::span<const uint32_t> at,
                             std::string& fault) {
    const std::vector<float> rows = rows_of(x, cols, at);
    std::vector<double> values(rows.begin(), rows.end());
    if (variant.operands() != LinearVariant::Operands::bytes) return values;
    const std::vector<std::byte> memory = context.download(operands.view());
    const uint32_t blocks = (cols + WEIGHT_BLOCK - 1) / WEIGHT_BLOCK;
    std::string wrong;
    const size_t sides = x.size() / cols * blocks * WEIGHT_BLOCK;
    for (size_t item = 0; item < at.size() * blocks; ++item) {
        const size_t block = size_t(at[item / blocks]) * blocks + item % blocks;
        float step = 0;
        int16_t given[2];
        std::memcpy(&step, &memory[sides + 8 * block], sizeof step);
        std::memcpy(given, &memory[sides + 8 * block + 4], sizeof given);
        const size_t first = item / blocks * cols + item % blocks * WEIGHT_BLOCK;
        const size_t count = std::min<size_t>(WEIGHT_BLOCK, cols - item % blocks * WEIGHT_BLOCK);
        const double largest = largest_of(std::span(values).subspan(first, count));
        int sums[2] = {};
        for (size_t i = 0; i < WEIGHT_BLOCK; ++i) {
            const int byte = int8_t(memory[block * WEIGHT_BLOCK + i]);
            sums[2 * i / WEIGHT_BLOCK] += byte;
            if (i >= count) continue;
            double& value = values[first + i];
            const bool nearest = std::abs(value - byte * double(step)) <= largest / 127 * 0.5001;
            if (std::isnan(largest) ? !std::isnan(step) : !nearest) wrong = cat("byte of x at ", first + i);
            value = byte * double(step);
        }
        if (sums[0] != given[0] || sums[1] != given[1]) wrong = cat("sums of bytes of x at ", first);
    }
    if (!wrong.empty() && fault.empty()) fault = wrong + ": not as it should be";
    return values;
}

std::string shape_of(const Case& c, TensorType type) {
    return cat(tensor_type_info(type).name, " rows ", c.rows, " cols ", c.cols, " tokens ", c.tokens,
               c.bias ? " bias" : "", c.residual ? c.in_place ? " residual in place" : " residual" : "",
               c.glu ? " glu" : "", c.activate ? " activated" : "", c.norm ? " norm" : "",
               c.strided ? " strided" : "", c.shard_rows ? " sharded" : "",
               c.bad == 0          ? ""
               : std::isnan(c.bad) ? " NaN"
                                   : " Inf");
}

float scale_of(const Case& c) { return c.activate ? 0.7f : 1; }

/// A float matrix with gaps that hold NaN where `gap` is not 0.
struct Placed {
    std::vector<float> words;
    uint32_t first, stride;
    Matrix matrix(const vk::Buffer& buffer, uint32_t rows, uint32_t cols) const {
        return {buffer.view(), rows, cols, stride, first};
    }
};
Placed place(std::span<const float> values, uint32_t cols, uint32_t gap) {
    const uint32_t first = 2 * gap, stride = cols + gap;
    Placed placed{{}, first, stride};
    placed.words.assign(first + values.size() / cols * stride, std::nanf(""));
    for (size_t i = 0; i < values.size(); ++i) placed.words[first + i / cols * stride + i % cols] = values[i];
    return placed;
}

struct Inputs {
    std::vector<float> x, bias, residual, norm;
    uint32_t out_cols;
};

Inputs inputs_for(const Case& c, uint64_t seed) {
    Inputs in{random_floats(size_t(c.tokens) * c.cols, seed + 1),
              random_floats(c.rows, seed + 2),
              {},
              c.norm ? random_floats(c.cols, seed + 4) : std::vector<float>(),
              c.glu ? c.rows / 2 : c.rows};
    if (c.norm)  // as small as makes epsilon count
        for (float& value : in.x) value *= std::sqrt(norm_epsilon);
    if (c.bad != 0) in.x[(c.tokens > 1 ? c.cols : 0) + c.cols / 2] = c.bad;
    if (c.bad != 0 && c.norm) in.norm[c.cols / 2] = 0;  // what is no number stays so
    leave_ties(in.x, c.cols, in.norm);
    in.residual = random_floats(size_t(c.tokens) * in.out_cols, seed + 3);
    return in;
}

/// [tokens, out columns] of `x`.
std::vector<double> expected_of(const Case& c, const CheckWeight& weight, const Inputs& in,
                                std::span<const double> x) {
    std::vector<double> bias, expected(size_t(c.tokens) * c.rows);
    if (c.bias) bias.assign(in.bias.begin(), in.bias.end());
    reference::linear(x, weight.reference(), bias, expected);
    const size_t outputs = in.residual.size();
    if (c.glu)
        for (size_t i = 0; i < outputs; ++i)
            expected[i] = expected[2 * i] / (1 + std::exp(-expected[2 * i])) * expected[2 * i + 1];
    expected.resize(outputs);
    if (c.activate)
        for (double& value : expected) value *= double(scale_of(c)) / (1 + std::exp(-value));
    if (c.residual)
        for (size_t i = 0; i < outputs; ++i) expected[i] += double(in.residual[i]);
    return expected;
}

void run_case(CheckContext& context, Case c, TensorType type, bool all_variants) {
    const uint32_t block = tensor_type_info(type).block;
    c.cols = (c.cols + block - 1) / block * block;
    // As the engine does, fewer tokens at a time where a binding would not hold them.
    while (c.tokens > 1 &&
           4ull * (c.tokens + 2) * (std::max(c.rows, c.cols) + 3) > context.caps().max_binding)
        c.tokens /= 2;
    const uint64_t seed = context.seed + c.rows + c.cols;
    const CheckWeight weight =
        check_weight(context, type, c.rows, c.cols, random_blocks(type, c.rows, c.cols, seed), c.shard_rows);
    const Inputs in = inputs_for(c, seed);
    std::vector<uint32_t> all_tokens(c.tokens);
    std::iota(all_tokens.begin(), all_tokens.end(), 0u);
    const std::vector<double> normed_x = normed(in.x, in.norm), plain = expected_of(c, weight, in, normed_x);
    // Rows begin at multiples of four words, or not.
    const uint32_t gap = !c.strided ? 0 : c.rows % 2 ? 3 : 4;
    const Placed x = place(in.x, c.cols, gap), residual = place(in.residual, in.out_cols, gap);
    const vk::Buffer x_buffer = context.buffer_of<float>(x.words),
                     bias_buffer = context.buffer_of<float>(in.bias),
                     norm_weight = context.buffer_of<float>(c.norm ? in.norm : in.bias);
    const vk::Buffer residual_buffer = context.buffer_of<float>(residual.words);
    const vk::View bias = bias_buffer.view();
    const Matrix residual_matrix = residual.matrix(residual_buffer, c.tokens, in.out_cols);

    const auto variants = linear_variants(context.caps(), {c.tokens, c.rows, c.cols, type, Precision::fast});
    // The tile's 256 products take a CPU driver six seconds a type.
    const Shader ints = context.caps().is_cpu() ? Shader::linear_vec_int : Shader::linear_tile_int;
    for (const LinearVariant& variant : variants) {
        const bool wanted = all_variants || &variant == &variants.front() ||
                            (c.ints && (variant.shader == ints || variant.x_levels() != 0 || variant.deep()));
        if (!wanted || context.leaves_out("linear", variant) || (c.norm && !variant.folds_norm(c.tokens)))
            continue;
        if (takes_minutes(context, variant)) continue;
        const vk::Buffer operands = context.buffer_of<std::byte>(
            std::vector(linear_scratch_bytes(variant, c.tokens, c.rows, c.cols), std::byte{0x7D}));
        const auto record = [&](OpContext& op, const CheckContext::Output& output) {
            Matrix out = output.matrix(c.tokens, in.out_cols);
            out.stride = residual.stride;
            out.first += residual.first;
            LinearArgs args{.x = x.matrix(x_buffer, c.tokens, c.cols),
                            .out = out,
                            .weight = weight.device,
                            .bias = c.bias ? &bias : nullptr,
                            .residual = c.residual ? &residual_matrix : nullptr,
                            .norm = c.norm ? std::optional(RmsNorm{norm_weight.view(), norm_epsilon})
                                           : std::nullopt,
                            .glu = c.glu,
                            .activate = c.activate,
                            .scale = scale_of(c),
                            .scratch = operands.view()};
            if (c.in_place) {
                args.residual = &args.out;
                op.recorder.copy(residual_buffer.view(0, 4 * residual.words.size()),
                                 output.buffer.view(4ull * output.first, 4 * residual.words.size()));
            }
            record_linear(op, args, variant);
        };
        std::string sentinel;
        const std::vector<float> words = context.run_twice(uint32_t(residual.words.size()), record, sentinel);
        const bool bytes = variant.operands() == LinearVariant::Operands::bytes;
        const std::vector<double> expected =
            bytes ? expected_of(c, weight, in,
                                packed_x(context, variant, operands, in.x, c.cols, all_tokens, sentinel))
            : variant.x_levels() != 0
                ? expected_of(c, weight, in, stepped(normed_x, c.cols, variant.x_levels()))
                : plain;
        std::vector<float> actual(expected.size());
        for (size_t k = 0; k < actual.size(); ++k)
            actual[k] = words[residual.first + k / in.out_cols * residual.stride + k % in.out_cols];
        // What Inf becomes is a kernel's own: packed operands make NaN of all that it meets, as do scales
        // that are applied to sums.
        for (size_t k = 0; std::isinf(c.bad) && k < actual.size(); ++k)
            if (!std::isfinite(expected[k]) && !std::isfinite(actual[k])) actual[k] = float(expected[k]);
        for (size_t w = 0; w < words.size() && sentinel.empty(); ++w) {
            const bool between = w < residual.first || (w - residual.first) % residual.stride >= in.out_cols;
            if (between && !std::isnan(words[w])) sentinel = cat("word ", w, " between rows was overwritten");
        }
        // One output alone may be as near zero as it likes: fewer than 16 are judged together with the other
        // tokens'.
        const uint32_t judged = in.out_cols < 16 ? uint32_t(actual.size()) : in.out_cols;
        context.compare("linear", variant.name, shape_of(c, type), expected, actual, judged,
                        linear_bounds(variant, type, c.tokens, c.cols, c.glu || c.activate), sentinel);
    }
}

}  // namespace

void check_linear(CheckContext& context) {
    check_linear_heads(context);
    const bool full = context.tier == Tier::full;
    for (const TensorTypeInfo& info : tensor_types()) {
        const TensorType type = info.type;
        // Every new pair of type and variant costs a CPU driver a compile of up to a second: in the quick
        // tier all variants run on one type, on a few cases of one of each kind (a scale for 16 columns, a
        // byte of a scale, codes of a table), and the default ones on all types.
        const bool thorough = full || type == TensorType::q4_1;
        const bool of_a_kind =
            type == TensorType::q6_k || type == TensorType::mxfp4 || type == TensorType::iq4_nl;
        for (const Case& c : cases) {
            // A lane reads its blocks alone: subgroups see how many columns share a scale.
            const bool sees = type == TensorType::q4_1 ? c.rows < 100 : type == TensorType::q6_k && c.kernels;
            if (context.only_subgroups && !sees) continue;
            const bool all = thorough || (of_a_kind && (c.kernels || !context.caps().is_cpu_driver()));
            if (full || (c.tier == Tier::quick && (thorough || c.rows < 100)))
                run_case(context, c, type, all);
        }
        if (context.only_subgroups) continue;
        if (info.block == 1)
            for (const Case& c : float_cases) run_case(context, c, type, full);
    }
}

void check_linear(CheckContext& context, const ModelLinear& m, const LinearVariant& variant) {
    const uint64_t seed = context.seed + m.rows + m.cols;
    const uint32_t out_cols = m.glu ? m.rows / 2 : m.rows, parts = m.glu ? 2 : 1;
    const CheckWeight weight =
        check_weight(context, m.type, m.rows, m.cols,
                     random_blocks(m.type, std::min(m.rows, weight_period), m.cols, seed), 0);
    const std::vector<float> bias = random_floats(m.rows, seed + 2),
                             residual = repeated_floats(size_t(m.tokens) * out_cols, seed + 3),
                             norm = m.norm ? random_floats(m.cols, seed + 4) : std::vector<float>();
    std::vector<float> x = repeated_floats(size_t(m.tokens) * m.cols, seed + 1);
    if (variant.x_levels() != 0) leave_ties(x, m.cols, norm);
    const vk::Buffer x_buffer = context.buffer_of<float>(x), bias_buffer = context.buffer_of<float>(bias),
                     norm_weight = context.buffer_of<float>(m.norm ? norm : bias),
                     residual_buffer = context.buffer_of<float>(residual),
                     operands(context.device,
                              std::max<uint64_t>(4, linear_scratch_bytes(variant, m.tokens, m.rows, m.cols)),
                              vk::MemoryUse::device);
    const vk::View bias_view = bias_buffer.view();
    const Matrix residual_matrix{residual_buffer.view(), m.tokens, out_cols, out_cols, 0};
    std::string error;
    const std::vector<float> words = context.run_twice(
        m.tokens * out_cols,
        [&](OpContext& op, const CheckContext::Output& output) {
            record_linear(
                op,
                {.x = {x_buffer.view(), m.tokens, m.cols, m.cols, 0},
                 .out = output.matrix(m.tokens, out_cols),
                 .weight = weight.device,
                 .bias = m.bias ? &bias_view : nullptr,
                 .residual = m.residual ? &residual_matrix : nullptr,
                 .norm = m.norm ? std::optional(RmsNorm{norm_weight.view(), norm_epsilon}) : std::nullopt,
                 .glu = m.glu,
                 .activate = m.activate,
                 .activation = m.activation,
                 .scratch = operands.view()},
                variant);
        },
        error);
    for (size_t i = 0; i < words.size() && error.empty(); ++i)
        if (std::bit_cast<uint32_t>(words[i]) == unwritten_word)
            error = cat("row ", i / out_cols, " column ", i % out_cols, " was not written");

    // The sampled rows of x against the sampled rows of W alone.
    const std::vector<uint32_t> at_tokens = sampled(m.tokens, 8),
                                at_cols = sampled(out_cols, 64 / uint32_t(at_tokens.size()));
    std::vector<double> few_bias, product(at_tokens.size() * at_cols.size() * parts), expected;
    std::vector<double> few_x = m.norm ? normed(rows_of(x, m.cols, at_tokens), norm)
                                       : packed_x(context, variant, operands, x, m.cols, at_tokens, error);
    few_x = stepped(std::move(few_x), m.cols, variant.x_levels());
    const auto weight_row = [&](uint32_t i) { return at_cols[i / parts] * parts + i % parts; };
    const reference::Rows all = weight.reference();
    const reference::Rows few{uint32_t(at_cols.size()) * parts, m.cols,
                              [&](uint32_t row, std::span<double> out) { all.row(weight_row(row), out); }};
    for (uint32_t i = 0; m.bias && i < few.rows; ++i) few_bias.push_back(double(bias[weight_row(i)]));
    reference::linear(few_x, few, few_bias, product);
    std::vector<float> actual;
    for (size_t t = 0; t < at_tokens.size(); ++t)
        for (size_t c = 0; c < at_cols.size(); ++c) {
            const double* sums = &product[t * few.rows + c * parts];
            double value = sums[0];
            if (m.glu || m.activate) value = reference::activate(value, m.activation);
            if (m.glu) value *= sums[1];
            const size_t at = size_t(at_tokens[t]) * out_cols + at_cols[c];
            expected.push_back(value + (m.residual ? double(residual[at]) : 0));
            actual.push_back(words[at]);
        }
    const Case c{.tokens = m.tokens,
                 .rows = m.rows,
                 .cols = m.cols,
                 .bias = m.bias,
                 .residual = m.residual,
                 .glu = m.glu,
                 .activate = m.activate};
    context.compare("linear", variant.name, shape_of(c, m.type), expected, actual, uint32_t(actual.size()),
                    linear_bounds(variant, m.type, c.tokens, c.cols, c.glu || c.activate), error);
}

}  // namespace scoria::validate
