// See sample.h.
#include "sample.h"

#include "fail.h"
#include "sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace scoria {
namespace {

constexpr uint32_t most_biases = SAMPLER_BIAS_LIMIT / 2;  // a half is for what steps add
constexpr uint32_t most_vocab = 1u << 24;                 // sample_pick.comp searches indices of 24 bits

uint32_t guess_word(std::optional<TokenId> guess) { return guess ? uint32_t(*guess) : SAMPLE_ALWAYS; }
uint32_t blocks_of(uint32_t vocab) { return uint32_t(groups_for(vocab, SAMPLE_BLOCK)); }

void expect(bool holds, const char* name, const char* range, double got) {
    if (!holds) fail(Status::bad_argument, "sampling", "expected ", name, " ", range, ", got ", got);
}

void check_options(const SamplingOptions& o) {
    expect(std::isfinite(o.temperature) && o.temperature >= 0, "temperature", "of at least 0", o.temperature);
    expect(o.top_p > 0 && o.top_p <= 1, "top-p", "in (0, 1]", o.top_p);
    expect(o.min_p >= 0 && o.min_p <= 1, "min-p", "in [0, 1]", o.min_p);
    expect(std::isfinite(o.repetition_penalty) && o.repetition_penalty > 0, "repetition penalty", "above 0",
           o.repetition_penalty);
    if (o.repetition_window > SAMPLER_RING)
        fail(Status::bad_argument, "sampling", "expected a repetition window of at most ", SAMPLER_RING,
             " tokens, got ", o.repetition_window);
    // Beyond these a float32 logit has no bits left to differ in.
    expect(std::abs(o.frequency_penalty) <= 100, "frequency penalty", "in [-100, 100]", o.frequency_penalty);
    expect(std::abs(o.presence_penalty) <= 100, "presence penalty", "in [-100, 100]", o.presence_penalty);
    expect(o.typical_p > 0 && o.typical_p <= 1, "typical-p", "in (0, 1]", o.typical_p);
    expect(o.xtc_probability >= 0 && o.xtc_probability <= 1, "XTC probability", "in [0, 1]",
           o.xtc_probability);
    expect(o.xtc_threshold > 0 && o.xtc_threshold <= 1, "XTC threshold", "in (0, 1]", o.xtc_threshold);
    expect(o.mirostat_tau >= 0 && o.mirostat_tau <= 100, "mirostat tau", "in [0, 100]", o.mirostat_tau);
    expect(o.dry_multiplier >= 0 && o.dry_multiplier <= 100, "DRY multiplier", "in [0, 100]",
           o.dry_multiplier);
    expect(o.dry_base >= 1 && o.dry_base <= 100, "DRY base", "in [1, 100]", o.dry_base);
    expect(o.mirostat_eta >= 0 && o.mirostat_eta <= 1, "mirostat eta", "in [0, 1]", o.mirostat_eta);
}

/// The biases by token.
std::vector<LogitBias> checked_biases(const SamplingOptions& options, uint32_t vocab) {
    std::vector<LogitBias> biases = options.logit_bias;
    if (biases.size() > most_biases)
        fail(Status::bad_argument, "sampling", "expected at most ", most_biases, " logit biases, got ",
             biases.size());
    for (const LogitBias& each : biases) {
        if (each.token < 0 || uint32_t(each.token) >= vocab)
            fail(Status::bad_argument, "sampling", "expected a logit bias of a token from 0 to ", vocab - 1,
                 ", got ", each.token);
        expect(each.bias < INFINITY, "logit bias", "of a number or -inf", each.bias);
    }
    std::ranges::sort(biases, {}, &LogitBias::token);
    const auto twice = std::ranges::adjacent_find(biases, {}, &LogitBias::token);
    if (twice != biases.end())
        fail(Status::bad_argument, "sampling", "expected one logit bias for token ", twice->token,
             ", got two");
    return biases;
}

std::vector<uint32_t> pairs_of(std::span<const LogitBias> biases) {
    std::vector<uint32_t> words;
    for (const LogitBias& each : biases)
        words.insert(words.end(), {uint32_t(each.token), std::bit_cast<uint32_t>(each.bias)});
    return words;
}

}  // namespace

