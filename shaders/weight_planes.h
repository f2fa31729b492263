// How a weight matrix lies on the device, shared by the repack (engine/ops/weight_formats.cpp) and the
// kernels. One shard is one buffer of up to three planes, each an array of words:
//
//   words   [row groups][units][words of a unit][16 rows]   packed values, and scales in whole words
//   side    [row groups][units][16 rows]                    what is left of a block: a half or a byte, rows
//   in order table   as the type says (engine/quant_grids.h)         the points that an IQ code stands for
//
// A unit is one block of the file (32, 64, 128 or 256 columns of one row; 32 of a float type), repacked so
// that a word holds whole chunks of 8 columns. Kernels count cells: 32 columns of a row group, whatever the
// type. The 16 rows of a group lie side by side with the even ones first, so that lane i, which computes
// rows 2i and 2i + 1, loads beside its neighbours both times, and holds a gate and its up where these
// interleave. Columns past the end of a float row are zeros; rows past the end hold anything.
#ifndef SCORIA_WEIGHT_PLANES_H
#define SCORIA_WEIGHT_PLANES_H

#define WEIGHT_BLOCK 32
#define WEIGHT_GROUP_ROWS 16
#define WEIGHT_GROUP_PAIRS 8

// Values of the specialization constant WEIGHT_TYPE: those of a GGUF file, and of folders.
#define WEIGHT_F32 0
#define WEIGHT_F16 1
#define WEIGHT_Q4_0 2
#define WEIGHT_Q4_1 3
#define WEIGHT_Q5_0 6
#define WEIGHT_Q5_1 7
#define WEIGHT_Q8_0 8
#define WEIGHT_Q2_K 10
#define WEIGHT_Q3_K 11
#define WEIGHT_Q4_K 12
#define WEIGHT_Q5_K 13
#define WEIGHT_Q6_K 14
#define WEIGHT_IQ2_XXS 16
#define WEIGHT_IQ2_XS 17
#define WEIGHT_IQ3_XXS 18
#define WEIGHT_IQ1_S 19
#define WEIGHT_IQ4_NL 20
#define WEIGHT_IQ3_S 21
#define WEIGHT_IQ2_S 22
#define WEIGHT_IQ4_XS 23
#define WEIGHT_IQ1_M 29
#define WEIGHT_BF16 30
#define WEIGHT_TQ1_0 34
#define WEIGHT_TQ2_0 35
#define WEIGHT_MXFP4 39
#define WEIGHT_NVFP4 40
#define WEIGHT_Q1_0 41
#define WEIGHT_Q2_0 42
#define WEIGHT_F8_E4M3 256
#define WEIGHT_NVFP4_S 257

#endif
