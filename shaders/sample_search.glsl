// Survivors of sampling's filters and the search that every filter and the draw are: the smallest code (a word)
// such that the masses of all survivors with codes up to it exceed a target, found eight bits at a time over
// histograms in shared memory, or, of a list, at once. Codes are inverted keys, distances from the mean, or indices (ties; the draw).
// Masses are 1 (top-k) or e^((x - max) / T) as integers, 2^31 for the largest logit, summed in 64 bits: sums do
// not depend on their order.
#ifndef SCORIA_SAMPLE_SEARCH_GLSL
#define SCORIA_SAMPLE_SEARCH_GLSL
#extension GL_EXT_control_flow_attributes : require
// Compilers inline every call, and CPU drivers compile for seconds where a search is inlined often: all filters and the
// draw are turns of one loop (sample_pick.comp).

const uint LANES = gl_WorkGroupSize.x;
const uint BINS = GREEDY ? 1 : 256, RUNS = GREEDY ? 1 : 16, RUN = BINS / RUNS;
// Lanes that add to one bin wait for one another, and most logits share the bits that are looked at first.
const uint COPIES = LOADS > 1 ? 4 : 1;
shared uint low[BINS * COPIES], high[BINS * COPIES];  // masses, copies of a bin side by side; then in the first its sum
shared uint run_low[RUNS], run_high[RUNS];            // sums of runs of bins
shared uint found, found_low, found_high;
// Indices of the survivors, in any order, once they are few: later searches look at these alone.
const uint LIST = BINS * COPIES;
shared uint list[LIST], listed;
bool use_list = false;
bool use_blocks = false;  // the largest of each block of the scan, in the place of all logits

uint key_of(const uint i) {
    return scratch[scratch_base + (use_blocks ? i * SAMPLE_PARTIAL_WORDS : push.blocks * SAMPLE_PARTIAL_WORDS + i)];
}
uint candidates() { return use_list ? listed : use_blocks ? push.blocks : push.vocab; }
uint candidate(const uint n) { return use_list ? list[n] : n; }

// Keys of a lane's candidates `first`, `first` + LANES and so on, of those before `end`. next_key() takes the first: to go
// through them is a loop, since a copy of it for each would need more registers than wide workgroups have.
uint keys[LOADS];
void load_keys(const uint first, const uint end) {
    [[unroll]] for (uint k = 0; k < LOADS; ++k) keys[k] = key_of(candidate(min(first + k * LANES, end - 1)));
}
uint next_key() {
    const uint key = keys[0];
    [[unroll]] for (uint k = 1; k < LOADS; ++k) keys[k - 1] = keys[k];
    return key;
}

struct Survivors {
    uint most;                  // the largest key
    uint key, last;             // keys above `key`, and of those equal to it indices up to `last`
    uint top_key, top_first;    // keys below `top_key`, and of those equal to it indices from `top_first` on
    bool typical;               // whether also near the mean:
    float origin, mean;         //   distance = |origin - x - mean|
    uint far, far_last;         //   distances (as bits) below `far`, and of those equal to it indices up to `far_last`
};

uint distance_code(const Survivors s, const uint key) {
    return floatBitsToUint(abs(s.origin - from_sort_key(key) - s.mean));
}

bool survives(const Survivors s, const uint key, const uint i) {
    if (key < s.key || (key == s.key && i > s.last)) return false;
    if (key > s.top_key || (key == s.top_key && i < s.top_first)) return false;
    if (!s.typical) return true;
    const uint code = distance_code(s, key);
    return code < s.far || (code == s.far && i <= s.far_last);
}

// e^((x - max) / T) in units of 2^-31. An infinite maximum takes all.
uint mass_of(const uint key, const uint most, const float temperature) {
    if (key == most) return 0x80000000u;
    if (key == 0) return 0;
    const float mass = exp_safe((from_sort_key(key) - from_sort_key(most)) / temperature) * 2147483648.0;
    return is_nan(mass) ? 0 : uint(min(mass + 0.5, 2147483648.0));
}

#define BY_KEY 0u       // codes are inverted keys
#define BY_DISTANCE 1u  // from the mean

