// out = W x for many tokens on matrix units (VK_KHR_cooperative_matrix): float16 operands, float32 sums. x comes
// from linear_pack.comp. A workgroup makes a tile of TILE_ROWS x TILE_TOKENS, going through the columns a block
// (32) at a time; both operands pass through shared memory, W dequantised on the way. A subgroup holds
// PART_ROWS x PART_TOKENS of the sums as matrices of M x N.
//
// Rows stand in the tile as in a row group (weight_planes.h): even ones first. The next block is loaded into registers before
// the products of the current one and made halves after them, so that nothing waits for memory in between; scales that
// blocks share are loaded once for them. Two barriers a block.
//
// For few tokens PARTS subgroups have the same tile, each of it as one part and in shared memory of its own, and share out
// the columns: nobody waits for another before the end, and a lane has words enough in flight.
//
// -DANY_SIZE (VK_NV_cooperative_matrix2): a part is two matrices, of its even and of its odd rows, which the driver makes
// of units as it sees fit; SCOPE says whether a subgroup holds a part or the whole workgroup one. Sums then end where they
// are, element by element, and not by way of shared memory.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#ifdef ANY_SIZE
#extension GL_NV_cooperative_matrix2 : require
#endif
#include "linear.push.h"
#include "weight_planes.h"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint SG_SIZE = 32;
layout(constant_id = LINEAR_COOP_ROWS) const uint TILE_ROWS = 64;
layout(constant_id = LINEAR_COOP_TOKENS) const uint TILE_TOKENS = 64;
layout(constant_id = LINEAR_PART_ROWS) const uint PART_ROWS = 32;
layout(constant_id = LINEAR_PART_TOKENS) const uint PART_TOKENS = 32;
layout(constant_id = LINEAR_PARTS) const uint PARTS = 1;
layout(constant_id = LINEAR_IN_STEP) const bool IN_STEP = false;
#ifdef ANY_SIZE
layout(constant_id = LINEAR_SCOPE) const int SCOPE = LINEAR_OF_SUBGROUP;
const uint M = PART_ROWS / 2, N = PART_TOKENS, K = WEIGHT_BLOCK;
#else
const int SCOPE = gl_ScopeSubgroup;
layout(constant_id = LINEAR_M) const uint M = 16;
layout(constant_id = LINEAR_N) const uint N = 16;
layout(constant_id = LINEAR_K) const uint K = 16;
#endif

const uint GROUP = WEIGHT_GROUP_ROWS;
const uint CHUNKS = WEIGHT_BLOCK / 8;      // of 8 columns: 16 bytes of halves
const uint PITCH = CHUNKS + 1;             // uvec4s of a row in shared memory; odd, so rows lie on other banks
const uint LANES = gl_WorkGroupSize.x / PARTS;  // that load a block together
const uint W_LOADS = TILE_ROWS * CHUNKS / LANES;
// Whose words a lane loads as one, and of whose block it has so many chunks, which share scales.
const uint W_LEAST = PARTS == 1 ? W_LOADS : W_LOADS / CHUNKS;
const uint W_ROWS = W_LEAST == 0 ? 1 : W_LEAST < 4 ? W_LEAST : 4;
const uint W_CHUNKS = PARTS == 1 ? 1 : W_LOADS / W_ROWS < CHUNKS ? W_LOADS / W_ROWS : CHUNKS;
const uint X_LOADS = TILE_TOKENS * CHUNKS / LANES;

layout(set = 0, binding = 0) restrict readonly buffer WeightQuads { uvec4 weight_quads[]; };
layout(set = 0, binding = 0) restrict readonly buffer WeightPairs { uvec2 weight_pairs[]; };
layout(set = 0, binding = 1) readonly buffer Packed { uvec4 x_halves[]; };
#define ROW_SPANS
#define HALF_PAIRS
#define HIDES_ONE
#define HEADS
#include "linear.glsl"
#include "half_operands.glsl"
#include "dequant_halves.glsl"
#include "packed_x.glsl"

const uint PARTS_ACROSS = TILE_ROWS / PART_ROWS;  // parts side by side along the rows
const uint ROW_MATRICES = PART_ROWS / M, TOKEN_MATRICES = PART_TOKENS / N;

// Of each part: W, [row][chunk], and x, [token][chunk]; in the end its sums, [token][row].
const uint X_TILE = TILE_ROWS * PITCH, OPERANDS = X_TILE + TILE_TOKENS * PITCH, SUM_PITCH = TILE_ROWS / 4;
const uint SUMS = PARTS == 1 ? 0 : TILE_TOKENS * SUM_PITCH, AREA = OPERANDS < SUMS ? SUMS : OPERANDS;
shared uvec4 tiles[PARTS * AREA];

