// The keys that each token sees (struct Indexer): the `top` of greatest score, lower ones first among equals, as bits, see
// chosen_bits. A workgroup per token finds the least score chosen digit by digit, from the highest on, by counting how many
// scores have which; a lane writes a run of whole numbers. NaN counts as the lowest score.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "attention.push.h"
#include "choose.push.h"
#include "grid.glsl"
#include "numerics.glsl"
#include "step.h"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
layout(binding = 0) readonly buffer Scores { float scores[]; };
layout(binding = 1) readonly buffer Step { uint step_words[]; };
layout(binding = 2) writeonly buffer Out { float result[]; };
layout(push_constant) uniform Push { ChoosePush push; };

const uint DIGITS = 1u << CHOOSE_BITS;
shared uint counts[DIGITS];
shared uint found[2];            // the digit, and how many more scores have a greater one
shared uint before[CHOOSE_LANES];  // by lane: scores of its run that are equal to the least chosen

// In the order of scores: greater for a greater one. None is -0: sums begin with 0.
uint order_of(const uint row, const uint key) {
    const float score = scores[row + key];
    if (is_nan(score)) return 0;
    const uint bits = floatBitsToUint(score);
    return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

// The least order chosen of `count` keys, and how many of those that have it: x, y.
uvec2 least_chosen(const uint row, const uint count, const uint lane, const uint lanes) {
    uint least = 0, wanted = push.top;
    for (uint shift = 32 - CHOOSE_BITS;; shift -= CHOOSE_BITS) {
        for (uint digit = lane; digit < DIGITS; digit += lanes) counts[digit] = 0;
        barrier();
        for (uint key = lane; key < count; key += lanes) {
            const uint order = order_of(row, key);
            const bool same = shift + CHOOSE_BITS == 32 || order >> (shift + CHOOSE_BITS) == least >> (shift + CHOOSE_BITS);
            if (same) atomicAdd(counts[order >> shift & (DIGITS - 1)], 1);
        }
        barrier();
        if (lane == 0) {
            uint digit = DIGITS - 1, above = 0;
            for (; digit > 0 && above + counts[digit] < wanted; --digit) above += counts[digit];
            found[0] = digit;
            found[1] = above;
        }
        barrier();
        least |= found[0] << shift;
        wanted -= min(found[1], wanted);
        if (shift == 0) break;
    }
    return uvec2(least, wanted);
}

void main() {
    const uint token = group_index(), lane = gl_LocalInvocationID.x, lanes = min(gl_WorkGroupSize.x, CHOOSE_LANES);
    if (token >= push.tokens) return;
    const uint of_batch = push.first_token + token, slot = STEP_TOKENS + of_batch * STEP_TOKEN_WORDS;
    const uint last = of_batch < step_words[STEP_TOKEN_COUNT] ? step_words[slot + STEP_TOKEN_POSITION] + 1 : 0;
    const uint count = min(last, push.out_cols * CHOSEN_BITS), row = token * push.scores_stride;
    const bool all = count <= push.top;
    uvec2 least = uvec2(0);
    if (!all) least = least_chosen(row, count, lane, lanes);
    const uint run = (push.out_cols + lanes - 1) / lanes;
    const uint begin = min(lane * run, push.out_cols), end = min(begin + run, push.out_cols);
    uint equals = 0;
    if (!all)
        for (uint key = begin * CHOSEN_BITS; key < min(end * CHOSEN_BITS, count); ++key)
            if (order_of(row, key) == least.x) ++equals;
    before[lane] = equals;
    barrier();
    uint taken = 0;  // of the equal ones, in runs before this
    for (uint i = 0; i < lane; ++i) taken += before[i];
    for (uint word = begin; word < end; ++word) {
        uint bits = 0;
        for (uint i = 0; i < CHOSEN_BITS; ++i) {
            const uint key = word * CHOSEN_BITS + i;
            if (key >= count) break;
            bool chosen = all;
            if (!all) {
                const uint order = order_of(row, key);
                chosen = order > least.x || (order == least.x && taken < least.y);
                if (order == least.x) ++taken;
            }
            if (chosen) bits |= 1u << i;
        }
        result[push.out_first + token * push.out_stride + word] = float(bits);
    }
}
