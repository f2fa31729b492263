// Attention for prompts on matrix units (VK_KHR_cooperative_matrix): float16 operands, float32 sums. A workgroup takes ROWS
// rows of one kv head through the keys that any of them sees, or a split of those, a block of 32 at a time (FlashAttention-2,
// Dao 2023), with matrices of M x K times K x N:
//
//   S = Q K^T           [ROWS][32]; a subgroup makes M rows of a DIM_PARTS-th of the keys
//   P = softmax(S)      online, in shared memory; ROW_LANES lanes a row
//   O = O shrink + P V  [ROWS][DIMS]; a subgroup holds M rows of a DIM_PARTS-th of the dims as matrices
//
// Operands are divided by powers of two, since activations overflow float16: q by its row's, K by its block's, V by that of
// the largest so far, which O follows as it follows the maximum of its row. A cache of halves goes in as it is. Weights, 1
// at most, are multiplied by 2^15: matrix units may take subnormals for zero. 32 KiB of shared memory at most, unless `tune`
// finds more to pay.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#include "attention.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint SG_SIZE = 32;
layout(constant_id = ATTENTION_M) const uint M = 16;
layout(constant_id = ATTENTION_N) const uint N = 16;
layout(constant_id = ATTENTION_K) const uint K = 16;
layout(constant_id = ATTENTION_ROWS) const uint ROWS = 64;
layout(constant_id = ATTENTION_DIM_PARTS) const uint DIM_PARTS = 1;
layout(constant_id = ATTENTION_AHEAD) const bool LOADS_AHEAD = false;

const uint KEYS = KV_BLOCK_TOKENS;
const uint PAD = N * DIM_PARTS > 16 ? N * DIM_PARTS : 16;
const uint DIMS = (HEAD_DIM + PAD - 1) / PAD * PAD;
const bool WHOLE = DIMS == 2 * PAIRS;  // no dims are padding
const uint CHUNKS = DIMS / 8;          // 16 bytes of halves
const uint PITCH = CHUNKS + 1;         // uvec4s of a row in shared memory; odd, so rows lie on other banks
const uint SCORE_PITCH = KEYS / 4 + 1;
const uint ROW_LANES = gl_WorkGroupSize.x / ROWS, LANE_KEYS = KEYS / ROW_LANES;
const uint KEY_MATRICES = KEYS / N / DIM_PARTS, DIM_MATRICES = DIMS / N / DIM_PARTS;  // of a subgroup
const float WEIGHT_ONE = 32768.0;

#include "attention_rows.glsl"

shared uvec4 q_tile[ROWS * PITCH];              // [row][chunk]
shared uvec4 kv_tile[KEYS * PITCH];             // [key][chunk] of K, then of V
const uint V_FIRST = 0;
shared uvec4 score_tile[ROWS * SCORE_PITCH];    // [row][key] of S, then of P, then O by parts
shared float partial[gl_WorkGroupSize.x];       // [row][lane]
shared float row_shrink[ROWS], row_most[ROWS];
#include "attention_operands.glsl"

coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator> total[DIM_MATRICES];  // o
float most, sum;      // m; l of this lane's keys
float q_power;        // of this lane's row
uint v_size;          // bits of the largest |v| so far

uint lane_row() { return gl_LocalInvocationID.x / ROW_LANES; }
uint lane_key() { return gl_LocalInvocationID.x % ROW_LANES * LANE_KEYS; }
uint strip_row() { return gl_SubgroupID / DIM_PARTS * M; }
uint dim_part() { return gl_SubgroupID % DIM_PARTS; }

void multiply_keys() {
    coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator> scores[KEY_MATRICES];
    [[unroll]] for (uint n = 0; n < KEY_MATRICES; ++n) {
        scores[n] = coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator>(0.0);
    }
    const uint key = dim_part() * KEY_MATRICES * N;
    for (uint k = 0; k < DIMS; k += K) {
        coopmat<float16_t, gl_ScopeSubgroup, M, K, gl_MatrixUseA> a;
        coopMatLoad(a, q_tile, strip_row() * PITCH + k / 8, PITCH, gl_CooperativeMatrixLayoutRowMajor);
        [[unroll]] for (uint n = 0; n < KEY_MATRICES; ++n) {
            coopmat<float16_t, gl_ScopeSubgroup, K, N, gl_MatrixUseB> b;
            coopMatLoad(b, kv_tile, (key + n * N) * PITCH + k / 8, PITCH, gl_CooperativeMatrixLayoutColumnMajor);
            scores[n] = coopMatMulAdd(a, b, scores[n]);
        }
    }
    [[unroll]] for (uint n = 0; n < KEY_MATRICES; ++n) {
        coopMatStore(scores[n], score_tile, strip_row() * SCORE_PITCH + (key + n * N) / 4, SCORE_PITCH,
                     gl_CooperativeMatrixLayoutRowMajor);
    }
}

