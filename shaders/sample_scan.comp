// First stage of sampling: penalties, biases and the mask, then the largest logit of each block of SAMPLE_BLOCK,
// with a flag for NaN and Inf. Logits become keys, unsigned words in the same order (NaN first). One workgroup per
// block of a row.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "workgroup.glsl"
#include "numerics.glsl"
#include "grid.glsl"
#include "step.h"
#include "sampler.h"

layout(constant_id = SAMPLE_GREEDY) const bool GREEDY = false;
layout(constant_id = SAMPLE_LOADS) const uint LOADS = 1;

layout(binding = 0) readonly buffer Logits { float logits[]; };
layout(binding = 1) readonly buffer Sampler { uint sampler_words[]; };
layout(binding = 2) writeonly buffer Scratch { uint scratch[]; };
layout(binding = 3) readonly buffer Step { uint step_words[]; };
layout(push_constant) uniform Push { SamplePush push; };

#include "sample_rows.glsl"

float setting(const uint word) { return uintBitsToFloat(sampler_words[sampler_base + word]); }

const uint LANES = gl_WorkGroupSize.x;
// How often each token of the lane stands in the window: `first`, `first` + LANES and so on, of those before `end`, behind
// which there is the last again.
uint recent_counts[LOADS];
void count_recent(const uint first, const uint end) {
    const uint pushed = sampler_words[sampler_base + SAMPLER_PUSHED];
    const uint window = min(min(sampler_words[sampler_base + SAMPLER_WINDOW], SAMPLER_RING), pushed);
    [[unroll]] for (uint k = 0; k < LOADS; ++k) recent_counts[k] = 0;
    for (uint i = 1; i <= window; ++i) {
        const uint token = sampler_words[sampler_base + SAMPLER_TOKENS + (pushed - i) % SAMPLER_RING];
        [[unroll]] for (uint k = 0; k < LOADS; ++k)
            if (token == min(first + k * LANES, end - 1)) ++recent_counts[k];
    }
}

float bias_of(const uint token) {
    uint first = 0, end = min(sampler_words[sampler_base + SAMPLER_BIAS_COUNT], SAMPLER_BIAS_LIMIT);
    while (first < end) {
        const uint middle = (first + end) / 2, found = sampler_words[sampler_base + SAMPLER_BIASES + 2 * middle];
        if (found == token) return setting(SAMPLER_BIASES + 2 * middle + 1);
        if (found < token) first = middle + 1;
        else end = middle;
    }
    return 0.0;
}

bool allowed(const uint token) {
    return ((sampler_words[sampler_base + SAMPLER_MASK + token / 32] >> (token % 32)) & 1u) != 0;
}

float penalised(float value, const uint count) {
    if (count == 0) return value;
    const float penalty = setting(SAMPLER_PENALTY);
    value = value > 0.0 ? value / penalty : value * penalty;
    return value - setting(SAMPLER_FREQUENCY) * float(count) - setting(SAMPLER_PRESENCE);
}

void main() {
    const uint row = group_index() / push.blocks, block = group_index() % push.blocks;
    if (!enter_row(row)) return;
    const uint first_logit = push.logits_first + row * push.vocab;
    const bool penalises =
        setting(SAMPLER_PENALTY) != 1.0 || setting(SAMPLER_FREQUENCY) != 0.0 || setting(SAMPLER_PRESENCE) != 0.0;
    const bool biased = sampler_words[sampler_base + SAMPLER_BIAS_COUNT] != 0;
    const bool masked = sampler_words[sampler_base + SAMPLER_MASKED] != 0;
    const uint end = min((block + 1) * SAMPLE_BLOCK, push.vocab);
    uint best = 0, best_index = 0xFFFFFFFFu, bad = 0;
    for (uint first = block * SAMPLE_BLOCK + wg_lane(); first < end; first += LOADS * LANES) {
        float values[LOADS];
        uint keys[LOADS];
        [[unroll]] for (uint k = 0; k < LOADS; ++k) values[k] = logits[first_logit + min(first + k * LANES, end - 1)];
        if (penalises) count_recent(first, end);
        // Stores come last: loads do not pass them.
        [[unroll]] for (uint k = 0; k < LOADS; ++k) {
            const uint i = min(first + k * LANES, end - 1);
            float value = values[k];
            if (is_nan(value) || floatBitsToUint(value) == 0x7F800000u) bad = 1;
            if (penalises) value = penalised(value, recent_counts[k]);
            if (biased) value += bias_of(i);
            if (masked && !allowed(i)) value = uintBitsToFloat(0xFF800000u);
            keys[k] = sort_key(value);
            if (keys[k] > best || best_index == 0xFFFFFFFFu) {
                best = keys[k];
                best_index = i;
            }
        }
        if (!GREEDY)
            [[unroll]] for (uint k = 0; k < LOADS; ++k)
                if (first + k * LANES < end)
                    scratch[scratch_base + push.blocks * SAMPLE_PARTIAL_WORDS + first + k * LANES] = keys[k];
    }
    const uint most = wg_max(best);
    const uint index = ~wg_max(best == most ? ~best_index : 0);  // the lowest of equals
    bad = wg_max(bad);
    if (wg_lane() != 0) return;
    const uint partial = scratch_base + block * SAMPLE_PARTIAL_WORDS;
    scratch[partial] = most;
    scratch[partial + 1] = index;
    scratch[partial + 2] = bad;
}
