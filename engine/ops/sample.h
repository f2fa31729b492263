// Chooses the next token on the device and makes the step buffer ready for it, so that decode steps chain
// without the host. Two dispatches: a scan of the logits by many workgroups, a choice by one.
//
// Semantics, in this order (reference/sample.h says the same in double):
//   1. penalties, for a token that stands `count` > 0 times in the last `window` ones: its logit is divided
//      by the repetition penalty if positive, else multiplied (Keskar et al. 2019); then it loses the
//      frequency penalty times count and the presence penalty (OpenAI's API)
//   2. logit biases are added, DRY's penalties (../dry.h) among them; tokens that the mask leaves out get
//      -infinity
//   3. top-k: the k largest; ties at the end go to the lowest index
//   4. typical-p: of those, softmax at temperature 1, the fewest whose sum reaches p, nearest first by the
//      distance of -ln probability from the entropy (Meister et al. 2022)
//   5. top-p: of those, softmax at temperature 1, the fewest largest whose sum reaches p (Holtzman et al.
//      2020)
//   6. min-p: of those, the ones with probability >= min_p times the largest (Nguyen et al. 2024)
//   7. XTC ("exclude top choices"), with its probability: of the tokens whose probability among what is left
//      reaches the threshold, all but the least likely go
//   8. temperature: a draw from the softmax of what is left, divided by the temperature
// Mirostat 2 (Basu et al. 2021) takes the place of 3 to 7: it keeps tokens whose surprise -log2 p, after
// temperature, is at most mu (the largest logit always), and then mu -= eta (surprise of the draw - tau),
// from mu = 2 tau on. As in the paper, that surprise is of the distribution before the cut.
// Temperature 0 takes the largest after step 2; ties go to the lowest index. NaN counts as the smallest.
// The draw is a function of (seed, position) and the options alone, but for mirostat's mu: Philox4x32-10
// (Salmon et al. 2011), word 0 for the draw and 1 for XTC, so that a replay from a session's tokens repeats
// it.
#pragma once

#include "kernel_variant.h"
#include "sampling.h"

#include <optional>
#include <span>

namespace scoria {

/// Words of a sequence's sampler buffer: the state below, then a bit per token.
uint32_t sampler_words(uint32_t vocab);
/// Its state: options and the last tokens so far (all, or the last repetition_window; order matters). It
/// leaves the mask off. Errors: bad_argument for values out of range.
std::vector<uint32_t> sampler_state(const SamplingOptions& options, std::span<const uint32_t> recent,
                                    uint32_t vocab);

/// The biases of the options and others, added up: words from SAMPLER_BIASES on. Of too many of the others
/// the strongest stay.
std::vector<uint32_t> bias_words(const SamplingOptions& options, std::span<const LogitBias> others);

/// Bytes of the scratch buffer, for every variant.
uint64_t sample_scratch_bytes(uint32_t vocab);
/// Device bytes that sampling one sequence takes: scratch and sampler buffer.
uint64_t sampler_bytes(uint32_t vocab);

struct SampleArgs {
    Matrix logits;     // [rows, vocab], 1 row unless `outputs_word` says where their slots stand
    vk::View sampler;  // sampler_state; of several sequences one after the other, sampler_words each
    vk::View scratch;  // sample_scratch_bytes for each row
    vk::View step;
    vk::View results;  // [result_slots] of {token, status bits}; slot = the step's counter % result_slots
    uint32_t result_slots;
    uint32_t from_slot;  // token of the step buffer whose logits these are
    uint32_t to_slot;    // gets the new token's id, position + 1, the same table and sampler
    bool greedy;         // temperature is 0; a pipeline of its own, small and sooner compiled
    /// Of a chain of draws from slot to slot, whose step begins with counter 0: nothing happens unless
    /// from_slot got this token. None: always.
    std::optional<TokenId> guess = std::nullopt;
    /// Many rows at once: the word of the step buffer where the output list begins. Row i is of slot
    /// outputs[i], which stands for from_slot and to_slot; its sequence's state is the slot's
    /// STEP_TOKEN_SAMPLER; its result is results[i], and the step's counter stays.
    std::optional<uint32_t> outputs_word = std::nullopt;
};

/// Log-probabilities of the token just chosen and of the likeliest, from logits that are still as they were.
struct SampleTopArgs {
    Matrix logits;  // [rows, vocab]
    vk::View step;
    vk::View top;  // [result_slots, SAMPLE_TOP_WORDS]; slots as of the results
    uint32_t result_slots;
    uint32_t slot;                                // token of the step buffer that was chosen
    uint32_t count;                               // at most SAMPLE_TOP_LIMIT
    std::optional<TokenId> guess = std::nullopt;  // as that of the sampling before it, and so is this:
    std::optional<uint32_t> outputs_word = std::nullopt;
};

std::vector<KernelVariant> sample_variants(const vk::Caps& caps);
void record_sample(OpContext& context, const SampleArgs& args, const KernelVariant& variant);
void record_sample_top(OpContext& context, const SampleTopArgs& args, const KernelVariant& variant);
/// What one slot of `top` says.
TokenLogprobs read_top(std::span<const uint32_t> words, TokenId chosen, uint32_t count);

}  // namespace scoria
