// Cases of convolve, shift, scan and wkv: what a batch makes, and what it leaves for the next one.
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
    struct Piece {
        uint32_t tokens, first, shift = 0;
    };
    std::vector<Piece> pieces;
    Activation activation = Activation::silu;
    uint32_t extra = 0;  // columns of rows that are not the op's
    float decay = 1;     // times the steps' usual

    uint32_t tokens() const {
        uint32_t all = 0;
        for (const Piece& piece : pieces) all += piece.tokens;
        return all;
    }
    std::string text() const {
        std::string text;
        for (const Piece& piece : pieces)
            text += cat(text.empty() ? "tokens " : " and ", piece.tokens, " from ", piece.first, " shift ",
                        piece.shift);
        return text;
    }
};

/// Slots of states, the last piece's sequence first, of which those that are read hold what was before, piece
/// by piece in `before`, where anything is to be read, and all others NaN.
struct Slots {
    size_t floats, stride;
    std::vector<float> words;
    std::vector<size_t> written;  // by piece
    Slots(const Case& c, std::span<const float> before)
        : floats(c.shape.state_floats()), stride(STATE_SLOTS * floats + 3),
          words(c.pieces.size() * stride, NAN) {
        for (size_t i = 0; i < c.pieces.size(); ++i) {
            const Case::Piece& piece = c.pieces[i];
            const size_t first = (c.pieces.size() - 1 - i) * stride, read = piece.first + piece.shift;
            if (piece.first > 0)
                std::ranges::copy(before.subspan(i * floats, floats),
                                  words.begin() + std::ptrdiff_t(first + read % STATE_SLOTS * floats));
            written.push_back(first + (read + 1) % STATE_SLOTS * floats);
        }
    }
    /// Floats [from, from + count) of every slot written; `error`: whether others changed.
    std::vector<float> changed(std::span<const std::byte> bytes, size_t from, size_t count,
                               std::string& error) const {
        std::vector<float> all(words.size()), mine;
        std::memcpy(all.data(), bytes.data(), 4 * all.size());
        std::vector<bool> expected(all.size());
        for (const size_t slot : written)
            for (size_t i = slot + from; i < slot + from + count; ++i) {
                mine.push_back(all[i]);
                expected[i] = true;
            }
        for (size_t i = 0; i < all.size() && error.empty(); ++i)
            if (!expected[i] && std::bit_cast<uint32_t>(all[i]) != std::bit_cast<uint32_t>(words[i]))
                error = cat("word ", i, " of the states was overwritten");
        return mine;
    }
};

/// What a case expects of `out`, [tokens, cols], and of a part of each piece's states, from `from` on.
struct Expected {
    uint32_t cols;
    size_t from, count;
    std::vector<double> out = {}, states = {};

    /// Piece by piece: compute(rows, out, states) makes rows of out and other states; rows(all, cols) are
    /// those that the piece has of [tokens, cols].
    template <class Compute> void add(const Case& c, std::span<const float> before, const Compute& compute) {
        size_t first = 0;
        for (size_t i = 0; i < c.pieces.size(); ++i) {
            const size_t tokens = c.pieces[i].tokens;
            std::vector<double> made(tokens * cols), state(count);
            if (c.pieces[i].first > 0)
                std::copy_n(before.begin() + std::ptrdiff_t(i * c.shape.state_floats() + from), count,
                            state.begin());
            const auto rows = [&](std::span<const double> all, size_t width) {
                return all.subspan(first * width, tokens * width);
            };
            compute(rows, made, state);
            out.insert(out.end(), made.begin(), made.end());
            states.insert(states.end(), state.begin(), state.end());
            first += tokens;
        }
    }
};

/// Rows of `cols` that lie `stride` apart behind `first` others, side by side.
std::vector<double> packed(std::span<const float> x, size_t first, size_t cols, size_t stride) {
    std::vector<double> all;
    for (; first + cols <= x.size(); first += stride)
        all.insert(all.end(), x.begin() + std::ptrdiff_t(first), x.begin() + std::ptrdiff_t(first + cols));
    return all;
}

