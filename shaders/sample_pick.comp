// Second stage of sampling: chooses the token (semantics in engine/ops/sample.h), then makes the step buffer,
// the result ring and the penalty ring ready for the next step. One workgroup; no sort.
//
// Every filter and the draw are one search: the smallest code (a word) such that the masses of all elements with
// codes up to it exceed a target, found eight bits at a time over histograms in shared memory. Codes are
// inverted keys (top-k: mass 1; top-p: mass e^(x - max)) or indices (ties; the draw: mass e^((x - max) / T)).
// Masses are integers, 2^31 for the largest logit, summed in 64 bits: sums do not depend on their order.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "workgroup.glsl"
#include "numerics.glsl"
#include "philox.glsl"
#include "step.h"
#include "sampler.h"

layout(constant_id = SAMPLE_GREEDY) const bool GREEDY = false;

layout(binding = 0) buffer Sampler { uint sampler_words[]; };
layout(binding = 1) readonly buffer Scratch { uint scratch[]; };
layout(binding = 2) buffer Step { uint step_words[]; };
layout(binding = 3) writeonly buffer Results { uint results[]; };
layout(push_constant) uniform Push { SamplePush push; };

const uint BINS = GREEDY ? 1 : 256;
shared uint low[BINS], high[BINS];  // masses
shared uint found, found_low, found_high;
// Indices of the survivors, in any order, once they are few: later searches look at these alone.
const uint LIST = GREEDY ? 1 : 256;
shared uint list[LIST], listed;
bool use_list = false;

float setting(uint word) { return uintBitsToFloat(sampler_words[word]); }
uint key_of(uint i) { return scratch[push.blocks * SAMPLE_PARTIAL_WORDS + i]; }

// Survivors: keys above `key`, and of those equal to it indices up to `last`.
struct Cut {
    uint key, last;
};
bool survives(Cut cut, uint key, uint i) { return key > cut.key || (key == cut.key && i <= cut.last); }

// e^((x - max) / T) in units of 2^-31. An infinite maximum takes all.
uint mass_of(uint key, uint most, float temperature) {
    if (key == most) return 0x80000000u;
    if (key == 0) return 0;
    const float mass = exp_safe((from_sort_key(key) - from_sort_key(most)) / temperature) * 2147483648.0;
    return is_nan(mass) ? 0 : uint(min(mass + 0.5, 2147483648.0));
}

#define BY_KEY 0u    // codes are inverted keys
#define BY_INDEX 1u

struct Search {
    uint codes;         // BY_KEY, BY_INDEX
    bool counts;        // mass 1, else mass_of
    bool ties;          // only elements whose key is cut.key, else all survivors
    bool of_total;      // the target is a fraction of all mass, in units of 2^-32
    float temperature;
};

uvec2 add64(uvec2 a, uvec2 b) {
    uint carry;
    const uint sum = uaddCarry(a.x, b.x, carry);
    return uvec2(sum, a.y + b.y + carry);
}
uvec2 sub64(uvec2 a, uvec2 b) {
    uint borrow;
    const uint difference = usubBorrow(a.x, b.x, borrow);
    return uvec2(difference, a.y - b.y - borrow);
}
bool less64(uvec2 a, uvec2 b) { return a.y < b.y || (a.y == b.y && a.x < b.x); }

uint mass_in(Search search, Cut cut, uint most, uint key, uint i) {
    if (search.ties ? key != cut.key : !survives(cut, key, i)) return 0;
    return search.counts ? 1 : mass_of(key, most, search.temperature);
}

// Adds every element's mass to the bin of its code's eight bits from `shift` on, where the bits above are `prefix`'s.
void fill_bins(Search search, Cut cut, uint most, uint prefix, uint shift) {
    barrier();
    for (uint b = wg_lane(); b < BINS; b += gl_WorkGroupSize.x) {
        low[b] = 0;
        high[b] = 0;
    }
    barrier();
    const uint above = shift == 24 ? 0 : ~0u << (shift + 8);
    const bool by_index = search.codes == BY_INDEX;
    const bool range = by_index && !use_list;
    const uint from = range ? prefix : 0;
    const uint to = use_list ? listed : range ? min(push.vocab, prefix + (256u << shift)) : push.vocab;
    for (uint n = from + wg_lane(); n < to; n += gl_WorkGroupSize.x) {
        const uint i = use_list ? list[n] : n;
        const uint key = key_of(i), code = by_index ? i : ~key;
        if ((code & above) != prefix) continue;
        const uint mass = mass_in(search, cut, most, key, i);
        if (mass == 0) continue;
        const uint bin = (code >> shift) & 255u;
        const uint before = atomicAdd(low[bin], mass);
        if (before + mass < before) atomicAdd(high[bin], 1);
    }
    barrier();
}

// floor(value * fraction / 2^32)
uvec2 scaled(uvec2 value, uint fraction) {
    uint high0, low0, high1, low1;
    umulExtended(value.x, fraction, high0, low0);
    umulExtended(value.y, fraction, high1, low1);
    return add64(uvec2(low1, high1), uvec2(high0, 0));
}

uvec2 part_of_total(Search search, uint fraction) {
    uvec2 total = uvec2(0);
    for (uint b = 0; b < BINS; ++b) total = add64(total, uvec2(low[b], high[b]));
    const uvec2 part = scaled(total, fraction);
    // To reach a mass is to exceed one unit less; a draw lies in [0, total).
    return search.codes == BY_KEY && less64(uvec2(0), part) ? sub64(part, uvec2(1, 0)) : part;
}

