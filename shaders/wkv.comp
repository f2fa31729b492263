// RWKV-7's states (RecurrenceKind::wkv), S [key_dim, value_dim] of a head. With a = sigmoid(rate), e = erase k,
// d = exp(bound sigmoid(w)), k' = k (1 + (a - 1) rate_scale) of each key:
//   u = S^T e / |e|^2;  out = (d S)^T r + (k' . r) v - (a e . r) u;  S = d S + k' v^T - a e u^T
// so that e need not be made of length 1, and the lanes of a column meet once a token. Lanes as in scan.comp: one has
// SCAN_KEYS rows of a column of S, SCAN_PARTS lanes the whole column.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "grid.glsl"
#include "numerics.glsl"
#include "recurrence.push.h"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
layout(constant_id = SCAN_PARTS) const uint PARTS = 1;
layout(constant_id = SCAN_KEYS) const uint KEYS = 1;
layout(binding = 1) readonly buffer Rk { float rk[]; };
layout(binding = 2) readonly buffer V { float values[]; };
layout(binding = 3) readonly buffer W { float ws[]; };
layout(binding = 4) readonly buffer Rates { float rates[]; };
layout(binding = 5) readonly buffer Parameters { float parameters[]; };  // erase, rate_scale, bonus, [heads, key_dim] each
layout(binding = 6) buffer State { float state[]; };                     // of each slot, [heads, key_dim, value_dim]
layout(binding = 7) writeonly buffer Out { float result[]; };            // S^T r, then the bonus, [heads, value_dim] each
layout(push_constant) uniform Push { ScanPush push; };
#include "recurrence.glsl"

#ifdef UNROLLED  // GPUs keep S in registers
#define EACH_KEY [[unroll]]
#else
#define EACH_KEY [[dont_unroll]]
#endif