uint lane() { return PARTS == 1 ? gl_LocalInvocationID.x : gl_SubgroupInvocationID; }
uint area() { return PARTS == 1 ? 0 : gl_SubgroupID * AREA; }
// See sg_share_memory() for IN_STEP.
void share_in_subgroup() {
    if (!IN_STEP)
        controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
}
// What lanes that load a block together have written is known to all of them.
void share_tiles() {
    if (PARTS == 1) barrier();
    else share_in_subgroup();
}

// Load `i` of a lane takes one chunk of one row. Eight neighbouring lanes take W_ROWS chunks of every W_ROWS-th row: these
// lie in different banks; of several parts, W_CHUNKS chunks of neighbouring rows.
struct Place {
    uint group, chunk;
    Slot slot;
};
Place w_place(const uint i) {
    const uint item = i / (W_ROWS * W_CHUNKS) * LANES + lane();
    if (PARTS > 1) {
        const uint lanes = CHUNKS / W_CHUNKS, span = item / lanes;
        return Place(span / SPANS, item % lanes * W_CHUNKS + i / W_ROWS % W_CHUNKS, Slot(span % SPANS, i % W_ROWS));
    }
    const uint chunk = item / GROUP % (CHUNKS / W_ROWS) * W_ROWS + item % W_ROWS;
    return Place(item / (SPANS * CHUNKS), chunk, Slot(item / W_ROWS % SPANS, i % W_ROWS));
}
uint w_cell(const Place place, const Work work, const uint block) {
    return weight_group(work.row0 / GROUP + place.group) * work.blocks + block;
}
// Row of the tile.
uint w_row(const Place place) {
    const uint slot = place.slot.span * W_ROWS + place.slot.part;
#ifdef ANY_SIZE
    const uint part = place.group / (PART_ROWS / GROUP), first = place.group % (PART_ROWS / GROUP) * WEIGHT_GROUP_PAIRS;
    return part * PART_ROWS + slot / WEIGHT_GROUP_PAIRS * M + first + slot % WEIGHT_GROUP_PAIRS;
#else
    return place.group * GROUP + slot;
#endif
}

WeightChunk w_next[W_LOADS];
Unit units[W_LOADS / W_CHUNKS];
uint unit_of(const uint i) { return i / (W_ROWS * W_CHUNKS) * W_ROWS + i % W_ROWS; }
uvec4 x_next[X_LOADS];
#define X_LANES LANES
#define X_ITEMS CHUNKS
uint x_lane() { return lane(); }
#include "tile_x.glsl"

void load_block(Work work, uint block) {
    block = min(block, work.to - 1);
    [[unroll]] for (uint i = 0; i < W_LOADS; ++i) {
        const Place place = w_place(i);
        load_codes(w_cell(place, work, block), place.slot, place.chunk, w_next[i]);
    }
    [[unroll]] for (uint i = 0; i < X_LOADS; ++i) {
        const uint row = item_row(work.token0, i);
        x_next[i] = x_halves[packed_block(row, block, work.blocks) * CHUNKS + x_item(i) % CHUNKS];
    }
    if (block % WEIGHT_UNIT_CELLS != 0 && block != work.from) return;
    [[unroll]] for (uint i = 0; i < W_LOADS; ++i) {
        const Place place = w_place(i);
        if (i / W_ROWS % W_CHUNKS == 0) units[unit_of(i)] = weight_unit(w_cell(place, work, block), place.slot);
    }
}

// Where instructions and not shared memory are waited for.
const bool CROSSES = PARTS > 1 && WEIGHT_HALF_PAIRS && !HALVES_FLUSH;  // by halves of scales, too

// Of load `i`.
uvec4 weight_halves(const Work work, const uint block, const uint i) {
    const WeightChunk loaded = w_next[i];
    const Place place = w_place(i);
    if (WEIGHT_TYPE == WEIGHT_F16) return uvec4(loaded.own.lo.xy, loaded.own.hi.xy);
    // Rows are whole units, so that a block stands in its unit as its cell does.
    const Affine affine = weight_affine(block, place.chunk, units[unit_of(i)], loaded.words);
    if (CROSSES) return crossed_weights(code_pairs(loaded, place.slot, place.chunk), weight_line(affine, true));
    vec4 lo, hi;
    weight_codes(w_cell(place, work, block), place.slot, place.chunk, loaded.words, loaded.own, lo, hi);
    if (WEIGHT_PLAIN) return packed_halves(lo, hi);
    const vec2 line = weight_line(affine, false);
    return packed_halves(fma(lo, line.xxxx, line.yyyy), fma(hi, line.xxxx, line.yyyy));
}

