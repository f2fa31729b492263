// Attention for prompts on GPUs: a workgroup of 128 takes 16, 32 or 64 rows of one kv head through the keys
// that any of them sees, or a split of those, a block of 32 at a time (the tiling of FlashAttention-2, Dao
// 2023, in fp32 without matrix units). Scores and values pass through shared memory in chunks of 32 dims; of
// 64 rows a lane holds 4 rows x 4 keys of the scores and 4 rows x 4 dims of each chunk of the result.
//
// At most 16 KiB of shared memory: rows 1, a tile of queries that the weights then overwrite 8.5, keys or values
// 4.5, reductions 2.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "attention.glsl"

layout(local_size_x = ATTENTION_TILE_WORKGROUP) in;

layout(constant_id = ATTENTION_ROWS) const uint ROWS = 64;

const uint KEYS = KV_BLOCK_TOKENS, DIMS = ATTENTION_TILE_CHUNK;
const uint LANE_KEYS = 4;                 // also the dims of a lane
const uint KEY_LANES = KEYS / LANE_KEYS;  // 8 lanes across keys or dims, 16 across rows
const uint LANE_ROWS = ROWS * KEY_LANES / ATTENTION_TILE_WORKGROUP;
const uint LANE_SUMS = LANE_ROWS * LANE_KEYS;
const uint ROW_PITCH = ROWS + 4, KEY_PITCH = KEYS + 4;  // vec4 alignment, neighbouring lines on other banks
const uint LOADS = 4;  // of queries in flight
const uint CHUNKS = (HEAD_DIM + DIMS - 1) / DIMS;

#include "attention_rows.glsl"

shared float row_tile[DIMS * ROW_PITCH];  // [dim][row] of q, then [key][row] of the weights
shared float key_tile[DIMS * KEY_PITCH];  // [dim][key] of K, then [key][dim] of V
shared float partial[ROWS * KEY_LANES];

float total[CHUNKS * LANE_SUMS];        // o: [chunk][row][dim]
float most[LANE_ROWS], sum[LANE_ROWS];  // m, l: the same in all lanes of a row

uint key_lane() { return gl_LocalInvocationID.x % KEY_LANES; }
uint first_row() { return gl_LocalInvocationID.x / KEY_LANES * LANE_ROWS; }

// Neighbouring lanes take neighbouring dims of a row: in memory a row's dims lie side by side.
void load_queries(const uint row0, const uint kv_head, const uint chunk) {
    const uint dim = chunk * DIMS + gl_LocalInvocationID.x % DIMS;
    const uint between = ATTENTION_TILE_WORKGROUP / DIMS;
    [[dont_unroll]] for (uint r0 = gl_LocalInvocationID.x / DIMS; r0 < ROWS; r0 += LOADS * between)
        [[unroll]] for (uint i = 0; i < LOADS; ++i) {
            const uint r = r0 + i * between;
            const Row at = row_place(row0 + r, kv_head);
            const float value = q[query_word(min(at.token, push.tokens - 1), at.head) + min(dim, HEAD_DIM - 1)];
            row_tile[gl_LocalInvocationID.x % DIMS * ROW_PITCH + r] = dim < HEAD_DIM ? value : 0.0;
        }
}

// Keys lie side by side in memory, and so do their lanes.
void load_keys(const uint keys, const uint chunk) {
    const uint key = gl_LocalInvocationID.x % KEYS;
    for (uint i = gl_LocalInvocationID.x / KEYS; i < DIMS / 2; i += ATTENTION_TILE_WORKGROUP / KEYS) {
        const uint pair = chunk * DIMS / 2 + i;
        const vec2 k = load_key(keys, key, min(pair, PAIRS - 1));
        key_tile[2 * i * KEY_PITCH + key] = pair < PAIRS ? k.x : 0.0;
        key_tile[(2 * i + 1) * KEY_PITCH + key] = pair < PAIRS ? k.y : 0.0;
    }
}

