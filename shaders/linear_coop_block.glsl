// A block of columns that linear_coop.comp holds in registers while others are multiplied; HELD(name) is this block's own
// `name`. Included once for each: NVIDIA's compiler keeps an array of blocks in memory.
WeightChunk HELD(w_next)[W_LOADS];
uvec4 HELD(x_next)[X_LOADS];

// Scales are loaded where others begin: blocks come to a holder AHEAD apart.
void HELD(load_block)(Work work, uint block) {
    const bool first = block < work.from + AHEAD || block % WEIGHT_UNIT_CELLS < AHEAD;
    block = min(block, work.to - 1);
    [[unroll]] for (uint i = 0; i < W_LOADS; ++i) {
        const Place place = w_place(i);
        load_codes(w_cell(place, work, block), place.slot, place.chunk, HELD(w_next)[i]);
    }
    [[unroll]] for (uint i = 0; i < X_LOADS; ++i) {
        const uint item = i * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
        const uint token = min(work.token0 + item / CHUNKS, push.tokens - 1);
        HELD(x_next)[i] = x_halves[packed_block(token, block, work.blocks) * CHUNKS + item % CHUNKS];
    }
    if (!first) return;
    [[unroll]] for (uint i = 0; i < W_LOADS; ++i) {
        const Place place = w_place(i);
        HELD(w_next)[i].unit = weight_unit(w_cell(place, work, block), place.slot);
    }
}

// The block is multiplied, and another takes its place. Reached by all invocations.
void HELD(turn)(Work work, uint block, uint part_row, uint part_token) {
    uvec4 w_halves[W_LOADS];
    [[unroll]] for (uint i = 0; i < W_LOADS; ++i)
        w_halves[i] = weight_halves(HELD(w_next)[i], w_place(i), work, block);
    barrier();
    [[unroll]] for (uint i = 0; i < W_LOADS; ++i) {
        const Place place = w_place(i);
        w_tile[w_row(place) * PITCH + place.chunk] = w_halves[i];
    }
    [[unroll]] for (uint i = 0; i < X_LOADS; ++i) {
        const uint item = i * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
        x_tile[item / CHUNKS * PITCH + item % CHUNKS] = HELD(x_next)[i];
    }
    barrier();
    HELD(load_block)(work, block + AHEAD);
    multiply_block(part_row, part_token);
}
#undef HELD
