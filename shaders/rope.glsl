// What a token's place in its sequence says: the angles by which its heads rotate (Su et al. 2021, eq. 34), and its slot of
// the paged cache. Whoever includes it has kv_cache.glsl and buffers angles (cos, sin) and step_words.
#ifndef SCORIA_ROPE_GLSL
#define SCORIA_ROPE_GLSL
#include "step.h"

#define FINE_POSITIONS 256

// Rows of the table, coarse and fine, of `width` rotating dims.
uvec2 angle_rows(const uint position, const uint width, const uint coarse_rows) {
    return uvec2(min(position / FINE_POSITIONS, coarse_rows - 1), coarse_rows + position % FINE_POSITIONS) * (width / 2);
}
// (cos, sin) of `pair`: coarse + fine.
vec2 angle(const uvec2 rows, const uint pair) {
    const vec2 a = angles[rows.x + pair], b = angles[rows.y + pair];
    return vec2(a.x * b.x - a.y * b.y, a.y * b.x + a.x * b.y);
}

struct TokenSlot {
    bool exists;
    uint position;
    uint block;  // of this shard; another's are past its end
};
TokenSlot token_slot(const uint token, const uint tokens, const uint ring, const uint first_block) {
    TokenSlot slot;
    slot.exists = token < tokens && token < step_words[STEP_TOKEN_COUNT];
    const uint words = STEP_TOKENS + (slot.exists ? token : 0) * STEP_TOKEN_WORDS;
    slot.position = step_words[words + STEP_TOKEN_POSITION];
    const uint entry = step_words[words + STEP_TOKEN_TABLE] + slot.position / KV_BLOCK_TOKENS % ring;
    slot.block = step_words[min(entry, step_words.length() - 1)] - first_block;
    return slot;
}

#endif
