// Cases of convolve and scan: what a batch makes, and what it leaves for the next one.
#include "cache_tools.h"
#include "checks.h"
#include "fail.h"
#include "ops/recurrence.h"
#include "recurrence.push.h"
#include "reference/recurrence.h"
#include "step.h"

#include <cstring>

namespace scoria::validate {
namespace {

struct Case {
    Recurrence shape;
    uint32_t tokens, first, shift = 0;
    Activation activation = Activation::silu;
    uint32_t extra = 0;  // columns of rows that are not the op's
    float decay = 1;     // times the steps' usual
};

/// Slots of states, of which the one that is read holds `before`, where anything is to be read, and all
/// others NaN.
struct Slots {
    std::vector<float> words;
    size_t floats, read, written;
    Slots(const Case& c, std::span<const float> before)
        : words(STATE_SLOTS * c.shape.state_floats(), NAN), floats(c.shape.state_floats()),
          read((c.first + c.shift) % STATE_SLOTS * floats),
          written((c.first + c.shift + 1) % STATE_SLOTS * floats) {
        if (c.first > 0) std::ranges::copy(before, words.begin() + std::ptrdiff_t(read));
    }
    /// Floats [from, from + count) of the slot written; `error`: whether others changed.
    std::vector<float> changed(std::span<const std::byte> bytes, size_t from, size_t count,
                               std::string& error) const {
        std::vector<float> all(words.size());
        std::memcpy(all.data(), bytes.data(), 4 * all.size());
        for (size_t i = 0; i < all.size() && error.empty(); ++i) {
            const bool mine = i >= written + from && i < written + from + count;
            if (!mine && std::bit_cast<uint32_t>(all[i]) != std::bit_cast<uint32_t>(words[i]))
                error = cat("word ", i, " of the states was overwritten");
        }
        const auto begin = all.begin() + std::ptrdiff_t(written + from);
        return {begin, begin + std::ptrdiff_t(count)};
    }
};

/// What a case expects of `out`, [tokens, cols], and of a part of the states, from `from` on.
struct Expected {
    std::vector<double> out, state;
    uint32_t cols;
    size_t from;
};

template <class Record>
void run_case(CheckContext& context, const char* op, const Case& c, const std::string& text,
              std::span<const float> before, const Expected& expected,
              std::vector<KernelVariant> (*variants)(const vk::Caps&), const Bounds& bounds,
              const Record& record) {
    const Slots slots(c, before);
    const CheckSequence sequence{c.first, c.tokens, {}};
    std::vector<uint32_t> words = step_words(std::span(&sequence, 1));
    words[STEP_STATE_SHIFT] = c.shift;
    const vk::Buffer step = context.buffer_of<uint32_t>(words);
    // What is unrolled takes CPU drivers seconds to compile, but for short columns.
    const bool all = c.shape.key_dim <= 32 || context.tier == Tier::full;
    for (const KernelVariant& variant :
         all ? proven_variants(context.caps(), variants) : variants(context.caps())) {
        if (context.leaves_out(op, variant)) continue;
        std::string error;
        vk::Buffer state;
        const std::vector<float> out = context.run_twice(
            c.tokens * expected.cols,
            [&](OpContext& ops, const CheckContext::Output& output) {
                state = context.buffer_of<float>(slots.words);
                record(ops, output.matrix(c.tokens, expected.cols), step.view(), state.view(), variant);
            },
            error);
        const std::vector<float> after =
            slots.changed(context.download(state.view()), expected.from, expected.state.size(), error);
        context.compare(op, variant.name, text, expected.out, out, expected.cols, bounds, error);
        context.compare(op, variant.name, text + ", states", expected.state, after,
                        uint32_t(expected.state.size()), bounds);
    }
}

Recurrence convolution(uint32_t channels, uint32_t taps, bool bias = false) {
    Recurrence shape;
    shape.kind = RecurrenceKind::convolution;
    shape.width = channels;
    shape.taps = taps;
    shape.taps_bias = bias;
    return shape;
}
Recurrence state(RecurrenceKind kind, uint32_t heads, uint32_t groups, uint32_t key_dim, uint32_t value_dim,
                 bool tiled = false) {
    Recurrence shape;
    shape.kind = kind;
    shape.taps = 4;
    shape.heads = heads;
    shape.groups = groups;
    shape.key_dim = key_dim;
    shape.value_dim = value_dim;
    shape.width = heads * value_dim;
    shape.tiled = tiled;
    return shape;
}

void run_convolve(CheckContext& context, const Case& c) {
    const Recurrence& shape = c.shape;
    const uint32_t channels = shape.channels(), stride = channels + c.extra;
    const std::vector<float> x = random_floats(size_t(c.tokens) * stride + c.extra, context.seed),
                             taps = random_floats(size_t(channels) * shape.taps, context.seed + 1),
                             bias = random_floats(channels, context.seed + 2),
                             before = random_floats(shape.state_floats(), context.seed + 3);
    std::vector<double> rows, remembered(shape.convolved_floats());
    for (uint32_t t = 0; t < c.tokens; ++t)
        for (uint32_t i = 0; i < channels; ++i) rows.push_back(double(x[c.extra + t * stride + i]));
    if (c.first > 0) std::copy_n(before.begin(), remembered.size(), remembered.begin());
    Expected expected{std::vector<double>(rows.size()), {}, channels, 0};
    reference::convolve(shape, rows, doubles(taps), shape.taps_bias ? doubles(bias) : std::vector<double>(),
                        c.activation, remembered, expected.out);
    expected.state = remembered;
    const vk::Buffer x_buffer = context.buffer_of<float>(x), taps_buffer = context.buffer_of<float>(taps),
                     bias_buffer = context.buffer_of<float>(bias);
    ConvolveArgs args{{x_buffer.view(), c.tokens, channels, stride, c.extra},
                      {},
                      taps_buffer.view(),
                      {},
                      {},
                      {},
                      c.activation,
                      shape};
    if (shape.taps_bias) args.bias = bias_buffer.view();
    run_case(context, "convolve", c,
             cat("tokens ", c.tokens, " from ", c.first, " channels ", channels, " taps ", shape.taps,
                 shape.taps_bias ? " bias" : "", " shift ", c.shift),
             before, expected, convolve_variants, bounds_of(8 + 2 * std::sqrt(double(shape.taps))),
             [&](OpContext& ops, const Matrix& out, const vk::View& step, const vk::View& state,
                 const KernelVariant& variant) {
                 args.out = out;
                 args.step = step;
                 args.state = state;
                 record_convolve(ops, args, variant);
             });
}

/// q, k and v as a convolution leaves them, of length about 1 each once they are scaled.
void run_scan(CheckContext& context, const Case& c) {
    const Recurrence& shape = c.shape;
    const bool delta = shape.kind == RecurrenceKind::delta;
    const uint32_t channels = shape.channels(), stride = channels + c.extra, heads = shape.heads;
    const size_t cells = size_t(shape.key_dim) * shape.value_dim;
    const float k_scale = float(1 / std::sqrt(double(shape.key_dim))),
                q_scale = delta ? k_scale * k_scale : k_scale;
    const std::vector<float> x = random_floats(size_t(c.tokens) * stride + c.extra, context.seed),
                             steps = random_floats(size_t(c.tokens) * heads, context.seed + 1),
                             betas = random_floats(size_t(c.tokens) * heads, context.seed + 2),
                             before = random_floats(shape.state_floats(), context.seed + 3);
    std::vector<float> parameters = random_floats(size_t(3) * heads, context.seed + 4);
    for (uint32_t h = 0; h < heads; ++h) parameters[h] = -c.decay * std::exp(parameters[h]);
    Expected expected{std::vector<double>(size_t(c.tokens) * shape.width), std::vector<double>(heads * cells),
                      shape.width, shape.convolved_floats()};
    if (c.first > 0)
        std::ranges::copy(before.begin() + std::ptrdiff_t(expected.from), before.end(),
                          expected.state.begin());
    const std::vector<double> rows_in = doubles(std::span(x).subspan(c.extra)), numbers = doubles(parameters),
                              steps_in = doubles(steps), betas_in = doubles(betas);
    const std::span<const double> of_heads = numbers;
    reference::scan(shape,
                    {.qk = rows_in,
                     .v = rows_in,
                     .steps = steps_in,
                     .betas = betas_in,
                     .qk_cols = stride,
                     .v_cols = stride,
                     .q_first = shape.q_channel(),
                     .k_first = shape.k_channel(),
                     .v_first = shape.v_channel(),
                     .q_scale = double{q_scale},
                     .k_scale = double{k_scale},
                     .decay = of_heads.first(heads),
                     .step_bias = of_heads.subspan(heads, heads),
                     .skip = of_heads.last(heads)},
                    expected.state, expected.out);
    const vk::Buffer x_buffer = context.buffer_of<float>(x), steps_buffer = context.buffer_of<float>(steps),
                     betas_buffer = context.buffer_of<float>(betas),
                     parameters_buffer = context.buffer_of<float>(parameters);
    const Matrix rows{x_buffer.view(), c.tokens, channels, stride, c.extra};
    ScanArgs args{rows,
                  rows,
                  shape.q_channel(),
                  shape.k_channel(),
                  shape.v_channel(),
                  q_scale,
                  k_scale,
                  {steps_buffer.view(), c.tokens, heads, heads, 0},
                  {},
                  {},
                  parameters_buffer.view(),
                  {},
                  {},
                  shape};
    if (delta) args.beta = Matrix{betas_buffer.view(), c.tokens, heads, heads, 0};
    // A sum over the keys for each token, of which later ones remember what decays leave.
    run_case(context, "scan", c,
             cat(delta ? "delta" : "state space", " tokens ", c.tokens, " from ", c.first, " heads ", heads,
                 "/", shape.groups, shape.tiled ? " tiled" : "", " state ", shape.key_dim, " x ",
                 shape.value_dim),
             before, expected, scan_variants, bounds_of(16 + 4 * std::sqrt(double(shape.key_dim))),
             [&](OpContext& ops, const Matrix& out, const vk::View& step, const vk::View& state,
                 const KernelVariant& variant) {
                 args.out = out;
                 args.step = step;
                 args.state = state;
                 record_scan(ops, args, variant);
             });
}

}  // namespace

void check_convolve(CheckContext& context) {
    const Case cases[] = {
        {convolution(100, 3), 1, 0, 0, Activation::identity},
        {convolution(100, 3), 1, 7, 1, Activation::identity, 3},  // remembers more rows than it has
        {convolution(64, 4, true), 3, 2, 2},
        {convolution(37, 4, true), 70, 0, 0, Activation::silu, 5},
        {convolution(512, 4), 9, 1000, 1},
        {convolution(3, 2), 2, 1, 2, Activation::identity},
        {convolution(5, 16), 40, 3, 0},
    };
    for (const Case& c : cases) run_convolve(context, c);
}

void check_scan(CheckContext& context) {
    constexpr RecurrenceKind delta = RecurrenceKind::delta, space = RecurrenceKind::state_space;
    const Case cases[] = {
        {state(delta, 2, 1, 16, 16), 1, 0},
        {state(delta, 4, 2, 128, 128), 5, 3, 1},
        {state(delta, 6, 2, 18, 12, true), 33, 0, 2, Activation::silu, 3},  // parts of the keys are unequal
        {state(delta, 4, 4, 64, 100), 64, 17, 1},
        {state(space, 4, 2, 128, 64), 7, 0},
        {state(space, 3, 1, 256, 64), 1, 5, 2, Activation::silu, 1},
        {state(space, 8, 2, 16, 40, true), 50, 2, 1, Activation::silu, 0, 0.01f},  // remembers all of it
        {state(space, 2, 2, 3, 130), 4, 1},
        {state(delta, 2, 1, 32, 32), 3, 1, 0, Activation::silu, 0, 1000},  // forgets all of it
    };
    for (const Case& c : cases) run_scan(context, c);
}

}  // namespace scoria::validate
