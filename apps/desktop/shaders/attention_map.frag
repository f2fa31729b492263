// A row per head, positions from left to right. Where a pixel covers several of them it shows the largest weight; roots,
// so that small ones are seen.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "attention_map.push.h"

layout(push_constant) uniform Push { AttentionMapPush push; };
layout(binding = 0) readonly buffer Weights { float weights[]; };  // [heads][positions]
layout(location = 0) out vec4 color;

void main() {
    const vec2 at = gl_FragCoord.xy - vec2(push.left, push.top);
    const uint head = min(uint(at.y / push.height * float(push.heads)), push.heads - 1);
    const float each = float(push.positions) / push.width;
    const uint from = min(uint(max(at.x - 0.5, 0.0) * each), push.positions - 1);
    const uint to = clamp(uint((at.x + 0.5) * each), from + 1, push.positions);
    float most = 0.0;
    for (uint position = from; position < to; ++position)
        most = max(most, weights[head * push.positions + position]);
    color = vec4(mix(vec3(0.10, 0.11, 0.15), vec3(1.0, 0.80, 0.36), sqrt(most)), 1.0);
}
