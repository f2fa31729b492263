// out = W x for few tokens, as linear_vec.comp, by subgroups of which each has one group of 16 rows: four lanes have four
// of them each, whose words they load as one, and the lanes beside them the same rows over other columns, a cell each, so
// that few rows make many subgroups, and PARTS of these share out what columns are left. Of x a lane loads eight columns
// of its cell, which go through shared memory to the other three, since a broadcast is a shuffle on some GPUs (NVIDIA's).
// Nothing waits between what a turn loads, and only the end reduces across lanes.
//
// -DWEIGHT_INTS multiplies integers: x becomes bytes on the way (byte_operands.glsl), or with -DWIDE_X two of them, which are
// multiplied one by one and are more exact than halves.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_shuffle : require
#define NATIVE_SUBGROUP
#include "subgroup.glsl"
#define ROW_QUADS
#ifdef WEIGHT_INTS
#extension GL_EXT_integer_dot_product : require
#define CODE_BYTES true
#include "byte_operands.glsl"
#else
#define HALVES
#define HIDES_ONE
#define STARTS_WEIGHTS
#endif
#define HEADS
layout(set = 0, binding = 0) restrict readonly buffer WeightQuads { uvec4 weight_quads[]; };
#include "linear.glsl"

layout(constant_id = LINEAR_TOKENS) const uint TOKENS = 1;
layout(constant_id = LINEAR_PARTS) const uint PARTS = 1;
layout(constant_id = LINEAR_X_QUADS) const uint X_QUADS = 0;
layout(constant_id = LINEAR_IN_STEP) const bool IN_STEP = false;
layout(constant_id = LINEAR_NORMS) const bool NORMS = false;

layout(set = 0, binding = 1) readonly buffer Quads { vec4 x_quads[]; };
layout(set = 0, binding = 3) readonly buffer NormQuads { vec4 norm_quads[]; };

const uint ROWS = 4;                            // of a lane
const uint LANES = WEIGHT_GROUP_ROWS / ROWS;    // of a cell
const uint SUMS = ROWS * TOKENS;                // [row][token]
const uint CELLS = SG_SIZE / LANES;             // that a subgroup takes at a time
const uint SPAN = WEIGHT_HALVES ? 2 : 4;        // chunks of 8 columns that share a scale
const bool LOADS_ALL = WEIGHT_CHUNK_WORDS <= 4; // of a turn at once; of floats that would be 128 words

// Of each subgroup, [token][cell]; chunks, and one beside, so that cells lie in different banks.
#ifdef WEIGHT_INTS
const uint PITCH = 4 + 1;
#ifdef WIDE_X
#define X_CHUNK uvec4
#define X_SUM ivec2
X_SUM add_products(const uint a, const X_BYTES x, const X_SUM sum) {
    return X_SUM(add_products(a, x.x, sum.x), add_products(a, x.y, sum.y));
}
float whole_sum(const X_SUM sum) { return float(256 * sum.x + sum.y); }
#else
#define X_CHUNK uvec2
#define X_SUM SUM
float whole_sum(const X_SUM sum) { return float(sum); }
#endif
#define X_CODES X_BYTES
shared X_CHUNK x_cells[SG_COUNT * TOKENS * CELLS * PITCH];
void share_chunk(const uint cell_at, const uint chunk, const X_CODES lo, const X_CODES hi) {
    x_cells[cell_at + chunk] = X_CHUNK(lo, hi);
}
void shared_chunk(const uint cell_at, const uint chunk, out X_CODES lo, out X_CODES hi) {
    const X_CHUNK both = x_cells[cell_at + chunk];
#ifdef WIDE_X
    lo = both.xy;
    hi = both.zw;
#else
    lo = both.x;
    hi = both.y;
#endif
}
#else
#define X_CODES vec4
#define X_SUM SUM
float whole_sum(const X_SUM sum) { return sum; }
const uint PITCH = 8 + 1;
shared vec4 x_cells[SG_COUNT * TOKENS * CELLS * PITCH];
void share_chunk(const uint cell_at, const uint chunk, const vec4 lo, const vec4 hi) {
    x_cells[cell_at + 2 * chunk] = lo;
    x_cells[cell_at + 2 * chunk + 1] = hi;
}
void shared_chunk(const uint cell_at, const uint chunk, out vec4 lo, out vec4 hi) {
    lo = x_cells[cell_at + 2 * chunk];
    hi = x_cells[cell_at + 2 * chunk + 1];
}
#endif
// What each subgroup found: [subgroup][token][16 rows, the even ones first], and of x^2.
shared float part_sums[SG_COUNT * TOKENS * WEIGHT_GROUP_ROWS];
shared float part_squares[SG_COUNT];