std::vector<uint32_t> bias_words(const SamplingOptions& options, std::span<const LogitBias> others) {
    std::vector<LogitBias> all(others.begin(), others.end());
    const size_t room = SAMPLER_BIAS_LIMIT - options.logit_bias.size();
    if (all.size() > room) {
        std::ranges::nth_element(all, all.begin() + std::ptrdiff_t(room), {},
                                 [](const LogitBias& each) { return -std::abs(each.bias); });
        all.resize(room);
    }
    all.insert(all.end(), options.logit_bias.begin(), options.logit_bias.end());
    std::ranges::sort(all, {}, &LogitBias::token);
    std::vector<LogitBias> sums;
    for (const LogitBias& each : all) {
        if (!sums.empty() && sums.back().token == each.token)
            sums.back().bias += each.bias;
        else
            sums.push_back(each);
    }
    return pairs_of(sums);
}

uint32_t sampler_words(uint32_t vocab) { return SAMPLER_MASK + (vocab + 31) / 32; }

std::vector<uint32_t> sampler_state(const SamplingOptions& options, std::span<const uint32_t> recent,
                                    uint32_t vocab) {
    check_options(options);
    const std::vector<LogitBias> biases = checked_biases(options, vocab);
    std::vector<uint32_t> words(SAMPLER_BIASES + 2 * biases.size());
    const auto set = [&](uint32_t word, float value) { words[word] = std::bit_cast<uint32_t>(value); };
    set(SAMPLER_TEMPERATURE, options.temperature);
    words[SAMPLER_TOP_K] = options.top_k;
    set(SAMPLER_TOP_P, options.top_p);
    set(SAMPLER_LOG_MIN_P, std::log(options.min_p));
    set(SAMPLER_PENALTY, options.repetition_penalty);
    words[SAMPLER_WINDOW] = options.repetition_window;
    set(SAMPLER_FREQUENCY, options.frequency_penalty);
    set(SAMPLER_PRESENCE, options.presence_penalty);
    set(SAMPLER_TYPICAL, options.typical_p);
    set(SAMPLER_XTC_THRESHOLD, options.xtc_threshold);
    set(SAMPLER_XTC_PROBABILITY, options.xtc_probability);
    set(SAMPLER_MIROSTAT_TAU, options.mirostat_tau);
    set(SAMPLER_MIROSTAT_ETA, options.mirostat_eta);
    set(SAMPLER_MIROSTAT_MU, 2 * options.mirostat_tau);
    words[SAMPLER_BIAS_COUNT] = uint32_t(biases.size());
    std::ranges::copy(pairs_of(biases), words.begin() + SAMPLER_BIASES);
    words[SAMPLER_SEED_LOW] = uint32_t(options.seed);
    words[SAMPLER_SEED_HIGH] = uint32_t(options.seed >> 32);
    if (recent.size() > SAMPLER_RING) recent = recent.last(SAMPLER_RING);
    words[SAMPLER_PUSHED] = uint32_t(recent.size());
    std::ranges::copy(recent, words.begin() + SAMPLER_TOKENS);
    return words;
}

uint64_t sample_scratch_bytes(uint32_t vocab) {
    return 4 * (uint64_t(blocks_of(vocab)) * SAMPLE_PARTIAL_WORDS + vocab);
}
uint64_t sampler_bytes(uint32_t vocab) { return sample_scratch_bytes(vocab) + 4ull * sampler_words(vocab); }

namespace {

/// A workgroup that has a row to itself. Of more lanes each would have too few registers (NVIDIA's 64, of
/// 1,024).
uint32_t row_workgroup(const vk::Caps& caps, const KernelVariant& variant) {
    if (variant.shader != Shader::sample_scan_sg || variant.workgroup == variant.subgroup)
        return variant.workgroup;
    const uint32_t most = std::min({512u, caps.max_invocations, caps.max_workgroup_x}) / variant.subgroup;
    const uint32_t required = caps.max_required_subgroups;
    return variant.subgroup * (required == 0 ? most : std::min(most, required));
}
/// Of the scan: eight logits a lane.
uint32_t block_workgroup(const KernelVariant& variant) {
    return std::min(variant.workgroup, std::max(SAMPLE_BLOCK / 8u, variant.subgroup));
}
uint32_t loads_of(const KernelVariant& variant) { return variant.workgroup > variant.subgroup ? 8 : 1; }

}  // namespace

