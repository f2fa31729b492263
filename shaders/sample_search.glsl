// Survivors of sampling's filters and the search that every filter and the draw are: the smallest code (a word)
// such that the masses of all survivors with codes up to it exceed a target, found eight bits at a time over
// histograms in shared memory. Codes are inverted keys, distances from the mean, or indices (ties; the draw).
// Masses are 1 (top-k) or e^((x - max) / T) as integers, 2^31 for the largest logit, summed in 64 bits: sums do
// not depend on their order.
#ifndef SCORIA_SAMPLE_SEARCH_GLSL
#define SCORIA_SAMPLE_SEARCH_GLSL
#extension GL_EXT_control_flow_attributes : require
// Compilers inline every call, and CPU drivers compile for seconds where a search is inlined often: all filters and the
// draw are turns of one loop (sample_pick.comp).

const uint BINS = GREEDY ? 1 : 256;
shared uint low[BINS], high[BINS];  // masses
shared uint found, found_low, found_high;
// Indices of the survivors, in any order, once they are few: later searches look at these alone.
const uint LIST = GREEDY ? 1 : 256;
shared uint list[LIST], listed;
bool use_list = false;

uint key_of(const uint i) { return scratch[scratch_base + push.blocks * SAMPLE_PARTIAL_WORDS + i]; }
uint candidates() { return use_list ? listed : push.vocab; }
uint candidate(const uint n) { return use_list ? list[n] : n; }

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

uint mass_in(const Search search, const Survivors s, const uint key, const uint i) {
    if (!survives(s, key, i)) return 0;
    if (search.ties && (search.order == BY_KEY ? ~key : distance_code(s, key)) != search.tied) return 0;
    return search.counts ? 1 : mass_of(key, s.most, search.temperature);
}

// Adds every element's mass to the bin of its code's eight bits from `shift` on, where the bits above are `prefix`'s.
void fill_bins(const Search search, const Survivors s, const uint prefix, const uint shift) {
    wg_barrier();
    for (uint b = wg_lane(); b < BINS; b += gl_WorkGroupSize.x) {
        low[b] = 0;
        high[b] = 0;
    }
    wg_barrier();
    const uint above = shift == 24 ? 0 : ~0u << (shift + 8);
    const bool range = search.by_index && !use_list;
    const uint from = range ? prefix : 0;
    const uint to = range ? min(push.vocab, prefix + (256u << shift)) : candidates();
    for (uint n = from + wg_lane(); n < to; n += gl_WorkGroupSize.x) {
        const uint i = candidate(n), key = key_of(i);
        const uint code = search.by_index ? i : search.order == BY_KEY ? ~key : distance_code(s, key);
        if ((code & above) != prefix) continue;
        const uint mass = mass_in(search, s, key, i);
        if (mass == 0) continue;
        const uint bin = (code >> shift) & 255u;
        const uint before = atomicAdd(low[bin], mass);
        if (before + mass < before) atomicAdd(high[bin], 1);
    }
    wg_barrier();
}

uvec2 bins_total() {
    uvec2 total = uvec2(0);
    for (uint b = 0; b < BINS; ++b) total = add64(total, uvec2(low[b], high[b]));
    return total;
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

// The code; `target` becomes what is left of it within the mass of that code.
uint search_code(const Search search, const Survivors s, inout uvec2 target) {
    uint prefix = 0;
    const uint first_level = search.by_index ? 1 : 0;  // indices are below 2^24
    for (uint level = first_level; level < 4; ++level) {
        const uint shift = 24 - 8 * level;
        fill_bins(search, s, prefix, shift);
        if (wg_lane() == 0) {
            uint bin = 0;
            uvec2 left = target;
            if (level == first_level && (search.of_total || search.sums)) {
                const uvec2 total = bins_total();
                left = search.sums ? total : part_of(search, total, target.x);
            }
            uvec2 mass = uvec2(low[0], high[0]);
            while (!search.sums && bin < BINS - 1 && !less64(left, mass)) {
                left = sub64(left, mass);
                ++bin;
                mass = uvec2(low[bin], high[bin]);
            }
            found = prefix | (bin << shift);
            found_low = left.x;
            found_high = left.y;
        }
        wg_barrier();
        prefix = found;
        target = uvec2(found_low, found_high);
        if (search.sums) break;
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

void list_survivors(const Survivors s) {
    if (wg_lane() == 0) listed = 0;
    wg_barrier();
    for (uint i = wg_lane(); i < push.vocab; i += gl_WorkGroupSize.x)
        if (survives(s, key_of(i), i)) list[min(atomicAdd(listed, 1), LIST - 1)] = i;
    wg_barrier();
    use_list = true;
}

#endif
