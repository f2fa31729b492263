// Cases of sampling: the token and everything a chained step needs, exactly; the draw's distribution.
#include "check_tools.h"
#include "checks.h"
#include "fail.h"
#include "ops/sample.h"
#include "reference/sample.h"
#include "sampler.h"
#include "step.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace scoria::validate {
namespace {

constexpr uint32_t slots = 4096, from_slot = 2, to_slot = 0, first_position = 40;
constexpr float nan = NAN, inf = INFINITY;

std::vector<uint32_t> words_of(CheckContext& context, const vk::Buffer& buffer) {
    const std::vector<std::byte> bytes = context.download(buffer.view());
    std::vector<uint32_t> words(bytes.size() / 4);
    std::memcpy(words.data(), bytes.data(), bytes.size());
    return words;
}

struct Drawn {
    std::vector<uint32_t> tokens, status;
    std::vector<uint32_t> step, sampler;
};

/// The sampler buffer; `allowed` as the mask unless it is empty.
std::vector<uint32_t> sampler_contents(const SamplingOptions& options, std::span<const uint32_t> recent,
                                       uint32_t vocab, std::span<const uint32_t> allowed) {
    std::vector<uint32_t> words = sampler_state(options, recent, vocab);
    words.resize(sampler_words(vocab));
    words[SAMPLER_MASKED] = !allowed.empty();
    for (const uint32_t token : allowed) words[SAMPLER_MASK + token / 32] |= 1u << token % 32;
    return words;
}

/// `count` chained draws from the same logits; the first from slot from_slot, the rest from to_slot.
Drawn draw(CheckContext& context, const KernelVariant& variant, std::span<const float> logits,
           const SamplingOptions& options, std::span<const uint32_t> recent, uint32_t count,
           std::span<const uint32_t> allowed = {}) {
    const uint32_t vocab = uint32_t(logits.size());
    std::vector<uint32_t> words(STEP_TOKENS + 3 * STEP_TOKEN_WORDS);
    words[STEP_INDEX] = slots - 1;  // the ring wraps
    words[STEP_TOKENS + from_slot * STEP_TOKEN_WORDS + STEP_TOKEN_POSITION] = first_position;
    words[STEP_TOKENS + from_slot * STEP_TOKEN_WORDS + STEP_TOKEN_TABLE] = 77;
    const vk::Buffer step = context.buffer_of<uint32_t>(words),
                     logits_buffer = context.buffer_of<float>(logits);
    const vk::Buffer sampler = context.buffer_of<uint32_t>(sampler_contents(options, recent, vocab, allowed));
    const vk::Buffer scratch(context.device, sample_scratch_bytes(vocab), vk::MemoryUse::device);
    const vk::Buffer results(context.device, 8 * slots, vk::MemoryUse::device);
    context.run([&](OpContext& ops) {
        for (uint32_t i = 0; i < count; ++i)
            record_sample(ops,
                          {{logits_buffer.view(), 1, vocab, vocab, 0},
                           sampler.view(),
                           scratch.view(),
                           step.view(),
                           results.view(),
                           slots,
                           i == 0 ? from_slot : to_slot,
                           to_slot,
                           options.temperature == 0},
                          variant);
    });
    const std::vector<uint32_t> ring = words_of(context, results);
    Drawn drawn{{}, {}, words_of(context, step), words_of(context, sampler)};
    for (uint32_t i = 0; i < count; ++i) {
        drawn.tokens.push_back(ring[2 * ((slots - 1 + i) % slots)]);
        drawn.status.push_back(ring[2 * ((slots - 1 + i) % slots) + 1]);
    }
    return drawn;
}

struct Greedy {
    const char* name;
    uint32_t vocab;
    std::vector<std::pair<uint32_t, float>> set;  // over random logits
    float fill;                                   // 0: random
    SamplingOptions options;
    uint32_t expected;
    bool bad;
    std::vector<uint32_t> allowed{};  // empty: all
};

void check_greedy(CheckContext& context) {
    const Greedy cases[] = {
        {"one token", 1, {}, 0, {}, 0, false},
        {"ties", 5000, {{4999, 50.0f}, {2047, 50.0f}, {2048, 50.0f}}, 0, {}, 2047, false},
        {"zeros of both signs", 100, {{7, -0.0f}, {9, 0.0f}}, -1, {}, 7, false},
        {"last of many", 49152, {{49151, 50.0f}}, 0, {}, 49151, false},
        {"some NaN", 300, {{3, nan}, {200, 50.0f}}, 0, {}, 200, true},
        {"all NaN", 3000, {}, nan, {}, 0, true},
        {"all -Inf", 70, {}, -inf, {}, 0, true},
        {"Inf", 3000, {{2999, inf}, {5, nan}}, 0, {}, 2999, true},
        {"penalty", 3000, {{11, 50.0f}, {2500, 30.0f}}, 0, {.repetition_penalty = 2}, 2500, false},
        {"penalty of negatives", 100, {{11, -1.0f}, {50, -1.5f}}, -9, {.repetition_penalty = 2}, 50, false},
        // 11 and 1 were seen once, 2 twice.
        {"presence", 3000, {{2, 50.0f}, {11, 49.5f}, {7, 48.6f}}, 0, {.presence_penalty = 1}, 2, false},
        {"frequency", 3000, {{2, 50.0f}, {11, 49.5f}, {7, 48.6f}}, 0, {.frequency_penalty = 1}, 7, false},
        {"both",
         3000,
         {{2, 50.0f}, {11, 49.5f}, {7, 40.0f}},
         0,
         {.frequency_penalty = 1, .presence_penalty = 0.5f},
         11,
         false},
        {"out of the window",
         3000,
         {{1, 50.0f}, {7, 49.0f}},
         0,
         {.repetition_window = 3, .frequency_penalty = 9},
         1,
         false},
        {"bias", 5000, {{7, 50.0f}}, 0, {.logit_bias = {{4999, 90.0f}, {3, -1.0f}, {7, -3.0f}}}, 4999, false},
        {"ban", 5000, {{7, 50.0f}, {8, 40.0f}}, 0, {.logit_bias = {{7, -inf}}}, 8, false},
        {"only token banned", 1, {}, 0, {.logit_bias = {{0, -inf}}}, 0, true},
        {"mask", 5000, {{7, 50.0f}, {4097, 40.0f}}, 0, {}, 4097, false, {4097, 64, 63}},
        {"mask of few", 70, {}, -9, {}, 69, false, {69}},
    };
    for (const Greedy& c : cases) {
        std::vector<float> logits =
            c.fill != 0 ? std::vector(c.vocab, c.fill) : random_floats(c.vocab, context.seed);
        for (const auto& [token, value] : c.set) logits[token] = value;
        const std::vector<uint32_t> recent{1, 2, 11, 2};
        for (const KernelVariant& variant : proven_variants(context.caps(), sample_variants)) {
            if (context.leaves_out("sample", variant)) continue;
            const Drawn drawn = draw(context, variant, logits, c.options, recent, 1, c.allowed);
            const uint32_t* slot = &drawn.step[STEP_TOKENS + to_slot * STEP_TOKEN_WORDS];
            const uint32_t status = c.bad ? STEP_STATUS_NON_FINITE : 0;
            const std::vector<double> expected{double(c.expected),
                                               double(status),
                                               double(status),
                                               double(slots),
                                               double(c.expected),
                                               first_position + 1,
                                               77,
                                               5,
                                               double(c.expected)};
            const std::vector<float> actual{float(drawn.tokens[0]),
                                            float(drawn.status[0]),
                                            float(drawn.step[STEP_STATUS]),
                                            float(drawn.step[STEP_INDEX]),
                                            float(slot[STEP_TOKEN_ID]),
                                            float(slot[STEP_TOKEN_POSITION]),
                                            float(slot[STEP_TOKEN_TABLE]),
                                            float(drawn.sampler[SAMPLER_PUSHED]),
                                            float(drawn.sampler[SAMPLER_TOKENS + 4])};
            context.compare("sample", variant.name, cat("greedy, ", c.name), expected, actual,
                            uint32_t(expected.size()), Bounds{0, 0, 0});
        }
    }
}

struct Draws {
    uint32_t vocab, count;
    float sigma;
    SamplingOptions options;
    uint32_t ties = 0;  // logits rounded to multiples of 1 / ties
};

/// Whether the draws fit the probabilities: chi-square over tokens expected at least five times (Pearson
/// 1900; the rest as one), against its mean plus six standard deviations.
std::string misfit(std::span<const double> probabilities, std::span<const uint32_t> tokens) {
    std::vector<double> seen(probabilities.size());
    for (const uint32_t token : tokens) {
        if (token >= seen.size() || probabilities[token] == 0)
            return cat("token ", token, " should not have survived");
        ++seen[token];
    }
    double chi = 0, rest_seen = 0, rest_expected = 0, freedom = 0;
    const auto add = [&](double observed, double expected) {
        chi += (observed - expected) * (observed - expected) / expected;
        ++freedom;
    };
    for (size_t i = 0; i < seen.size(); ++i) {
        const double expected = probabilities[i] * double(tokens.size());
        if (expected >= 5) {
            add(seen[i], expected);
            continue;
        }
        rest_seen += seen[i];
        rest_expected += expected;
    }
    if (rest_expected >= 5) add(rest_seen, rest_expected);
    const double limit = freedom + 6 * std::sqrt(2 * freedom);
    return chi <= limit ? std::string()
                        : cat("chi-square ", chi, " over ", freedom, " kinds, at most ", limit);
}

void check_draws(CheckContext& context) {
    SamplingOptions plain{.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0};
    const auto with = [&](auto change) {
        SamplingOptions options = plain;
        options.seed = context.seed * 0x123456789ull;
        options.repetition_window = 0;
        change(options);
        return options;
    };
    using O = SamplingOptions&;
    const uint32_t many = context.tier == Tier::full ? 4000 : 800;
    const Draws cases[] = {
        {50, many, 1, with([](O) {})},
        {300, many, 1, with([](O o) { o.top_k = 10, o.temperature = 50; })},     // exact set: all ten appear
        {300, many, 1, with([](O o) { o.top_k = 10, o.temperature = 50; }), 2},  // ties at the end
        {3000, many, 2, with([](O o) { o.top_p = 0.6f, o.temperature = 0.7f; })},
        {300, many, 0, with([](O o) { o.top_p = 0.5f; })},  // all equal
        {500, many, 2, with([](O o) { o.min_p = 0.1f, o.temperature = 3; })},
        {5000, many, 3,
         with([](O o) { o.top_k = 40, o.top_p = 0.95f, o.min_p = 0.05f, o.temperature = 0.8f; })},
        // Blocks of the scan are more than k.
        {20000, 60, 3, with([](O o) { o.top_k = 8, o.temperature = 50; })},
        {20000, 60, 3, with([](O o) { o.top_k = 8, o.temperature = 50; }), 1},
        {20000, 60, 0, with([](O o) { o.top_k = 8; })},
        {5000, 60, 3, with([](O o) { o.top_k = 400, o.top_p = 0.9f, o.temperature = 1.3f; })},
        {200, 60, 2, with([](O o) { o.repetition_penalty = 1.5f, o.repetition_window = 64, o.top_k = 20; })},
        {200, 60, 2,
         with([](O o) { o.frequency_penalty = 0.7f, o.presence_penalty = -0.2f, o.repetition_window = 16; })},
        {500, many, 2, with([](O o) { o.typical_p = 0.4f, o.temperature = 2; })},
        {300, many, 5, with([](O o) { o.typical_p = 0.5f; })},  // the likeliest goes
        {3000, many, 3, with([](O o) { o.top_k = 100, o.typical_p = 0.7f, o.top_p = 0.8f, o.min_p = 0.1f; })},
        {300, many, 0, with([](O o) { o.typical_p = 0.5f; })},  // all equal
        {500, many, 3, with([](O o) { o.xtc_probability = 1, o.xtc_threshold = 0.05f; })},
        {300, many, 3, with([](O o) { o.top_k = 30, o.xtc_probability = 1, o.xtc_threshold = 0.01f; }),
         1},  // ties
        {300, 200, 3, with([](O o) { o.xtc_probability = 0.5f, o.xtc_threshold = 0.1f; })},
        {2000, 60, 3, with([](O o) { o.mirostat_tau = 2, o.mirostat_eta = 0.2f, o.temperature = 1.2f; })},
    };
    for (const Draws& c : cases) {
        std::vector<float> logits = random_floats(c.vocab, context.seed + 5, c.sigma);
        for (float& value : logits)
            if (c.ties) value = std::round(value * float(c.ties)) / float(c.ties);
        const std::vector<double> values = doubles(logits);
        const std::string shape =
            cat("vocab ", c.vocab, " draws ", c.count, " temperature ", c.options.temperature, " top-k ",
                c.options.top_k, " top-p ", c.options.top_p, " min-p ", c.options.min_p, " penalty ",
                c.options.repetition_penalty, " typical ", c.options.typical_p, " xtc ",
                c.options.xtc_probability, " mirostat ", c.options.mirostat_tau);
        // What a draw does not change stays one distribution.
        const bool changes = c.options.repetition_window > 0 || c.options.mirostat_tau > 0 ||
                             (c.options.xtc_probability > 0 && c.options.xtc_probability < 1);
        std::vector<uint32_t>
            wanted;  // the reference's draws; the same for all variants if earlier ones do not count
        for (const KernelVariant& variant : proven_variants(context.caps(), sample_variants)) {
            if (context.leaves_out("sample", variant)) continue;
            const Drawn drawn = draw(context, variant, logits, c.options, {}, c.count);
            std::vector<uint32_t> recent;
            uint32_t different = 0;
            double mu = 2 * double(c.options.mirostat_tau);
            for (uint32_t i = 0; i < c.count; ++i) {
                if (c.options.repetition_window > 0 || c.options.mirostat_tau > 0) wanted.resize(i);
                if (wanted.size() == i)
                    wanted.push_back(reference::sample(values, c.options, recent, first_position + i, mu));
                different += wanted[i] != drawn.tokens[i];
                recent.push_back(drawn.tokens[i]);
            }
            std::string detail;
            if (!changes)
                detail = misfit(reference::token_probabilities(values, c.options, {}), drawn.tokens);
            // Masses are rounded to 2^-31 of the largest, so a draw beside a border may fall on its other
            // side.
            const std::vector<float> share{float(different) / float(c.count)};
            context.compare("sample", variant.name, shape, std::vector<double>{0}, share, 1,
                            Bounds{1, 2e-3, 2e-3}, detail);
        }
    }
}

/// Ids exactly; log-probabilities to what float sums of `vocab` terms allow.
void check_top(CheckContext& context) {
    struct Case {
        uint32_t vocab, count;
        float sigma;
    };
    for (const Case& c :
         {Case{1, 1, 1}, Case{50, 50, 3}, Case{5000, 20, 3}, Case{49152, 64, 2}, Case{300, 0, 9}}) {
        std::vector<float> logits = random_floats(c.vocab, context.seed + 9, c.sigma);
        if (c.vocab > 40) logits[40] = logits[7];  // a tie
        const uint32_t chosen = c.vocab / 3;
        std::vector<uint32_t> order(c.vocab);
        std::iota(order.begin(), order.end(), 0u);
        std::ranges::stable_sort(order, [&](uint32_t a, uint32_t b) { return logits[a] > logits[b]; });
        const double largest = logits[order[0]];
        double sum = 0;
        for (const float value : logits) sum += std::exp(double(value) - largest);
        const auto own = [&](uint32_t i) { return double(logits[i]) - largest - std::log(sum); };
        std::vector<double> ids, logprobs{own(chosen)};
        for (uint32_t i = 0; i < c.count; ++i) {
            ids.push_back(order[i]);
            logprobs.push_back(own(order[i]));
        }
        std::vector<uint32_t> step(STEP_TOKENS + STEP_TOKEN_WORDS);
        step[STEP_INDEX] = 3;
        step[STEP_TOKENS + STEP_TOKEN_ID] = chosen;
        const vk::Buffer logits_buffer = context.buffer_of<float>(logits),
                         step_buffer = context.buffer_of<uint32_t>(step);
        const vk::Buffer top(context.device, 4 * 2 * SAMPLE_TOP_WORDS, vk::MemoryUse::device);
        for (const KernelVariant& variant : proven_variants(context.caps(), sample_variants)) {
            if (context.leaves_out("sample", variant)) continue;
            context.run([&](OpContext& ops) {
                const Matrix m{logits_buffer.view(), 1, c.vocab, c.vocab, 0};
                record_sample_top(ops, {m, step_buffer.view(), top.view(), 2, 0, c.count}, variant);
            });
            const std::vector<uint32_t> words = words_of(context, top);
            const TokenLogprobs found =
                read_top(std::span(words).first(SAMPLE_TOP_WORDS), TokenId(chosen), c.count);
            std::vector<float> found_ids, found_logprobs{found.logprob};
            for (const auto& [id, logprob] : found.best) {
                found_ids.push_back(float(id));
                found_logprobs.push_back(logprob);
            }
            const std::string shape = cat("log-probabilities, vocab ", c.vocab, " best ", c.count);
            if (c.count > 0)
                context.compare("sample", variant.name, shape, ids, found_ids, c.count, Bounds{0, 0, 0});
            context.compare("sample", variant.name, shape, logprobs, found_logprobs, c.count + 1,
                            bounds_of(std::sqrt(double(c.vocab)) + 8));
        }
    }
}

/// Many rows at once, of slots and sequences in no order, are what each is alone; what is no row stays
/// untouched.
void check_rows(CheckContext& context) {
    constexpr uint32_t vocab = 5000, best = 3, untouched = 0xABCDEF01u;
    constexpr uint32_t slots_of[] = {7, 1, 4, 0, 3, 6}, sequences[] = {2, 0, 5, 1, 3, 4};
    constexpr uint32_t rows = 6, outputs_word = STEP_TOKENS + 8 * STEP_TOKEN_WORDS;
    const std::vector<uint32_t> recent{1, 2, 11, 2};
    const struct {
        SamplingOptions options;
        std::vector<uint32_t> allowed{};
    } cases[rows] = {{{}},
                     {{.temperature = 1, .top_k = 40, .seed = 5}},
                     {{.temperature = 2, .top_k = 0, .top_p = 1, .min_p = 0, .seed = 6}},
                     {{.repetition_penalty = 9}, {1, 2, 11, 4097}},
                     {{.temperature = 1, .mirostat_tau = 2, .seed = 7}},
                     {{}}};                    // beyond the rows that there are
    for (const bool greedy : {false, true}) {  // what is greedy is the same in both pipelines
        std::vector<float> logits = random_floats(rows * vocab, context.seed + 13, 3);
        std::fill_n(logits.begin() + 100, 64, 50.0f);  // of equals the first, where nothing is drawn
        std::vector<uint32_t> step(outputs_word + rows), states(rows * sampler_words(vocab));
        step[STEP_OUTPUT_COUNT] = rows - 1;
        step[STEP_INDEX] = 9;
        for (uint32_t row = 0; row < rows; ++row) {
            step[outputs_word + row] = slots_of[row];
            uint32_t* slot = &step[STEP_TOKENS + slots_of[row] * STEP_TOKEN_WORDS];
            slot[STEP_TOKEN_POSITION] = first_position;
            slot[STEP_TOKEN_TABLE] = 77;
            slot[STEP_TOKEN_SAMPLER] = sequences[row];
            SamplingOptions options = cases[row].options;
            if (greedy) options.temperature = options.mirostat_tau = 0;
            std::ranges::copy(sampler_contents(options, recent, vocab, cases[row].allowed),
                              states.begin() + sequences[row] * sampler_words(vocab));
        }
        const vk::Buffer logits_buffer = context.buffer_of<float>(logits);
        const vk::Buffer scratch(context.device, rows * sample_scratch_bytes(vocab), vk::MemoryUse::device);
        for (const KernelVariant& variant : proven_variants(context.caps(), sample_variants)) {
            if (context.leaves_out("sample", variant)) continue;
            const std::vector<uint32_t> blank(rows * SAMPLE_TOP_WORDS, untouched);
            const vk::Buffer step_buffer = context.buffer_of<uint32_t>(step),
                             sampler = context.buffer_of<uint32_t>(states),
                             results = context.buffer_of<uint32_t>(std::span(blank).first(2 * rows)),
                             top = context.buffer_of<uint32_t>(blank);
            const Matrix m{logits_buffer.view(), rows, vocab, vocab, 0};
            context.run([&](OpContext& ops) {
                record_sample(ops,
                              {.logits = m,
                               .sampler = sampler.view(),
                               .scratch = scratch.view(),
                               .step = step_buffer.view(),
                               .results = results.view(),
                               .result_slots = rows,
                               .from_slot = 0,
                               .to_slot = 0,
                               .greedy = greedy,
                               .outputs_word = outputs_word},
                              variant);
                record_sample_top(ops,
                                  {.logits = m,
                                   .step = step_buffer.view(),
                                   .top = top.view(),
                                   .result_slots = rows,
                                   .slot = 0,
                                   .count = best,
                                   .outputs_word = outputs_word},
                                  variant);
            });
            const std::vector<uint32_t> step_after = words_of(context, step_buffer),
                                        states_after = words_of(context, sampler),
                                        drawn = words_of(context, results),
                                        likeliest = words_of(context, top);
            std::vector<double> expected{9};
            std::vector<float> actual{float(step_after[STEP_INDEX])};
            const auto expect = [&](double wanted, double got) {
                expected.push_back(double(float(wanted)));
                actual.push_back(float(got));
            };
            std::vector<double> logprobs;
            std::vector<float> found_logprobs;
            for (uint32_t row = 0; row + 1 < rows; ++row) {
                SamplingOptions options = cases[row].options;
                if (greedy) options.temperature = options.mirostat_tau = 0;
                const std::span<const float> own = std::span(logits).subspan(row * vocab, vocab);
                const Drawn alone = draw(context, variant, own, options, recent, 1, cases[row].allowed);
                const uint32_t* slot = &step_after[STEP_TOKENS + slots_of[row] * STEP_TOKEN_WORDS];
                const uint32_t* state = &states_after[sequences[row] * sampler_words(vocab)];
                expect(alone.tokens[0], drawn[2 * row]);
                expect(0, drawn[2 * row + 1]);
                expect(alone.tokens[0], slot[STEP_TOKEN_ID]);
                expect(first_position + 1, slot[STEP_TOKEN_POSITION]);
                for (const uint32_t word : {SAMPLER_PUSHED, SAMPLER_TOKENS + 4, SAMPLER_MIROSTAT_MU})
                    expect(alone.sampler[word], state[word]);
                const auto of_top = std::span(likeliest).subspan(row * SAMPLE_TOP_WORDS, SAMPLE_TOP_WORDS);
                const TokenLogprobs found = read_top(of_top, TokenId(drawn[2 * row]), best);
                const double sum = std::accumulate(own.begin(), own.end(), 0.0, [](double before, float x) {
                    return before + std::exp(double(x));
                });
                logprobs.push_back(double(own[std::min(drawn[2 * row], vocab - 1)]) - std::log(sum));
                found_logprobs.push_back(found.logprob);
                expect(double(std::ranges::max_element(own) - own.begin()), double(found.best[0].first));
            }
            expect(untouched, drawn[2 * rows - 2]);
            expect(untouched, likeliest[(rows - 1) * SAMPLE_TOP_WORDS]);
            context.compare("sample", variant.name, cat("rows ", rows - 1, greedy ? ", greedy" : ""),
                            expected, actual, uint32_t(expected.size()), Bounds{0, 0, 0});
            context.compare("sample", variant.name, cat("log-probabilities, rows ", rows - 1), logprobs,
                            found_logprobs, rows - 1, bounds_of(std::sqrt(double(vocab)) + 8));
        }
    }
}

}  // namespace

void check_sample(CheckContext& context) {
    check_greedy(context);
    check_draws(context);
    check_top(context);
    check_rows(context);
}

}  // namespace scoria::validate
