// Chooses the next token on the device and makes the step buffer ready for it, so that decode steps chain
// without the host. Two dispatches: a scan of the logits by many workgroups, a choice by one.
//
// Semantics, in this order (reference/sample.h says the same in double):
//   1. repetition penalty: a logit of a token in the last `window` ones is divided by it if positive, else
//      multiplied (Keskar et al. 2019)
//   2. top-k: the k largest; ties at the end go to the lowest index
//   3. top-p: of those, softmax at temperature 1, the fewest largest whose sum reaches p (Holtzman et al.
//   2020)
//   4. min-p: of those, the ones with probability >= min_p times the largest (Nguyen et al. 2024)
//   5. temperature: a draw from the softmax of what is left, divided by the temperature
// Temperature 0 takes the largest after step 1; ties go to the lowest index. NaN counts as the smallest.
// The draw is a function of (seed, position) alone: Philox4x32-10 (Salmon et al. 2011), so that a replay
// from a session's tokens repeats it.
#pragma once

#include "kernel_variant.h"

#include <span>

namespace scoria {

struct SamplingOptions;  // session.h

/// Words of a sequence's sampler buffer.
uint32_t sampler_words();
/// Its contents: options and the last tokens so far (all, or the last repetition_window; order matters).
/// Errors: bad_argument for values out of range.
std::vector<uint32_t> sampler_state(const SamplingOptions& options, std::span<const uint32_t> recent);

/// Bytes of the scratch buffer, for every variant.
uint64_t sample_scratch_bytes(uint32_t vocab);
/// Device bytes that sampling one sequence takes: scratch and sampler buffer.
uint64_t sampler_bytes(uint32_t vocab);

struct SampleArgs {
    Matrix logits;     // [1, vocab]
    vk::View sampler;  // sampler_state
    vk::View scratch;
    vk::View step;
    vk::View results;  // [result_slots] of {token, status bits}; slot = the step's counter % result_slots
    uint32_t result_slots;
    uint32_t from_slot;  // token of the step buffer whose logits these are
    uint32_t to_slot;    // gets the new token's id, position + 1, the same table and sampler
    bool greedy;         // temperature is 0; a pipeline of its own, small and sooner compiled
};

std::vector<KernelVariant> sample_variants(const vk::Caps& caps);
void record_sample(OpContext& context, const SampleArgs& args, const KernelVariant& variant);

}  // namespace scoria
