// What a head remembers, S [key_dim, value_dim], from token to token (RecurrenceKind), and what it says of it. A lane
// has SCAN_KEYS rows of one column of S, SCAN_PARTS lanes the whole column. With d = softplus(step), a = exp(decay d):
//   u = b (v - a S^T k), b = sigmoid(beta); or u = d v;  out = a S^T q + (k . q) u + skip v;  S = a S + k u^T
// (by column a is of a cell, by key of a row, d being the step, and S decays first; bounded, a = exp(bound sigmoid(-decay step)))
// so that the lanes of a column meet once a token, over S^T k, S^T q and k . q.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "grid.glsl"
#include "numerics.glsl"
#include "recurrence.push.h"
#ifdef NATIVE_SUBGROUP
#include "subgroup.glsl"
#else
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
#endif

layout(constant_id = SCAN_PARTS) const uint PARTS = 1;
layout(constant_id = SCAN_KEYS) const uint KEYS = 1;
layout(constant_id = SCAN_DELTA) const bool DELTA = false;
layout(constant_id = SCAN_BY_COLUMN) const bool BY_COLUMN = false;
layout(constant_id = SCAN_FIXED) const bool FIXED = false;
layout(constant_id = SCAN_BY_KEY) const uint DECAYS_OF_KEYS = 0;
const bool BY_KEY = DECAYS_OF_KEYS != 0, BOUNDED = DECAYS_OF_KEYS == SCAN_BOUNDED;
layout(binding = 1) readonly buffer Qk { float qk[]; };
layout(binding = 2) readonly buffer V { float values[]; };
layout(binding = 3) readonly buffer Steps { float steps[]; };
layout(binding = 4) readonly buffer Betas { float betas[]; };            // of a state space, any buffer
// Decay, steps' bias, skip, [heads] each; by column [value_dim, key_dim], and [value_dim] each; by key decay alone.
layout(binding = 5) readonly buffer Parameters { float parameters[]; };
layout(binding = 6) buffer State { float state[]; };                     // of each slot, last, [heads, key_dim, value_dim]
layout(binding = 7) writeonly buffer Out { float result[]; };
layout(push_constant) uniform Push { ScanPush push; };
#include "recurrence.glsl"

layout(constant_id = SCAN_WHOLE) const bool WHOLE = false;
bool is_key(const uint i, const uint keys) { return WHOLE ? i < KEYS : i < keys; }

#ifdef UNROLLED  // GPUs keep S in registers
#define EACH_KEY [[unroll]]
#else
#define EACH_KEY [[dont_unroll]]
#endif

#ifdef NATIVE_SUBGROUP
// A lane loads one of SG_SIZE keys, which all take from it: CPU drivers load lane by lane.
#define KEYS_AT_ONCE SG_SIZE
#define LOADED(held, from, row, i, keys) (is_key((i) + sg_lane(), keys) ? from[row + (i) + sg_lane()] : 0.0)
#define OF_KEY(values, i) sg_broadcast(values, i)
#else
#define KEYS_AT_ONCE 1
#define LOADED(held, from, row, i, keys) (AHEAD ? ahead[held + (i)] : is_key(i, keys) ? from[row + (i)] : 0.0)
#define OF_KEY(values, i) values
#endif

float decay_of_key(const float decay, const float step) {
    return exp_safe(BOUNDED ? push.bound * sigmoid(-decay * step) : decay * step);
}