// Scores of the rows run.x .. run.y - 1 become weights in score_tile, all others 0; m and l are brought up to date, and how
// much o shrinks is left in row_shrink (Milakov & Gimelshein 2018, alg. 3).
void soften(const Run run, const uint row0, const uint kv_head, const uint key0, const float k_power,
            const float v_shrink) {
    const uint row = lane_row(), position = row_position[row], low = row_low[row];
    const uint count = row >= run.rows.x && row < run.rows.y ? row_count[row] : 0;
    const bool all_seen = are_all_seen(run, key0);
    const Row at = row_place(row0 + row, kv_head);
    const uint token = min(at.token, push.tokens - 1), head = at.head;
    float scores[LANE_KEYS], now = MASKED;
    [[unroll]] for (uint first = 0; first < LANE_KEYS; first += 4) {
        const vec4 products = uintBitsToFloat(score_tile[row * SCORE_PITCH + (lane_key() + first) / 4]) * q_power * k_power;
        [[unroll]] for (uint j = 0; j < 4; ++j) {
            scores[first + j] = score_of(products[j], token, head, position, key0 + lane_key() + first + j);
        }
    }
    if (!all_seen)
        [[unroll]] for (uint j = 0; j < LANE_KEYS; ++j) {
            const uint key = key0 + lane_key() + j;
            if (key - low >= count || !visible(position, key)) scores[j] = MASKED;
        }
    [[unroll]] for (uint j = 0; j < LANE_KEYS; ++j) now = max(now, scores[j]);
    partial[gl_LocalInvocationID.x] = now;
    barrier();
    now = most;
    [[unroll]] for (uint lane = 0; lane < ROW_LANES; ++lane) now = max(now, partial[row * ROW_LANES + lane]);
    const float shrink = exp_safe(most - now);
    most = now;
    sum *= shrink;
    [[unroll]] for (uint first = 0; first < LANE_KEYS; first += 4) {
        vec4 weights;
        [[unroll]] for (uint j = 0; j < 4; ++j) weights[j] = exp_safe(scores[first + j] - now);
        sum += (weights.x + weights.y) + (weights.z + weights.w);
        const f16vec4 halves = f16vec4(weights * WEIGHT_ONE);
        const uint word = (lane_key() + first) / 2;
        score_tile[row * SCORE_PITCH + word / 4][word % 4] = packFloat2x16(halves.xy);
        score_tile[row * SCORE_PITCH + word / 4][word % 4 + 1] = packFloat2x16(halves.zw);
    }
    if (lane_key() == 0) row_shrink[row] = shrink * v_shrink;
}

void add_values() {
    coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator> shrink;  // every column the same
    coopMatLoad(shrink, row_shrink, strip_row(), 0, gl_CooperativeMatrixLayoutColumnMajor);
    [[unroll]] for (uint d = 0; d < DIM_MATRICES; ++d) total[d] = total[d] * shrink;
    [[unroll]] for (uint k = 0; k < KEYS; k += K) {
        coopmat<float16_t, gl_ScopeSubgroup, M, K, gl_MatrixUseA> a;
        coopMatLoad(a, score_tile, strip_row() * SCORE_PITCH + k / 8, SCORE_PITCH, gl_CooperativeMatrixLayoutRowMajor);
        [[unroll]] for (uint d = 0; d < DIM_MATRICES; ++d) {
            coopmat<float16_t, gl_ScopeSubgroup, K, N, gl_MatrixUseB> b;
            coopMatLoad(b, kv_tile, k * PITCH + (dim_part() * DIM_MATRICES + d) * (N / 8), PITCH,
                        gl_CooperativeMatrixLayoutRowMajor);
            total[d] = coopMatMulAdd(a, b, total[d]);
        }
    }
}

