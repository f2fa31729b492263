// Bindings and epilogue of the linear kernels: out[t][row] = scale act(W x[t] + bias)[row] + residual[t][row].
// Without a bias or a residual, any buffer of at least one word stands in for it.
#include "linear.push.h"
#include "grid.glsl"

layout(constant_id = LINEAR_ACTIVATION) const uint ACTIVATION = 1;
layout(push_constant) uniform Push { LinearPush push; };
layout(set = 0, binding = 0) restrict readonly buffer Weights { uint weight_words[]; };
layout(set = 0, binding = 1) readonly buffer X { float x[]; };
layout(set = 0, binding = 2) readonly buffer Bias { float bias[]; };
// May be the memory of `out`: each invocation reads an element before it writes the same one.
layout(set = 0, binding = 3) readonly buffer Residual { float residual[]; };
layout(set = 0, binding = 4) writeonly buffer Out { float out_values[]; };

#ifdef WEIGHT_INTS
// The same memory, as linear_pack_int.comp makes it.
layout(set = 0, binding = 1) readonly buffer Bytes { uint x_words[]; };
#endif
#ifdef COMPACT
#ifdef TEXELS
layout(set = 0, binding = 5) uniform usamplerBuffer weight_texels;  // weight_words by fours
layout(set = 0, binding = 6) uniform usamplerBuffer x_texels;       // x by fours
layout(set = 0, binding = 7) uniform usamplerBuffer norm_texels;    // the norm's weights by fours
vec4 x_quad(const uint quad) { return uintBitsToFloat(texelFetch(x_texels, int(quad))); }
vec4 norm_quad(const uint quad) { return uintBitsToFloat(texelFetch(norm_texels, int(quad))); }
#else
layout(set = 0, binding = 1) readonly buffer Quads { vec4 x_quads[]; };
vec4 x_quad(const uint quad) { return x_quads[quad]; }
layout(set = 0, binding = 0) restrict readonly buffer Doubles { uint64_t weight_doubles[]; };
layout(set = 0, binding = 3) readonly buffer NormQuads { vec4 norm_quads[]; };
vec4 norm_quad(const uint quad) { return norm_quads[quad]; }
#endif
#endif

#ifdef GRID
// The table plane of the weights.
layout(set = 0, binding = 5, std430) uniform GridWords { uint grid_words[2048]; };
layout(set = 0, binding = 5, std430) uniform GridDoubles { uint64_t grid_doubles[1024]; };
#endif

#ifdef HIDES_ONE
// 1.0, as a value that compilers do not know: then one instruction masks a code and makes it a float where another constant
// would take a second one. To be made before codes are asked for.
uint one_bits;
#define ONE_BITS one_bits
void hide_one() { one_bits = push.cols != 0 ? 0x3F800000u : 0; }
#endif

#define WEIGHT_SIDE_PLANE push.side_plane
#define WEIGHT_TABLE_PLANE push.table_plane
#include "dequant.glsl"
#include "numerics.glsl"

// sum + a.x b.x + ..., of codes and x, one product after the other; linear_compact.comp has its own.
#ifdef WEIGHT_INTS
#define SUM int
int add_products(const uint a, const uint b, const int sum) { return sum + dotPacked4x8EXT(int(a), int(b)); }
#else
#define SUM float
#ifndef COMPACT
float add_products(const vec4 a, const vec4 b, const float sum) {
    return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum))));
}
#endif
#endif

#include "linear_experts.glsl"

uint linear_part = 0;  // which of push.splits this workgroup computes