// Where lanes meet once a token anyway, they share out what all columns take of it: k, q and what keys decay by, loaded
// while the token before is computed: [k, q, decays][MOST_KEYS] of three tokens by turns, since a lane may begin one while others
// end the one before, whose k they take again.
const bool AHEAD = PARTS > 1;
const uint MOST_KEYS = PARTS * KEYS, LOADS = (MOST_KEYS + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
shared float ahead[AHEAD ? 9 * MOST_KEYS : 1];
float next_k[LOADS], next_q[LOADS], next_step[LOADS];  // on their way to a lane
uint key_of(const uint load) { return load * gl_WorkGroupSize.x + gl_LocalInvocationID.x; }
void load_keys(const uint k_head, const uint q_head, const uint steps_of_head, const uint token) {
    [[unroll]] for (uint n = 0; n < LOADS; ++n) {
        const uint key = min(key_of(n), push.key_dim - 1), row = token * push.qk_stride + key;
        next_k[n] = qk[k_head + row];
        next_q[n] = qk[q_head + row];
        next_step[n] = BY_KEY ? steps[steps_of_head + token * push.step_stride + key] : 0.0;
    }
}
void share_keys(const float decay, const uint token) {
    [[unroll]] for (uint n = 0; n < LOADS; ++n) {
        const uint key = key_of(n), at = token % 3 * 3 * MOST_KEYS + key;
        if (key >= MOST_KEYS) continue;
        const bool exists = key < push.key_dim;  // others know nothing and learn nothing
        ahead[at] = exists ? next_k[n] : 0.0;
        ahead[at + MOST_KEYS] = exists ? next_q[n] : 0.0;
        if (BY_KEY) ahead[at + 2 * MOST_KEYS] = decay_of_key(decay, next_step[n]);
    }
}

const uint COLUMNS = gl_WorkGroupSize.x / PARTS;
shared vec3 sums[2 * gl_WorkGroupSize.x];  // of even tokens and of odd ones

vec3 column_sum(const vec3 mine, const uint token) {
    if (PARTS == 1) return mine;
    const uint base = token % 2 * gl_WorkGroupSize.x;
    sums[base + gl_LocalInvocationID.x] = mine;
    barrier();  // once: what the next token writes is the other half
    vec3 total = vec3(0.0);
    for (uint part = 0; part < PARTS; ++part) total += sums[base + part * COLUMNS + gl_LocalInvocationID.x % COLUMNS];
    return total;
}

void main() {
    const uint blocks = (push.value_dim + COLUMNS - 1) / COLUMNS, group = group_index();
    if (group >= push.pieces * push.heads * blocks) return;
    const Piece piece = piece_at(group / blocks / push.heads);
    const uint head = group / blocks % push.heads;
    const uint column = group % blocks * COLUMNS + gl_LocalInvocationID.x % COLUMNS;
    // The same for all lanes, or for those of a subgroup: CPU drivers load once what they know is.
    const uint part = PARTS == 1 ? 0 : gl_LocalInvocationID.x / COLUMNS, first_key = part * KEYS;
    const uint keys = min(KEYS, push.key_dim - min(first_key, push.key_dim));
    const bool inside = column < push.value_dim;
    const uint shared_keys = push.tiled != 0 ? head % push.groups : head / (push.heads / push.groups);
    const uint q_head = push.q_first + shared_keys * push.key_dim, k_head = push.k_first + shared_keys * push.key_dim;
    const uint cell = push.state_first + (head * push.key_dim + first_key) * push.value_dim + min(column, push.value_dim - 1);
    const uint of = BY_COLUMN ? min(column, push.value_dim - 1) : head, ofs = BY_COLUMN ? push.value_dim : push.heads;
    const uint decay = BY_COLUMN ? of * push.key_dim + first_key : of, biases = BY_COLUMN ? ofs * push.key_dim : ofs;
    float step_bias = 0.0, skip = 0.0;
    if (!BY_KEY && !FIXED) {
        step_bias = parameters[biases + of];
        skip = parameters[biases + ofs + of];
    }

    float s[KEYS], decays[BY_COLUMN ? KEYS : 1];
    const uint before = piece.remembered + cell, after = piece.remember + cell;
    EACH_KEY for (uint i = 0; i < KEYS; ++i) s[i] = piece.begins || !is_key(i, keys) ? 0.0 : state[before + i * push.value_dim];
    EACH_KEY for (uint i = 0; i < (BY_COLUMN ? KEYS : 1); ++i) decays[i] = is_key(i, keys) ? parameters[decay + i] : 0.0;

    const uint steps_of_head = push.step_first + head * push.key_dim, end = piece.first + piece.tokens;
    const float decay_of_head = parameters[head];
    if (AHEAD) {
        load_keys(k_head, q_head, steps_of_head, piece.first);
        share_keys(decay_of_head, piece.first);
        barrier();
    }
    for (uint token = piece.first; token < end; ++token) {
        if (AHEAD) load_keys(k_head, q_head, steps_of_head, min(token + 1, end - 1));
        const uint q_row = q_head + first_key + token * push.qk_stride, k_row = k_head + first_key + token * push.qk_stride;
        const uint held = token % 3 * 3 * MOST_KEYS + first_key;
        const float v = inside ? values[push.v_first + token * push.v_stride + head * push.value_dim + column] : 0.0;
        const uint step_row = push.step_first + token * push.step_stride;
        float size = 1.0;
        if (!BY_KEY && !FIXED) size = activated(steps[step_row + of] + step_bias, ACTIVATION_SOFTPLUS);
        const float a = BY_COLUMN || BY_KEY ? 1.0 : exp_safe(decays[0] * size);
        if (BY_COLUMN) EACH_KEY for (uint i = 0; i < KEYS; ++i) s[i] *= exp_safe(decays[i] * size);
        if (AHEAD ? BY_KEY : false)
            EACH_KEY for (uint i = 0; i < KEYS; ++i) s[i] *= ahead[held + 2 * MOST_KEYS + i];
        else if (BY_KEY) {
            const uint row = steps_of_head + token * push.step_stride + first_key;
            EACH_KEY for (uint first = 0; first < KEYS; first += KEYS_AT_ONCE) {
                const float all = decay_of_key(decay_of_head, LOADED(held, steps, row, first, keys));
                [[unroll]] for (uint i = 0; i < KEYS_AT_ONCE; ++i) {
                    const float of_key = OF_KEY(all, i);
                    if (first + i < KEYS) s[first + i] *= of_key;
                }
            }
        }
        vec3 sum = vec3(0.0);  // S^T k, S^T q, k . q
        EACH_KEY for (uint first = 0; first < KEYS; first += KEYS_AT_ONCE) {
            const float all_k = LOADED(held, qk, k_row, first, keys),
                        all_q = LOADED(held + MOST_KEYS, qk, q_row, first, keys);
            [[unroll]] for (uint i = 0; i < KEYS_AT_ONCE; ++i) {
                const float k = OF_KEY(all_k, i), q = OF_KEY(all_q, i);
                if (first + i < KEYS) sum += vec3(s[first + i] * k, s[first + i] * q, k * q);
            }
        }
        if (AHEAD) share_keys(decay_of_head, token + 1);  // column_sum() waits for it
        sum = column_sum(sum, token) * vec3(a * push.k_scale, a * push.q_scale, push.k_scale * push.q_scale);
        const float u = DELTA ? sigmoid(betas[push.beta_first + token * push.beta_stride + head]) * (v - sum.x) : size * v;
        if (inside && part == 0)
            result[push.out_first + token * push.out_stride + head * push.value_dim + column] =
                sum.y + sum.z * u + skip * v;
        EACH_KEY for (uint first = 0; first < KEYS; first += KEYS_AT_ONCE) {
            const float all_k = LOADED(held, qk, k_row, first, keys);
            [[unroll]] for (uint i = 0; i < KEYS_AT_ONCE; ++i) {
                const float k = OF_KEY(all_k, i);
                if (first + i < KEYS) s[first + i] = a * s[first + i] + k * push.k_scale * u;
            }
        }
    }
    EACH_KEY for (uint i = 0; i < KEYS; ++i)
        if (inside && is_key(i, keys)) state[after + i * push.value_dim] = s[i];
}