// What all columns take of a token's keys, of three tokens by turns: a lane may begin one while others end the one before.
#define ERASE 0
#define READ 1
#define DECAY 2
#define WRITE 3    // k'
#define ERASED 4   // a e
#define BONUS 5    // bonus r k'
#define NUMBERS 6
const uint MOST_KEYS = PARTS * KEYS, LOADS = (MOST_KEYS + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
shared float held[3 * NUMBERS * MOST_KEYS];
uint held_at(const uint token, const uint key) { return token % 3 * NUMBERS * MOST_KEYS + key; }

float next_r[LOADS], next_k[LOADS], next_w[LOADS], next_rate[LOADS];  // on their way to a lane
float erase[LOADS], rate_scale[LOADS], bonus[LOADS];
uint key_of(const uint load) { return load * gl_WorkGroupSize.x + gl_LocalInvocationID.x; }
void load_keys(const uint head, const uint token) {
    [[unroll]] for (uint n = 0; n < LOADS; ++n) {
        const uint key = head * push.key_dim + min(key_of(n), push.key_dim - 1);
        next_r[n] = rk[push.q_first + token * push.qk_stride + key];
        next_k[n] = rk[push.k_first + token * push.qk_stride + key];
        next_w[n] = ws[push.step_first + token * push.step_stride + key];
        next_rate[n] = rates[push.beta_first + token * push.beta_stride + key];
    }
}
void share_keys(const uint token) {
    [[unroll]] for (uint n = 0; n < LOADS; ++n) {
        const uint key = key_of(n), at = held_at(token, key);
        if (key >= MOST_KEYS) continue;
        const float known = key < push.key_dim ? 1.0 : 0.0;  // others know nothing and learn nothing
        const float a = sigmoid(next_rate[n]), e = known * next_k[n] * erase[n], r = known * next_r[n];
        const float k = known * next_k[n] * (1.0 + (a - 1.0) * rate_scale[n]);
        held[at + ERASE * MOST_KEYS] = e;
        held[at + READ * MOST_KEYS] = r;
        held[at + DECAY * MOST_KEYS] = exp_safe(push.bound * sigmoid(next_w[n]));
        held[at + WRITE * MOST_KEYS] = k;
        held[at + ERASED * MOST_KEYS] = a * e;
        held[at + BONUS * MOST_KEYS] = bonus[n] * r * k;
    }
}

const uint COLUMNS = gl_WorkGroupSize.x / PARTS;
const uint SUMS = 6;
shared float sums[2 * SUMS * gl_WorkGroupSize.x];  // of even tokens and of odd ones
float column_sum(const uint base) {
    float total = 0.0;
    for (uint part = 0; part < PARTS; ++part) total += sums[base + part * COLUMNS + gl_LocalInvocationID.x % COLUMNS];
    return total;
}

void main() {
    const uint blocks = (push.value_dim + COLUMNS - 1) / COLUMNS, group = group_index();
    if (group >= push.pieces * push.heads * blocks) return;
    const Piece piece = piece_at(group / blocks / push.heads);
    const uint head = group / blocks % push.heads;
    const uint column = group % blocks * COLUMNS + gl_LocalInvocationID.x % COLUMNS;
    const uint part = gl_LocalInvocationID.x / COLUMNS, first_key = part * KEYS;
    const uint keys = min(KEYS, push.key_dim - min(first_key, push.key_dim));
    const bool inside = column < push.value_dim;
    const uint cell = push.state_first + (head * push.key_dim + first_key) * push.value_dim + min(column, push.value_dim - 1);

    [[unroll]] for (uint n = 0; n < LOADS; ++n) {
        const uint all = push.heads * push.key_dim, key = head * push.key_dim + min(key_of(n), push.key_dim - 1);
        erase[n] = parameters[key];
        rate_scale[n] = parameters[all + key];
        bonus[n] = parameters[2 * all + key];
    }
    float s[KEYS];
    const uint before = piece.remembered + cell, after = piece.remember + cell;
    EACH_KEY for (uint i = 0; i < KEYS; ++i) s[i] = piece.begins || i >= keys ? 0.0 : state[before + i * push.value_dim];

    const uint end = piece.first + piece.tokens;
    load_keys(head, piece.first);
    share_keys(piece.first);
    barrier();
    for (uint token = piece.first; token < end; ++token) {
        load_keys(head, min(token + 1, end - 1));
        const uint at = held_at(token, first_key), of_head = head * push.value_dim + column;
        const float v = inside ? values[push.v_first + token * push.v_stride + of_head] : 0.0;
        float known = 0.0, length = 0.0, said = 0.0, written = 0.0, erased = 0.0, extra = 0.0;
        EACH_KEY for (uint i = 0; i < KEYS; ++i) {
            const float e = held[at + ERASE * MOST_KEYS + i], r = held[at + READ * MOST_KEYS + i];
            known += s[i] * e;
            length += e * e;
            s[i] *= held[at + DECAY * MOST_KEYS + i];
            said += s[i] * r;
            written += held[at + WRITE * MOST_KEYS + i] * r;
            erased += held[at + ERASED * MOST_KEYS + i] * r;
            extra += held[at + BONUS * MOST_KEYS + i];
        }
        const uint half_of = token % 2 * SUMS * gl_WorkGroupSize.x, mine = half_of + gl_LocalInvocationID.x;
        sums[mine] = known;
        sums[mine + gl_WorkGroupSize.x] = length;
        sums[mine + 2 * gl_WorkGroupSize.x] = said;
        sums[mine + 3 * gl_WorkGroupSize.x] = written;
        sums[mine + 4 * gl_WorkGroupSize.x] = erased;
        sums[mine + 5 * gl_WorkGroupSize.x] = extra;
        share_keys(token + 1);
        barrier();  // once: what the next token writes is the other half, and another turn
        const float u = column_sum(half_of) / max(column_sum(half_of + gl_WorkGroupSize.x), 1e-24);
        said = column_sum(half_of + 2 * gl_WorkGroupSize.x);
        written = column_sum(half_of + 3 * gl_WorkGroupSize.x);
        erased = column_sum(half_of + 4 * gl_WorkGroupSize.x);
        extra = column_sum(half_of + 5 * gl_WorkGroupSize.x);
        if (inside && part == 0) {
            const uint to = push.out_first + token * push.out_stride + of_head;
            result[to] = said + written * v - erased * u;
            result[to + push.heads * push.value_dim] = extra * v;
        }
        EACH_KEY for (uint i = 0; i < KEYS; ++i)
            s[i] += held[at + WRITE * MOST_KEYS + i] * v - held[at + ERASED * MOST_KEYS + i] * u;
    }
    EACH_KEY for (uint i = 0; i < KEYS; ++i)
        if (inside && i < keys) state[after + i * push.value_dim] = s[i];
}