std::vector<KernelVariant> sample_variants(const vk::Caps& caps) {
    // Emulation uses a workgroup of several groups here: the second stage is one workgroup.
    std::vector<KernelVariant> variants =
        subgroup_variants(caps, Shader::sample_scan_sg, Shader::sample_scan, 256);
    if (caps.is_cpu()) return variants;
    variants.back().workgroup = std::min({128u, caps.max_invocations, caps.max_workgroup_x});
    // A workgroup of one subgroup has no barriers (workgroup.glsl): CPU drivers alone keep lanes in step.
    if (variants.size() > 1 && variants[0].workgroup == variants[0].subgroup)
        variants.erase(variants.begin());
    return variants;
}

void record_sample(OpContext& context, const SampleArgs& args, const KernelVariant& variant) {
    if (args.logits.cols == 0 || args.logits.cols > most_vocab)
        fail(Status::unsupported, "sample", "expected a vocabulary of 1 to ", most_vocab, " tokens, got ",
             args.logits.cols);
    const bool native = variant.shader == Shader::sample_scan_sg;
    const SamplePush push{args.logits.cols,
                          blocks_of(args.logits.cols),
                          args.logits.first,
                          args.result_slots,
                          args.from_slot,
                          args.to_slot,
                          guess_word(args.guess),
                          args.logits.rows,
                          args.outputs_word.value_or(SAMPLE_ONE),
                          sampler_words(args.logits.cols)};
    vk::Pipelines& pipelines = context.recorder.pipelines();
    const auto pipeline = [&](Shader shader, uint32_t workgroup) -> const vk::Pipeline& {
        return pipelines.get(shader_module(shader), {{vk::constant_workgroup, workgroup},
                                                     {vk::constant_subgroup, variant.subgroup},
                                                     {SAMPLE_GREEDY, args.greedy},
                                                     {SAMPLE_LOADS, loads_of(variant)}});
    };
    context.recorder.dispatch(pipeline(variant.shader, block_workgroup(variant)),
                              {args.logits.view, args.sampler, args.scratch, args.step}, push,
                              uint64_t{push.blocks} * push.rows, "sample_scan");
    context.recorder.dispatch(
        pipeline(native ? Shader::sample_pick_sg : Shader::sample_pick, row_workgroup(context.caps, variant)),
        {args.sampler, args.scratch, args.step, args.results}, push, push.rows, "sample_pick");
}

void record_sample_top(OpContext& context, const SampleTopArgs& args, const KernelVariant& variant) {
    const uint32_t vocab = args.logits.cols;
    const SampleTopPush push{vocab,
                             args.logits.first,
                             args.result_slots,
                             args.slot,
                             std::min({args.count, uint32_t(SAMPLE_TOP_LIMIT), vocab}),
                             guess_word(args.guess),
                             args.logits.rows,
                             args.outputs_word.value_or(SAMPLE_ONE)};
    const bool native = variant.shader == Shader::sample_scan_sg;
    const vk::Pipeline& pipeline =
        context.recorder.pipelines().get(shader_module(native ? Shader::sample_top_sg : Shader::sample_top),
                                         {{vk::constant_workgroup, row_workgroup(context.caps, variant)},
                                          {vk::constant_subgroup, variant.subgroup},
                                          {SAMPLE_LOADS, loads_of(variant)}});
    context.recorder.dispatch(pipeline, {args.logits.view, args.step, args.top}, push, push.rows,
                              "sample_top");
}

TokenLogprobs read_top(std::span<const uint32_t> words, TokenId chosen, uint32_t count) {
    const auto number = [&](size_t word) { return double(std::bit_cast<float>(words[word])); };
    const double log_sum = number(0) + std::log(number(1));
    TokenLogprobs result{chosen, float(number(2) - log_sum), {}};
    for (size_t i = 0; i < count; ++i)
        result.best.emplace_back(TokenId(words[SAMPLE_TOP_PAIRS + 2 * i]),
                                 float(number(SAMPLE_TOP_PAIRS + 2 * i + 1) - log_sum));
    return result;
}

}  // namespace scoria