/// `args`: but for what a run has of its own.
template <class Args>
void run_case(CheckContext& context, const char* op, const Case& c, const std::string& text,
              std::span<const float> before, const Expected& expected,
              std::vector<KernelVariant> (*variants)(const vk::Caps&), const Bounds& bounds, Args args,
              void (*record)(OpContext&, const Args&, const KernelVariant&)) {
    const Slots slots(c, before);
    std::vector<CheckSequence> sequences;
    std::vector<std::array<uint32_t, PIECE_WORDS>> pieces;
    uint32_t row = 0, place = uint32_t(c.pieces.size());
    for (const Case::Piece& piece : c.pieces) {
        sequences.push_back({piece.first, piece.tokens, {}});
        pieces.push_back({row, piece.tokens, --place, piece.shift});
        row += piece.tokens;
    }
    std::vector<uint32_t> words = step_words(sequences);
    const Pieces where = add_pieces(words, pieces);
    const vk::Buffer step = context.buffer_of<uint32_t>(words);
    // What is unrolled takes CPU drivers seconds to compile, but for short columns.
    const bool all = c.shape.key_dim <= 32 || context.tier == Tier::full;
    for (const KernelVariant& variant :
         all ? proven_variants(context.caps(), variants) : variants(context.caps())) {
        if (context.leaves_out(op, variant)) continue;
        std::string error;
        vk::Buffer state;
        const std::vector<float> out = context.run_twice(
            row * expected.cols,
            [&](OpContext& ops, const CheckContext::Output& output) {
                state = context.buffer_of<float>(slots.words);
                args.out = output.matrix(row, expected.cols);
                args.step = step.view();
                args.states = {state.view(), 4 * slots.stride};
                args.pieces = where;
                record(ops, args, variant);
            },
            error);
        const std::vector<float> after =
            slots.changed(context.download(state.view()), expected.from, expected.count, error);
        context.compare(op, variant.name, text, expected.out, out, expected.cols, bounds, error);
        context.compare(op, variant.name, text + ", states", expected.states, after, uint32_t(expected.count),
                        bounds);
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
Recurrence by_key(uint32_t heads, uint32_t groups, uint32_t key_dim, uint32_t value_dim, float bound = 0) {
    Recurrence shape = state(RecurrenceKind::delta, heads, groups, key_dim, value_dim);
    shape.by_key = true;
    shape.bound = bound;
    return shape;
}

Recurrence wkv(uint32_t heads, uint32_t dim, bool feed_forward = false) {
    Recurrence shape = state(RecurrenceKind::wkv, heads, heads, dim, dim);
    shape.taps = 2;
    shape.by_key = true;
    shape.bound = -0.6f;
    shape.feed_forward_shift = feed_forward;
    return shape;
}

void run_convolve(CheckContext& context, const Case& c) {
    const Recurrence& shape = c.shape;
    const uint32_t channels = shape.channels(), stride = channels + c.extra, tokens = c.tokens();
    const std::vector<float> x = random_floats(size_t(tokens) * stride + c.extra, context.seed),
                             taps = random_floats(size_t(channels) * shape.taps, context.seed + 1),
                             bias = random_floats(channels, context.seed + 2),
                             before = random_floats(c.pieces.size() * shape.state_floats(), context.seed + 3);
    const std::vector<double> taps_in = doubles(taps),
                              bias_in = shape.taps_bias ? doubles(bias) : std::vector<double>();
    Expected expected{channels, 0, shape.convolved_floats()};
    const std::vector<double> x_in = packed(x, c.extra, channels, stride);
    expected.add(c, before, [&](const auto& rows, std::span<double> out, std::vector<double>& remembered) {
        reference::convolve(shape, rows(x_in, channels), taps_in, bias_in, c.activation, remembered, out);
    });
    const vk::Buffer x_buffer = context.buffer_of<float>(x), taps_buffer = context.buffer_of<float>(taps),
                     bias_buffer = context.buffer_of<float>(bias);
    ConvolveArgs args{.x = {x_buffer.view(), tokens, channels, stride, c.extra},
                      .out = {},
                      .taps = taps_buffer.view(),
                      .bias = {},
                      .step = {},
                      .states = {},
                      .pieces = {},
                      .activation = c.activation,
                      .shape = shape};
    if (shape.taps_bias) args.bias = bias_buffer.view();
    run_case(context, "convolve", c,
             cat(c.text(), " channels ", channels, " taps ", shape.taps, shape.taps_bias ? " bias" : ""),
             before, expected, convolve_variants, bounds_of(8 + 2 * std::sqrt(double(shape.taps))), args,
             record_convolve);
}

/// q, k and v as a convolution leaves them, of length about 1 each once they are scaled.
void run_scan(CheckContext& context, const Case& c) {
    const Recurrence& shape = c.shape;
    const bool delta = shape.kind == RecurrenceKind::delta;
    const uint32_t channels = 2 * shape.keys() + shape.width, stride = channels + c.extra,
                   heads = shape.heads, tokens = c.tokens(), step_cols = shape.steps();
    const size_t cells = size_t(shape.key_dim) * shape.value_dim;
    const float k_scale = float(1 / std::sqrt(double(shape.key_dim))),
                q_scale = delta ? k_scale * k_scale : k_scale;
    const std::vector<float> x = random_floats(size_t(tokens) * stride + c.extra, context.seed),
                             betas = random_floats(size_t(tokens) * heads, context.seed + 2),
                             before = random_floats(c.pieces.size() * shape.state_floats(), context.seed + 3);
    std::vector<float> steps = random_floats(size_t(tokens) * step_cols, context.seed + 1),
                       parameters = random_floats(size_t(shape.decays()) +
                                                      (shape.activates_steps() ? 2 * step_cols : 0),
                                                  context.seed + 4);
    if (shape.by_key && shape.bound == 0)
        for (float& step : steps) step = std::abs(step);
    for (uint32_t i = 0; i < shape.decays(); ++i) parameters[i] = -c.decay * std::exp(parameters[i]);
    const std::vector<double> rows_in = doubles(std::span(x).subspan(c.extra)), numbers = doubles(parameters),
                              steps_in = doubles(steps), betas_in = doubles(betas);
    const std::span<const double> of_steps = std::span(numbers).subspan(shape.decays());
    Expected expected{shape.width, shape.convolved_floats(), heads * cells};
    expected.add(c, before, [&](const auto& rows, std::span<double> out, std::vector<double>& states) {
        reference::scan(shape,
                        {.qk = rows(rows_in, stride),
                         .v = rows(rows_in, stride),
                         .steps = rows(steps_in, step_cols),
                         .betas = rows(betas_in, heads),
                         .qk_cols = stride,
                         .v_cols = stride,
                         .q_first = shape.q_channel(),
                         .k_first = shape.k_channel(),
                         .v_first = shape.v_channel(),
                         .q_scale = double{q_scale},
                         .k_scale = double{k_scale},
                         .decay = std::span(numbers).first(shape.decays()),
                         .step_bias = of_steps.first(of_steps.size() / 2),
                         .skip = of_steps.last(of_steps.size() / 2)},
                        states, out);
    });
    if (steps.empty()) steps.resize(1);
    const vk::Buffer x_buffer = context.buffer_of<float>(x), steps_buffer = context.buffer_of<float>(steps),
                     betas_buffer = context.buffer_of<float>(betas),
                     parameters_buffer = context.buffer_of<float>(parameters);
    const Matrix rows{x_buffer.view(), tokens, channels, stride, c.extra};
    ScanArgs args{.qk = rows,
                  .v = rows,
                  .q_first = shape.q_channel(),
                  .k_first = shape.k_channel(),
                  .v_first = shape.v_channel(),
                  .q_scale = q_scale,
                  .k_scale = k_scale,
                  .steps = {},
                  .beta = {},
                  .out = {},
                  .parameters = parameters_buffer.view(),
                  .step = {},
                  .states = {},
                  .pieces = {},
                  .shape = shape};
    if (step_cols) args.steps = Matrix{steps_buffer.view(), tokens, step_cols, step_cols, 0};
    if (delta) args.beta = Matrix{betas_buffer.view(), tokens, heads, heads, 0};
    // A sum over the keys for each token, of which later ones remember what decays leave.
    run_case(context, "scan", c,
             cat(shape.bound < 0     ? "delta by key, bounded "
                 : shape.by_key      ? "delta by key "
                 : delta             ? "delta "
                 : shape.by_column() ? "selective "
                 : step_cols == 0    ? "lightning "
                                     : "state space ",
                 c.text(), " heads ", heads, "/", shape.groups, shape.tiled ? " tiled" : "", " state ",
                 shape.key_dim, " x ", shape.value_dim),
             before, expected, scan_variants, bounds_of(16 + 4 * std::sqrt(double(shape.key_dim))), args,
             record_scan);
}

/// Of so many mixes; of the attention's row in the state or of the feed-forward's.
void run_shift(CheckContext& context, const Case& c, uint32_t mixes) {
    const Recurrence& shape = c.shape;
    const uint32_t width = shape.width, stride = width + c.extra, tokens = c.tokens();
    const bool feed_forward = shape.feed_forward_shift;
    const std::vector<float> x = random_floats(size_t(tokens) * stride + c.extra, context.seed),
                             shifts = random_floats(size_t(mixes) * width, context.seed + 1),
                             before = random_floats(c.pieces.size() * shape.state_floats(), context.seed + 2);
    const std::vector<double> shifts_in = doubles(shifts);
    Expected expected{mixes * width, feed_forward ? shape.fed_first() : 0, width};
    const std::vector<double> x_in = packed(x, c.extra, width, stride);
    expected.add(c, before, [&](const auto& rows, std::span<double> out, std::span<double> remembered) {
        reference::shift(rows(x_in, width), shifts_in, remembered, out);
    });
    const vk::Buffer x_buffer = context.buffer_of<float>(x), shifts_buffer = context.buffer_of<float>(shifts);
    ShiftArgs args{{x_buffer.view(), tokens, width, stride, c.extra},
                   {},
                   shifts_buffer.view(),
                   feed_forward,
                   {},
                   {},
                   {},
                   shape};
    run_case(context, "shift", c, cat(c.text(), " columns ", width, " x ", mixes), before, expected,
             shift_variants, bounds_of(4), args, record_shift);
}

void run_wkv(CheckContext& context, const Case& c) {
    const Recurrence& shape = c.shape;
    const uint32_t keys = shape.keys(), tokens = c.tokens(), stride = 2 * keys + c.extra;
    const auto made = [&](size_t rows, uint32_t cols, uint32_t number) {
        return random_floats(rows * cols, context.seed + number);
    };
    const std::vector<float> rk = random_floats(size_t(tokens) * stride + c.extra, context.seed),
                             v = made(tokens, shape.width, 1), w = made(tokens, keys, 2),
                             rate = made(tokens, keys, 3), parameters = made(3, keys, 4),
                             before = random_floats(c.pieces.size() * shape.state_floats(), context.seed + 5);
    const std::vector<double> rk_in = packed(rk, c.extra, 2 * keys, stride);
    const std::vector<double> v_in = doubles(v), w_in = doubles(w), rate_in = doubles(rate),
                              numbers = doubles(parameters);
    Expected expected{2 * shape.width, shape.convolved_floats(), shape.scanned_floats()};
    expected.add(c, before, [&](const auto& rows, std::span<double> out, std::vector<double>& states) {
        const std::span<const double> all(numbers);
        reference::wkv(shape,
                       {rows(rk_in, 2 * keys), rows(v_in, shape.width), rows(w_in, keys), rows(rate_in, keys),
                        all.first(keys), all.subspan(keys, keys), all.last(keys)},
                       states, out);
    });
    const vk::Buffer rk_buffer = context.buffer_of<float>(rk), v_buffer = context.buffer_of<float>(v),
                     w_buffer = context.buffer_of<float>(w), rate_buffer = context.buffer_of<float>(rate),
                     parameters_buffer = context.buffer_of<float>(parameters);
    const Matrix of_keys{w_buffer.view(), tokens, keys, keys, 0};
    ScanArgs args{.qk = {rk_buffer.view(), tokens, 2 * keys, stride, c.extra},
                  .v = {v_buffer.view(), tokens, shape.width, shape.width, 0},
                  .q_first = 0,
                  .k_first = keys,
                  .v_first = 0,
                  .q_scale = 1,
                  .k_scale = 1,
                  .steps = of_keys,
                  .beta = Matrix{rate_buffer.view(), tokens, keys, keys, 0},
                  .out = {},
                  .parameters = parameters_buffer.view(),
                  .step = {},
                  .states = {},
                  .pieces = {},
                  .shape = shape};
    run_case(context, "wkv", c, cat(c.text(), " heads ", shape.heads, " of ", shape.key_dim), before,
             expected, wkv_variants, bounds_of(16 + 4 * std::sqrt(double(shape.key_dim))), args, record_wkv);
}

}  // namespace

void check_convolve(CheckContext& context) {
    const Case cases[] = {
        {convolution(100, 3), {{1, 0}}, Activation::identity},
        {convolution(100, 3), {{1, 7, 1}}, Activation::identity, 3},  // remembers more rows than it has
        {convolution(64, 4, true), {{3, 2, 2}}},
        {convolution(37, 4, true), {{70, 0}}, Activation::silu, 5},
        {convolution(512, 4), {{9, 1000, 1}}},
        {convolution(3, 2), {{2, 1, 2}}, Activation::identity},
        {convolution(5, 16), {{40, 3}}},
        {convolution(40, 4), {{1, 5}, {1, 0, 1}, {1, 1000, 2}}},
        {convolution(70, 3, true), {{1, 9, 1}, {33, 0}, {2, 64, 2}}, Activation::silu, 2},
    };
    for (const Case& c : cases) run_convolve(context, c);
}

void check_shift(CheckContext& context) {
    run_shift(context, {wkv(3, 16), {{1, 0}}}, 6);
    run_shift(context, {wkv(2, 20), {{1, 7, 1}}, Activation::identity, 3}, 5);
    run_shift(context, {wkv(2, 10, true), {{37, 2, 2}}, Activation::identity, 5}, 1);
    run_shift(context, {wkv(5, 8, true), {{1, 9, 1}, {33, 0}, {2, 64, 2}}}, 1);
    run_shift(context, {wkv(4, 16), {{2, 5}, {1, 0, 1}, {1, 1000, 2}}, Activation::identity, 1}, 6);
}

void check_wkv(CheckContext& context) {
    const Case cases[] = {
        {wkv(2, 16), {{1, 0}}},
        {wkv(3, 18), {{33, 0, 2}}, Activation::identity, 3},  // parts of keys are unequal
        {wkv(2, 20, true), {{1, 4}, {1, 0, 1}, {9, 77, 2}}},
        {wkv(4, 64), {{5, 3, 1}}},
        {wkv(2, 128), {{7, 9, 1}, {1, 0}}},
        {wkv(1, 5), {{4, 1}}, Activation::identity, 1},
    };
    for (const Case& c : cases) run_wkv(context, c);
}

void check_scan(CheckContext& context) {
    constexpr RecurrenceKind delta = RecurrenceKind::delta, space = RecurrenceKind::state_space,
                             selective = RecurrenceKind::selective;
    const Case cases[] = {
        {state(delta, 2, 1, 16, 16), {{1, 0}}},
        {state(delta, 4, 2, 128, 128), {{5, 3, 1}}},
        {state(delta, 6, 2, 18, 12, true), {{33, 0, 2}}, Activation::silu, 3},  // parts of keys are unequal
        {state(delta, 4, 4, 64, 100), {{64, 17, 1}}},
        {state(space, 4, 2, 128, 64), {{7, 0}}},
        {state(space, 3, 1, 256, 64), {{1, 5, 2}}, Activation::silu, 1},
        {state(space, 8, 2, 16, 40, true), {{50, 2, 1}}, Activation::silu, 0, 0.01f},  // remembers all of it
        {state(space, 2, 2, 3, 130), {{4, 1}}},
        {state(delta, 2, 1, 32, 32), {{3, 1}}, Activation::silu, 0, 1000},  // forgets all of it
        {state(delta, 4, 2, 32, 20), {{1, 4}, {1, 0, 1}, {1, 77, 2}}},
        {state(space, 6, 3, 24, 70), {{1, 2, 1}, {19, 0}, {3, 40, 2}}, Activation::silu, 2},
        {state(selective, 1, 1, 16, 200), {{9, 0}}},
        {state(selective, 1, 1, 16, 130), {{1, 6, 1}}, Activation::silu, 3},
        {state(selective, 1, 1, 5, 70), {{33, 2, 2}}, Activation::silu, 1, 0.01f},  // remembers all of it
        {state(selective, 1, 1, 130, 40), {{1, 4}, {7, 0, 1}, {2, 77, 2}}},
        {state(RecurrenceKind::lightning, 3, 3, 18, 18), {{33, 0, 2}}, Activation::silu, 3, 0.2f},
        {state(RecurrenceKind::lightning, 2, 2, 32, 32), {{1, 4}, {1, 0, 1}, {9, 77, 2}}},
        {state(RecurrenceKind::lightning, 2, 2, 128, 128), {{3, 9, 1}}, Activation::silu, 0, 0.001f},
        {by_key(2, 2, 16, 16), {{1, 0}}},
        {by_key(4, 4, 128, 128), {{5, 3, 1}}},
        {by_key(6, 2, 18, 12), {{33, 0, 2}}, Activation::silu, 3},  // parts of keys are unequal
        {by_key(4, 4, 32, 20), {{1, 4}, {1, 0, 1}, {9, 77, 2}}},
        {by_key(4, 4, 30, 30, -5), {{1, 4}, {19, 0, 1}}},
        {by_key(2, 2, 128, 128, -0.5f), {{3, 9, 1}}},
    };
    for (const Case& c : cases) run_scan(context, c);
}

}  // namespace scoria::validate
