// What the attention kernels share: rows, the keys each row sees, the cache, results.
//
// The queries of one kv head form rows: row = token * group + head within its group of heads / kv_heads,
// so that a kernel that takes several rows reads keys and values once for all of them, be they heads of
// one token (decode) or neighbouring tokens (prompt).
#ifndef SCORIA_ATTENTION_GLSL
#define SCORIA_ATTENTION_GLSL
#include "numerics.glsl"
#include "grid.glsl"
#include "kv_cache.glsl"
#include "step.h"
#include "attention.push.h"

layout(constant_id = ATTENTION_HEAD_DIM) const uint HEAD_DIM = 64;
layout(constant_id = ATTENTION_QUERIES) const uint QUERIES = 4;
layout(constant_id = ATTENTION_MASK) const uint MASK = 0;
layout(constant_id = ATTENTION_BIAS) const uint BIAS = 0;
layout(constant_id = ATTENTION_SOFT_CAP) const bool SOFT_CAP = false;
layout(constant_id = ATTENTION_SINKS) const bool SINKS = false;
layout(constant_id = ATTENTION_VALUES) const bool DISTANCE_VALUES = false;

#define BIAS_LINEAR 1
#define BIAS_TABLE 2
#define BIAS_TABLE_BOTH 3
#define BIAS_BY_QUERY 4
#define BIAS_BY_PAIR 5

layout(binding = 0) readonly buffer Q { float q[]; };
layout(binding = 1) readonly buffer Step { uint step_words[]; };
layout(binding = 2) readonly buffer Kv { uint kv[]; };
#ifndef OUT_ACCESS
#define OUT_ACCESS writeonly
#endif
layout(binding = 3) OUT_ACCESS buffer Out { float result[]; };  // out, or partial results
// Slopes, a table, or products of queries, and of keys; of MASK_CHOSEN the keys that each token sees, CHOSEN_BITS a whole number.
layout(binding = 4) readonly buffer Bias { float bias[]; };
layout(binding = 5) readonly buffer Sinks { float sinks[]; };  // [heads]
layout(binding = 6) readonly buffer Values { float distance_values[]; };  // [bias_span][HEAD_DIM]
layout(push_constant) uniform Push { AttentionPush push; };

const uint PAIRS = (HEAD_DIM + 1) / 2;  // of dims; a word each in a cache of halves
const uint HEAD_WORDS = KV_ROW_WORDS(HEAD_DIM);
// Below every score, but finite: exp(lowest - lowest) is 1, not NaN.
const float LOWEST = -1e30;
#define MASKED uintBitsToFloat(0xFF800000u)  // -Inf: e^(MASKED - m) is 0

struct Row {
    uint token;  // from push.first_token on
    uint head, position;
    uint table;        // word of the step buffer
    uint low, count;   // sees keys low .. low + count - 1; none if the row does not exist
};

// Where a batch is one sequence from position 0 on, a position is a token's number.
bool is_global(const uint token) {
    return (step_words[STEP_TOKENS + token * STEP_TOKEN_WORDS + STEP_TOKEN_TYPE] & STEP_TOKEN_GLOBAL) != 0;
}

