// out = W x for many tokens by packed float16 multiply-adds, for GPUs that do two of those at a time and have no matrix
// units. x comes as halves from linear_pack.comp. A workgroup of 128 makes a tile of 64 rows x TILE_TOKENS, going through the
// columns a block (32) at a time; both operands pass through shared memory, eight columns in 16 bytes, W dequantised on the
// way. A lane holds 8 rows x LANE_TOKENS: a pair of sums of even and of odd columns as halves for the block, 16 products each,
// and float32 sums of those.
//
// Halves overflow at 65504: a row of W in a block, and a token of x, is divided by a power of two that leaves it below 2^5,
// so that 16 products sum to less than 2^14. The next block is loaded into registers before the products of the current
// one, and made floats after them, whose sizes make those of its rows. Two barriers a block.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define HALF_PAIRS
#include "linear.glsl"
#include "half_operands.glsl"
#include "packed_x.glsl"

layout(local_size_x = LINEAR_TILE_WORKGROUP) in;
layout(constant_id = LINEAR_TOKENS) const uint LANE_TOKENS = 4;

layout(set = 0, binding = 1) readonly buffer Packed { uvec4 x_halves[]; };

const uint LANE_ROWS = 8;
const uint ROW_LANES = LINEAR_TILE_ROWS / LANE_ROWS;  // 8 lanes across rows, 16 across tokens
const uint TOKEN_LANES = LINEAR_TILE_WORKGROUP / ROW_LANES, TILE_TOKENS = TOKEN_LANES * LANE_TOKENS;
const uint CHUNKS = WEIGHT_BLOCK / 8;  // of 8 columns: 16 bytes of halves
const uint PITCH = CHUNKS + 1;         // uvec4s of a row in shared memory; odd, so rows lie on other banks
const uint W_LOADS = LINEAR_TILE_ROWS * CHUNKS / LINEAR_TILE_WORKGROUP;  // chunks that a lane brings
const uint X_LOADS = TILE_TOKENS * CHUNKS / LINEAR_TILE_WORKGROUP;
const float DOWN = 1.0 / 1024.0;       // halves below 2^15 become halves below 2^5

shared uvec4 w_tile[LINEAR_TILE_ROWS * PITCH];    // [row][chunk]
shared uvec4 x_tile[TILE_TOKENS * PITCH];         // [token][chunk]
shared uint w_size[2 * LINEAR_TILE_ROWS];         // [this block, next block][row]: bits of the largest |w|

struct Block {
    WeightChunk w[W_LOADS];
    uvec4 x[2];  // X_LOADS, 2 at most
};

// Rows stand in the tile as in a row group (weight_planes.h): even ones first.
uint w_slot() { return gl_LocalInvocationID.x % LINEAR_TILE_ROWS; }
uint w_chunk() { return gl_LocalInvocationID.x / LINEAR_TILE_ROWS * W_LOADS; }

uint w_cell(const uint row0, const uint block, const uint blocks) {
    return weight_row(row0 + w_slot()) / WEIGHT_GROUP_ROWS * blocks + block;
}

#define X_LANES LINEAR_TILE_WORKGROUP
#define X_ITEMS CHUNKS
uint x_lane() { return gl_LocalInvocationID.x; }
#include "tile_x.glsl"

// A lane brings neighbouring chunks of one row of W, and chunks of x, neighbouring lanes neighbouring ones.
Block load_block(const uint row0, const uint token0, const uint block, const uint blocks) {
    Block b;
    const uint cell = w_cell(row0, block, blocks), slot = w_slot() % WEIGHT_GROUP_ROWS;
    [[unroll]] for (uint i = 0; i < W_LOADS; ++i) b.w[i] = load_weights(cell, slot, w_chunk() + i);
    [[unroll]] for (uint i = 0; i < X_LOADS; ++i) {
        b.x[i] = x_halves[packed_block(item_row(token0, i), block, blocks) * CHUNKS + x_item(i) % CHUNKS];
    }
    return b;
}

void make_floats(const Block b, const uint cell, const uint block, out vec4 w[2 * W_LOADS]) {
    const uint slot = w_slot() % WEIGHT_GROUP_ROWS;
    vec4 most = vec4(0.0);
    [[unroll]] for (uint i = 0; i < W_LOADS; ++i) {
        weight_values(b.w[i], cell, slot, w_chunk() + i, w[2 * i], w[2 * i + 1]);
        most = max(most, max(abs(w[2 * i]), abs(w[2 * i + 1])));
    }
    atomicMax(w_size[block % 2 * LINEAR_TILE_ROWS + w_slot()],
              floatBitsToUint(max(max(most.x, most.y), max(most.z, most.w))));
}