// The code; `target` becomes what is left of it within the mass of that code.
uint search_code(Search search, Cut cut, uint most, inout uvec2 target) {
    uint prefix = 0;
    const uint first_level = search.codes == BY_INDEX ? 1 : 0;  // indices are below 2^24
    for (uint level = first_level; level < 4; ++level) {
        const uint shift = 24 - 8 * level;
        fill_bins(search, cut, most, prefix, shift);
        if (wg_lane() == 0) {
            uint bin = 0;
            uvec2 left = search.of_total && level == first_level ? part_of_total(search, target.x) : target;
            uvec2 mass = uvec2(low[0], high[0]);
            while (bin < BINS - 1 && !less64(left, mass)) {
                left = sub64(left, mass);
                ++bin;
                mass = uvec2(low[bin], high[bin]);
            }
            found = prefix | (bin << shift);
            found_low = left.x;
            found_high = left.y;
        }
        barrier();
        prefix = found;
        target = uvec2(found_low, found_high);
    }
    return prefix;
}

// Keeps the first of the survivors, by falling key, then by index, whose masses together exceed `target`
// (or reach it, where it is a fraction).
Cut narrowed(Cut cut, Search search, uint most, uvec2 target) {
    Cut now;
    now.key = ~search_code(search, cut, most, target);
    search.codes = BY_INDEX;
    search.ties = true;
    search.of_total = false;
    Cut ties = Cut(now.key, 0);
    now.last = search_code(search, ties, most, target);
    return now.key == cut.key ? Cut(now.key, min(now.last, cut.last)) : now;
}

void list_survivors(Cut cut) {
    if (wg_lane() == 0) listed = 0;
    barrier();
    for (uint i = wg_lane(); i < push.vocab; i += gl_WorkGroupSize.x)
        if (survives(cut, key_of(i), i)) list[min(atomicAdd(listed, 1), LIST - 1)] = i;
    barrier();
    use_list = true;
}

uint draw(uint most, uint position) {
    Cut cut = Cut(0, push.vocab);  // all
    const uint top_k = sampler_words[SAMPLER_TOP_K];
    if (top_k != 0 && top_k < push.vocab) {
        cut = narrowed(cut, Search(BY_KEY, true, false, false, 1.0), most, uvec2(top_k - 1, 0));
        if (top_k <= LIST) list_survivors(cut);
    }
    const float top_p = setting(SAMPLER_TOP_P);
    if (top_p < 1.0)
        cut = narrowed(cut, Search(BY_KEY, false, false, true, 1.0), most, uvec2(max(top_p, 0.0) * 4294967296.0, 0));
    // Keys from the bound on survive; the bound itself has a key, so all its ties do.
    const uint bound = sort_key(from_sort_key(most) + setting(SAMPLER_LOG_MIN_P));
    if (bound != 0 && bound <= most && bound > cut.key) cut = Cut(bound, push.vocab);

    const Search by_chance = Search(BY_INDEX, false, false, true, setting(SAMPLER_TEMPERATURE));
    const uvec2 seed = uvec2(sampler_words[SAMPLER_SEED_LOW], sampler_words[SAMPLER_SEED_HIGH]);
    uvec2 target = uvec2(philox(uvec4(position, 0, 0, 0), seed).x, 0);
    return search_code(by_chance, cut, most, target);
}

void finish(uint token, uint status, uint position) {
    const uint from = STEP_TOKENS + push.from_slot * STEP_TOKEN_WORDS;
    const uint to = STEP_TOKENS + push.to_slot * STEP_TOKEN_WORDS;
    const uint step_index = step_words[STEP_INDEX], slot = 2 * (step_index % push.result_slots);
    results[slot] = token;
    results[slot + 1] = status;
    step_words[STEP_STATUS] |= status;
    step_words[to + STEP_TOKEN_TABLE] = step_words[from + STEP_TOKEN_TABLE];
    step_words[to + STEP_TOKEN_SAMPLER] = step_words[from + STEP_TOKEN_SAMPLER];
    step_words[to + STEP_TOKEN_ID] = token;
    step_words[to + STEP_TOKEN_POSITION] = position + 1;
    step_words[STEP_INDEX] = step_index + 1;
    const uint pushed = sampler_words[SAMPLER_PUSHED];
    sampler_words[SAMPLER_TOKENS + pushed % SAMPLER_RING] = token;
    sampler_words[SAMPLER_PUSHED] = pushed + 1;
}

void main() {
    uint best = 0, index = 0xFFFFFFFFu, bad = 0;
    for (uint b = wg_lane(); b < push.blocks; b += gl_WorkGroupSize.x) {
        const uint key = scratch[b * SAMPLE_PARTIAL_WORDS];
        if (key > best || index == 0xFFFFFFFFu) {
            best = key;
            index = scratch[b * SAMPLE_PARTIAL_WORDS + 1];
        }
        bad |= scratch[b * SAMPLE_PARTIAL_WORDS + 2];
    }
    const uint most = wg_max(best);
    uint token = ~wg_max(best == most ? ~index : 0);
    if (most <= sort_key(uintBitsToFloat(0xFF800000u))) bad = 1;  // no finite logit
    bad = wg_max(bad);
    const uint position = step_words[STEP_TOKENS + push.from_slot * STEP_TOKEN_WORDS + STEP_TOKEN_POSITION];
    if (most == 0) token = 0;
    else if (!GREEDY) token = draw(most, position);
    token = min(token, push.vocab - 1);
    barrier();  // `position` is read by all before it is written
    if (wg_lane() == 0) finish(token, bad != 0 ? STEP_STATUS_NON_FINITE : 0, position);
}
