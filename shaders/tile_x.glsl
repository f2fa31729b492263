// Of packed x, the rows of which a lane of a tile kernel brings X_LOADS items, X_ITEMS to a token's block and neighbours in
// neighbouring ones of X_LANES lanes, of which this is x_lane().
uint x_item(const uint i) { return i * X_LANES + x_lane(); }

uint sorted_rows[SORTED ? X_LOADS : 1];
void find_x(const uint token0) {
    [[unroll]] for (uint i = 0; SORTED && i < X_LOADS; ++i) sorted_rows[SORTED ? i : 0] = x_row(token0 + x_item(i) / X_ITEMS);
}
uint item_row(const uint token0, const uint i) {
    return SORTED ? sorted_rows[SORTED ? i : 0] : min(token0 + x_item(i) / X_ITEMS, push.tokens - 1);
}
