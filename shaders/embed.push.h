// Push constants of embed.comp. Specialization constants: 0 workgroup size, 2 weight type.
#ifndef SCORIA_EMBED_PUSH_H
#define SCORIA_EMBED_PUSH_H

#ifdef __cplusplus
namespace scoria {
using uint = uint32_t;
#endif

struct EmbedPush {
    uint first_row, rows, cols;  // rows first_row.. of the table are in this shard
    uint vocab;                  // rows of the whole table
    uint tokens;
    uint side_plane, table_plane;  // words
    uint out_first, out_stride;    // words
    uint step_word;                // of a token: STEP_TOKEN_ID or STEP_TOKEN_POSITION
    float scale;
    uint divide, period;  // of period > 0: the row is the word / divide mod period
};

#ifdef __cplusplus
}
#endif
#endif