// What a workgroup of a tile kernel computes: rows from row0 on, tokens from token0 on, and of the `blocks` of columns those
// from .. to - 1.
struct Work {
    uint row0, token0, from, to, blocks;
    bool idle;  // nothing
};
Work work_of(const uint tile_rows, const uint tile_tokens) {
    Work work;
    const uint token_tiles = (push.tokens + tile_tokens - 1) / tile_tokens, tile = group_index() / push.splits;
    linear_part = group_index() % push.splits;
    work.row0 = (tile / token_tiles + first_tile()) * tile_rows;
    work.token0 = tile % token_tiles * tile_tokens;
    work.blocks = (push.cols + WEIGHT_BLOCK - 1) / WEIGHT_BLOCK;
    const uint each = (work.blocks + push.splits - 1) / push.splits;
    work.from = linear_part * each;
    work.to = min(work.from + each, work.blocks);
    work.idle = work.row0 >= push.rows;
    if (OF_EXPERTS)
        work.idle = work.idle || !choose_expert(work.token0, tile_tokens) ||
                    is_elsewhere(expert_row + work.row0 - push.first_row, tile_rows, push.shard_rows);
    return work;
}
// Row of this shard's weights where `row` of out has its own, or past the last any other; and likewise of groups of rows, of
// which experts have whole ones.
uint expert_place(const uint row) { return uint(clamp(int(expert_row + row - push.first_row), 0, int(push.shard_rows) - 1)); }
uint weight_row(const uint row) { return OF_EXPERTS ? expert_place(row) : min(row, push.rows - 1); }
uint weight_group(const uint group) {
    if (OF_EXPERTS) return expert_place(group * WEIGHT_GROUP_ROWS) / WEIGHT_GROUP_ROWS;
    return min(group, (push.rows - 1) / WEIGHT_GROUP_ROWS);
}
bool has_row(const uint row) {
    return row < push.rows && (!OF_EXPERTS || expert_row + row - push.first_row < push.shard_rows);
}

// Where x[token] is: its row, if rows are packed, else its first word.
uint x_row(const uint token) { return SORTED ? lists[token] : token; }
uint x_word(const uint token) {
    return SORTED ? push.x_first + lists[token] : OF_EXPERTS ? expert_x : push.x_first + token * push.x_stride;
}
// Column k of the row of x that begins with word `row`; zero past the end, where float rows are padded to whole blocks.
float load_x(const uint row, const uint k) {
    if (!WEIGHT_PLAIN) return x[row + k];
    return k < push.cols ? x[row + min(k, push.cols - 1)] : 0.0;
}

#ifdef WEIGHT_INTS
// Word of the step of a block of row `row` of x; the next one holds the sums of its bytes.
uint x_side(const uint row, const uint block, const uint blocks) {
    return push.x_first + 2 * (row * blocks + block);
}
// Sum of the bytes that share a scale: of half `span` of a block, or of all of it.
int bytes_sum(const uint sums, const uint span) {
    const int first = int(sums << 16) >> 16, second = int(sums) >> 16;
    return WEIGHT_HALVES ? span == 0 ? first : second : first + second;
}
#endif

bool has_token(const uint token) {
    return token < push.tokens && (!SORTED || sorted_out(token) != EXPERT_NONE);
}
float load_bias(const uint row) {
#ifdef COMPACT
    if ((push.flags & LINEAR_BIAS) == 0) return 0.0;
#endif
    const bool has = (push.flags & LINEAR_BIAS) != 0 && row < push.rows;
    const float value = bias[has ? (OF_EXPERTS ? expert_row : push.bias_first) + row : 0];
    return has ? value : 0.0;
}

