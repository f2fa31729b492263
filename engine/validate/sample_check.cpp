// Cases of sampling: the token and everything a chained step needs, exactly; the draw's distribution.
#include "check_tools.h"
#include "checks.h"
#include "fail.h"
#include "ops/sample.h"
#include "reference/sample.h"
#include "sampler.h"
#include "session.h"
#include "step.h"

#include <cstring>

namespace scoria::validate {
namespace {

constexpr uint32_t slots = 4096, from_slot = 2, to_slot = 0, first_position = 40;
constexpr float nan = NAN, inf = INFINITY;

struct Drawn {
    std::vector<uint32_t> tokens, status;
    std::vector<uint32_t> step, sampler;
};

/// `count` chained draws from the same logits; the first from slot from_slot, the rest from to_slot.
Drawn draw(CheckContext& context, const KernelVariant& variant, std::span<const float> logits,
           const SamplingOptions& options, std::span<const uint32_t> recent, uint32_t count) {
    const uint32_t vocab = uint32_t(logits.size());
    std::vector<uint32_t> words(STEP_TOKENS + 3 * STEP_TOKEN_WORDS);
    words[STEP_INDEX] = slots - 1;  // the ring wraps
    words[STEP_TOKENS + from_slot * STEP_TOKEN_WORDS + STEP_TOKEN_POSITION] = first_position;
    words[STEP_TOKENS + from_slot * STEP_TOKEN_WORDS + STEP_TOKEN_TABLE] = 77;
    const vk::Buffer step = context.buffer_of<uint32_t>(words),
                     logits_buffer = context.buffer_of<float>(logits);
    const vk::Buffer sampler = context.buffer_of<uint32_t>(sampler_state(options, recent));
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
    const auto words_of = [&](const vk::Buffer& buffer) {
        const std::vector<std::byte> bytes = context.download(buffer.view());
        std::vector<uint32_t> values(bytes.size() / 4);
        std::memcpy(values.data(), bytes.data(), bytes.size());
        return values;
    };
    const std::vector<uint32_t> ring = words_of(results);
    Drawn drawn{{}, {}, words_of(step), words_of(sampler)};
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
    float penalty;
    uint32_t expected;
    bool bad;
};

void check_greedy(CheckContext& context) {
    const Greedy cases[] = {
        {"one token", 1, {}, 0, 1, 0, false},
        {"ties", 5000, {{4999, 50.0f}, {2047, 50.0f}, {2048, 50.0f}}, 0, 1, 2047, false},
        {"zeros of both signs", 100, {{7, -0.0f}, {9, 0.0f}}, -1, 1, 7, false},
        {"last of many", 49152, {{49151, 50.0f}}, 0, 1, 49151, false},
        {"some NaN", 300, {{3, nan}, {200, 50.0f}}, 0, 1, 200, true},
        {"all NaN", 3000, {}, nan, 1, 0, true},
        {"all -Inf", 70, {}, -inf, 1, 0, true},
        {"Inf", 3000, {{2999, inf}, {5, nan}}, 0, 1, 2999, true},
        {"penalty", 3000, {{11, 50.0f}, {2500, 30.0f}}, 0, 2, 2500, false},
        {"penalty of negatives", 100, {{11, -1.0f}, {50, -1.5f}}, -9, 2, 50, false},
    };
    for (const Greedy& c : cases) {
        std::vector<float> logits =
            c.fill != 0 ? std::vector(c.vocab, c.fill) : random_floats(c.vocab, context.seed);
        for (const auto& [token, value] : c.set) logits[token] = value;
        SamplingOptions options;
        options.repetition_penalty = c.penalty;
        const std::vector<uint32_t> recent{1, 11, 2};
        for (const KernelVariant& variant : sample_variants(context.caps())) {
            const Drawn drawn = draw(context, variant, logits, options, recent, 1);
            const uint32_t* slot = &drawn.step[STEP_TOKENS + to_slot * STEP_TOKEN_WORDS];
            const uint32_t status = c.bad ? STEP_STATUS_NON_FINITE : 0;
            const std::vector<double> expected{double(c.expected),
                                               double(status),
                                               double(status),
                                               double(slots),
                                               double(c.expected),
                                               first_position + 1,
                                               77,
                                               4,
                                               double(c.expected)};
            const std::vector<float> actual{float(drawn.tokens[0]),
                                            float(drawn.status[0]),
                                            float(drawn.step[STEP_STATUS]),
                                            float(drawn.step[STEP_INDEX]),
                                            float(slot[STEP_TOKEN_ID]),
                                            float(slot[STEP_TOKEN_POSITION]),
                                            float(slot[STEP_TOKEN_TABLE]),
                                            float(drawn.sampler[SAMPLER_PUSHED]),
                                            float(drawn.sampler[SAMPLER_TOKENS + 3])};
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
        {300, many, 1, with([](O o) {
             o.top_k = 10;
             o.temperature = 50;
         })},  // exact set: all ten appear
        {300, many, 1, with([](O o) {
             o.top_k = 10;
             o.temperature = 50;
         }),
         2},  // ties at the end
        {3000, many, 2, with([](O o) {
             o.top_p = 0.6f;
             o.temperature = 0.7f;
         })},
        {300, many, 0, with([](O o) { o.top_p = 0.5f; })},  // all equal
        {500, many, 2, with([](O o) {
             o.min_p = 0.1f;
             o.temperature = 3;
         })},
        {5000, many, 3, with([](O o) {
             o.top_k = 40;
             o.top_p = 0.95f;
             o.min_p = 0.05f;
             o.temperature = 0.8f;
         })},
        {5000, 60, 3, with([](O o) {
             o.top_k = 400;
             o.top_p = 0.9f;
             o.temperature = 1.3f;
         })},
        {200, 60, 2, with([](O o) {
             o.repetition_penalty = 1.5f;
             o.repetition_window = 64;
             o.top_k = 20;
         })},
    };
    for (const Draws& c : cases) {
        std::vector<float> logits = random_floats(c.vocab, context.seed + 5, c.sigma);
        for (float& value : logits)
            if (c.ties) value = std::round(value * float(c.ties)) / float(c.ties);
        const std::vector<double> values = doubles(logits);
        const std::string shape =
            cat("vocab ", c.vocab, " draws ", c.count, " temperature ", c.options.temperature, " top-k ",
                c.options.top_k, " top-p ", c.options.top_p, " min-p ", c.options.min_p, " penalty ",
                c.options.repetition_penalty);
        for (const KernelVariant& variant : sample_variants(context.caps())) {
            const Drawn drawn = draw(context, variant, logits, c.options, {}, c.count);
            std::vector<uint32_t> recent;
            uint32_t different = 0;
            for (uint32_t i = 0; i < c.count; ++i) {
                different +=
                    reference::sample(values, c.options, recent, first_position + i) != drawn.tokens[i];
                if (c.options.repetition_penalty != 1) recent.push_back(drawn.tokens[i]);
            }
            std::string detail;
            if (c.options.repetition_penalty == 1)
                detail = misfit(reference::token_probabilities(values, c.options, {}), drawn.tokens);
            // Masses are rounded to 2^-31 of the largest, so a draw beside a border may fall on its other
            // side.
            const std::vector<float> share{float(different) / float(c.count)};
            context.compare("sample", variant.name, shape, std::vector<double>{0}, share, 1,
                            Bounds{1, 2e-3, 2e-3}, detail);
        }
    }
}

}  // namespace

void check_sample(CheckContext& context) {
    check_greedy(context);
    check_draws(context);
}

}  // namespace scoria::validate
