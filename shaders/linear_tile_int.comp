// out = W x for many tokens by integer dot products (SPV_KHR_integer_dot_product), for weights whose codes are small
// integers: x comes as bytes from linear_pack_int.comp. A workgroup of 128 makes a tile of 64 rows x TILE_TOKENS,
// going through the columns a block (32) at a time; both operands pass through shared memory, four columns a word,
// W's beside the scale and shift of each row (dequant.glsl):
//   sum w x = scale step sum q b + shift step sum b,   q codes, b bytes and `step` of x.
// A lane holds 8 rows x LANE_TOKENS sums. The next block is loaded into registers before the products of the current
// one and made of its words after them. Two barriers a block.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_integer_dot_product : require
#define WEIGHT_INTS
#include "linear.glsl"

layout(local_size_x = LINEAR_TILE_WORKGROUP) in;
layout(constant_id = LINEAR_TOKENS) const uint LANE_TOKENS = 4;

const uint WORDS = WEIGHT_BLOCK / 4;
const uint LANE_ROWS = 8;
const uint ROW_LANES = LINEAR_TILE_ROWS / LANE_ROWS;  // 8 lanes across rows, 16 across tokens
const uint TILE_TOKENS = LINEAR_TILE_WORKGROUP / ROW_LANES * LANE_TOKENS;
const uint ROW_PITCH = LINEAR_TILE_ROWS + 4, TOKEN_PITCH = TILE_TOKENS + 4;
const uint SPANS = WEIGHT_HALVES ? 2 : 1;                          // of a block, with a scale each
const uint X_LOADS = TILE_TOKENS * WORDS / LINEAR_TILE_WORKGROUP;  // words of x a lane brings, 4 at most

shared uint w_tile[WORDS * ROW_PITCH];           // [word][row]
shared uint x_tile[WORDS * TOKEN_PITCH];         // [word][token]
shared vec2 w_side[2 * LINEAR_TILE_ROWS];        // [half][row]: scale, shift
shared float x_steps[TILE_TOKENS];
shared uint x_sums[TILE_TOKENS];

struct Block {
    WeightChunk w[2];  // of a row
    uint x[4];
    float x_step;
    uint x_sums;
};

#define X_LANES LINEAR_TILE_WORKGROUP
#define X_ITEMS WORDS
uint x_lane() { return gl_LocalInvocationID.x; }
#include "tile_x.glsl"
uint side_row;  // of the token whose side a lane brings

// A lane brings chunks 2 part and 2 part + 1 of one row, and words of x, neighbouring lanes neighbouring words.
void w_place(const uint row0, const uint block, const uint blocks, out uint cell, out uint slot, out uint chunk) {
    const uint row = weight_row(row0 + gl_LocalInvocationID.x % LINEAR_TILE_ROWS);
    cell = row / WEIGHT_GROUP_ROWS * blocks + block;
    slot = slot_of_row(row);
    chunk = gl_LocalInvocationID.x / LINEAR_TILE_ROWS * 2;
}
Block load_block(const uint row0, const uint token0, const uint block, const uint blocks) {
    Block b;
    const uint lane = gl_LocalInvocationID.x;
    uint cell, slot, chunk;
    w_place(row0, block, blocks, cell, slot, chunk);
    [[unroll]] for (uint i = 0; i < 2; ++i) b.w[i] = load_weights(cell, slot, chunk + i);
    [[unroll]] for (uint i = 0; i < X_LOADS; ++i) {
        b.x[i] = x_words[(item_row(token0, i) * blocks + block) * WORDS + x_item(i) % WORDS];
    }
    const uint side = x_side(SORTED ? side_row : min(token0 + lane % TILE_TOKENS, push.tokens - 1), block, blocks);
    b.x_step = x[side];
    b.x_sums = x_words[side + 1];
    return b;
}

void store_block(const Block b, const uint row0, const uint block, const uint blocks) {
    const uint lane = gl_LocalInvocationID.x, row = lane % LINEAR_TILE_ROWS;
    uint cell, slot, chunk;
    w_place(row0, block, blocks, cell, slot, chunk);
    [[unroll]] for (uint i = 0; i < 2; ++i) {
        uint lo, hi;
        weight_codes(cell, slot, chunk + i, b.w[i].words, b.w[i].own, lo, hi);
        w_tile[2 * (chunk + i) * ROW_PITCH + row] = lo;
        w_tile[(2 * (chunk + i) + 1) * ROW_PITCH + row] = hi;
    }
    w_side[chunk / 2 * LINEAR_TILE_ROWS + row] = weight_line(weight_affine(cell, chunk, b.w[0].unit, b.w[0].words), true);
    [[unroll]] for (uint i = 0; i < X_LOADS; ++i) {
        const uint item = x_item(i);
        x_tile[item % WORDS * TOKEN_PITCH + item / WORDS] = b.x[i];
    }
    if (lane >= TILE_TOKENS) return;
    x_steps[lane] = b.x_step;
    x_sums[lane] = b.x_sums;
}

void main() {
    const Work work = work_of(LINEAR_TILE_ROWS, TILE_TOKENS);
    if (work.idle) return;
    const uint lane_row = gl_LocalInvocationID.x % ROW_LANES * LANE_ROWS;
    const uint lane_token = gl_LocalInvocationID.x / ROW_LANES * LANE_TOKENS;

    float sums[LANE_ROWS * LANE_TOKENS];  // [row][token]
    [[unroll]] for (uint i = 0; i < LANE_ROWS * LANE_TOKENS; ++i) sums[i] = 0.0;
    find_x(work.token0);
    if (SORTED) side_row = x_row(work.token0 + gl_LocalInvocationID.x % TILE_TOKENS);
    Block next = load_block(work.row0, work.token0, work.from, work.blocks);
    for (uint block = work.from; block < work.to; ++block) {
        barrier();
        store_block(next, work.row0, block, work.blocks);
        barrier();
        next = load_block(work.row0, work.token0, min(block + 1, work.to - 1), work.blocks);
        [[unroll]] for (uint span = 0; span < SPANS; ++span) {
            int dots[LANE_ROWS * LANE_TOKENS];
            [[unroll]] for (uint i = 0; i < LANE_ROWS * LANE_TOKENS; ++i) dots[i] = 0;
            [[unroll]] for (uint k = 0; k < WORDS / SPANS; ++k) {
                const uint word = span * (WORDS / SPANS) + k;
                int w[LANE_ROWS];
                [[unroll]] for (uint r = 0; r < LANE_ROWS; ++r) w[r] = int(w_tile[word * ROW_PITCH + lane_row + r]);
                [[unroll]] for (uint t = 0; t < LANE_TOKENS; ++t) {
                    const int value = int(x_tile[word * TOKEN_PITCH + lane_token + t]);
                    [[unroll]] for (uint r = 0; r < LANE_ROWS; ++r) {
                        dots[r * LANE_TOKENS + t] += dotPacked4x8EXT(w[r], value);
                    }
                }
            }
            [[unroll]] for (uint t = 0; t < LANE_TOKENS; ++t) {
                const float step = x_steps[lane_token + t];
                const float sum = step * float(bytes_sum(x_sums[lane_token + t], span));
                [[unroll]] for (uint r = 0; r < LANE_ROWS; ++r) {
                    const vec2 affine = w_side[span * LINEAR_TILE_ROWS + lane_row + r];
                    const uint i = r * LANE_TOKENS + t;
                    sums[i] = fma(affine.x * step, float(dots[i]), sums[i]);
                    if (WEIGHT_SHIFTED) sums[i] = fma(affine.y, sum, sums[i]);
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