// For the rows of a run; returns the keys of the next step.
Keys attend(const Run run, const uint row0, const uint kv_head, const Keys keys) {
    vec2 k_power = vec2(1.0), v_power = vec2(1.0);
    float v_shrink = 1.0;
    barrier();
    if (KV_TYPE != KV_F16) {
        measure(false, keys, kv_head);
        measure(true, keys, kv_head);
        barrier();
        k_power = half_power(cache_size[0]);
        const float before = half_power(v_size).x;
        v_size = max(v_size, cache_size[1]);
        v_power = half_power(v_size);
        v_shrink = before * v_power.y;
    }
    fill_tile(false, keys, kv_head, k_power.y);
    barrier();
    load_ahead(true, keys, kv_head);
    multiply_keys();
    barrier();
    fill_tile(true, keys, kv_head, v_power.y);
    if (gl_LocalInvocationID.x == 0) cache_size[0] = cache_size[1] = 0;
    soften(run, row0, kv_head, keys.step * KEYS, k_power.x, v_shrink);
    Keys next = keys;
    if (AHEAD) next = next_keys(run, keys.step + 1);
    barrier();
    Keys ahead = next;
    if (next.block >= push.blocks) ahead = keys;  // for nothing, but without a branch around loads
    load_ahead(false, ahead, kv_head);
    add_values();
    return next;
}

// Through shared memory of the subgroup's own, a matrix of each subgroup at a time.
void write(const uint row0, const uint kv_head, const uint part) {
    const bool final = push.parts == 1;
    const float one = KV_TYPE == KV_F16 ? 1.0 / WEIGHT_ONE : half_power(v_size).x / WEIGHT_ONE;
    partial[gl_LocalInvocationID.x] = sum;
    if (lane_key() == 0) row_most[lane_row()] = most;
    [[unroll]] for (uint d = 0; d < DIM_MATRICES; ++d) {
        barrier();
        coopMatStore(total[d], score_tile, strip_row() * SCORE_PITCH + dim_part() * (N / 4), SCORE_PITCH,
                     gl_CooperativeMatrixLayoutRowMajor);
        barrier();
        for (uint i = gl_SubgroupInvocationID; i < M * N; i += SG_SIZE) {
            const uint r = strip_row() + i / N, column = dim_part() * N + i % N;
            const uint dim = (dim_part() * DIM_MATRICES + d) * N + i % N;
            if (row_count[r] == 0 || dim >= HEAD_DIM) continue;
            const Row row = row_place(row0 + r, kv_head);
            float l = 0.0;
            [[unroll]] for (uint lane = 0; lane < ROW_LANES; ++lane) l += partial[r * ROW_LANES + lane];
            const float o = uintBitsToFloat(score_tile[r * SCORE_PITCH + column / 4][column % 4]);
            const uint to = final ? out_word(row) : partial_word(row, part);
            result[to + dim] = (final ? o / l : o) * one;
            if (final || dim != 0) continue;
            result[to + HEAD_DIM] = row_most[r];
            result[to + HEAD_DIM + 1] = l;
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
    load_queries(row0, kv_head);
    q_power = query_power(lane_row());
    [[unroll]] for (uint d = 0; d < DIM_MATRICES; ++d) {
        total[d] = coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator>(0.0);
    }
    most = start_most(row_at(row0 + lane_row(), kv_head), part);
    sum = lane_key() == 0 ? start_sum(part) : 0.0;
    v_size = 0;
    if (gl_LocalInvocationID.x == 0) cache_size[0] = cache_size[1] = 0;
    barrier();
    // One pass per sequence: rows of others see nothing meanwhile.
    for (uint start = 0; start < ROWS;) {
        const Run run = next_run(start, part);
        start = run.rows.y;
        if (AHEAD) {
            Keys keys = next_keys(run, run.from);
            if (keys.block < push.blocks) load_ahead(false, keys, kv_head);
            while (keys.block < push.blocks) keys = attend(run, row0, kv_head, keys);
            continue;
        }
        // What nothing is held for looks no step ahead: Intel's compilers spill 5 to 56 registers then.
        for (uint step = run.from; step < run.to; ++step) {
            const Keys keys = keys_at(run, step);
            if (keys.block < push.blocks) attend(run, row0, kv_head, keys);
        }
    }
    write(row0, kv_head, part);
}