// Token and head alone, whether or not the row exists.
Row row_place(const uint row, const uint kv_head) {
    const uint group = push.heads / push.kv_heads;
    Row r;
    r.token = row / group;
    r.head = kv_head * group + row % group;
    return r;
}
Row row_at(const uint row, const uint kv_head) {
    Row r = row_place(row, kv_head);
    bool exists = r.token < push.tokens && push.first_token + r.token < step_words[STEP_TOKEN_COUNT];
    if (MASK == MASK_GLOBAL_ROWS) exists = exists && is_global(push.first_token + r.token);
    if (!exists) r.token = 0;  // so that all addresses are good
    const uint slot = STEP_TOKENS + (push.first_token + r.token) * STEP_TOKEN_WORDS;
    const uint position = step_words[slot + STEP_TOKEN_POSITION];
    r.position = position;
    r.table = step_words[slot + STEP_TOKEN_TABLE];
    r.low = push.window != 0 && position >= push.window ? position - push.window + 1 : 0;
    if (MASK == MASK_FIXED_BLOCK) r.low = max(r.low, position / push.stride * push.stride);
    if (MASK == MASK_LOCAL_BLOCK) {
        const uint block = position / push.stride * push.stride;
        r.low = max(r.low, block - min(block, push.summary));
    }
    uint end = position + 1;
    if (MASK == MASK_BIDIRECTIONAL || MASK == MASK_GLOBAL_KEYS || MASK == MASK_GLOBAL_ROWS) {
        end = step_words[STEP_TOKEN_COUNT];
        if (MASK == MASK_GLOBAL_KEYS && step_words[STEP_GLOBALS] != 0)
            r.low = 0;
        else if (push.window != 0)
            end = min(end, position + push.window);
    }
    if (MASK == MASK_COMPRESSED) r.low = step_words[STEP_LOW];
    if (MASK == MASK_PREFIX) end = max(end, step_words[STEP_PREFIX]);
    if (MASK == MASK_SOURCE) end = step_words[STEP_SOURCE];
    r.count = exists ? end - r.low : 0;
    return r;
}
// Masks of which a row sees some keys of its range alone.
const bool STRIDED = MASK == MASK_STRIDED || MASK == MASK_STRIDED_UNION;
const bool FIXED_SETS = MASK == MASK_FIXED_SUMMARY || MASK == MASK_FIXED_UNION;
// Whether a query at `position` sees `key`, which lies within its range.
bool visible(const uint position, const uint key) {
    if (MASK == MASK_GLOBAL_KEYS)
        return max(position, key) - min(position, key) < push.window || is_global(key);
    if (!STRIDED && !FIXED_SETS) return true;
    const uint distance = position - key;
    if (STRIDED) return distance % push.stride == 0 || (MASK == MASK_STRIDED_UNION && distance <= push.stride);
    return key % push.stride >= push.stride - push.summary || distance == 0 ||
           (MASK == MASK_FIXED_UNION && key / push.stride == position / push.stride);
}

// Whether any query at positions from .. to may see any of `count` keys from `first` on, which some query's range
// reaches: what is skipped makes cost follow the mask. May say yes too often, never no.
bool seen_by_any(const uint from, const uint to, const uint first, const uint count) {
    const uint last = first + count - 1;
    if (MASK == MASK_GLOBAL_KEYS)
        return first < step_words[STEP_GLOBALS] || (first < to + push.window && from < last + push.window);
    if (!STRIDED && !FIXED_SETS) return true;
    const uint least = from - min(from, last), most = to - min(to, first);  // distances
    const bool near = MASK == MASK_STRIDED_UNION && least <= push.stride ||
                      MASK == MASK_FIXED_UNION && last / push.stride >= from / push.stride;
    if (least == 0 || near) return true;
    return STRIDED ? most / push.stride * push.stride >= least
                   : last % push.stride >= push.stride - push.summary || last / push.stride > first / push.stride;
}

// Of a key in a table of both sides.
uint offset_of(const uint position, const uint key) {
    const int most = int(push.bias_span) - 1;
    return uint(most + clamp(int(key) - int(position), -most, most));
}

// The score that softmax takes, from the product q.k.
float score_of(float product, const uint token, const uint head, const uint position, const uint key) {
    if (MASK == MASK_CHOSEN) {
        const uint word = min(push.bias_first + token * push.bias_stride + key / CHOSEN_BITS, bias.length() - 1);
        if ((uint(bias[word]) >> key % CHOSEN_BITS & 1u) == 0) return MASKED;
    }
    const uint distance = min(position - key, push.bias_span - 1);
    if (BIAS == BIAS_BY_QUERY)
        product += bias[push.bias_first + token * push.bias_stride + head * push.bias_span + distance];
    // Of a head in a table of both sides.
    const uint cols = 2 * push.bias_span - 1, column = head * cols + offset_of(position, key);
    if (BIAS == BIAS_BY_PAIR) {  // a batch is one sequence, whose keys may lie before this dispatch's tokens
        const uint of_key = (key - push.first_token) * push.bias_stride + push.heads * cols;
        product += bias[push.bias_first + token * push.bias_stride + column] +
                   bias[min(push.bias_first + of_key + column, bias.length() - 1)];
    }
    float score = product * push.scale;
    if (SOFT_CAP) score = push.soft_cap * tanh_safe(score / push.soft_cap);
    if (BIAS == BIAS_LINEAR) score -= bias[head] * float(max(position, key) - min(position, key));
    if (BIAS == BIAS_TABLE) score += bias[head * push.bias_span + distance];
    if (BIAS == BIAS_TABLE_BOTH) score += bias[column];
    return score;
}

