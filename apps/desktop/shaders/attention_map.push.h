// Push constants of attention_map.frag, for GLSL and C++.
#ifndef SCORIA_DESKTOP_ATTENTION_MAP_PUSH_H
#define SCORIA_DESKTOP_ATTENTION_MAP_PUSH_H

#ifdef __cplusplus
namespace scoria::desktop {
using uint = uint32_t;
#endif

struct AttentionMapPush {
    float left, top, width, height;  // of the area, in pixels
    uint heads, positions;
};

#ifdef __cplusplus
}
#endif
#endif
