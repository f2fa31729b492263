// Second stage of sampling: chooses the token (semantics in engine/ops/sample.h), then makes the step buffer,
// the result ring and the penalty ring ready for the next step. One workgroup per row; no sort.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "workgroup.glsl"
#include "numerics.glsl"
#include "philox.glsl"
#include "grid.glsl"
#include "step.h"
#include "sampler.h"

layout(constant_id = SAMPLE_GREEDY) const bool GREEDY = false;
layout(constant_id = SAMPLE_LOADS) const uint LOADS = 1;

layout(binding = 0) buffer Sampler { uint sampler_words[]; };
layout(binding = 1) readonly buffer Scratch { uint scratch[]; };
layout(binding = 2) buffer Step { uint step_words[]; };
layout(binding = 3) writeonly buffer Results { uint results[]; };
layout(push_constant) uniform Push { SamplePush push; };

#include "sample_rows.glsl"
#include "sample_search.glsl"

const float LN_2 = 0.69314718;

float setting(uint word) { return uintBitsToFloat(sampler_words[sampler_base + word]); }
// A number in [0, 1) in units of 2^-32.
uint fraction(const float value) { return uint(max(value, 0.0) * 4294967296.0); }

// Locally typical: -ln p - entropy is the distance of max - x from its mean, since ln of the sum cancels.
// Sums run over all logits, in an order that does not depend on the list's.
Survivors with_mean(Survivors s) {
    const bool has_list = use_list;
    use_list = false;
    s.origin = from_sort_key(s.most);
    float weights = 0.0, distances = 0.0;
    for (uint n = wg_lane(); n < push.vocab; n += LOADS * LANES) {
        load_keys(n, push.vocab);
        for (uint i = n; i < min(n + LOADS * LANES, push.vocab); i += LANES) {
            const uint key = next_key();
            if (key == 0 || !survives(s, key, i)) continue;
            const float below = key == s.most ? 0.0 : s.origin - from_sort_key(key), weight = exp_safe(-below);
            weights += weight;
            if (weight > 0.0) distances += weight * below;
        }
    }
    weights = wg_add(weights);
    s.mean = wg_add(distances) / weights;
    use_list = has_list;
    return s;
}

// The largest may have gone.
Survivors with_most(Survivors s) {
    uint most = 0;
    for (uint n = wg_lane(); n < candidates(); n += LOADS * LANES) {
        load_keys(n, candidates());
        for (uint m = n; m < min(n + LOADS * LANES, candidates()); m += LANES) {
            const uint key = next_key();
            if (survives(s, key, candidate(m))) most = max(most, key);
        }
    }
    s.most = wg_max(most);
    return s;
}

// Exclude top choices: of the tokens whose probability reaches the threshold only the last stays. `mass`: of all.
Survivors without_top(Survivors s, const float mass) {
    const float least = setting(SAMPLER_XTC_THRESHOLD) * mass * 2147483648.0;
    uint last = 0;  // its key, inverted
    for (uint n = wg_lane(); n < candidates(); n += LOADS * LANES) {
        load_keys(n, candidates());
        for (uint m = n; m < min(n + LOADS * LANES, candidates()); m += LANES) {
            const uint key = next_key();
            if (survives(s, key, candidate(m)) && float(mass_of(key, s.most, 1.0)) >= least) last = max(last, ~key);
        }
    }
    last = wg_max(last);
    if (last == 0) return s;
    uint index = 0;  // and 1
    for (uint n = wg_lane(); n < candidates(); n += LOADS * LANES) {
        load_keys(n, candidates());
        for (uint m = n; m < min(n + LOADS * LANES, candidates()); m += LANES) {
            const uint i = candidate(m), key = next_key();
            if (key == ~last && survives(s, key, i)) index = max(index, i + 1);
        }
    }
    s.top_key = ~last;
    s.top_first = wg_max(index) - 1;
    s.most = s.top_key;
    return s;
}

// What follows one another, each with its searches.
#define MIROSTAT 0u  // its bound, in place of all other filters
#define BLOCKS 1u    // of top-k: the k-th of the blocks' largest, below which none of the k can be
#define TOP_K 2u
#define TYPICAL 3u
#define TOP_P 4u
#define XTC 5u
#define DRAW 6u

