// See sample.h.
#include "sample.h"

#include "fail.h"
#include "sampler.h"
#include "session.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace scoria {
namespace {

constexpr uint32_t most_vocab = 1u << 24;  // sample_pick.comp searches indices of 24 bits

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
}

}  // namespace

uint32_t sampler_words() { return SAMPLER_TOKENS + SAMPLER_RING; }

std::vector<uint32_t> sampler_state(const SamplingOptions& options, std::span<const uint32_t> recent) {
    check_options(options);
    std::vector<uint32_t> words(sampler_words());
    words[SAMPLER_TEMPERATURE] = std::bit_cast<uint32_t>(options.temperature);
    words[SAMPLER_TOP_K] = options.top_k;
    words[SAMPLER_TOP_P] = std::bit_cast<uint32_t>(options.top_p);
    words[SAMPLER_LOG_MIN_P] = std::bit_cast<uint32_t>(std::log(options.min_p));
    words[SAMPLER_PENALTY] = std::bit_cast<uint32_t>(options.repetition_penalty);
    words[SAMPLER_WINDOW] = options.repetition_window;
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
uint64_t sampler_bytes(uint32_t vocab) { return sample_scratch_bytes(vocab) + 4ull * sampler_words(); }

std::vector<KernelVariant> sample_variants(const vk::Caps& caps) {
    // Emulation uses a workgroup of several groups here: the second stage is one workgroup.
    std::vector<KernelVariant> variants =
        subgroup_variants(caps, Shader::sample_scan_sg, Shader::sample_scan, 256);
    if (!caps.is_cpu())
        variants.back().workgroup = std::min({128u, caps.max_invocations, caps.max_workgroup_x});
    return variants;
}

void record_sample(OpContext& context, const SampleArgs& args, const KernelVariant& variant) {
    if (args.logits.cols == 0 || args.logits.cols > most_vocab)
        fail(Status::unsupported, "sample", "expected a vocabulary of 1 to ", most_vocab, " tokens, got ",
             args.logits.cols);
    const bool native = variant.shader == Shader::sample_scan_sg;
    const SamplePush push{args.logits.cols,  blocks_of(args.logits.cols),
                          args.logits.first, args.result_slots,
                          args.from_slot,    args.to_slot};
    vk::Pipelines& pipelines = context.recorder.pipelines();
    const auto pipeline = [&](Shader shader) -> const vk::Pipeline& {
        return pipelines.get(shader_module(shader), {{vk::constant_workgroup, variant.workgroup},
                                                     {vk::constant_subgroup, variant.subgroup},
                                                     {SAMPLE_GREEDY, args.greedy}});
    };
    context.recorder.dispatch(pipeline(variant.shader), {args.logits.view, args.sampler, args.scratch}, push,
                              push.blocks, "sample_scan");
    context.recorder.dispatch(pipeline(native ? Shader::sample_pick_sg : Shader::sample_pick),
                              {args.sampler, args.scratch, args.step, args.results}, push, 1, "sample_pick");
}

}  // namespace scoria
