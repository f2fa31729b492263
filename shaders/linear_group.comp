// out = W x for few tokens, as linear_vec.comp, by subgroups of which each has one group of 16 rows: eight lanes have its
// pairs of rows, and the lanes beside them the same pairs over other columns, a cell each, so that few rows make many
// subgroups, and PARTS of these share out what columns are left. Of x a lane loads four columns of its cell, which go
// through shared memory to the other seven: where a broadcast is a shuffle (NVIDIA), eight loads of four columns take the
// place of 32 of those. Nothing waits between what a turn loads, and only the end reduces across lanes.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_shuffle : require
#define NATIVE_SUBGROUP
#include "subgroup.glsl"
#define ROW_PLACES
// 1.0, as a value that compilers do not know: then one instruction masks a code and makes it a float where another constant
// would take a second one.
uint one_bits;
#define ONE_BITS one_bits
#include "linear.glsl"

layout(constant_id = LINEAR_TOKENS) const uint TOKENS = 1;
layout(constant_id = LINEAR_PARTS) const uint PARTS = 1;
layout(constant_id = LINEAR_X_QUADS) const uint X_QUADS = 0;
layout(constant_id = LINEAR_IN_STEP) const bool IN_STEP = false;

layout(set = 0, binding = 1) readonly buffer Quads { vec4 x_quads[]; };

const uint SUMS = 2 * TOKENS;                          // [even, odd][token]
const uint CELLS = SG_SIZE / WEIGHT_GROUP_PAIRS;       // that a subgroup takes at a time
const uint QUADS = WEIGHT_BLOCK / 4;
const uint PITCH = QUADS + 1;                          // so that cells lie in different banks
const uint SPAN = WEIGHT_HALVES ? 2 : 4;               // chunks of 8 columns that share a scale

// Of each subgroup, [turn % 2][token][cell].
shared vec4 x_cells[SG_COUNT * 2 * TOKENS * CELLS * PITCH];
// What each subgroup found: [subgroup][sum][pair], and of x^2.
shared float part_sums[PARTS > 1 ? SG_COUNT * SUMS * WEIGHT_GROUP_PAIRS : 1];
shared float part_squares[PARTS > 1 ? SG_COUNT : 1];

uint lane_pair() { return sg_lane() % WEIGHT_GROUP_PAIRS; }
uint lane_cell() { return sg_lane() / WEIGHT_GROUP_PAIRS; }
bool linear_norm() { return TOKENS == 1 && (push.flags & LINEAR_NORM) != 0; }

// Columns 4 quad .. of x[token]; zeros past the last.
vec4 x_quad(uint token, uint quad) {
    const uint first = push.x_first + token * push.x_stride;
    if (X_QUADS != 0 && (!WEIGHT_PLAIN || 4 * quad < push.cols)) return x_quads[first / 4 + quad];
    return vec4(load_x(token, 4 * quad), load_x(token, 4 * quad + 1), load_x(token, 4 * quad + 2), load_x(token, 4 * quad + 3));
}
vec4 norm_quad(uint quad) {
    const uint first = 4 * quad, last = push.cols - 1;
    return vec4(residual[min(first, last)], residual[min(first + 1, last)], residual[min(first + 2, last)],
                residual[min(first + 3, last)]);
}

float across(float value, uint from, uint to) {
    [[unroll]] for (uint apart = from; apart < to; apart *= 2) value += subgroupShuffleXor(value, apart);
    return value;
}
// Sums of the first and of the second 16 columns of this lane's cell, of which it has four.
vec2 halves_of_cell(vec4 own) {
    float half_sum = (own.x + own.y) + (own.z + own.w);
    half_sum += subgroupShuffleXor(half_sum, 1);
    half_sum += subgroupShuffleXor(half_sum, 2);
    const float other = subgroupShuffleXor(half_sum, 4);
    return lane_pair() < QUADS / 2 ? vec2(half_sum, other) : vec2(other, half_sum);
}

float add_products(vec4 a, vec4 b, float sum) {
    return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum))));
}