// Values past `count` may never have been written.
void load_values(const uint values, const uint chunk, const uint count) {
    const uint i = gl_LocalInvocationID.x % (DIMS / 2), pair = min(chunk * DIMS / 2 + i, PAIRS - 1);
    for (uint key = gl_LocalInvocationID.x / (DIMS / 2); key < KEYS; key += ATTENTION_TILE_WORKGROUP / (DIMS / 2)) {
        const vec2 v = load_value(values, min(key, count - 1), pair);
        key_tile[key * KEY_PITCH + 2 * i] = key < count ? v.x : 0.0;
        key_tile[key * KEY_PITCH + 2 * i + 1] = key < count ? v.y : 0.0;
    }
}

// sums[row][column] += row_tile[step][row] * key_tile[step][column] over all 32 steps. Compilers that unroll it whole
// load everything first and spill (tools/gates).
void multiply(inout float sums[LANE_SUMS]) {
    [[dont_unroll]] for (uint step = 0; step < DIMS; ++step) {
        float a[LANE_ROWS], b[LANE_KEYS];
        [[unroll]] for (uint i = 0; i < LANE_ROWS; ++i) a[i] = row_tile[step * ROW_PITCH + first_row() + i];
        [[unroll]] for (uint j = 0; j < LANE_KEYS; ++j) b[j] = key_tile[step * KEY_PITCH + key_lane() * LANE_KEYS + j];
        [[unroll]] for (uint i = 0; i < LANE_ROWS; ++i) {
            [[unroll]] for (uint j = 0; j < LANE_KEYS; ++j)
                sums[i * LANE_KEYS + j] = fma(a[i], b[j], sums[i * LANE_KEYS + j]);
        }
    }
}

void share(float values[LANE_ROWS]) {
    barrier();
    [[unroll]] for (uint i = 0; i < LANE_ROWS; ++i) partial[(first_row() + i) * KEY_LANES + key_lane()] = values[i];
    barrier();
}

// Scores of the rows run.x .. run.y - 1 become weights in row_tile, all others 0; m, l and o are brought up to date (Milakov &
// Gimelshein 2018, alg. 3).
void soften(float scores[LANE_SUMS], const uvec2 run, const uint row0, const uint kv_head, const uint key0) {
    float values[LANE_ROWS];
    [[unroll]] for (uint i = 0; i < LANE_ROWS; ++i) {
        const uint row = first_row() + i;
        values[i] = MASKED;
        [[unroll]] for (uint j = 0; j < LANE_KEYS; ++j) {
            const uint key = key0 + key_lane() * LANE_KEYS + j;
            const uint position = row_position[row];
            const Row at = row_place(row0 + row, kv_head);
            const bool seen = key - row_low[row] < row_count[row] && row >= run.x && row < run.y && visible(position, key);
            const float score =
                score_of(scores[i * LANE_KEYS + j], min(at.token, push.tokens - 1), at.head, position, key);
            scores[i * LANE_KEYS + j] = seen ? score : MASKED;
            values[i] = max(values[i], scores[i * LANE_KEYS + j]);
        }
    }
    share(values);
    [[unroll]] for (uint i = 0; i < LANE_ROWS; ++i) {
        float now = most[i];
        [[unroll]] for (uint lane = 0; lane < KEY_LANES; ++lane)
            now = max(now, partial[(first_row() + i) * KEY_LANES + lane]);
        const float shrink = exp_safe(most[i] - now);
        most[i] = now;
        sum[i] *= shrink;
        values[i] = 0.0;
        [[unroll]] for (uint j = 0; j < LANE_KEYS; ++j) {
            const float weight = exp_safe(scores[i * LANE_KEYS + j] - now);
            row_tile[(key_lane() * LANE_KEYS + j) * ROW_PITCH + first_row() + i] = weight;
            values[i] += weight;
        }
        [[unroll]] for (uint c = 0; c < CHUNKS; ++c) {
            [[unroll]] for (uint j = 0; j < LANE_KEYS; ++j) total[(c * LANE_ROWS + i) * LANE_KEYS + j] *= shrink;
        }
    }
    share(values);
    [[unroll]] for (uint i = 0; i < LANE_ROWS; ++i) {
        [[unroll]] for (uint lane = 0; lane < KEY_LANES; ++lane)
            sum[i] += partial[(first_row() + i) * KEY_LANES + lane];
    }
}