// Of several parts nobody waits for another, so that W is made only now, and fewer registers hold it.
void store_block(const Work work, const uint block, uvec4 w_halves[W_LOADS]) {
    [[unroll]] for (uint i = 0; i < W_LOADS; ++i) {
        const Place place = w_place(i);
        tiles[area() + w_row(place) * PITCH + place.chunk] = PARTS == 1 ? w_halves[i] : weight_halves(work, block, i);
    }
    [[unroll]] for (uint i = 0; i < X_LOADS; ++i) {
        const uint item = x_item(i);
        tiles[area() + X_TILE + item / CHUNKS * PITCH + item % CHUNKS] = CROSSES ? crossed(x_next[i]) : x_next[i];
    }
}

#define Sums coopmat<float, SCOPE, M, N, gl_MatrixUseAccumulator>
Sums sums[ROW_MATRICES * TOKEN_MATRICES];

// The block in shared memory.
void multiply_block(const uint part_row, const uint part_token) {
    [[unroll]] for (uint k = 0; k < WEIGHT_BLOCK; k += K) {
        coopmat<float16_t, SCOPE, M, K, gl_MatrixUseA> w[ROW_MATRICES];
        [[unroll]] for (uint m = 0; m < ROW_MATRICES; ++m) {
            coopMatLoad(w[m], tiles, area() + (part_row + m * M) * PITCH + k / 8, PITCH, gl_CooperativeMatrixLayoutRowMajor);
        }
        [[unroll]] for (uint n = 0; n < TOKEN_MATRICES; ++n) {
            coopmat<float16_t, SCOPE, K, N, gl_MatrixUseB> x;
            coopMatLoad(x, tiles, area() + X_TILE + (part_token + n * N) * PITCH + k / 8, PITCH,
                        gl_CooperativeMatrixLayoutColumnMajor);
            [[unroll]] for (uint m = 0; m < ROW_MATRICES; ++m) {
                sums[m * TOKEN_MATRICES + n] = coopMatMulAdd(w[m], x, sums[m * TOKEN_MATRICES + n]);
            }
        }
    }
}

float power_of(const uint token) { return x[push.x_first + x_row(min(token, push.tokens - 1))]; }
vec2 residual_of(const uint token, const uint row) {
    if (HEADS_END) return vec2(0.0);
    return load_residual(token, row / 2, has_row(row) && has_token(token));
}
void end_pair(const uint token, const uint row, const vec2 sum, const vec2 residuals) {
    const bool wanted = has_row(row) && has_token(token);
    const vec2 value = finished(vec2(load_bias(row), load_bias(row + 1)) + power_of(token) * sum);
    if (HEADS_END) write_head_pair(token, row / 2, value, head_pair(token, row / 2), wanted);
    else write_pair(token, row / 2, value + residuals, wanted);
}
void end_pair(const uint token, const uint row, const vec2 sum) { end_pair(token, row, sum, residual_of(token, row)); }

// Where pairs 4 quad .. of the tile stand among the rows of shared sums: x the even rows, y the odd ones.
uvec2 quad_places(const uint quad) {
#ifdef ANY_SIZE
    return uvec2(quad, quad + M / 4);
#else
    const uint quads = WEIGHT_GROUP_PAIRS / 4, group = quad / quads * (GROUP / 4);
    return uvec2(group + quad % quads, group + quad % quads + quads);
#endif
}
// Sums of the parts, always in the same order.
void end_parts(const uint row0, const uint token0) {
    share_tiles();
    [[unroll]] for (uint n = 0; n < TOKEN_MATRICES; ++n)
        [[unroll]] for (uint m = 0; m < ROW_MATRICES; ++m)
            coopMatStore(sums[m * TOKEN_MATRICES + n], tiles, area() + n * N * SUM_PITCH + m * M / 4, SUM_PITCH,
                         gl_CooperativeMatrixLayoutColumnMajor);
    barrier();
    const uint quads = TILE_ROWS / 8;
    for (uint item = gl_LocalInvocationID.x; item < TILE_TOKENS * quads; item += gl_WorkGroupSize.x) {
        const uint at = item / quads, quad = item % quads;
        const uvec2 places = at * SUM_PITCH + quad_places(quad);
        vec4 even = vec4(0.0), odd = vec4(0.0);
        [[unroll]] for (uint part = 0; part < PARTS; ++part) {
            even += uintBitsToFloat(tiles[part * AREA + places.x]);
            odd += uintBitsToFloat(tiles[part * AREA + places.y]);
        }
        [[unroll]] for (uint i = 0; i < 4; ++i) end_pair(token0 + at, row0 + 8 * quad + 2 * i, vec2(even[i], odd[i]));
    }
}

