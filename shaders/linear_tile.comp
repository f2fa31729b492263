// out = W x for many tokens on GPUs: a workgroup of 128 makes a tile of 64 rows x 64 tokens, going through
// the columns half a block (16) at a time; both tiles pass through shared memory, W dequantised on the
// way (64 x 16 floats each, 8.5 KiB in all). A lane holds 8 rows x 4 tokens in registers.
//
// Barriers: one before the tiles are overwritten, one before they are read.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "linear.glsl"

layout(local_size_x = LINEAR_TILE_WORKGROUP) in;

const uint STEP = 16;                            // columns, two chunks
const uint PITCH = LINEAR_TILE_ROWS + 4;         // keeps vec4 alignment; neighbouring columns on other banks
const uint LANE_ROWS = 8, LANE_TOKENS = 4;
const uint ROW_LANES = LINEAR_TILE_ROWS / LANE_ROWS;  // 8 lanes across rows, 16 across tokens

shared float w_tile[STEP * PITCH];  // [column][row]
shared float x_tile[STEP * PITCH];  // [column][token]

// 64 rows x 2 chunks of 8 columns: one chunk a lane. `half_block` counts half blocks along the columns.
void load_w(const uint row0, const uint half_block, const uint blocks) {
    const uint tile_row = gl_LocalInvocationID.x % LINEAR_TILE_ROWS, part = gl_LocalInvocationID.x / LINEAR_TILE_ROWS;
    const uint row = weight_row(row0 + tile_row);
    const uint cell = row / WEIGHT_GROUP_ROWS * blocks + half_block / 2;
    const uint slot = slot_of_row(row);
    vec4 lo, hi;
    const uint chunk = half_block % 2 * 2 + part;
    weight_values(cell, slot, chunk, lo, hi);
    [[unroll]] for (uint j = 0; j < 4; ++j) {
        w_tile[(8 * part + j) * PITCH + tile_row] = lo[j];
        w_tile[(8 * part + 4 + j) * PITCH + tile_row] = hi[j];
    }
}

// 64 tokens x 16 columns: neighbouring lanes take neighbouring columns.
void load_x_tile(const uint token0, const uint half_block) {
    const uint column = gl_LocalInvocationID.x % STEP;
    const uint k = half_block * STEP + column;
    for (uint t = gl_LocalInvocationID.x / STEP; t < LINEAR_TILE_TOKENS; t += LINEAR_TILE_WORKGROUP / STEP) {
        x_tile[column * PITCH + t] = load_x(x_word(min(token0 + t, push.tokens - 1)), k);
    }
}

void main() {
    const Work work = work_of(LINEAR_TILE_ROWS, LINEAR_TILE_TOKENS);
    if (work.idle) return;
    const uint lane_row = gl_LocalInvocationID.x % ROW_LANES * LANE_ROWS;
    const uint lane_token = gl_LocalInvocationID.x / ROW_LANES * LANE_TOKENS;

    float sums[LANE_ROWS * LANE_TOKENS];  // [row][token]
    [[unroll]] for (uint i = 0; i < LANE_ROWS * LANE_TOKENS; ++i) sums[i] = 0.0;
    for (uint half_block = 2 * work.from; half_block < 2 * work.to; ++half_block) {
        barrier();
        load_w(work.row0, half_block, work.blocks);
        load_x_tile(work.token0, half_block);
        barrier();
        for (uint column = 0; column < STEP; ++column) {
            float w[LANE_ROWS];
            [[unroll]] for (uint r = 0; r < LANE_ROWS; ++r) w[r] = w_tile[column * PITCH + lane_row + r];
            [[unroll]] for (uint t = 0; t < LANE_TOKENS; ++t) {
                const float value = x_tile[column * PITCH + lane_token + t];
                [[unroll]] for (uint r = 0; r < LANE_ROWS; ++r) {
                    sums[r * LANE_TOKENS + t] = fma(w[r], value, sums[r * LANE_TOKENS + t]);
                }
            }
        }
    }

    [[unroll]] for (uint r = 0; r < LANE_ROWS; r += 2) {
        const uint row = work.row0 + lane_row + r;
        const vec2 start = vec2(load_bias(row), load_bias(row + 1));
        [[unroll]] for (uint t = 0; t < LANE_TOKENS; ++t) {
            const uint token = work.token0 + lane_token + t;
            store_pair(token, row / 2, start + vec2(sums[r * LANE_TOKENS + t], sums[(r + 1) * LANE_TOKENS + t]),
                       has_row(row) && has_token(token));
        }
    }
}
