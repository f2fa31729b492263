// What linear_vec.comp and linear_compact.comp share: a lane has PAIRS pairs of neighbouring rows, for TOKENS tokens.
layout(constant_id = LINEAR_TOKENS) const uint TOKENS = 1;
layout(constant_id = LINEAR_PAIRS) const uint PAIRS = 1;

const uint ROWS = 2 * PAIRS;      // [pair][even, odd]
const uint SUMS = ROWS * TOKENS;  // [pair][even, odd][token]

// Chunks of 8 columns that share a scale.
const uint SPAN = WEIGHT_HALVES ? 2 : 4;

#ifdef WEIGHT_INTS
bool linear_norm() { return false; }
#else
// Of x, for its norm: of the columns that this lane loaded, which others may have loaded too.
float squares = 0.0;
// Of one token alone: sums for more cost Intel's compilers spills.
bool linear_norm() { return TOKENS == 1 && (push.flags & LINEAR_NORM) != 0; }
// Column k as it is multiplied.
float normed(const float value, const uint k) {
    if (!linear_norm()) return value;
    squares += value * value;
    return value * residual[min(k, push.cols - 1)];
}
#endif

// Of the lane's token t: x_row() and x_word().
const uint SORTED_TOKENS = SORTED ? TOKENS : 1;
uint sorted_x[SORTED_TOKENS];
uint lane_x_row(const uint token0, const uint t) {
    return SORTED ? sorted_x[t] : min(token0 + t, push.tokens - 1);
}
uint lane_x_word(const uint token0, const uint t) {
    return SORTED ? push.x_first + sorted_x[t] : x_word(min(token0 + t, push.tokens - 1));
}

// Of a lane: its first token, the subgroup among those of these tokens, and how many there are of what. The weight's pairs
// are those of out, or of a mixture's experts, those of this shard, of which `weight_pair` is the expert's first (wraps where the
// shard begins behind it).
struct Lane {
    uint token0, unit, pairs, blocks, weight_pair, weight_pairs;
    bool idle;  // its whole workgroup is
};
Lane lane_of(const uint parts) {
    const uint token_tiles = (push.tokens + TOKENS - 1) / TOKENS;
    const uint first = (group_index() / token_tiles + first_tile()) * (SG_COUNT / parts);
    Lane lane;
    lane.token0 = group_index() % token_tiles * TOKENS;
    lane.unit = first + sg_index() / parts;
    lane.pairs = (push.rows + 1) / 2;
    lane.blocks = (push.cols + WEIGHT_BLOCK - 1) / WEIGHT_BLOCK;
    lane.idle = first * SG_SIZE * PAIRS >= lane.pairs;
    lane.weight_pair = 0;
    lane.weight_pairs = lane.pairs;
    if (OF_EXPERTS) {
        const bool has = choose_expert(lane.token0, TOKENS);
        [[unroll]] for (uint t = 0; t < SORTED_TOKENS; ++t) sorted_x[t] = x_row(lane.token0 + t);
        lane.weight_pair = expert_row / 2 - push.first_row / 2;
        lane.weight_pairs = push.shard_rows / 2;
        const uint each = SG_SIZE * PAIRS;
        lane.idle = lane.idle || !has ||
                    is_elsewhere(lane.weight_pair + first * each, SG_COUNT / parts * each, lane.weight_pairs);
    }
    return lane;
}
// Whether a pair of out is there, and its weights in this shard.
bool has_pair(const Lane lane, const uint pair) {
    return pair < lane.pairs && (!OF_EXPERTS || lane.weight_pair + pair < lane.weight_pairs);
}