#ifdef ANY_SIZE
// Functions of an element: its row and column in the matrix, its value, and what they are given. They may be called more
// than once for an element, so that residuals, which may be the memory of `out`, are read before anything is written.
float first_residual(const in uint pair, const in uint token, const in float sum, const in uint pair0, const in uint token0) {
    return residual_of(token0 + token, 2 * (pair0 + pair)).x;
}
float second_residual(const in uint pair, const in uint token, const in float sum, const in uint pair0, const in uint token0) {
    return residual_of(token0 + token, 2 * (pair0 + pair)).y;
}
float write_sums(const in uint pair, const in uint token, const in float even, const in float odd, const in float first,
                 const in float second, const in uint pair0, const in uint token0) {
    end_pair(token0 + token, 2 * (pair0 + pair), vec2(even, odd), vec2(first, second));
    return even;
}

void end_sums(const uint row0, const uint token0) {
    Sums first = Sums(0.0), second = first;
    if ((push.flags & LINEAR_RESIDUAL) != 0) {
        coopMatPerElementNV(first, sums[0], first_residual, row0 / 2, token0);
        coopMatPerElementNV(second, sums[0], second_residual, row0 / 2, token0);
        // Others may hold an element too, and end it in place.
        controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsBuffer | gl_StorageSemanticsShared,
                       gl_SemanticsAcquireRelease);
    }
    coopMatPerElementNV(sums[0], sums[0], write_sums, sums[1], first, second, row0 / 2, token0);
}
#else
const uint STAGE = PARTS == 1 ? GROUP * N : 1;  // floats of a row group's sums
shared float stage[gl_WorkGroupSize.x / SG_SIZE * STAGE];

// A row group at a time through shared memory of the subgroup's own: [token][slot].
void end_sums(const uint row0, const uint token0) {
    const uint mine = gl_SubgroupID * STAGE;
    [[unroll]] for (uint g = 0; g < PART_ROWS / GROUP; ++g) {
        [[unroll]] for (uint n = 0; n < TOKEN_MATRICES; ++n) {
            [[unroll]] for (uint m = 0; m < GROUP / M; ++m) {
                coopMatStore(sums[(g * (GROUP / M) + m) * TOKEN_MATRICES + n], stage, mine + m * M, GROUP,
                             gl_CooperativeMatrixLayoutColumnMajor);
            }
            share_in_subgroup();
            [[unroll]] for (uint i = 0; i < WEIGHT_GROUP_PAIRS * N; i += SG_SIZE) {
                const uint item = i + gl_SubgroupInvocationID;
                const uint at = item / WEIGHT_GROUP_PAIRS, slot = item % WEIGHT_GROUP_PAIRS;
                const vec2 sum = vec2(stage[mine + at * GROUP + slot], stage[mine + at * GROUP + slot + WEIGHT_GROUP_PAIRS]);
                end_pair(token0 + n * N + at, row0 + g * GROUP + 2 * slot, sum);
            }
            share_in_subgroup();
        }
    }
}
#endif

void main() {
    hide_one();
    Work work = work_of(TILE_ROWS, TILE_TOKENS);
    if (work.idle) return;
    if (PARTS > 1) {
        const uint each = (work.to - work.from + PARTS - 1) / PARTS;
        work.from = min(work.from + gl_SubgroupID * each, work.to);
        work.to = min(work.from + each, work.to);
    }
    const uint part = SCOPE == LINEAR_OF_WORKGROUP || PARTS > 1 ? 0 : gl_SubgroupID;
    const uint part_row = part % PARTS_ACROSS * PART_ROWS;
    const uint part_token = part / PARTS_ACROSS * PART_TOKENS;

    [[unroll]] for (uint i = 0; i < ROW_MATRICES * TOKEN_MATRICES; ++i) sums[i] = Sums(0.0);
    find_x(work.token0);
    load_block(work, work.from);
    for (uint block = work.from; block < work.to; ++block) {
        uvec4 w_halves[W_LOADS];
        [[unroll]] for (uint i = 0; i < W_LOADS && PARTS == 1; ++i) w_halves[i] = weight_halves(work, block, i);
        share_tiles();
        store_block(work, block, w_halves);
        share_tiles();
        load_block(work, block + 1);
        multiply_block(part_row, part_token);
    }
    if (PARTS > 1) end_parts(work.row0, work.token0);
    else end_sums(work.row0 + part_row, work.token0 + part_token);
}
