// out = W x: W [rows, cols] in any weight type, x [tokens, cols] and out [tokens, rows] float.
//
// A lane computes PAIRS pairs of neighbouring rows for TOKENS tokens; the lanes of a subgroup hold
// neighbouring pairs, and subgroups are independent, or PARTS of them share out the columns where rows
// are few. Lanes lie across rows, so that a weight is loaded and unpacked once for all tokens, nothing
// is reduced across lanes, and x is the same in the whole subgroup: with native subgroups each lane
// loads a part of a block of x and broadcasts it (on CPU drivers a load is a gather or a checked branch
// and costs several multiply-adds); without, every lane loads all of it. No barrier if PARTS is 1.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "subgroup.glsl"
#include "grid.glsl"
#include "linear.glsl"

layout(constant_id = LINEAR_TOKENS) const uint TOKENS = 1;
layout(constant_id = LINEAR_PAIRS) const uint PAIRS = 1;
layout(constant_id = LINEAR_PARTS) const uint PARTS = 1;

const uint SUMS = 2 * PAIRS * TOKENS;  // [pair][even, odd][token]

#ifdef NATIVE_SUBGROUP
// Columns k with k % SG_SIZE == lane of the block, [token][k / SG_SIZE].
const uint X_LOADS = SG_SIZE < WEIGHT_BLOCK ? WEIGHT_BLOCK / SG_SIZE : 1;
float x_lane[TOKENS * X_LOADS];
#endif

void load_block(uint token0, uint block) {
#ifdef NATIVE_SUBGROUP
    [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
        const uint token = min(token0 + t, push.tokens - 1);
        [[unroll]] for (uint i = 0; i < X_LOADS; ++i) {
            const uint k = i * SG_SIZE + sg_lane();
            x_lane[t * X_LOADS + i] = k < WEIGHT_BLOCK ? load_x(token, block * WEIGHT_BLOCK + k) : 0.0;
        }
    }
#endif
}

// Columns k to k + 3 of the block.
vec4 block_x(uint token0, uint t, uint block, uint k) {
    vec4 values;
    [[unroll]] for (uint j = 0; j < 4; ++j) {
#ifdef NATIVE_SUBGROUP
        values[j] = sg_broadcast(x_lane[t * X_LOADS + (k + j) / SG_SIZE], (k + j) % SG_SIZE);
#else
        values[j] = load_x(min(token0 + t, push.tokens - 1), block * WEIGHT_BLOCK + k + j);
#endif
    }
    return values;
}

shared float part_sums[PARTS > 1 ? gl_WorkGroupSize.x * SUMS : 1];

// The sums of all parts of a workgroup, in those of part 0.
void join_parts(inout float sums[SUMS]) {
    const uint lane = gl_LocalInvocationID.x;
    [[unroll]] for (uint i = 0; i < SUMS; ++i) part_sums[i * gl_WorkGroupSize.x + lane] = sums[i];
    barrier();
    for (uint part = 1; part < PARTS; ++part) {
        if (sg_index() % PARTS != 0) return;
        const uint other = (sg_index() + part) * SG_SIZE + sg_lane();
        [[unroll]] for (uint i = 0; i < SUMS; ++i) sums[i] += part_sums[i * gl_WorkGroupSize.x + other];
    }
}

void main() {
    const uint token_tiles = (push.tokens + TOKENS - 1) / TOKENS;
    const uint token0 = group_index() % token_tiles * TOKENS;
    const uint unit = group_index() / token_tiles * (SG_COUNT / PARTS) + sg_index() / PARTS;
    const uint first_pair = unit * SG_SIZE * PAIRS + sg_lane();
    const uint pairs = (push.rows + 1) / 2;
    const uint blocks = (push.cols + WEIGHT_BLOCK - 1) / WEIGHT_BLOCK;
    if (group_index() / token_tiles * (SG_COUNT / PARTS) * SG_SIZE * PAIRS >= pairs) return;

    uint cells[PAIRS], slots[PAIRS];  // pairs past the end compute the last one and store nothing
    [[unroll]] for (uint p = 0; p < PAIRS; ++p) {
        const uint pair = min(first_pair + p * SG_SIZE, pairs - 1);
        cells[p] = pair / WEIGHT_GROUP_PAIRS * blocks;
        slots[p] = pair % WEIGHT_GROUP_PAIRS;
    }
    float sums[SUMS];
    [[unroll]] for (uint r = 0; r < 2 * PAIRS; ++r) {
        const uint row = 2 * (first_pair + r / 2 * SG_SIZE) + r % 2;
        const float start = load_bias(PARTS > 1 && sg_index() % PARTS != 0 ? push.rows : row);
        [[unroll]] for (uint t = 0; t < TOKENS; ++t) sums[r * TOKENS + t] = start;
    }

    for (uint block = sg_index() % PARTS; block < blocks; block += PARTS) {
        load_block(token0, block);
        float block_sums[SUMS], x_sums[TOKENS];
        [[unroll]] for (uint i = 0; i < SUMS; ++i) block_sums[i] = 0.0;
        [[unroll]] for (uint t = 0; t < TOKENS; ++t) x_sums[t] = 0.0;

        [[unroll]] for (uint chunk = 0; chunk < 4; ++chunk) {
            vec4 x_lo[TOKENS], x_hi[TOKENS];
            [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
                x_lo[t] = block_x(token0, t, block, 4 * chunk);
                x_hi[t] = block_x(token0, t, block, 4 * chunk + 16);
                if (WEIGHT_SHIFTED) x_sums[t] += dot(x_lo[t] + x_hi[t], vec4(1.0));
            }
            [[unroll]] for (uint r = 0; r < 2 * PAIRS; ++r) {
                vec4 lo, hi;
                weight_codes(cells[r / 2] + block, slots[r / 2] + r % 2 * WEIGHT_GROUP_PAIRS, chunk, lo, hi);
                [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
                    [[unroll]] for (uint j = 0; j < 4; ++j) {
                        block_sums[r * TOKENS + t] = fma(lo[j], x_lo[t][j], block_sums[r * TOKENS + t]);
                        block_sums[r * TOKENS + t] = fma(hi[j], x_hi[t][j], block_sums[r * TOKENS + t]);
                    }
                }
            }
        }
        [[unroll]] for (uint r = 0; r < 2 * PAIRS; ++r) {
            const Affine affine =
                weight_affine(cells[r / 2] + block, slots[r / 2] + r % 2 * WEIGHT_GROUP_PAIRS);
            const float shift = affine.offset - affine.scale * affine.zero;
            [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
                const uint i = r * TOKENS + t;
                if (WEIGHT_PLAIN) {
                    sums[i] += block_sums[i];
                } else {
                    sums[i] = fma(affine.scale, block_sums[i], sums[i]);
                    if (WEIGHT_SHIFTED) sums[i] = fma(shift, x_sums[t], sums[i]);
                }
            }
        }
    }

    if (PARTS > 1) {
        join_parts(sums);
        if (sg_index() % PARTS != 0) return;
    }
    [[unroll]] for (uint p = 0; p < PAIRS; ++p) {
        const uint pair = first_pair + p * SG_SIZE;
        [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
            const uint i = 2 * p * TOKENS + t;
            const bool store = pair < pairs && token0 + t < push.tokens;
            store_pair(token0 + t, pair, vec2(sums[i], sums[i + TOKENS]), store);
        }
    }
}
