// Push constants and specialization constants of the linear kernels (linear_vec.comp, linear_compact.comp,
// linear_group.comp, linear_tile.comp, linear_tile_int.comp with linear_pack_int.comp, linear_coop.comp and
// linear_tile_half.comp with linear_pack.comp, linear_join.comp).
#ifndef SCORIA_LINEAR_PUSH_H
#define SCORIA_LINEAR_PUSH_H

#include "kv_cache.h"

// 0 workgroup size, 1 subgroup size, 2 weight type (dequant.glsl)
#define LINEAR_TOKENS 3      // tokens per lane: linear_vec, _compact, _tile_int and _tile_half (2 or 4)
#define LINEAR_PAIRS 4       // pairs of rows per lane: linear_vec and linear_compact
#define LINEAR_PARTS 5       // linear_vec, linear_group, linear_coop: subgroups that share out the columns
#define LINEAR_ACTIVATION 6  // numerics.glsl; used with LINEAR_GLU or LINEAR_ACTIVATE alone

#define LINEAR_X_QUADS 15       // where x is loaded by fours of words: 1 if its rows are whole ones
#define LINEAR_OLD_LAVAPIPE 16  // linear_compact: 1 if Caps::old_lavapipe()
#define LINEAR_IN_STEP 17       // linear_group and linear_coop: of sg_share_memory()
#define LINEAR_HEADS 18    // -DHEADS: 1 if rows are heads of q | k | v, for the cache of KV_TYPE_CONSTANT
#define LINEAR_NORMS 19    // linear_group: LINEAR_NORM is set
#define LINEAR_EXPERTS 20  // linear_experts.glsl, one of:
#define LINEAR_EXPERTS_DIRECT 1  // linear_vec, _compact and _group of one token
#define LINEAR_EXPERTS_SORTED 2

// linear_coop: the matrix shape (not linear_coop2), and the tile of a workgroup and the part of it of a
// subgroup
#define LINEAR_M 7
#define LINEAR_N 8
#define LINEAR_K 9
#define LINEAR_COOP_ROWS 10
#define LINEAR_COOP_TOKENS 11
#define LINEAR_PART_ROWS 12
#define LINEAR_PART_TOKENS 13
#define LINEAR_SCOPE 14  // linear_coop2 alone; as gl_Scope...
#define LINEAR_OF_WORKGROUP 2
#define LINEAR_OF_SUBGROUP 3

#define LINEAR_BIAS 1u      // out += bias[row]
#define LINEAR_RESIDUAL 2u  // out += residual; may be `out` itself
#define LINEAR_GLU 4u       // rows 2i, 2i + 1 of the weight are gate i and up i: out[i] = act(gate) * up
#define LINEAR_ACTIVATE 8u  // out = act(W x + bias)
// linear_vec and linear_compact of one token, and linear_group; not with a residual, whose place the weights
// of the norm have: x is RMS-normalised on the way, W (x * weight) / sqrt(mean of x^2 + epsilon).
#define LINEAR_NORM 16u
#define LINEAR_IS_SLOT 32u  // with LINEAR_EXPERTS: no routes, slot s goes to expert s, as heads do

#define LINEAR_TILE_ROWS 64  // linear_tile: of one workgroup
#define LINEAR_TILE_TOKENS 64
#define LINEAR_TILE_WORKGROUP 128

#ifdef __cplusplus
namespace scoria {
using uint = uint32_t;
#endif

struct LinearPush {
    uint rows, cols, tokens;               // rows: of this shard
    uint flags;                            // LINEAR_BIAS, ...
    uint side_plane, table_plane;          // words
    uint group_words;                      // of a row group in the first plane
    uint x_first, x_stride;                // words, as in Matrix; packed x: x_first of what stands behind it
    uint out_first, out_stride;            // first: of this shard's first row
    uint residual_first, residual_stride;  // likewise
    uint bias_first;                       // likewise
    uint splits, part_stride;              // parts that the columns are split into, words between their sums
    float scale;                           // of what is added to the residual
    float epsilon;                         // of the norm
    // With LINEAR_HEADS, of which q | k | v have this shard's rows from head_row on, and tokens of the batch
    // from first_token; the rest is RopeCachePush's.
    uint head_row, first_token;
    uint heads, kv_heads, head_dim;
    uint width, coarse_rows;
    uint ring;
    // With LINEAR_EXPERTS; `rows` are one expert's then, `tokens` counts each token once for each expert it
    // uses, or places of the lists, which the residual is then, and else the routes.
    uint experts, used;
    uint first_row, shard_rows;  // of all experts' rows, those in this shard
    uint slot_stride;            // words of x between what a token's experts multiply, if it is not the same
    // Of the rows of each expert, of which a dispatch may have some; sorted alone. What a folded grid has
    // too many makes tiles of the next part, as that does.
    uint first_tile;
};

// Of packed halves, tokens whose blocks of columns stand side by side: a tile loads whole lines then.
#define LINEAR_PACK_TOKENS 8
// Steps up to the largest of 32 columns of x, as a byte and as two of them (byte_operands.glsl).
#define LINEAR_BYTE_LEVELS 127
#define LINEAR_WIDE_LEVELS (127 * 256 + 127)
#define LINEAR_PACK_NORM 2  // of the packed halves: 1 if x is RMS-normalised on the way
struct LinearPackPush {
    uint tokens, cols, x_first, x_stride;  // tokens: packed ones
    uint slots, slot_stride;  // rows of a token of x, each packed as a token, and words between them
    uint row_words;           // of a packed token: cols padded to whole blocks, two a word, or four
    uint side_first;          // word behind all of them, where what says how to unpack them begins
    float epsilon;            // of the norm
};

#ifdef __cplusplus
}
#endif
#endif
