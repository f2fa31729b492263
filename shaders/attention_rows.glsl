// What kernels that take a tile of ROWS rows through blocks of KEYS keys share: the tile's rows, and the runs of rows of
// one sequence among them, each with the blocks that any of its rows sees. Included after both constants.
shared uint row_position[ROWS], row_table[ROWS], row_low[ROWS], row_count[ROWS];  // of Row

void share_rows(const uint row0, const uint kv_head) {
    for (uint r = gl_LocalInvocationID.x; r < ROWS; r += gl_WorkGroupSize.x) {
        const Row row = row_at(row0 + r, kv_head);
        row_position[r] = row.position;
        row_table[r] = row.table;
        row_low[r] = row.low;
        row_count[r] = row.count;
    }
}

struct Run {
    uvec2 rows;      // rows.x .. rows.y - 1
    uint table;      // of their sequence
    uint end;        // one past the last key
    uvec2 position;  // the least and the most of a row
    uvec2 every;     // keys every.x .. every.y - 1 are within the range of each row of the tile
    uint from, to;   // blocks of this part of the cache
};

// The run that begins with row `start`.
Run next_run(const uint start, const uint part) {
    Run run = Run(uvec2(start), row_table[start], 0, uvec2(0xFFFFFFFFu, 0), uvec2(0, 0xFFFFFFFFu), 0, 0);
    uint low = 0xFFFFFFFFu, next = start;
    for (; next < ROWS && (row_table[next] == run.table || row_count[next] == 0); ++next) {
        if (row_count[next] == 0) continue;
        low = min(low, row_low[next]);
        run.end = max(run.end, row_low[next] + row_count[next]);
        run.every = uvec2(max(run.every.x, row_low[next]), min(run.every.y, row_low[next] + row_count[next]));
        run.position = uvec2(min(run.position.x, row_position[next]), max(run.position.y, row_position[next]));
    }
    run.rows.y = next;
    if (next - start != ROWS) run.every.y = 0;
    const uint first = run.end == 0 ? 0 : low / KEYS;
    const uint steps = run.end == 0 ? 0 : (run.end + KEYS - 1) / KEYS - first;
    const uint each = (steps + push.splits - 1) / push.splits;
    run.from = first + min(part * each, steps);
    run.to = first + min(part * each + each, steps);
    return run;
}

// The block that holds the keys from key0 on; push.blocks or more if it is another shard's, or no row sees any of them.
uint block_to_attend(const Run run, const uint key0) {
    return seen_by_any(run.position.x, run.position.y, key0, KEYS) ? block_of(run.table, key0) : push.blocks;
}
// Whether each row of the tile sees all KEYS keys from key0 on; may say no too often.
bool are_all_seen(const Run run, const uint key0) {
    if (STRIDED || FIXED_SETS || MASK == MASK_GLOBAL_KEYS) return false;
    return key0 >= run.every.x && key0 + KEYS <= run.every.y;
}