void main() {
    one_bits = push.cols != 0 ? 0x3F800000u : 0;
    const uint token_tiles = (push.tokens + TOKENS - 1) / TOKENS, token0 = group_index() % token_tiles * TOKENS;
    const uint part = sg_index() % PARTS, group = group_index() / token_tiles * (SG_COUNT / PARTS) + sg_index() / PARTS;
    const uint pairs = (push.rows + 1) / 2, blocks = (push.cols + WEIGHT_BLOCK - 1) / WEIGHT_BLOCK;
    if (group_index() / token_tiles * (SG_COUNT / PARTS) * WEIGHT_GROUP_PAIRS >= pairs) return;

    // Groups past the end compute the last one and store nothing.
    const uint in_rows = min(group, (pairs - 1) / WEIGHT_GROUP_PAIRS), pair = group * WEIGHT_GROUP_PAIRS + lane_pair();
    const Slot even = first_slot(in_rows * push.group_words, in_rows * (blocks / WEIGHT_UNIT_CELLS), lane_pair());
    const Slot slots[2] = Slot[2](even, odd_slot(even));
    float sums[SUMS], squares = 0.0;
    [[unroll]] for (uint i = 0; i < SUMS; ++i) sums[i] = 0.0;

    uint turn = 0;
    for (uint first = part * CELLS; first < blocks; first += PARTS * CELLS) {
        const bool exists = first + lane_cell() < blocks;
        const uint cell = min(first + lane_cell(), blocks - 1);
        Unit units[2];
        uvec4 words[2];
        ChunkWords own[8];
        [[unroll]] for (uint r = 0; r < 2; ++r) {
            units[r] = weight_unit(cell, slots[r]);
            words[r] = weight_cell(cell, slots[r]);
            [[unroll]] for (uint chunk = 0; chunk < 4; ++chunk) own[4 * r + chunk] = weight_chunk(cell, slots[r], chunk);
        }
        const uint quad = QUADS * cell + lane_pair(), stage = (sg_index() * 2 + turn % 2) * TOKENS * CELLS * PITCH;
        vec2 x_sums[TOKENS];
        [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
            vec4 value = x_quad(min(token0 + t, push.tokens - 1), quad);
            if (!exists) value = vec4(0.0);
            if (linear_norm()) {
                squares += dot(value, value);
                value *= norm_quad(quad);
            }
            x_cells[stage + (t * CELLS + lane_cell()) * PITCH + lane_pair()] = value;
            if (WEIGHT_SHIFTED) x_sums[t] = halves_of_cell(value);
        }
        sg_share_memory(IN_STEP);
        ++turn;

        [[unroll]] for (uint span = 0; span < 4; span += SPAN) {
            float span_sums[SUMS];
            [[unroll]] for (uint i = 0; i < SUMS; ++i) span_sums[i] = 0.0;
            [[unroll]] for (uint chunk = span; chunk < span + SPAN; ++chunk) {
                vec4 lo[2], hi[2];
                [[unroll]] for (uint r = 0; r < 2; ++r)
                    weight_codes(cell, slots[r], chunk, words[r], own[4 * r + chunk], lo[r], hi[r]);
                [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
                    const uint at = stage + (t * CELLS + lane_cell()) * PITCH + 2 * chunk;
                    const vec4 x_lo = x_cells[at], x_hi = x_cells[at + 1];
                    [[unroll]] for (uint r = 0; r < 2; ++r) {
                        const uint i = r * TOKENS + t;
                        span_sums[i] = add_products(hi[r], x_hi, add_products(lo[r], x_lo, span_sums[i]));
                    }
                }
            }
            [[unroll]] for (uint r = 0; r < 2; ++r) {
                const Affine affine = weight_affine(cell, span, units[r], words[r]);
                const vec2 line = weight_line(affine, CODE_BYTES);
                [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
                    const uint i = r * TOKENS + t;
                    sums[i] = WEIGHT_PLAIN ? sums[i] + span_sums[i] : fma(line.x, span_sums[i], sums[i]);
                    if (WEIGHT_SHIFTED) {
                        const float x_sum = !WEIGHT_HALVES ? x_sums[t].x + x_sums[t].y : span == 0 ? x_sums[t].x : x_sums[t].y;
                        sums[i] = fma(line.y, x_sum, sums[i]);
                    }
                }
            }
        }
    }

    [[unroll]] for (uint i = 0; i < SUMS; ++i) sums[i] = across(sums[i], WEIGHT_GROUP_PAIRS, SG_SIZE);
    if (linear_norm()) squares = across(squares, 1, SG_SIZE);
    if (PARTS > 1) {
        [[unroll]] for (uint i = 0; i < SUMS; ++i)
            if (lane_cell() == 0) part_sums[(sg_index() * SUMS + i) * WEIGHT_GROUP_PAIRS + lane_pair()] = sums[i];
        if (sg_lane() == 0) part_squares[sg_index()] = squares;
        barrier();
        if (part != 0) return;
        [[unroll]] for (uint i = 0; i < SUMS; ++i) {
            float sum = 0.0;
            [[unroll]] for (uint other = 0; other < PARTS; ++other)
                sum += part_sums[((sg_index() + other) * SUMS + i) * WEIGHT_GROUP_PAIRS + lane_pair()];
            sums[i] = sum;
        }
        squares = 0.0;
        [[unroll]] for (uint other = 0; other < PARTS; ++other) squares += part_squares[sg_index() + other];
    }
    const float scale = linear_norm() ? 1.0 / sqrt(squares / float(push.cols) + push.epsilon) : 1.0;
    const vec2 biases = vec2(load_bias(2 * pair), load_bias(2 * pair + 1));
    [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
        const bool store = lane_cell() == 0 && pair < pairs && token0 + t < push.tokens;
        store_pair(token0 + t, pair, fma(vec2(sums[t], sums[TOKENS + t]), vec2(scale), biases), store);
    }
}