// m and l before any key: a sink counts once among the parts of the cache.
float start_most(const Row r, const uint part) {
    return SINKS && push.first_part + part == 0 ? max(sinks[r.head], LOWEST) : LOWEST;
}
float start_sum(const uint part) { return SINKS && push.first_part + part == 0 ? 1.0 : 0.0; }

uint query_word(const uint token, const uint head) { return push.q_first + token * push.q_stride + head * HEAD_DIM; }
// The last dim of an odd number of them has 0 beside it.
bool has_second(const uint pair) { return HEAD_DIM % 2 == 0 || pair + 1 < PAIRS; }
vec2 load_query(const uint word, const uint pair) {
    return vec2(q[word + 2 * pair], has_second(pair) ? q[word + 2 * pair + 1] : 0.0);
}

// Block of this shard that holds `key`, or at least push.blocks if it is another shard's.
uint block_of(const uint table, const uint key) {
    uint block = key / KV_BLOCK_TOKENS;
    if (push.ring != KV_NO_RING) block %= push.ring;  // a division per key is worth a branch
    const uint entry = min(table + block, step_words.length() - 1);
    return step_words[entry] - push.first_block;
}

// The words that hold dims 2 pair and 2 pair + 1 of a row: all, or numbers and their scale. Where a word holds both dims
// there is no second.
uvec2 words_of_pair(const KvRow row, const uint pair) {
    const uint first = row.numbers + 2 * pair / KV_PER_WORD * row.between;
    if (KV_TYPE == KV_F32) return uvec2(first, has_second(pair) ? first + row.between : first);
    return uvec2(first, KV_QUANTISED ? row.scales + 2 * pair / KV_GROUP / 2 * KV_BLOCK_TOKENS : 0);
}
const bool PAIR_HAS_SECOND = KV_TYPE == KV_F32 || KV_QUANTISED;
vec2 pair_of_words(const uvec2 words, const uint pair) {
    if (KV_TYPE == KV_F32) return uintBitsToFloat(uvec2(words.x, has_second(pair) ? words.y : 0));
    if (!KV_QUANTISED) {
        const uint word = words.x & (has_second(pair) ? 0xFFFFFFFFu : 0xFFFFu);
        return KV_TYPE == KV_F16 ? unpack_half2(word) : unpack_bfloat2(word);
    }
    return kv_steps(words.x, pair % (KV_PER_WORD / 2)) * unpack_scales(words.y)[2 * pair / KV_GROUP % 2];
}

// Likewise, of pair `in_word` of its word, where numbers are quantised without their scale.
vec2 numbers_of_words(const uvec2 words, const uint pair, const uint in_word) {
    return KV_QUANTISED ? kv_steps(words.x, in_word) : pair_of_words(words, pair);
}

// Dims 2 pair and 2 pair + 1 of a key or a value, from kv_keys or kv_values.
uvec2 load_words(const KvRow row, const uint pair) {
    const uvec2 at = words_of_pair(row, pair);
    return uvec2(kv[at.x], PAIR_HAS_SECOND ? kv[at.y] : 0);
}
vec2 load_pair(const KvRow row, const uint pair) { return pair_of_words(load_words(row, pair), pair); }
vec2 load_key(const uint keys, const uint in_block, const uint pair) {
    return load_pair(kv_key_row(keys, in_block, HEAD_DIM), pair);
}
vec2 load_value(const uint values, const uint in_block, const uint pair) {
    return load_pair(kv_value_row(values, in_block, HEAD_DIM), pair);
}

// What the distance adds to the value of `key` (Shaw et al. 2018, eq. 3).
vec2 distance_value(const uint position, const uint key, const uint pair) {
    const uint word = min(position - key, push.bias_span - 1) * HEAD_DIM + 2 * pair;
    return vec2(distance_values[word], has_second(pair) ? distance_values[word + 1] : 0.0);
}

// Partial result of a row: o [HEAD_DIM] not divided by l, then m, l.
uint partial_word(const Row r, const uint part) {
    return (((push.first_part + part) * push.tokens + r.token) * push.heads + r.head) * (HEAD_DIM + 2);
}
uint out_word(const Row r) { return push.out_first + r.token * push.out_stride + r.head * HEAD_DIM; }

#endif