uint lane_of_cell() { return sg_lane() % LANES; }
uint lane_cell() { return sg_lane() / LANES; }

// Columns 4 quad .. of the row of x that begins with word `row`, at whole quads if they do; zeros past the last.
vec4 x_quad(const uint row, const uint quad) {
    if (X_QUADS != 0 && (!WEIGHT_PLAIN || 4 * quad < push.cols)) return x_quads[row / 4 + quad];
    return vec4(load_x(row, 4 * quad), load_x(row, 4 * quad + 1), load_x(row, 4 * quad + 2), load_x(row, 4 * quad + 3));
}
vec4 norm_quad(const uint quad) {
    const uint first = 4 * quad, last = push.cols - 1;
    if (X_QUADS != 0) return norm_quads[min(quad, last / 4)];
    return vec4(residual[min(first, last)], residual[min(first + 1, last)], residual[min(first + 2, last)],
                residual[min(first + 3, last)]);
}

// A lane ends a pair of rows of one token in each turn.
const uint END_TURNS = (TOKENS * WEIGHT_GROUP_PAIRS + SG_SIZE - 1) / SG_SIZE;
uint end_token(const uint turn) { return (turn * SG_SIZE + sg_lane()) / WEIGHT_GROUP_PAIRS; }
uint end_pair(const uint turn) { return (turn * SG_SIZE + sg_lane()) % WEIGHT_GROUP_PAIRS; }
bool ends(const uint token0, const uint turn, const uint pair, const uint pairs) {
    return end_token(turn) < TOKENS && pair < pairs && has_token(token0 + end_token(turn));
}

float across(float value, uint from, uint to) {
    [[unroll]] for (uint apart = from; apart < to; apart *= 2) value += subgroupShuffleXor(value, apart);
    return value;
}
// Sums of the first and of the second 16 columns of this lane's cell, of which it has eight; of all where one scale is theirs.
vec2 sums_of_cell(float own) {
    if (!WEIGHT_HALVES) return vec2(across(own, 1, LANES));
    own = across(own, 1, LANES / 2);
    const float other = subgroupShuffleXor(own, LANES / 2);
    return lane_of_cell() < LANES / 2 ? vec2(own, other) : vec2(other, own);
}

#ifdef WEIGHT_INTS
// Bits of the largest |x|. Where x is no number a norm is none either, else it must count as the largest.
uint largest_of(const vec4 lo, const vec4 hi) {
    if (!NORMS) return max(size_of(lo), size_of(hi));
    const vec4 both = max(abs(lo), abs(hi));
    return floatBitsToUint(max(max(both.x, both.y), max(both.z, both.w)));
}
// Shares eight columns of x, which count for nothing if their cell does not exist; `x_sums`: of what is multiplied
// (sums_of_cell).
void share_x(const uint cell_at, bool exists, vec4 lo, vec4 hi, out float x_step, out vec2 x_sums) {
    uint size = largest_of(lo, hi);
    [[unroll]] for (uint apart = 1; apart < LANES; apart *= 2) size = max(size, subgroupShuffleXor(size, apart));
    const float scale = byte_scale(size);
    const X_CODES lo_bytes = bytes_of_x(lo, scale), hi_bytes = bytes_of_x(hi, scale);
    share_chunk(cell_at, lane_of_cell(), lo_bytes, hi_bytes);
    const float step = byte_step(size);
    x_step = exists ? step : 0.0;
    const uint ones = 0x01010101u;
    const X_SUM sum = add_products(ones, lo_bytes, add_products(ones, hi_bytes, X_SUM(0)));
    if (WEIGHT_SHIFTED) x_sums = x_step * sums_of_cell(whole_sum(sum));
}
#else
void share_x(const uint cell_at, bool exists, vec4 lo, vec4 hi, out float x_step, out vec2 x_sums) {
    if (!exists) lo = hi = vec4(0.0);
    share_chunk(cell_at, lane_of_cell(), lo, CODE_HALVES && WEIGHT_HALF_CODES ? 0.0625 * hi : hi);
    x_step = 1.0;
    const vec4 both = lo + hi;
    if (WEIGHT_SHIFTED) x_sums = sums_of_cell((both.x + both.y) + (both.z + both.w));
}
#endif

