// Where linear_pack.comp writes what kernels of halves read: 32 columns of a token, of which LINEAR_PACK_TOKENS stand side by
// side. Counted in such blocks, of 64 bytes.
#ifndef SCORIA_PACKED_X_GLSL
#define SCORIA_PACKED_X_GLSL
#include "linear.push.h"

uint packed_block(const uint token, const uint block, const uint blocks) {
    return (token / LINEAR_PACK_TOKENS * blocks + block) * LINEAR_PACK_TOKENS + token % LINEAR_PACK_TOKENS;
}

#endif
