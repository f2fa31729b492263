// A logical group of SG_SIZE lanes inside a workgroup, from one source: real subgroups under
// -DNATIVE_SUBGROUP, else emulated in shared memory (capability Shader only; DESIGN.md "Subgroups").
// The workgroup size is constant 0 and a multiple of SG_SIZE, constant 1, a power of two.
// Every sg_ operation is reached by all invocations of the workgroup (emulation uses barriers) and its
// result is the same, bit for bit, in all lanes of the group.
#ifndef SCORIA_SUBGROUP_GLSL
#define SCORIA_SUBGROUP_GLSL

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
layout(constant_id = 1) const uint SG_SIZE = 32;

#define SG_COUNT (gl_WorkGroupSize.x / SG_SIZE)

// Of loops that GPUs may unroll; where groups are emulated, 32 copies of one take CPU drivers seconds to compile.
#ifdef NATIVE_SUBGROUP
#define SG_LOOP
#else
#extension GL_EXT_control_flow_attributes : require
#define SG_LOOP [[dont_unroll]]
#endif

#ifdef NATIVE_SUBGROUP
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_ballot : require

uint sg_lane() { return gl_SubgroupInvocationID; }
uint sg_index() { return gl_SubgroupID; }
#ifdef SHUFFLES
// On CPU drivers of eight lanes a shuffle is an instruction, a reduction a branch for each lane.
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require
#define SG_BUTTERFLY(name, type, combine)                                   \
    type name(type value) {                                                 \
        [[unroll]] for (uint apart = 1; apart < SG_SIZE; apart *= 2) {      \
            const type other = subgroupShuffleXor(value, apart);            \
            value = combine;                                                \
        }                                                                   \
        return value;                                                       \
    }

SG_BUTTERFLY(sg_add, float, value + other)
SG_BUTTERFLY(sg_add, uint, value + other)
SG_BUTTERFLY(sg_max, float, max(value, other))
SG_BUTTERFLY(sg_max, uint, max(value, other))
#else
float sg_add(const float value) { return subgroupAdd(value); }
uint sg_add(const uint value) { return subgroupAdd(value); }
float sg_max(const float value) { return subgroupMax(value); }
uint sg_max(const uint value) { return subgroupMax(value); }
#endif
// Makes what lanes have written to shared memory known to all. Lavapipe takes a barrier of a subgroup for one of the
// workgroup, which others may never reach (Mesa 25.0.7); its lanes run in step (`in_step`) and need none.
void sg_share_memory(const bool in_step) {
    if (in_step) return;
    subgroupMemoryBarrierShared();
    subgroupBarrier();
}
// `lane` is the same in the whole group. Needs caps.subgroup_ballot (the module declares it only if used).
float sg_broadcast(const float value, const uint lane) { return subgroupBroadcast(value, lane); }
uint sg_broadcast(const uint value, const uint lane) { return subgroupBroadcast(value, lane); }

#else

shared uint sg_scratch[gl_WorkGroupSize.x];

uint sg_lane() { return gl_LocalInvocationID.x % SG_SIZE; }
uint sg_index() { return gl_LocalInvocationID.x / SG_SIZE; }

// Two barriers and SG_SIZE reads of one address per group (a broadcast on GPUs): cheaper than a tree of
// log2(SG_SIZE) barriers on CPU drivers, where each barrier is a coroutine switch.
void sg_share(const uint bits) {
    barrier();
    sg_scratch[gl_LocalInvocationID.x] = bits;
    barrier();
}

#define SG_REDUCE(name, type, to_bits, from_bits, combine)                  \
    type name(type value) {                                                 \
        sg_share(to_bits(value));                                           \
        const uint base = sg_index() * SG_SIZE;                             \
        type total = from_bits(sg_scratch[base]);                           \
        SG_LOOP for (uint lane = 1; lane < SG_SIZE; ++lane) {               \
            const type other = from_bits(sg_scratch[base + lane]);          \
            total = combine;                                                \
        }                                                                   \
        return total;                                                       \
    }

SG_REDUCE(sg_add, float, floatBitsToUint, uintBitsToFloat, total + other)
SG_REDUCE(sg_add, uint, uint, uint, total + other)
SG_REDUCE(sg_max, float, floatBitsToUint, uintBitsToFloat, max(total, other))
SG_REDUCE(sg_max, uint, uint, uint, max(total, other))

uint sg_broadcast(const uint value, const uint lane) {
    sg_share(value);
    return sg_scratch[sg_index() * SG_SIZE + lane];
}
float sg_broadcast(const float value, const uint lane) {
    return uintBitsToFloat(sg_broadcast(floatBitsToUint(value), lane));
}

#endif
#endif
