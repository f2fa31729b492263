// Sorts every column of whole numbers x [rows, cols], equal ones by row. out [rows, 2 cols]: row i of column c is the
// row of x that comes i-th, row i of column cols + c the place of row i. A workgroup per column sorts by digits, the
// lowest first; both columns of out hold the order by turns. A lane takes a run of rows, so equal digits keep theirs.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "chunk_attention.push.h"
#include "grid.glsl"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) coherent buffer Out { float result[]; };
layout(push_constant) uniform Push { SortPush push; };

const uint DIGITS = 1u << SORT_BITS;
shared uint counts[DIGITS * SORT_LANES];  // by digit, then by lane; summed: where the next such row goes

uint word(const uint row, const bool places, const uint column) {
    return push.out_first + row * push.out_stride + (places ? push.cols : 0) + column;
}

uint row_before(const uint i, const uint pass, const bool to_places, const uint column) {
    return pass == 0 ? i : min(uint(result[word(i, !to_places, column)]), push.rows - 1);
}

uint digit_of(const uint row, const uint pass, const uint column) {
    return uint(x[push.x_first + row * push.x_stride + column]) >> (SORT_BITS * pass) & (DIGITS - 1);
}

void main() {
    const uint column = group_index();
    if (column >= push.cols) return;
    const uint lanes = min(gl_WorkGroupSize.x, SORT_LANES), lane = gl_LocalInvocationID.x;
    const uint run = (push.rows + lanes - 1) / lanes;
    const uint begin = min(lane * run, push.rows), end = min(begin + run, push.rows);
    for (uint pass = 0; pass < push.passes; ++pass) {
        const bool to_places = (push.passes - pass) % 2 == 0;  // the last pass writes the order
        for (uint digit = 0; digit < DIGITS; ++digit) counts[digit * lanes + lane] = 0;
        for (uint i = begin; i < end; ++i)
            ++counts[digit_of(row_before(i, pass, to_places, column), pass, column) * lanes + lane];
        barrier();
        if (lane == 0) {
            uint total = 0;
            for (uint i = 0; i < DIGITS * lanes; ++i) {
                const uint count = counts[i];
                counts[i] = total;
                total += count;
            }
        }
        barrier();
        for (uint i = begin; i < end; ++i) {
            const uint row = row_before(i, pass, to_places, column);
            const uint place = counts[digit_of(row, pass, column) * lanes + lane]++;
            result[word(min(place, push.rows - 1), to_places, column)] = float(row);
        }
        memoryBarrierBuffer();
        barrier();
    }
    for (uint i = begin; i < end; ++i)
        result[word(min(uint(result[word(i, false, column)]), push.rows - 1), true, column)] = float(i);
}
