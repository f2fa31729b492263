// First stage of sampling: repetition penalty, then the largest logit of each block of SAMPLE_BLOCK, with a
// flag for NaN and Inf. Logits become keys, unsigned words in the same order (NaN first). One workgroup per block.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "workgroup.glsl"
#include "numerics.glsl"
#include "grid.glsl"
#include "sampler.h"

layout(constant_id = SAMPLE_GREEDY) const bool GREEDY = false;

layout(binding = 0) readonly buffer Logits { float logits[]; };
layout(binding = 1) readonly buffer Sampler { uint sampler_words[]; };
layout(binding = 2) writeonly buffer Scratch { uint scratch[]; };
layout(push_constant) uniform Push { SamplePush push; };

bool is_recent(uint token) {
    const uint pushed = sampler_words[SAMPLER_PUSHED];
    const uint window = min(min(sampler_words[SAMPLER_WINDOW], SAMPLER_RING), pushed);
    for (uint i = 1; i <= window; ++i)
        if (sampler_words[SAMPLER_TOKENS + (pushed - i) % SAMPLER_RING] == token) return true;
    return false;
}

void main() {
    const uint block = group_index();
    if (block >= push.blocks) return;
    const float penalty = uintBitsToFloat(sampler_words[SAMPLER_PENALTY]);
    const uint end = min((block + 1) * SAMPLE_BLOCK, push.vocab);
    uint best = 0, best_index = 0xFFFFFFFFu, bad = 0;
    for (uint i = block * SAMPLE_BLOCK + wg_lane(); i < end; i += gl_WorkGroupSize.x) {
        float value = logits[push.logits_first + i];
        if (is_nan(value) || floatBitsToUint(value) == 0x7F800000u) bad = 1;
        if (penalty != 1.0 && is_recent(i)) value = value > 0.0 ? value / penalty : value * penalty;
        const uint key = sort_key(value);
        if (key > best || best_index == 0xFFFFFFFFu) {
            best = key;
            best_index = i;
        }
        if (!GREEDY) scratch[push.blocks * SAMPLE_PARTIAL_WORDS + i] = key;
    }
    const uint most = wg_max(best);
    const uint index = ~wg_max(best == most ? ~best_index : 0);  // the lowest of equals
    bad = wg_max(bad);
    if (wg_lane() != 0) return;
    scratch[block * SAMPLE_PARTIAL_WORDS] = most;
    scratch[block * SAMPLE_PARTIAL_WORDS + 1] = index;
    scratch[block * SAMPLE_PARTIAL_WORDS + 2] = bad;
}