uvec4 scaled_down(const uvec4 halves) {
    uvec4 words;
    [[unroll]] for (uint i = 0; i < 4; ++i) words[i] = packFloat2x16(unpackFloat2x16(halves[i]) * float16_t(DOWN));
    return words;
}

void store_block(vec4 w[2 * W_LOADS], uvec4 x_next[2], const uint block) {
    const float inverse = half_power(w_size[block % 2 * LINEAR_TILE_ROWS + w_slot()]).y * DOWN;
    [[unroll]] for (uint i = 0; i < W_LOADS; ++i) {
        w_tile[w_slot() * PITCH + w_chunk() + i] = packed_halves(w[2 * i] * inverse, w[2 * i + 1] * inverse);
    }
    [[unroll]] for (uint i = 0; i < X_LOADS; ++i) {
        const uint item = x_item(i);
        x_tile[item / CHUNKS * PITCH + item % CHUNKS] = scaled_down(x_next[i]);
    }
}

void main() {
    const Work work = work_of(LINEAR_TILE_ROWS, TILE_TOKENS);
    if (work.idle) return;
    const uint lane_row = gl_LocalInvocationID.x % ROW_LANES, lane_token = gl_LocalInvocationID.x / ROW_LANES;

    float sums[LANE_ROWS * LANE_TOKENS];  // [row][token]
    [[unroll]] for (uint i = 0; i < LANE_ROWS * LANE_TOKENS; ++i) sums[i] = 0.0;
    w_size[gl_LocalInvocationID.x] = 0;
    barrier();
    find_x(work.token0);
    Block next = load_block(work.row0, work.token0, work.from, work.blocks);
    for (uint block = work.from; block < work.to; ++block) {
        vec4 w[2 * W_LOADS];
        make_floats(next, w_cell(work.row0, block, work.blocks), block, w);
        barrier();
        store_block(w, next.x, block);
        float powers[LANE_ROWS];
        [[unroll]] for (uint r = 0; r < LANE_ROWS; ++r) {
            powers[r] = half_power(w_size[block % 2 * LINEAR_TILE_ROWS + lane_row + r * ROW_LANES]).x;
        }
        barrier();
        if (gl_LocalInvocationID.x < LINEAR_TILE_ROWS)
            w_size[block % 2 * LINEAR_TILE_ROWS + gl_LocalInvocationID.x] = 0;
        next = load_block(work.row0, work.token0, min(block + 1, work.to - 1), work.blocks);
        f16vec2 halves[LANE_ROWS * LANE_TOKENS];
        [[unroll]] for (uint i = 0; i < LANE_ROWS * LANE_TOKENS; ++i) halves[i] = f16vec2(0.0);
        [[dont_unroll]] for (uint chunk = 0; chunk < CHUNKS; ++chunk) {
            uvec4 b[LANE_TOKENS];
            [[unroll]] for (uint t = 0; t < LANE_TOKENS; ++t) b[t] = x_tile[(lane_token + t * TOKEN_LANES) * PITCH + chunk];
            [[unroll]] for (uint r = 0; r < LANE_ROWS; ++r) {
                const uvec4 a = w_tile[(lane_row + r * ROW_LANES) * PITCH + chunk];
                [[unroll]] for (uint t = 0; t < LANE_TOKENS; ++t) {
                    [[unroll]] for (uint k = 0; k < 4; ++k) {
                        const uint i = r * LANE_TOKENS + t;
                        halves[i] = fma(unpackFloat2x16(a[k]), unpackFloat2x16(b[t][k]), halves[i]);
                    }
                }
            }
        }
        [[unroll]] for (uint r = 0; r < LANE_ROWS; ++r) {
            [[unroll]] for (uint t = 0; t < LANE_TOKENS; ++t) {
                const uint i = r * LANE_TOKENS + t;
                sums[i] = fma(powers[r], float(halves[i].x), sums[i]);
                sums[i] = fma(powers[r], float(halves[i].y), sums[i]);
            }
        }
    }

    // Slots of a lane lie ROW_LANES apart: one of even rows, one of odd rows, of each group.
    [[unroll]] for (uint r = 0; r < LANE_ROWS; r += 2) {
        const uint row = work.row0 + r * WEIGHT_GROUP_PAIRS + 2 * lane_row;
        const vec2 start = vec2(load_bias(row), load_bias(row + 1));
        [[unroll]] for (uint t = 0; t < LANE_TOKENS; ++t) {
            const uint token = work.token0 + lane_token + t * TOKEN_LANES;
            const float power = x[push.x_first + x_row(min(token, push.tokens - 1))] / (DOWN * DOWN);
            store_pair(token, row / 2, start + power * vec2(sums[r * LANE_TOKENS + t], sums[(r + 1) * LANE_TOKENS + t]),
                       has_row(row) && has_token(token));
        }
    }
}