// The result's dims of chunk c += weights * values.
void accumulate(const uint c, const uint values, const uint count) {
    barrier();
    load_values(values, c, count);
    barrier();
    float part[LANE_SUMS];
    [[unroll]] for (uint i = 0; i < LANE_SUMS; ++i) part[i] = total[c * LANE_SUMS + i];
    multiply(part);
    [[unroll]] for (uint i = 0; i < LANE_SUMS; ++i) total[c * LANE_SUMS + i] = part[i];
}

// One block of keys, `count` of them written, for rows run.x .. run.y - 1.
void attend(const uvec2 run, const uint row0, const uint kv_head, const uint block, const uint key0, const uint count) {
    float scores[LANE_SUMS];
    [[unroll]] for (uint i = 0; i < LANE_SUMS; ++i) scores[i] = 0.0;
    for (uint c = 0; c < CHUNKS; ++c) {
        barrier();
        load_queries(row0, kv_head, c);
        load_keys(kv_keys(block, kv_head, push.kv_heads, HEAD_WORDS), c);
        barrier();
        multiply(scores);
    }
    soften(scores, run, row0, kv_head, key0);
    const uint values = kv_values(block, kv_head, push.kv_heads, HEAD_WORDS);
    // Not a loop: compilers unroll none that has another in it, and then choose each sum from all, or keep them in memory.
#if ATTENTION_TILE_CHUNKS != 18
#error expected a line of ACCUMULATE for every chunk
#endif
#define ACCUMULATE(chunk) if (chunk < CHUNKS) accumulate(chunk, values, count)
    ACCUMULATE(0); ACCUMULATE(1); ACCUMULATE(2); ACCUMULATE(3); ACCUMULATE(4); ACCUMULATE(5); ACCUMULATE(6);
    ACCUMULATE(7); ACCUMULATE(8); ACCUMULATE(9); ACCUMULATE(10); ACCUMULATE(11); ACCUMULATE(12); ACCUMULATE(13);
    ACCUMULATE(14); ACCUMULATE(15); ACCUMULATE(16); ACCUMULATE(17);
}

void write(const uint row0, const uint kv_head, const uint part) {
    [[unroll]] for (uint i = 0; i < LANE_ROWS; ++i) {
        const Row row = row_at(row0 + first_row() + i, kv_head);
        if (row.count == 0) continue;
        const bool final = push.parts == 1;
        const uint to = final ? out_word(row) : partial_word(row, part);
        [[unroll]] for (uint c = 0; c < CHUNKS; ++c) {
            [[unroll]] for (uint j = 0; j < LANE_KEYS; ++j) {
                const uint dim = c * DIMS + key_lane() * LANE_KEYS + j;
                const float o = total[(c * LANE_ROWS + i) * LANE_KEYS + j];
                if (dim < HEAD_DIM) result[to + dim] = final ? o / sum[i] : o;
            }
        }
        if (!final && key_lane() == 0) {
            result[to + HEAD_DIM] = most[i];
            result[to + HEAD_DIM + 1] = sum[i];
        }
    }
}

void main() {
    const uint tiles = (push.tokens * (push.heads / push.kv_heads) + ROWS - 1) / ROWS;
    const uint part = group_index() % push.splits, tile = group_index() / push.splits / push.kv_heads;
    const uint kv_head = group_index() / push.splits % push.kv_heads;
    if (tile >= tiles) return;
    const uint row0 = tile * ROWS;
    share_rows(row0, kv_head);
    [[unroll]] for (uint i = 0; i < CHUNKS * LANE_SUMS; ++i) total[i] = 0.0;
    [[unroll]] for (uint i = 0; i < LANE_ROWS; ++i) {
        most[i] = start_most(row_at(row0 + first_row() + i, kv_head), part);
        sum[i] = start_sum(part);
    }
    barrier();
    // One pass per sequence: rows of others see nothing meanwhile.
    for (uint start = 0; start < ROWS;) {
        const Run run = next_run(start, part);
        start = run.rows.y;
        for (uint step = run.from; step < run.to; ++step) {
            const uint block = block_to_attend(run, step * KEYS);
            if (block < push.blocks) attend(run.rows, row0, kv_head, block, step * KEYS, min(KEYS, run.end - step * KEYS));
        }
    }
    write(row0, kv_head, part);
}
