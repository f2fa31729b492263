// The likeliest tokens by the logits themselves (no penalty, bias or mask): `count` of them by falling logit, then
// by index, and what turns logits into log-probabilities. One workgroup per row, one pass over the logits per token.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "workgroup.glsl"
#include "numerics.glsl"
#include "grid.glsl"
#include "step.h"
#include "sampler.h"

layout(constant_id = SAMPLE_LOADS) const uint LOADS = 1;

layout(binding = 0) readonly buffer Logits { float logits[]; };
layout(binding = 1) readonly buffer Step { uint step_words[]; };
layout(binding = 2) writeonly buffer Top { uint top_words[]; };
layout(push_constant) uniform Push { SampleTopPush push; };

uint first_logit;
float logit(const uint i) { return logits[first_logit + i]; }
const uint LANES = gl_WorkGroupSize.x;
// Of the lane: those of tokens `first`, `first` + LANES and so on.
float values[LOADS];
void load(const uint first) {
    [[unroll]] for (uint k = 0; k < LOADS; ++k) values[k] = logit(min(first + k * LANES, push.vocab - 1));
}

void main() {
    const uint row = group_index();
    const bool listed = push.outputs_word != SAMPLE_ONE;
    if (row >= push.rows || (listed && row >= step_words[STEP_OUTPUT_COUNT])) return;
    first_logit = push.logits_first + row * push.vocab;
    if (push.guess != SAMPLE_ALWAYS && step_words[STEP_INDEX] != push.slot) return;  // none was chosen
    // The step's counter has already moved on.
    const uint first = (listed ? row : (step_words[STEP_INDEX] - 1) % push.result_slots) * SAMPLE_TOP_WORDS;
    const uint slot = listed ? step_words[push.outputs_word + row] : push.slot;
    const uint chosen = min(step_words[STEP_TOKENS + slot * STEP_TOKEN_WORDS + STEP_TOKEN_ID], push.vocab - 1);
    uint key = 0xFFFFFFFFu, index = 0;
    float largest = 0.0;
    for (uint n = 0; n < push.count || n == 0; ++n) {
        uint best = 0, best_index = push.vocab - 1;
        for (uint i = wg_lane(); i < push.vocab; i += LOADS * LANES) {
            load(i);
            [[unroll]] for (uint k = 0; k < LOADS; ++k) {
                const uint now = sort_key(values[k]), token = i + k * LANES;
                if (token >= push.vocab || now > key || (now == key && token <= index) || now <= best) continue;
                best = now;
                best_index = token;
            }
        }
        key = wg_max(best);
        index = ~wg_max(best == key ? ~best_index : 0);
        if (n == 0) largest = from_sort_key(key);
        if (wg_lane() == 0 && n < push.count) {
            top_words[first + SAMPLE_TOP_PAIRS + 2 * n] = index;
            top_words[first + SAMPLE_TOP_PAIRS + 2 * n + 1] = floatBitsToUint(logit(index));
        }
    }
    float sum = 0.0;
    for (uint i = wg_lane(); i < push.vocab; i += LOADS * LANES) {
        load(i);
        [[unroll]] for (uint k = 0; k < LOADS; ++k) {
            const float now = values[k];
            const float mass = now == largest ? 1.0 : is_nan(now) ? 0.0 : exp_safe(now - largest);
            sum += i + k * LANES < push.vocab ? mass : 0.0;
        }
    }
    sum = wg_add(sum);
    if (wg_lane() != 0) return;
    top_words[first] = floatBitsToUint(largest);
    top_words[first + 1] = floatBitsToUint(sum);
    top_words[first + 2] = floatBitsToUint(logit(chosen));
    top_words[first + 3] = 0;
}
