// The keys that each token sees (struct Indexer): the `top` of greatest score, lower ones first among equals, as bits, see
// chosen_bits. A workgroup per token finds the least score chosen digit by digit, from the highest on, by counting how many
// scores have which; then a lane makes a whole number at a time. NaN counts as the lowest score.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "attention.push.h"
#include "choose.push.h"
#include "grid.glsl"
#include "numerics.glsl"
#include "step.h"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
layout(constant_id = CHOOSE_LOADS) const uint LOADS = 1;
layout(binding = 0) readonly buffer Scores { float scores[]; };
layout(binding = 1) readonly buffer Step { uint step_words[]; };
layout(binding = 2) writeonly buffer Out { float result[]; };
layout(push_constant) uniform Push { ChoosePush push; };

const uint LANES = gl_WorkGroupSize.x;
const uint DIGITS = 1u << CHOOSE_BITS, RUNS = 16, RUN = DIGITS / RUNS;
// Lanes that add to one count wait for one another, and most scores share the bits that are looked at first.
const uint COPIES = LOADS > 1 ? 4 : 1;
shared uint counts[DIGITS * COPIES];  // copies of a count side by side
shared uint run_counts[RUNS];         // of runs of digits
shared uint found[3];                 // the digit, how many more scores have a greater one, how many have it
shared uint before[CHOOSE_LANES];     // by lane: scores of its run that are equal to the least chosen
shared uint last_equal;               // key of the last of them that is chosen

// In the order of scores: greater for a greater one. None is -0: sums begin with 0.
uint order_of(const uint row, const uint key) {
    const float score = scores[row + key];
    if (is_nan(score)) return 0;
    const uint bits = floatBitsToUint(score);
    return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

uint count_of(const uint digit) {
    uint count = 0;
    [[unroll]] for (uint c = 0; c < COPIES; ++c) count += counts[digit * COPIES + c];
    return count;
}

// The least order chosen of `count` keys, how many of those that have it, and how many have it.
uvec3 least_chosen(const uint row, const uint count, const uint lane) {
    uint least = 0, wanted = push.top;
    for (uint shift = 32 - CHOOSE_BITS;; shift -= CHOOSE_BITS) {
        for (uint i = lane; i < DIGITS * COPIES; i += LANES) counts[i] = 0;
        barrier();
        for (uint first = lane; first < count; first += LOADS * LANES) {
            uint orders[LOADS];
            [[unroll]] for (uint k = 0; k < LOADS; ++k) orders[k] = order_of(row, min(first + k * LANES, count - 1));
            [[unroll]] for (uint k = 0; k < LOADS; ++k) {
                const uint order = orders[k];
                const bool same =
                    shift + CHOOSE_BITS == 32 || order >> (shift + CHOOSE_BITS) == least >> (shift + CHOOSE_BITS);
                if (same && first + k * LANES < count)
                    atomicAdd(counts[(order >> shift & (DIGITS - 1)) * COPIES + lane % COPIES], 1);
            }
        }
        barrier();
        for (uint run = lane; run < RUNS; run += LANES) {
            uint sum = 0;
            for (uint i = 0; i < RUN; ++i) sum += count_of(run * RUN + i);
            run_counts[run] = sum;
        }
        barrier();
        if (lane == 0) {
            uint run = RUNS - 1, above = 0;
            for (; run > 0 && above + run_counts[run] < wanted; --run) above += run_counts[run];
            uint digit = run * RUN + RUN - 1;
            for (; digit > run * RUN && above + count_of(digit) < wanted; --digit) above += count_of(digit);
            found[0] = digit;
            found[1] = above;
            found[2] = count_of(digit);
        }
        barrier();
        least |= found[0] << shift;
        wanted -= min(found[1], wanted);
        if (shift == 0) break;
    }
    return uvec3(least, wanted, found[2]);
}

// Fills last_equal, where not all of equal scores are chosen: a lane looks through a run of keys.
void find_last_equal(const uint row, const uint count, const uint lane, const uvec3 least) {
    const uint lanes = min(LANES, CHOOSE_LANES), run = (count + lanes - 1) / lanes;
    const uint begin = min(lane * run, count), end = min(begin + run, count);
    uint equals = 0;
    for (uint key = begin; key < end; ++key)
        if (order_of(row, key) == least.x) ++equals;
    before[lane] = equals;
    barrier();
    uint taken = 0;  // in runs before this
    for (uint i = 0; i < lane; ++i) taken += before[i];
    if (taken < least.y && taken + equals >= least.y)
        for (uint key = begin; key < end; ++key)
            if (order_of(row, key) == least.x && ++taken == least.y) last_equal = key;
    barrier();
}

void main() {
    const uint token = group_index(), lane = gl_LocalInvocationID.x;
    if (token >= push.tokens) return;
    const uint of_batch = push.first_token + token, slot = STEP_TOKENS + of_batch * STEP_TOKEN_WORDS;
    const uint last = of_batch < step_words[STEP_TOKEN_COUNT] ? step_words[slot + STEP_TOKEN_POSITION] + 1 : 0;
    const uint count = min(last, push.out_cols * CHOSEN_BITS), row = token * push.scores_stride;
    const bool all = count <= push.top;
    uvec3 least = uvec3(0);
    uint last_of_equal = 0xFFFFFFFFu;
    if (!all) {
        least = least_chosen(row, count, lane);
        if (least.z > least.y) {
            find_last_equal(row, count, lane, least);
            last_of_equal = last_equal;
        }
    }
    for (uint word = lane; word < push.out_cols; word += LANES) {
        const uint first = word * CHOSEN_BITS, seen = min(count - min(first, count), CHOSEN_BITS);
        uint bits = (1u << seen) - 1;
        if (!all && seen != 0) {
            uint orders[CHOSEN_BITS], chosen = 0;
            [[unroll]] for (uint i = 0; i < CHOSEN_BITS; ++i) orders[i] = order_of(row, min(first + i, count - 1));
            [[unroll]] for (uint i = 0; i < CHOSEN_BITS; ++i) {
                const bool is_equal = orders[i] == least.x && first + i <= last_of_equal;
                if (orders[i] > least.x || is_equal) chosen |= 1u << i;
            }
            bits &= chosen;
        }
        result[push.out_first + token * push.out_stride + word] = float(bits);
    }
}
