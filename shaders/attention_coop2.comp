// Attention for prompts as attention_coop.comp, with matrices of any size (VK_NV_cooperative_matrix2): a strip of M rows is
// one matrix of its subgroup, or of the whole workgroup, so that scores become weights where they are, by reductions of rows
// and functions of elements, and turn into the operand of the next product without shared memory. Two barriers a block of
// keys. Every matrix has M or 32 rows and 32 columns, the keys of a block or as many dims; what is one number for a row
// is the same in all columns.
//
// Scores count in powers of two: 2^(s log2 e) is e^s.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#include "attention.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint SG_SIZE = 32;
layout(constant_id = ATTENTION_M) const uint M = 16;
layout(constant_id = ATTENTION_ROWS) const uint ROWS = 64;
layout(constant_id = ATTENTION_AHEAD) const bool LOADS_AHEAD = false;
layout(constant_id = ATTENTION_SCOPE) const int SCOPE = gl_ScopeSubgroup;

const uint KEYS = KV_BLOCK_TOKENS;
const uint PARTS = (HEAD_DIM + KEYS - 1) / KEYS, DIMS = PARTS * KEYS;
const bool WHOLE = DIMS == 2 * PAIRS;  // no dims are padding
const uint CHUNKS = DIMS / 8;          // 16 bytes of halves
const uint PITCH = CHUNKS + 1;         // uvec4s of a row in shared memory; odd, so rows lie on other banks
const float WEIGHT_BITS = 15.0;        // weights are multiplied by 2^15, as in attention_coop.comp
const float LOG2_E = 1.4426950408889634;

#include "attention_rows.glsl"

// [key][chunk] of K and of V; before those, [row][chunk] of q.
const uint V_FIRST = KEYS * PITCH;
shared uvec4 kv_tile[(ROWS > 2 * KEYS ? ROWS : 2 * KEYS) * PITCH];
#define q_tile kv_tile
shared float row_start[ROWS];  // a number of each row, to be loaded as a matrix
#include "attention_operands.glsl"

#define Strip coopmat<float, SCOPE, M, KEYS, gl_MatrixUseAccumulator>
#define StripHalves coopmat<float16_t, SCOPE, M, KEYS, gl_MatrixUseA>
StripHalves queries[PARTS];
Strip total[PARTS], sums;  // o; of a key's weights so far
Strip most;                // m
Strip q_scale;             // from products to scores, where those are plain
uint v_size;               // bits of the largest |v| so far

uint strip_row() { return gl_SubgroupID * M % ROWS; }

float largest(const in float a, const in float b) { return max(a, b); }
float sum_of(const in float a, const in float b) { return a + b; }
// Functions of an element: its row and column in the matrix, its value, and what they are given.
float larger(const in uint row, const in uint column, const in float a, const in float b) { return max(a, b); }
float power_of(const in uint row, const in uint column, const in float a, const in float b) {
    const float power = a - b;
    return power < -126.0 ? 0.0 : exp2(power);
}
float weight_of(const in uint row, const in uint column, const in float score, const in float most) {
    const float power = score - most + WEIGHT_BITS;
    return power < -126.0 ? 0.0 : exp2(power);
}
// Scores of the rows from .. to - 1 alone, and of keys that they see; `k_power`: what K was divided by.
float masked_score(const in uint row, const in uint column, const in float product, const in uint row0, const in uint strip,
                   const in uint kv_head, const in uint from, const in uint to, const in uint key0, const in float k_power) {
    const uint r = strip + row, key = key0 + column, position = row_position[r];
    const uint count = r >= from && r < to ? row_count[r] : 0;
    const Row at = row_place(row0 + r, kv_head);
    const float score =
        LOG2_E * score_of(product * query_power(r) * k_power, min(at.token, push.tokens - 1), at.head, position, key);
    return key - row_low[r] < count && visible(position, key) ? score : MASKED;
}
float first_sum(const in uint row, const in uint column, const in float sum, const in float start) {
    return column == 0 ? start : sum;
}
// Dim dim0 + column of a row's result; `one`: what values and weights were divided by.
float write_total(const in uint row, const in uint column, const in float o, const in float l, const in float m,
                  const in uint row0, const in uint strip, const in uint kv_head, const in uint part, const in uint dim0,
                  const in float one) {
    const uint r = strip + row, dim = dim0 + column;
    if (row_count[r] == 0 || dim >= HEAD_DIM) return o;
    const Row to = row_place(row0 + r, kv_head);
    const bool final = push.parts == 1;
    const uint word = final ? out_word(to) : partial_word(to, part);
    result[word + dim] = final ? o / l * one : ldexp(o, -int(WEIGHT_BITS)) * one;
    if (final || dim != 0) return o;
    result[word + HEAD_DIM] = m / LOG2_E;
    result[word + HEAD_DIM + 1] = ldexp(l, -int(WEIGHT_BITS));
    return o;
}

