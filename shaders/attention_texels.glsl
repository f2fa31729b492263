// Attention for few rows on CPU drivers (attention_vec.comp, -DCOMPACT): keys and values by texels of four words. A step
// is a block, eight lanes of four keys. What is alive across a fetch lives in memory there, and so do the sums of a loop:
// a turn fetches first, a few texels, then it makes of them what it can.
#ifndef SCORIA_ATTENTION_TEXELS_GLSL
#define SCORIA_ATTENTION_TEXELS_GLSL
#extension GL_KHR_shader_subgroup_shuffle : require

// What scores take at once of a key: a word, two of floats. A turn fetches those that share a scale, or a few, of one lane
// or of some.
const uint ITEM_PAIRS = KV_PER_WORD <= 2 ? 1 : KV_PER_WORD / 2;
const uint ITEMS = (PAIRS + ITEM_PAIRS - 1) / ITEM_PAIRS;
const uint TURN_ITEMS = KV_QUANTISED ? KV_GROUP / KV_PER_WORD : 4;
const uint LEAST_ITEMS = (ITEMS + SG_SIZE - 1) / SG_SIZE;  // of a lane
const uint LANE_ITEMS = LEAST_ITEMS <= 2   ? LEAST_ITEMS
                        : LEAST_ITEMS <= 4 ? 4
                                           : (LEAST_ITEMS + TURN_ITEMS - 1) / TURN_ITEMS * TURN_ITEMS;
const uint SPAN_LANES = LANE_ITEMS < TURN_ITEMS ? TURN_ITEMS / LANE_ITEMS : 1;
const uint SPANS = (ITEMS + LANE_ITEMS * SPAN_LANES - 1) / (LANE_ITEMS * SPAN_LANES);
const uint QUERY_CHUNKS = LANE_ITEMS * ITEM_PAIRS;
// i * QUERY_CHUNKS + c: pair query_pair_at(c, lane) of row i. A lane has pairs side by side, so that scores read a block of
// keys from its first word to its last.
vec2 query[QUERIES * QUERY_CHUNKS];
uint query_pair_at(const uint c, const uint lane) { return lane * QUERY_CHUNKS + c; }

void load_queries(Row rows[QUERIES]) {
    UNROLL_MEMORY for (uint i = 0; i < QUERIES; ++i) {
        UNROLL_MEMORY for (uint c = 0; c < QUERY_CHUNKS; ++c) {
            const uint pair = query_pair_at(c, sg_lane());
            query[i * QUERY_CHUNKS + c] = query_pair(rows[i], pair);
        }
    }
}

uint item_at(const uint lane, const uint i) {  // behind the last q is 0
    const uint item = lane * LANE_ITEMS + i;
    return ITEMS % (LANE_ITEMS * SPAN_LANES) == 0 ? item : min(item, ITEMS - 1);
}

