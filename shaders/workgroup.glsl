// Reductions over a whole workgroup. All invocations reach them; every one gets the result.
// With one logical group per workgroup, native, they use no shared memory and no barrier.
#ifndef SCORIA_WORKGROUP_GLSL
#define SCORIA_WORKGROUP_GLSL
#include "subgroup.glsl"

shared uint wg_scratch[SG_COUNT];

uint wg_lane() { return sg_index() * SG_SIZE + sg_lane(); }

// A barrier makes a coroutine of a kernel on CPU drivers, where what lives across it takes a detour through memory and
// each takes long to compile. Their workgroups are one subgroup each, whose lanes go in step.
#ifdef NATIVE_SUBGROUP
void wg_barrier() {
    if (SG_COUNT == 1) subgroupMemoryBarrierShared();
    else barrier();
}
#else
void wg_barrier() { barrier(); }
#endif

void wg_share(const uint bits) {
    barrier();
    if (sg_lane() == 0) wg_scratch[sg_index()] = bits;
    barrier();
}

float wg_add(float value) {
    value = sg_add(value);
    if (SG_COUNT == 1) return value;
    wg_share(floatBitsToUint(value));
    float total = 0.0;
    for (uint i = sg_lane(); i < SG_COUNT; i += SG_SIZE) total += uintBitsToFloat(wg_scratch[i]);
    return sg_add(total);
}

uint wg_max(uint value) {
    value = sg_max(value);
    if (SG_COUNT == 1) return value;
    wg_share(value);
    uint most = 0;
    for (uint i = sg_lane(); i < SG_COUNT; i += SG_SIZE) most = max(most, wg_scratch[i]);
    return sg_max(most);
}

#endif