// The number of each row in row_start, which all have written when this returns.
void load_rows(out Strip rows) {
    barrier();
    coopMatLoad(rows, row_start, strip_row(), 0, gl_CooperativeMatrixLayoutColumnMajor);
    barrier();
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
    fill_tile(true, keys, kv_head, v_power.y);
    barrier();
    if (gl_LocalInvocationID.x == 0) cache_size[0] = cache_size[1] = 0;
    Keys next = keys;
    if (AHEAD) {
        next = next_keys(run, keys.step + 1);
        Keys ahead = next;
        if (next.block >= push.blocks) ahead = keys;  // for nothing, but without a branch around loads
        load_ahead(false, ahead, kv_head);
        load_ahead(true, ahead, kv_head);
    }

    Strip scores = Strip(0.0);
    [[unroll]] for (uint p = 0; p < PARTS; ++p) {
        coopmat<float16_t, SCOPE, KEYS, KEYS, gl_MatrixUseB> b;
        coopMatLoad(b, kv_tile, p * (KEYS / 8), PITCH, gl_CooperativeMatrixLayoutColumnMajor);
        scores = coopMatMulAdd(queries[p], b, scores);
    }
    const uint key0 = keys.step * KEYS;
    if (BIAS == 0 && !SOFT_CAP && MASK != MASK_CHOSEN && are_all_seen(run, key0))
        scores = scores * q_scale * k_power.x;
    else
        coopMatPerElementNV(scores, scores, masked_score, row0, strip_row(), kv_head, run.rows.x, run.rows.y, key0, k_power.x);

    Strip peak, shrink, now, w;
    coopMatReduceNV(peak, scores, gl_CooperativeMatrixReduceRowNV, largest);
    coopMatPerElementNV(now, most, larger, peak);
    coopMatPerElementNV(shrink, most, power_of, now);
    coopMatPerElementNV(w, scores, weight_of, now);
    most = now;
    scores = w;
    sums = sums * shrink + scores;
    if (KV_TYPE != KV_F16) shrink = shrink * v_shrink;
    const StripHalves weights = StripHalves(scores);
    [[unroll]] for (uint p = 0; p < PARTS; ++p) {
        coopmat<float16_t, SCOPE, KEYS, KEYS, gl_MatrixUseB> b;
        coopMatLoad(b, kv_tile, V_FIRST + p * (KEYS / 8), PITCH, gl_CooperativeMatrixLayoutRowMajor);
        total[p] = coopMatMulAdd(weights, b, total[p] * shrink);
    }
    return next;
}

void main() {
    const uint tiles = (push.tokens * (push.heads / push.kv_heads) + ROWS - 1) / ROWS;
    const uint part = group_index() % push.splits, tile = group_index() / push.splits / push.kv_heads;
    const uint kv_head = group_index() / push.splits % push.kv_heads;
    if (tile >= tiles) return;
    const uint row0 = tile * ROWS;
    share_rows(row0, kv_head);
    load_queries(row0, kv_head);
    for (uint r = gl_LocalInvocationID.x; r < ROWS; r += gl_WorkGroupSize.x)
        row_start[r] = query_power(r) * (push.scale * LOG2_E);
    load_rows(q_scale);
    [[unroll]] for (uint p = 0; p < PARTS; ++p) {
        coopMatLoad(queries[p], q_tile, strip_row() * PITCH + p * (KEYS / 8), PITCH, gl_CooperativeMatrixLayoutRowMajor);
        total[p] = Strip(0.0);
    }
    for (uint r = gl_LocalInvocationID.x; r < ROWS; r += gl_WorkGroupSize.x)
        row_start[r] = start_most(row_at(row0 + r, kv_head), part) * LOG2_E;
    load_rows(most);
    sums = Strip(0.0);
    coopMatPerElementNV(sums, sums, first_sum, ldexp(start_sum(part), int(WEIGHT_BITS)));
    v_size = 0;
    if (gl_LocalInvocationID.x == 0) cache_size[0] = cache_size[1] = 0;
    // One pass per sequence: rows of others see nothing meanwhile.
    for (uint start = 0; start < ROWS;) {
        const Run run = next_run(start, part);
        start = run.rows.y;
        Keys keys = next_keys(run, run.from);
        if (AHEAD && keys.block < push.blocks) {
            load_ahead(false, keys, kv_head);
            load_ahead(true, keys, kv_head);
        }
        while (keys.block < push.blocks) {
            const Keys next = attend(run, row0, kv_head, keys);
            keys = AHEAD ? next : next_keys(run, keys.step + 1);
        }
    }
    Strip l;
    coopMatReduceNV(l, sums, gl_CooperativeMatrixReduceRowNV, sum_of);
    const float one = KV_TYPE == KV_F16 ? 1.0 : half_power(v_size).x;
    [[unroll]] for (uint p = 0; p < PARTS; ++p) {
        coopMatPerElementNV(total[p], total[p], write_total, l, most, row0, strip_row(), kv_head, part, p * KEYS, one);
    }
}