// weight[i][k] = row i . key LANE_KEYS * sg_lane() + k of the block. Loops go over lanes, so that the numbers of items,
// which index the queries, are constants.
void score(const uint keys) {
    const uint texel = keys / 4 + sg_lane(), between = KV_BLOCK_TOKENS / 4;
    [[unroll]] for (uint w = 0; w < QUERIES * LANE_KEYS; ++w) weight[w] = 0.0;
    [[dont_unroll]] for (uint span = 0; span < SPANS; ++span)
        [[unroll]] for (uint first = 0; first < SPAN_LANES * LANE_ITEMS; first += TURN_ITEMS) {
            const uint lane = span * SPAN_LANES;
            const uint group = (lane * LANE_ITEMS + first) / TURN_ITEMS;
            uvec4 one[TURN_ITEMS], two[TURN_ITEMS], scales = uvec4(0);
            [[unroll]] for (uint f = 0; f < TURN_ITEMS; ++f) {
                const uint item = item_at(lane, first + f);
                const uint word = KV_TYPE == KV_F32 ? 2 * item : item, next = min(word + 1, HEAD_DIM - 1);
                one[f] = texelFetch(kv_texels, int(texel + word * between));
                two[f] = KV_TYPE == KV_F32 ? texelFetch(kv_texels, int(texel + next * between)) : uvec4(0);
            }
            if (KV_QUANTISED)
                scales = texelFetch(kv_texels, int(texel + (KV_NUMBER_WORDS(HEAD_DIM) + group / 2) * between));
            float product[QUERIES * LANE_KEYS];
            [[unroll]] for (uint w = 0; w < QUERIES * LANE_KEYS; ++w) product[w] = 0.0;
            [[unroll]] for (uint f = 0; f < TURN_ITEMS; ++f) {
                const uint c = (first + f) % LANE_ITEMS, from = lane + (first + f) / LANE_ITEMS;
                [[unroll]] for (uint p = 0; p < ITEM_PAIRS; ++p) {
                    const uint pair = item_at(lane, first + f) * ITEM_PAIRS + p;
                    [[unroll]] for (uint i = 0; i < QUERIES; ++i) {
                        const vec2 q = query[(i * LANE_ITEMS + c) * ITEM_PAIRS + p];
                        const vec2 x = vec2(sg_broadcast(q.x, from), sg_broadcast(q.y, from));
                        [[unroll]] for (uint k = 0; k < LANE_KEYS; ++k) {
                            const vec2 numbers = numbers_of_words(uvec2(one[f][k], two[f][k]), pair, p);
                            const uint w = i * LANE_KEYS + k;
                            if (KV_QUANTISED)
                                product[w] = fma(x.y, numbers.y, fma(x.x, numbers.x, product[w]));
                            else
                                weight[w] = fma(x.y, numbers.y, fma(x.x, numbers.x, weight[w]));
                        }
                    }
                }
            }
            if (!KV_QUANTISED) continue;
            [[unroll]] for (uint k = 0; k < LANE_KEYS; ++k) {
                const float scale = unpack_scales(scales[k] >> group % 2 * 16).x;
                [[unroll]] for (uint i = 0; i < QUERIES; ++i)
                    weight[i * LANE_KEYS + k] += product[i * LANE_KEYS + k] * scale;
            }
        }
}

// What a fetch by all lanes takes of values: keys, and scales of the dims that lanes share out of each.
const uint FETCH_KEYS = SG_SIZE / KEY_LANES;
const uint FETCH_DIMS = 2 * LANE_PAIRS * KEY_LANES;
const uint FETCH_GROUPS = KV_QUANTISED && FETCH_DIMS > KV_GROUP ? FETCH_DIMS / KV_GROUP : 1;
const uint GROUPS = CHUNKS * FETCH_GROUPS;
float scaled[QUERIES * LANE_KEYS * GROUPS];  // weights of this lane's keys by scales of their values

// Scales past the first `count` keys may never have been written.
void scale_weights(const uint values, const uint count) {
    const KvRow row = kv_value_row(values, LANE_KEYS * sg_lane(), HEAD_DIM);
    uvec4 scales = uvec4(0);
    [[unroll]] for (uint g = 0; g < GROUPS; ++g) {
        const uint last = (HEAD_DIM - 1) / KV_GROUP / 2;  // word of scales
        if (KV_QUANTISED && g % 2 == 0)
            scales = texelFetch(kv_texels, int((row.scales + min(g / 2, last) * KV_BLOCK_TOKENS) / 4));
        [[unroll]] for (uint k = 0; k < LANE_KEYS; ++k) {
            const bool valid = LANE_KEYS * sg_lane() + k < count;
            const float scale = !KV_QUANTISED ? 1.0 : valid ? unpack_scales(scales[k])[g % 2] : 0.0;
            [[unroll]] for (uint i = 0; i < QUERIES; ++i) {
                const uint w = i * LANE_KEYS + k;
                scaled[w * GROUPS + g] = KV_QUANTISED ? weight[w] * scale : weight[w];
            }
        }
    }
}

