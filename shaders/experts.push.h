// Push constants and specialization constants of the kernels of mixtures of experts: route.comp,
// expert_sort.comp, linear_expert.comp, expert_sum.comp.
#ifndef SCORIA_EXPERTS_PUSH_H
#define SCORIA_EXPERTS_PUSH_H

// 0 workgroup size; route: 1 subgroup size; linear_expert: 2 weight type (dequant.glsl)
#define ROUTE_EXPERTS 2      // route: how many there are
#define ROUTE_USED 3         // and how many a token uses
#define EXPERT_SUM_USED 1    // expert_sum: experts of a token
#define EXPERT_ACTIVATION 3  // linear_expert: numerics.glsl; with EXPERT_GLU alone

#define EXPERT_COUNT 4           // expert_sort: how many there are, at most EXPERT_MOST_SORTED
#define EXPERT_MOST_SORTED 2048  // 8 KiB of shared memory

#define EXPERT_BIAS 1u
#define EXPERT_GLU 2u      // rows 2i, 2i + 1 are gate i and up i: out[i] = act(gate) * up
#define EXPERT_IS_SLOT 4u  // no routes: slot s goes to expert s, as heads do

// The enum Routing::Score (loader/architecture.h).
#define ROUTE_SOFTMAX 0
#define ROUTE_SOFTMAX_CHOSEN 1
#define ROUTE_SIGMOID 2
#define ROUTE_SOFTMAX_NEAR 3

#define ROUTE_MOST_GROUPS 32
#define ROUTE_RENORMALISE 1u
#define ROUTE_TOP2 2u  // a group counts as the sum of its two best, else as its best
#define ROUTE_CHOICE_BIAS 4u
#define ROUTE_WEIGHT_SCALE 8u

#ifdef __cplusplus
namespace scoria {
using uint = uint32_t;
#endif

struct RoutePush {
    uint tokens, experts, used;
    uint score;  // ROUTE_SOFTMAX, ...
    uint flags;
    uint groups, groups_used;  // at most ROUTE_MOST_GROUPS
    uint x_first, x_stride;    // words, as in Matrix
    uint out_first, out_stride;
    float scale, margin;
};

struct ExpertSortPush {
    uint tokens, used;
    uint is_slot;  // no routes: slot s goes to expert s
    uint routes_first, routes_stride;
    uint tile, places;  // of the lists, whole tiles
    // Between tokens and between the experts that one uses: words of out, and words or packed rows of x.
    uint x_stride, x_slot_stride, out_stride, out_slot_stride;
};

struct ExpertLinearPush {
    uint tokens, experts, used;
    uint rows, cols;               // of one expert
    uint first_row, shard_rows;    // of all experts' rows, those in this shard
    uint flags;                    // EXPERT_...
    uint side_plane, table_plane;  // words
    uint x_first, x_stride;        // words, as in Matrix
    uint routes_first, routes_stride;
    uint out_first, out_stride;
    uint slot_stride;  // words between the parts of x, if it has one per chosen expert; else 0
};

struct ExpertSumPush {
    uint tokens, cols;
    uint x_first, x_stride;  // words, as in Matrix
    uint routes_first, routes_stride;
    uint out_first, out_stride;
    uint residual_first, residual_stride;
    uint adds;    // 1: a residual
    float scale;  // of what is added to it
};

#ifdef __cplusplus
}
#endif
#endif
