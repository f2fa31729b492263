// How a weight matrix lies on the device, shared by the repack (engine/ops/weight_layout.cpp) and the
// kernels. One shard is one buffer of up to three planes, each an array of words:
//
//   quants   [row groups][blocks][words of a block][16 rows]   packed values
//   high     [row groups][blocks][16 rows]                     fifth bits (q5 only)
//   scales   [row groups][blocks][16 rows]                     d | m << 16, or
//            [row groups][blocks][16 halves]                   d alone, rows in order
//
// A block is 32 columns of one row, whatever the type; a cell is one block of a row group. The 16 rows
// of a group lie side by side with the even ones first, so that lane i, which computes rows 2i and
// 2i + 1, loads beside its neighbours both times, and holds a gate and its up where these interleave.
// Columns past the end of a float row are zeros; rows past the end hold anything.
#ifndef SCORIA_WEIGHT_PLANES_H
#define SCORIA_WEIGHT_PLANES_H

#define WEIGHT_BLOCK 32
#define WEIGHT_GROUP_ROWS 16
#define WEIGHT_GROUP_PAIRS 8

// Values of the specialization constant WEIGHT_TYPE: those of a GGUF file.
#define WEIGHT_F32 0
#define WEIGHT_F16 1
#define WEIGHT_Q4_0 2
#define WEIGHT_Q4_1 3
#define WEIGHT_Q5_0 6
#define WEIGHT_Q5_1 7
#define WEIGHT_Q8_0 8
#define WEIGHT_BF16 30

#endif