// Rows 2 * pair and 2 * pair + 1 of W x[token] + bias become those of out[token]: one row with GLU, else two, the second
// of which may lie past the end. Loads are unconditional and selected after: a branch per value costs CPU drivers as much
// code as the product.
bool linear_glu() { return (push.flags & LINEAR_GLU) != 0; }
uint out_row(const uint pair) { return linear_glu() ? pair : 2 * pair; }
bool has_second(const uint pair) {
    const uint row = 2 * pair;
    return !linear_glu() && row + 1 < push.rows;
}
vec2 finished(vec2 value) {
    if (linear_glu()) value.x = activated(value.x, ACTIVATION) * value.y;
    if ((push.flags & LINEAR_ACTIVATE) != 0)
        value = vec2(activated(value.x, ACTIVATION), activated(value.y, ACTIVATION));
    value *= push.scale;
    return value;
}
vec2 load_residual(const uint token, const uint pair, const bool wanted) {
#ifdef COMPACT
    if ((push.flags & LINEAR_RESIDUAL) == 0) return vec2(0.0);  // where loads are dear, one branch for all of them
#endif
    const bool add = wanted && (push.flags & LINEAR_RESIDUAL) != 0, second = has_second(pair);
    const uint from = push.residual_first + token * push.residual_stride + out_row(pair);
    const float a = residual[add ? from : 0], b = residual[add && second ? from + 1 : 0];
    return vec2(add ? a : 0.0, add ? b : 0.0);
}
void write_pair(const uint token, const uint pair, const vec2 value, const bool wanted) {
    uint to = out_row(pair);
    if (SORTED) to += push.out_first + sorted_out(token);
    else if (OF_EXPERTS) to += expert_out;
    else to += push.out_first + linear_part * push.part_stride + token * push.out_stride;
    if (wanted) out_values[to] = value.x;
    if (wanted && has_second(pair)) out_values[to + 1] = value.y;
}
void store_pair(const uint token, const uint pair, const vec2 value, const bool wanted) {
    write_pair(token, pair, finished(value) + load_residual(token, pair, wanted), wanted);
}

#ifdef HEADS
// -DHEADS: what a cache holds exactly, and pairs of neighbouring rows rotate, ends as it would after rope_cache.comp: queries
// and keys rotate, keys and values go into the cache and not to `out`.
#include "kv_cache.glsl"
layout(constant_id = LINEAR_HEADS) const bool HEADS_END = false;
layout(set = 0, binding = 5) readonly buffer Step { uint step_words[]; };
layout(set = 0, binding = 6) readonly buffer Tables { vec2 angles[]; };
layout(set = 0, binding = 7) writeonly buffer Kv { uint kv[]; };
#include "rope.glsl"

// Where a pair of rows goes.
struct HeadPair {
    bool turns, cached, stores;
    vec2 turn;           // (cos, sin)
    uint word, between;  // of the cache
};
HeadPair head_pair(const uint token, const uint pair) {
    const uint row = push.head_row + 2 * pair, head = row / push.head_dim, dim = row - head * push.head_dim;
    const TokenSlot slot = token_slot(push.first_token + token, push.first_token + push.tokens, push.ring, 0);
    const bool is_value = head >= push.heads + push.kv_heads;
    HeadPair to;
    to.turns = !is_value && dim < push.width;
    to.turn = angle(angle_rows(slot.position, push.width, push.coarse_rows), to.turns ? dim / 2 : 0);
    to.cached = head >= push.heads;
    to.stores = to.cached && slot.exists;
    const uint kv_head = head - push.heads - (is_value ? push.kv_heads : 0);
    const KvRow cache_row =
        kv_row(is_value, slot.block, kv_head, push.kv_heads, slot.position % KV_BLOCK_TOKENS, push.head_dim);
    to.between = cache_row.between;
    to.word = cache_row.numbers + dim / (KV_TYPE == KV_F32 ? 1 : 2) * to.between;
    return to;
}
void write_head_pair(const uint token, const uint pair, vec2 value, const HeadPair to, const bool wanted) {
    if (to.turns)
        value = vec2(value.x * to.turn.x - value.y * to.turn.y, value.y * to.turn.x + value.x * to.turn.y);
    write_pair(token, pair, value, wanted && !to.cached);
    if (!wanted || !to.stores) return;
    if (KV_TYPE == KV_F32) {
        kv[to.word] = floatBitsToUint(value.x);
        kv[to.word + to.between] = floatBitsToUint(value.y);
    } else {
        kv[to.word] = KV_TYPE == KV_F16 ? pack_half2(value) : pack_bfloat2(value);
    }
}
#endif