struct Search {
    uint order;         // BY_KEY, BY_DISTANCE
    bool by_index;      // codes are indices instead
    bool ties;          // only elements whose code by `order` is `tied`
    uint tied;
    bool counts;        // mass 1, else mass_of
    bool of_total;      // the target is a fraction of all mass, in units of 2^-32
    bool sums;          // no search: the target becomes all mass
    float temperature;
};

uvec2 add64(const uvec2 a, const uvec2 b) {
    uint carry;
    const uint sum = uaddCarry(a.x, b.x, carry);
    return uvec2(sum, a.y + b.y + carry);
}
uvec2 sub64(const uvec2 a, const uvec2 b) {
    uint borrow;
    const uint difference = usubBorrow(a.x, b.x, borrow);
    return uvec2(difference, a.y - b.y - borrow);
}
bool less64(const uvec2 a, const uvec2 b) { return a.y < b.y || (a.y == b.y && a.x < b.x); }

uvec2 bin_mass(const uint bin) { return uvec2(low[bin * COPIES], high[bin * COPIES]); }
uvec2 run_mass(const uint run) { return uvec2(run_low[run], run_high[run]); }

uint mass_in(const Search search, const Survivors s, const uint key, const uint i) {
    if (!survives(s, key, i)) return 0;
    if (search.ties && (search.order == BY_KEY ? ~key : distance_code(s, key)) != search.tied) return 0;
    return search.counts ? 1 : mass_of(key, s.most, search.temperature);
}

uint code_of(const Search search, const Survivors s, const uint key, const uint i) {
    return search.by_index ? i : search.order == BY_KEY ? ~key : distance_code(s, key);
}

// Adds every element's mass to the bin of its code's eight bits from `shift` on, where the bits `above` are `prefix`'s; then
// sums copies and runs of bins.
void fill_bins(const Search search, const Survivors s, const uint prefix, const uint above, const uint shift) {
    wg_barrier();
    for (uint b = wg_lane(); b < BINS * COPIES; b += LANES) {
        low[b] = 0;
        high[b] = 0;
    }
    wg_barrier();
    const uint from = search.by_index ? prefix : 0;
    const uint end = search.by_index && above != 0 ? min(push.vocab, prefix + ~above + 1) : candidates();
    for (uint n = from + wg_lane(); n < end; n += LOADS * LANES) {
        load_keys(n, end);
        for (uint i = n; i < min(n + LOADS * LANES, end); i += LANES) {
            const uint key = next_key(), code = code_of(search, s, key, i);
            if ((code & above) != prefix) continue;
            const uint mass = mass_in(search, s, key, i);
            if (mass == 0) continue;
            const uint bin = (code >> shift & 255u) * COPIES + wg_lane() % COPIES;
            const uint before = atomicAdd(low[bin], mass);
            if (before + mass < before) atomicAdd(high[bin], 1);
        }
    }
    wg_barrier();
    for (uint b = wg_lane(); b < BINS; b += LANES) {
        uvec2 sum = uvec2(0);
        [[unroll]] for (uint c = 0; c < COPIES; ++c) sum = add64(sum, uvec2(low[b * COPIES + c], high[b * COPIES + c]));
        low[b * COPIES] = sum.x;
        high[b * COPIES] = sum.y;
    }
    wg_barrier();
    for (uint run = wg_lane(); run < RUNS; run += LANES) {
        uvec2 sum = uvec2(0);
        for (uint b = 0; b < RUN; ++b) sum = add64(sum, bin_mass(run * RUN + b));
        run_low[run] = sum.x;
        run_high[run] = sum.y;
    }
    wg_barrier();
}

// floor(value * fraction / 2^32)
uvec2 scaled(const uvec2 value, const uint fraction) {
    uint high0, low0, high1, low1;
    umulExtended(value.x, fraction, high0, low0);
    umulExtended(value.y, fraction, high1, low1);
    return add64(uvec2(low1, high1), uvec2(high0, 0));
}

uvec2 part_of(const Search search, const uvec2 total, const uint fraction) {
    const uvec2 part = scaled(total, fraction);
    // To reach a mass is to exceed one unit less; a draw lies in [0, total).
    return !search.by_index && less64(uvec2(0), part) ? sub64(part, uvec2(1, 0)) : part;
}