void main() {
#ifndef WEIGHT_INTS
    hide_one();
    start_weights();
#endif
    const uint token_tiles = (push.tokens + TOKENS - 1) / TOKENS;
    uint row_tile = group_index(), token0 = 0;
    if (token_tiles > 1) {  // a division takes as long as a load from cache
        token0 = row_tile % token_tiles * TOKENS;
        row_tile /= token_tiles;
    }
    row_tile += first_tile();
    const uint part = sg_index() % PARTS, first_unit = row_tile * (SG_COUNT / PARTS);
    const uint pairs = (push.rows + 1) / 2, blocks = (push.cols + WEIGHT_BLOCK - 1) / WEIGHT_BLOCK;
    uint groups = (pairs - 1) / WEIGHT_GROUP_PAIRS + 1, first_group = 0;
    if (OF_EXPERTS) {  // whole groups each; wraps where the shard begins behind an expert
        if (!choose_expert(token0, TOKENS)) return;
        groups = push.shard_rows / WEIGHT_GROUP_ROWS;
        first_group = expert_row / WEIGHT_GROUP_ROWS - push.first_row / WEIGHT_GROUP_ROWS;
    }
    const bool elsewhere = OF_EXPERTS ? is_elsewhere(first_group + first_unit, SG_COUNT / PARTS, groups) : false;
    if (first_unit * WEIGHT_GROUP_PAIRS >= pairs || elsewhere) return;

    // Groups past the end compute the last one and store nothing.
    const uint own_group = first_unit + sg_index() / PARTS, pair0 = own_group * WEIGHT_GROUP_PAIRS;
    const uint group = min(first_group + own_group, groups - 1);
    const bool here = !OF_EXPERTS || first_group + own_group < groups;
    const Slot slot = first_slot(group * push.group_words, group * (blocks / WEIGHT_UNIT_CELLS), lane_of_cell());
    // What only the end needs is asked for first, that nobody waits for it there.
    vec2 biases[END_TURNS], residuals[END_TURNS];
    HeadPair heads[END_TURNS];
    if (part == 0) {
        [[unroll]] for (uint i = 0; i < END_TURNS; ++i) {
            const uint token = token0 + end_token(i), pair = pair0 + end_pair(i);
            biases[i] = vec2(load_bias(2 * pair), load_bias(2 * pair + 1));
            if (HEADS_END) heads[i] = head_pair(token, pair);
            else residuals[i] = load_residual(token, pair, here && ends(token0, i, pair, pairs));
        }
    }
    float sums[SUMS], squares = 0.0;
    [[unroll]] for (uint i = 0; i < SUMS; ++i) sums[i] = 0.0;

    uint x_rows[TOKENS];
    [[unroll]] for (uint t = 0; t < TOKENS; ++t)
        x_rows[t] = x_word(min(token0 + t, push.tokens - 1));

    const uint stage = (sg_index() * TOKENS * CELLS + lane_cell()) * PITCH;
    for (uint first = part * CELLS; first < blocks; first += PARTS * CELLS) {
        const bool exists = first + lane_cell() < blocks;
        const uint cell = min(first + lane_cell(), blocks - 1);
        // Where it stands in a unit: the same at each turn where turns are whole units.
        const uint in_unit = CELLS % WEIGHT_UNIT_CELLS == 0 ? lane_cell() : cell;
        Unit units[ROWS];
        uvec4 words[ROWS];
        ChunkWords own[4 * ROWS];
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            units[r] = weight_unit(cell, next_slot(slot, r));
            words[r] = weight_cell(cell, next_slot(slot, r));
            [[unroll]] for (uint chunk = 0; chunk < 4 && LOADS_ALL; ++chunk)
                own[4 * r + chunk] = weight_chunk(cell, next_slot(slot, r), chunk);
        }
        const uint quad = WEIGHT_BLOCK / 4 * cell + 2 * lane_of_cell();
        vec4 x_own[2 * TOKENS], norm_lo = vec4(1.0), norm_hi = vec4(1.0);
        [[unroll]] for (uint i = 0; i < 2 * TOKENS; ++i)
            x_own[i] = x_quad(x_rows[i / 2], quad + i % 2);
        if (NORMS) {
            norm_lo = norm_quad(quad);
            norm_hi = norm_quad(quad + 1);
        }
        float x_steps[TOKENS];
        vec2 x_sums[TOKENS];
        [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
            vec4 lo = x_own[2 * t], hi = x_own[2 * t + 1];
            if (NORMS) {
                squares += exists ? dot(lo, lo) + dot(hi, hi) : 0.0;
                lo *= norm_lo;
                hi *= norm_hi;
            }
            share_x(stage + t * CELLS * PITCH, exists, lo, hi, x_steps[t], x_sums[t]);
        }
        sg_share_memory(IN_STEP);

        [[unroll]] for (uint span = 0; span < 4; span += SPAN) {
            X_SUM span_sums[SUMS];
            [[unroll]] for (uint i = 0; i < SUMS; ++i) span_sums[i] = X_SUM(0);
            [[unroll]] for (uint i = 0; i < SPAN; ++i) {  // from 0 on, or Mesa unrolls neither loop
                const uint chunk = span + i;
                CODES lo[ROWS], hi[ROWS];
                [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                    if (!LOADS_ALL) own[4 * r + chunk] = weight_chunk(cell, next_slot(slot, r), chunk);
                    weight_codes(cell, next_slot(slot, r), chunk, words[r], own[4 * r + chunk], lo[r], hi[r]);
                }
                [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
                    X_CODES x_lo, x_hi;
                    shared_chunk(stage + t * CELLS * PITCH, chunk, x_lo, x_hi);
                    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                        const uint at = r * TOKENS + t;
                        span_sums[at] = add_products(hi[r], x_hi, add_products(lo[r], x_lo, span_sums[at]));
                    }
                }
            }
            [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                const vec2 line = weight_line(weight_affine(in_unit, span, units[r], words[r]), CODE_BYTES);
                [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
                    const uint i = r * TOKENS + t;
                    const float sum = whole_sum(span_sums[i]);
                    sums[i] = WEIGHT_PLAIN ? sums[i] + sum : fma(line.x * x_steps[t], sum, sums[i]);
                    if (WEIGHT_SHIFTED) {
                        sums[i] = fma(line.y, span == 0 ? x_sums[t].x : x_sums[t].y, sums[i]);
                    }
                }
            }
        }
        sg_share_memory(IN_STEP);  // before the next turn's x takes the place of this one's
    }

    [[unroll]] for (uint r = 0; r < ROWS; ++r)
        [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
            const float sum = across(sums[r * TOKENS + t], LANES, SG_SIZE);
            if (lane_cell() == 0) part_sums[(sg_index() * TOKENS + t) * WEIGHT_GROUP_ROWS + lane_of_cell() * ROWS + r] = sum;
        }
    if (NORMS) {
        squares = across(squares, 1, SG_SIZE);
        if (sg_lane() == 0) part_squares[sg_index()] = squares;
    }
    if (PARTS > 1) barrier();
    else sg_share_memory(IN_STEP);
    if (part != 0) return;
    squares = 0.0;
    [[unroll]] for (uint other = 0; other < PARTS; ++other) squares += part_squares[sg_index() + other];
    const float scale = !NORMS               ? 1.0
                        : is_finite(squares) ? 1.0 / sqrt(squares / float(push.cols) + push.epsilon)
                                             : uintBitsToFloat(0x7FC00000u);
    [[unroll]] for (uint i = 0; i < END_TURNS; ++i) {
        const uint t = end_token(i), pair = pair0 + end_pair(i);
        vec2 sum = vec2(0.0);
        [[unroll]] for (uint other = 0; other < PARTS; ++other) {
            const uint at = ((sg_index() + other) * TOKENS + min(t, TOKENS - 1)) * WEIGHT_GROUP_ROWS + end_pair(i);
            sum += vec2(part_sums[at], part_sums[at + WEIGHT_GROUP_PAIRS]);
        }
        const vec2 value = finished(fma(sum, vec2(scale), biases[i]));
        const bool wanted = here && ends(token0, i, pair, pairs);
        if (HEADS_END) write_head_pair(token0 + t, pair, value, heads[i], wanted);
        else write_pair(token0 + t, pair, value + residuals[i], wanted);
    }
}
