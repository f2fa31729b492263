// Counter-based random words: Philox4x32-10 (Salmon et al. 2011, table 2 and section 3.3).
#ifndef SCORIA_PHILOX_GLSL
#define SCORIA_PHILOX_GLSL

uvec4 philox(uvec4 counter, uvec2 key) {
    for (uint round = 0; round < 10; ++round) {
        uint high0, low0, high1, low1;
        umulExtended(0xD2511F53u, counter.x, high0, low0);
        umulExtended(0xCD9E8D57u, counter.z, high1, low1);
        counter = uvec4(high1 ^ counter.y ^ key.x, low1, high0 ^ counter.w ^ key.y, low0);
        key += uvec2(0x9E3779B9u, 0xBB67AE85u);
    }
    return counter;
}

#endif