// What is left of all mass, or the target itself.
uvec2 first_target(const Search search, const uvec2 target, const uvec2 total) {
    return search.sums ? total : search.of_total ? part_of(search, total, target.x) : target;
}

// search_code() of the list: every lane adds up what comes before its elements. Their codes and masses take the bins' place.
uint search_list(const Search search, const Survivors s, inout uvec2 target) {
    wg_barrier();
    for (uint n = wg_lane(); n < listed; n += LANES) {
        const uint i = list[n], key = key_of(i);
        low[n] = code_of(search, s, key, i);
        high[n] = mass_in(search, s, key, i);
    }
    if (wg_lane() == 0) found = 0xFFFFFFFFu;  // if rounding leaves the target beyond all
    wg_barrier();
    uvec2 total = uvec2(0);
    if (search.of_total || search.sums)
        for (uint m = 0; m < listed; ++m) total = add64(total, uvec2(high[m], 0));
    target = first_target(search, target, total);
    if (search.sums) return 0;
    for (uint n = wg_lane(); n < listed; n += LANES) {
        const uint code = low[n];
        uvec2 before = uvec2(0), equal = uvec2(0);
        for (uint m = 0; m < listed; ++m) {
            const uvec2 mass = uvec2(high[m], 0);
            if (low[m] < code) before = add64(before, mass);
            if (low[m] == code) equal = add64(equal, mass);
        }
        if (less64(target, before) || !less64(target, add64(before, equal))) continue;
        const uvec2 left = sub64(target, before);
        found = code;  // the same from all lanes that have it
        found_low = left.x;
        found_high = left.y;
    }
    wg_barrier();
    target = uvec2(found_low, found_high);
    return found;
}

// The code; `target` becomes what is left of it within the mass of that code.
uint search_code(const Search search, const Survivors s, inout uvec2 target) {
    if (use_list) return search_list(search, s, target);
    uint prefix = 0, above = 0;
    uint shift = search.by_index ? uint(max(findMSB(push.vocab) - 7, 0)) : 24;
    [[dont_unroll]] for (bool first = true;; first = false) {
        fill_bins(search, s, prefix, above, shift);
        if (wg_lane() == 0) {
            uvec2 total = uvec2(0);
            if (first && (search.of_total || search.sums))
                for (uint run = 0; run < RUNS; ++run) total = add64(total, run_mass(run));
            uvec2 left = first ? first_target(search, target, total) : target;
            uint run = 0;
            while (!search.sums && run < RUNS - 1 && !less64(left, run_mass(run))) left = sub64(left, run_mass(run++));
            uint bin = run * RUN;
            while (!search.sums && bin < run * RUN + RUN - 1 && !less64(left, bin_mass(bin)))
                left = sub64(left, bin_mass(bin++));
            found = prefix | (bin << shift);
            found_low = left.x;
            found_high = left.y;
        }
        wg_barrier();
        prefix = found;
        target = uvec2(found_low, found_high);
        if (search.sums || shift == 0) break;
        above = ~0u << shift;
        shift -= min(shift, 8);
    }
    return prefix;
}

// Keeps the first of the survivors, in the order of a search: those with codes before `code`, and of those equal to it
// indices up to `last`.
Survivors narrowed(Survivors s, const uint order, const uint code, const uint last) {
    if (order == BY_KEY) {
        s.key = ~code;
        s.last = last;
    } else {
        s.typical = true;
        s.far = code;
        s.far_last = last;
    }
    return s;
}

// Drops keys below `bound`, but never the largest.
Survivors bounded(Survivors s, uint bound) {
    bound = min(bound, s.most);
    if (bound > s.key) {
        s.key = bound;
        s.last = push.vocab;
    }
    return s;
}

// If they are few.
void list_survivors(const Survivors s) {
    if (wg_lane() == 0) listed = 0;
    wg_barrier();
    for (uint n = wg_lane(); n < push.vocab; n += LOADS * LANES) {
        load_keys(n, push.vocab);
        for (uint i = n; i < min(n + LOADS * LANES, push.vocab); i += LANES) {
            if (!survives(s, next_key(), i)) continue;
            const uint place = atomicAdd(listed, 1);
            if (place < LIST) list[place] = i;
        }
    }
    wg_barrier();
    use_list = listed <= LIST;
}

#endif