// Of row i and the key that fetch f of a turn takes, by the scale of what it takes of it.
float fetch_weight(const uint i, const uint turn, const uint f, const uint c) {
    float mine = 0.0;
    [[unroll]] for (uint n = 0; n < FETCH_KEYS * FETCH_GROUPS; ++n) {
        const uint k = f * FETCH_KEYS + n / FETCH_GROUPS, group = c * FETCH_GROUPS + n % FETCH_GROUPS;
        const float w =
            sg_broadcast(scaled[(i * LANE_KEYS + k % LANE_KEYS) * GROUPS + group], turn * FETCH_KEYS + k / LANE_KEYS);
        mine = n == 0 || sg_lane() / (SG_SIZE / (FETCH_KEYS * FETCH_GROUPS)) == n ? w : mine;
    }
    return mine;
}

// Four fetches a turn, then, dims by dims, their products.
void accumulate_texels(Row rows[QUERIES], const uint values, const uint key0, const uint count) {
    scale_weights(values, count);
    [[dont_unroll]] for (uint turn = 0; turn * 4 * FETCH_KEYS < count; ++turn)
        [[unroll]] for (uint c = 0; c < CHUNKS; ++c) {
            uvec4 words[4];
            float w[QUERIES * 4];
            [[unroll]] for (uint f = 0; f < 4; ++f) {
                const uint key = (turn * 4 + f) * FETCH_KEYS + sg_lane() / KEY_LANES;
                const uint by_keys = min(pair_of(c * LANE_PAIRS + f), PAIRS - 1) * KV_BLOCK_TOKENS + 4 * turn;
                const uint by_dims = min(key, count - 1) * KV_NUMBER_WORDS(HEAD_DIM) +
                                     min(pair_of(c * LANE_PAIRS), PAIRS - LANE_PAIRS) * 2 / KV_PER_WORD;
                words[f] = texelFetch(kv_texels, int((values + (KV_PLANES == 1 ? by_keys : by_dims)) / 4));
            }
            [[unroll]] for (uint f = 0; f < 4; ++f)
                [[unroll]] for (uint i = 0; i < QUERIES; ++i) w[i * 4 + f] = fetch_weight(i, turn, f, c);
            [[unroll]] for (uint p = 0; p < LANE_PAIRS; ++p) {
                const uint o = c * LANE_PAIRS + p, pair = min(pair_of(o), PAIRS - 1);
                const uint at = 2 * p / KV_PER_WORD, next = KV_TYPE == KV_F32 ? at + 1 : 0;
                vec2 value[4];
                [[unroll]] for (uint f = 0; f < 4; ++f) {
                    const bool valid = 4 * turn + f < count;
                    const uvec2 of_key = uvec2(valid ? words[p % 4][f] : 0, 0);
                    const uvec2 of_dims = uvec2(words[f][at], words[f][next]);
                    value[f] = numbers_of_words(KV_PLANES == 1 ? of_key : of_dims, pair, p % ITEM_PAIRS);
                }
                [[unroll]] for (uint i = 0; i < QUERIES; ++i) {
                    vec2 dims = total[i * OUTPUTS + o];
                    [[unroll]] for (uint f = 0; f < 4; ++f) {
                        vec2 each = value[f];
                        if (DISTANCE_VALUES)
                            each += distance_value(rows[i].position,
                                                   key0 + (turn * 4 + f) * FETCH_KEYS + sg_lane() / KEY_LANES, pair);
                        dims = fma(vec2(w[i * 4 + f]), each, dims);
                    }
                    total[i * OUTPUTS + o] = dims;
                }
            }
        }
}

// Lanes that took other keys' share of the same dims.
void add_lanes() {
    [[unroll]] for (uint i = 0; i < QUERIES * OUTPUTS; ++i)
        [[unroll]] for (uint apart = KEY_LANES; apart < SG_SIZE; apart *= 2)
            total[i] += vec2(subgroupShuffleXor(total[i].x, apart), subgroupShuffleXor(total[i].y, apart));
}

#endif
