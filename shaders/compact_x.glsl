// x of linear_compact.comp: where its rows are whole fours, by fours, a lane each, of a cell or of a chunk; else by columns.
layout(constant_id = LINEAR_X_QUADS) const uint X_QUADS = 0;
// Fetches spill whatever there is; loaded, x of more tokens would take too many registers.
#ifdef TEXELS
const bool X_BY_CELLS = X_QUADS != 0 && LANE_TABLES;
#else
const bool X_BY_CELLS = X_QUADS != 0 && LANE_TABLES && TOKENS == 1 && !WEIGHT_PLAIN;
#endif

// Whether x of four or eight tokens is fetched by chunks, a lane has a token's, so that few fetches follow upon each other.
const bool CHUNKS_FETCH = OLD_LAVAPIPE == 0 || !WEIGHT_IN_CELLS;
const bool X_BY_CHUNKS = X_BY_CELLS && TOKENS > 2 && CHUNKS_FETCH && !WEIGHT_LANE_TABLE;

vec4 x_cells[TOKENS];  // four columns a lane

void load_x_quad(const uint token0, const uint quad, const bool wanted) {
    [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
        x_cells[t] = x_quad(lane_x_word(token0, t) / 4 + quad);
        if (!wanted) x_cells[t] = vec4(0.0);
    }
    if (linear_norm()) {
        squares += dot(x_cells[0], x_cells[0]);
        x_cells[0] *= norm_quad(quad);
    }
}
// Float rows are padded to whole blocks, x is not.
void load_x_cell(const uint token0, const uint cell) {
    if (X_BY_CHUNKS) return;
    const uint quad = weight_quad(cell * (WEIGHT_BLOCK / 4) + sg_lane());
    load_x_quad(token0, quad, !WEIGHT_PLAIN || 4 * quad < push.cols);
}
vec4 of_lane(const vec4 value, const uint lane) {
    return vec4(subgroupShuffle(value.x, lane), subgroupShuffle(value.y, lane), subgroupShuffle(value.z, lane),
                subgroupShuffle(value.w, lane));
}
vec4 x_of_lane(const uint t, const uint lane) { return of_lane(x_cells[t], lane); }

vec4 x_chunk[2];  // [quad][token], eight lanes of them each

// Quads `first` and the next of all tokens.
void load_x_chunk(const uint token0, const uint first) {
    [[unroll]] for (uint i = 0; i < TOKENS / 4; ++i) {
        const uint item = i * 8 + sg_lane();
        const uint quad = weight_quad(first + item / TOKENS);
        x_chunk[i] = x_quad(lane_x_word(token0, item % TOKENS) / 4 + quad);
        if (WEIGHT_PLAIN) x_chunk[i] = 4 * quad < push.cols ? x_chunk[i] : vec4(0.0);
    }
}
vec4 x_of_chunk(const uint t, const uint quad) {
    const uint item = quad * TOKENS + t;
    return of_lane(x_chunk[item / 8], item % 8);
}

// Columns that a subgroup loads at once where not by fours, each by as many lanes as there are more.
const uint X_COLS = SG_SIZE < 8 ? SG_SIZE : 8;

// Column that is k-th where codes are concerned.
uint column_of(const uint k) { return 4 * weight_quad(k / 4) + k % 4; }

// x of the chunk that starts at column k, of the row that begins with word `row`.
void load_chunk(const uint row, const uint k, out vec4 lo, out vec4 hi) {
    const uint first = column_of(k + sg_lane() % 8), second = column_of(k + 4 + sg_lane() % 4);
    const float a = normed(load_x(row, first), first);
    const float b = SG_SIZE < 8 ? normed(load_x(row, second), second) : a;
    lo = vec4(sg_broadcast(a, 0), sg_broadcast(a, 1), sg_broadcast(a, 2), sg_broadcast(a, 3));
    hi = vec4(sg_broadcast(b, 4 % SG_SIZE), sg_broadcast(b, 5 % SG_SIZE), sg_broadcast(b, 6 % SG_SIZE),
              sg_broadcast(b, 7 % SG_SIZE));
}

// What sums are multiplied by where x is normalised.
float norm_scale() {
    const float all = sg_add(squares) / float(SG_SIZE / X_COLS);  // each column was loaded by so many
    return 1.0 / sqrt(all / float(push.cols) + push.epsilon);
}
