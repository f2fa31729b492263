// Operands of attention on matrix units as they pass through shared memory: queries by rows, keys and values of a block of
// the cache. Included after ROWS, KEYS, DIMS, CHUNKS, PITCH, WHOLE, LOADS_AHEAD, attention_rows.glsl, and the tiles:
// q_tile [row][chunk], and kv_tile [key][chunk] of K, and from V_FIRST on of V.
#include "half_operands.glsl"

// Of a tile, a lane's; few enough to be held, and of a cache that goes in as it is.
const uint ITEMS = (KEYS * CHUNKS + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
const bool AHEAD = LOADS_AHEAD && ITEMS <= 8 && KV_TYPE == KV_F16;

layout(binding = 2) readonly buffer KvQuads { uvec4 kv_quads[]; };

shared uint row_size[ROWS], cache_size[2];  // bits of the largest |q| of a row, |k| and |v| of a block

void load_chunk(const uint row0, const uint kv_head, const uint row, const uint chunk, out vec4 lo, out vec4 hi) {
    const Row at = row_place(row0 + row, kv_head);
    const uint first = query_word(min(at.token, push.tokens - 1), at.head), dim = 8 * chunk;
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        lo[i] = dim + i < HEAD_DIM ? q[first + min(dim + i, HEAD_DIM - 1)] : 0.0;
        hi[i] = dim + 4 + i < HEAD_DIM ? q[first + min(dim + 4 + i, HEAD_DIM - 1)] : 0.0;
    }
}

void load_queries(const uint row0, const uint kv_head) {
    vec4 lo, hi;
    for (uint r = gl_LocalInvocationID.x; r < ROWS; r += gl_WorkGroupSize.x) row_size[r] = 0;
    barrier();
    for (uint i = gl_LocalInvocationID.x; i < ROWS * CHUNKS; i += gl_WorkGroupSize.x) {
        load_chunk(row0, kv_head, i / CHUNKS, i % CHUNKS, lo, hi);
        atomicMax(row_size[i / CHUNKS], max(size_of(lo), size_of(hi)));
    }
    barrier();
    for (uint i = gl_LocalInvocationID.x; i < ROWS * CHUNKS; i += gl_WorkGroupSize.x) {
        load_chunk(row0, kv_head, i / CHUNKS, i % CHUNKS, lo, hi);
        const float inverse = half_power(row_size[i / CHUNKS]).y;
        q_tile[i / CHUNKS * PITCH + i % CHUNKS] = packed_halves(lo * inverse, hi * inverse);
    }
}
// What q of a row was divided by; NaN if Inf or NaN was among it.
float query_power(const uint row) {
    const uint size = row_size[row];
    return size >= 0x7F800000u ? uintBitsToFloat(0x7FC00000u) : half_power(size).x;
}

// A block of keys, its number in the sequence, and how many were written.
struct Keys {
    uint block, step, count;
};

// The largest of keys or values; what lies past them may never have been written.
void measure(const bool value, const Keys keys, const uint kv_head) {
    uint size = 0;
    [[dont_unroll]] for (uint i = gl_LocalInvocationID.x; i < KEYS * PAIRS; i += gl_WorkGroupSize.x) {
        const KvRow row = kv_row(value, keys.block, kv_head, push.kv_heads, min(i % KEYS, keys.count - 1), HEAD_DIM);
        size = max(size, size_of(load_pair(row, i / KEYS).xyxy));
    }
    atomicMax(cache_size[value ? 1 : 0], size);
}

// Key and chunk of item `n` of a lane: keys lie side by side in memory, values of a row too, and so do their lanes.
uvec2 cache_item(const bool value, const uint n) {
    const bool rows = value && KV_PLANES == 2;
    const uint side = rows ? CHUNKS : KEYS, lanes = gl_WorkGroupSize.x, lane = gl_LocalInvocationID.x;
    const uint i = n * lanes + lane;
    // The same key, or chunk, for each n where that can be known.
    const uvec2 item = lanes % side == 0 ? uvec2(lane % side, lane / side + n * (lanes / side)) : uvec2(i % side, i / side);
    return rows ? item.yx : item;
}
bool has_item(const uint n) {
    const uint items = KEYS * CHUNKS, lanes = gl_WorkGroupSize.x;
    return items % lanes == 0 || n * lanes + gl_LocalInvocationID.x < items;
}

// Keys past the last written one, which no row sees, are that one.
uvec4 load_item(const bool value, const uint n, const Keys keys, const uint kv_head, const float inverse) {
    const uvec2 item = cache_item(value, n);
    const KvRow row = kv_row(value, keys.block, kv_head, push.kv_heads, min(item.x, keys.count - 1), HEAD_DIM);
    if (KV_TYPE == KV_F16 && value && KV_PLANES == 2 && WHOLE) return kv_quads[row.numbers / 4 + item.y];
    uvec4 words;
    [[unroll]] for (uint p = 0; p < 4; ++p) {
        const uint pair = 4 * item.y + p, near = WHOLE ? pair : min(pair, PAIRS - 1);
        words[p] = KV_TYPE == KV_F16 ? kv[row.numbers + near * row.between]
                                     : packFloat2x16(f16vec2(load_pair(row, near) * inverse));
        if (!WHOLE && pair >= PAIRS) words[p] = 0;
    }
    return words;
}

uvec4 held[2 * ITEMS];  // if AHEAD: of keys, of values

void load_ahead(const bool value, const Keys keys, const uint kv_head) {
    if (!AHEAD) return;
    [[unroll]] for (uint n = 0; n < ITEMS; ++n)
        if (has_item(n)) held[value ? ITEMS + n : n] = load_item(value, n, keys, kv_head, 1.0);
}

// Compilers that unroll the loop of what is not held load everything first and spill (tools/gates): how often it is gone
// through must not be known.
void fill_tile(const bool value, const Keys keys, const uint kv_head, const float inverse) {
    const uint tile = value ? V_FIRST : 0;
    if (AHEAD) {
        [[unroll]] for (uint n = 0; n < ITEMS; ++n) {
            const uvec2 item = cache_item(value, n);
            if (has_item(n)) kv_tile[tile + item.x * PITCH + item.y] = held[value ? ITEMS + n : n];
        }
        return;
    }
    [[dont_unroll]] for (uint i = gl_LocalInvocationID.x; i < KEYS * CHUNKS; i += gl_WorkGroupSize.x) {
        const uint n = i / gl_WorkGroupSize.x;
        const uvec2 item = cache_item(value, n);
        kv_tile[tile + item.x * PITCH + item.y] = load_item(value, n, keys, kv_head, inverse);
    }
}

Keys keys_at(const Run run, const uint step) {
    return Keys(block_to_attend(run, step * KEYS), step, min(KEYS, run.end - step * KEYS));
}
// The keys from step `step` on that some row sees; none if there are none.
Keys next_keys(const Run run, uint step) {
    Keys keys = Keys(push.blocks, run.to, 0);
    for (; step < run.to && keys.block >= push.blocks; ++step) keys = keys_at(run, step);
    return keys;
}