// The token; `mu` becomes mirostat's next state.
uint draw(const uint most, const uint position, inout float mu) {
    const uvec2 seed = uvec2(sampler_words[sampler_base + SAMPLER_SEED_LOW], sampler_words[sampler_base + SAMPLER_SEED_HIGH]);
    const uvec4 random = philox(uvec4(position, 0, 0, 0), seed);
    const float temperature = setting(SAMPLER_TEMPERATURE), tau = setting(SAMPLER_MIROSTAT_TAU);
    const uint top_k = sampler_words[sampler_base + SAMPLER_TOP_K];
    const float part = setting(SAMPLER_TYPICAL), top_p = setting(SAMPLER_TOP_P);
    const float excludes = setting(SAMPLER_XTC_PROBABILITY);
    const bool mirostat = tau > 0.0;
    Survivors s = Survivors(most, 0, push.vocab, 0xFFFFFFFFu, 0, false, 0.0, 0.0, 0, 0);
    float log_sum = 0.0;
    uint found_last = 0;
    [[dont_unroll]] for (uint stage = MIROSTAT; stage <= DRAW; ++stage) {
        if (stage != DRAW && mirostat != (stage == MIROSTAT)) continue;
        if ((stage == BLOCKS || stage == TOP_K) && (top_k == 0 || top_k >= push.vocab)) continue;
        if (stage == BLOCKS && top_k > min(push.blocks, LIST)) continue;
        if (stage == TYPICAL && part >= 1.0) continue;
        if (stage == TOP_P && top_p >= 1.0) continue;
        if (stage == TYPICAL) s = with_mean(s);
        if (stage == XTC) {
            const uint bound = sort_key(from_sort_key(s.most) + setting(SAMPLER_LOG_MIN_P));
            if (bound != 0) s = bounded(s, bound);
            if (excludes < 1.0 && random.y >= fraction(excludes)) continue;
        }
        const bool sums = stage == MIROSTAT || stage == XTC, counts = stage == BLOCKS || stage == TOP_K;
        const bool narrows = !sums && stage != BLOCKS && stage != DRAW;
        use_blocks = stage == BLOCKS;
        Search search = Search(stage == TYPICAL ? BY_DISTANCE : BY_KEY, stage == DRAW, false, 0, counts, !counts, sums,
                               stage == MIROSTAT || stage == DRAW ? temperature : 1.0);
        uvec2 target = uvec2(stage == DRAW ? random.x : counts ? top_k - 1 : fraction(stage == TYPICAL ? part : top_p), 0);
        uint code = 0;
        // The code whose mass reaches the target, then the last index of those with that code.
        [[dont_unroll]] for (uint pass = 0; pass < 2; ++pass) {
            found_last = search_code(search, s, target);
            if (pass == 1 || !narrows) break;
            code = found_last;
            search.by_index = true;
            search.ties = true;
            search.tied = code;
            search.of_total = false;
        }
        const float mass = float(target.y) * 2.0 + float(target.x) / 2147483648.0;  // of a sum, the largest logit's is 1
        if (narrows) s = narrowed(s, search.order, code, found_last);
        use_blocks = false;
        if (stage == BLOCKS) s = bounded(s, ~found_last);
        if (stage == BLOCKS || (stage == TOP_K && top_k <= LIST && !use_list)) list_survivors(s);
        if (stage == TYPICAL) s = with_most(s);
        if (stage == XTC) s = without_top(s, mass);
        if (stage == MIROSTAT) {
            log_sum = log_positive(mass);
            s = bounded(s, sort_key(from_sort_key(most) + temperature * (log_sum - mu * LN_2)));
        }
    }
    const uint token = min(found_last, push.vocab - 1);
    if (mirostat) {
        const float below = from_sort_key(most) - from_sort_key(key_of(token));
        const float surprise = (log_sum + below / temperature) / LN_2;
        mu -= setting(SAMPLER_MIROSTAT_ETA) * (surprise - tau);
    }
    return token;
}

void finish(const uint row, const uint token, const uint status, const uint position, const float mu) {
    const uint from = STEP_TOKENS + from_slot * STEP_TOKEN_WORDS;
    const uint to = STEP_TOKENS + to_slot * STEP_TOKEN_WORDS;
    uint slot = row;
    if (push.outputs_word == SAMPLE_ONE) {  // else other rows write at the same time
        slot = step_words[STEP_INDEX] % push.result_slots;
        step_words[STEP_STATUS] |= status;
        step_words[STEP_INDEX] += 1;
    }
    results[2 * slot] = token;
    results[2 * slot + 1] = status;
    step_words[to + STEP_TOKEN_TABLE] = step_words[from + STEP_TOKEN_TABLE];
    step_words[to + STEP_TOKEN_SAMPLER] = step_words[from + STEP_TOKEN_SAMPLER];
    step_words[to + STEP_TOKEN_ID] = token;
    step_words[to + STEP_TOKEN_POSITION] = position + 1;
    const uint pushed = sampler_words[sampler_base + SAMPLER_PUSHED];
    sampler_words[sampler_base + SAMPLER_TOKENS + pushed % SAMPLER_RING] = token;
    sampler_words[sampler_base + SAMPLER_PUSHED] = pushed + 1;
    sampler_words[sampler_base + SAMPLER_MIROSTAT_MU] = floatBitsToUint(mu);
}

// Of a chain of draws, slot i's counter is i: it stops at the first guess that did not come true.
bool wanted() {
    const uint id = step_words[STEP_TOKENS + push.from_slot * STEP_TOKEN_WORDS + STEP_TOKEN_ID];
    return push.guess == SAMPLE_ALWAYS || (step_words[STEP_INDEX] == push.from_slot && id == push.guess);
}

void main() {
    const uint row = group_index();
    if (!enter_row(row) || !wanted()) return;
    uint best = 0, index = 0xFFFFFFFFu, bad = 0;
    for (uint b = wg_lane(); b < push.blocks; b += gl_WorkGroupSize.x) {
        const uint partial = scratch_base + b * SAMPLE_PARTIAL_WORDS, key = scratch[partial];
        if (key > best || index == 0xFFFFFFFFu) {
            best = key;
            index = scratch[partial + 1];
        }
        bad |= scratch[partial + 2];
    }
    const uint most = wg_max(best);
    uint token = ~wg_max(best == most ? ~index : 0);
    if (most <= sort_key(uintBitsToFloat(0xFF800000u))) bad = 1;  // no finite logit
    bad = wg_max(bad);
    const uint position = step_words[STEP_TOKENS + from_slot * STEP_TOKEN_WORDS + STEP_TOKEN_POSITION];
    float mu = setting(SAMPLER_MIROSTAT_MU);
    if (most == 0) token = 0;
    else if (!GREEDY && setting(SAMPLER_TEMPERATURE) > 0.0) token = draw(most, position, mu);
    token = min(token, push.vocab - 1);
    wg_barrier();  // `position` and `mu` are read by all before they are written
    if (wg_lane() == 0) finish(row, token, bad != 0 ? STEP_STATUS_NON_FINITE : 0, position, mu);
}
