// Sorts what tokens ask of a mixture's experts by expert, so that whole tiles of places have one. Lists, for
// linear_experts.glsl:
//   [places] where x is, [places] where out is, both without the first word, or EXPERT_NONE for out of a place that nobody
//   has, [places / tile] ids of experts, or EXPERT_NONE behind the last tile that has one.
// Places of an expert are in the order of tokens, and at most tile - 1 of them are nobody's. A workgroup per expert counts
// what all are asked, so that it knows where its own begin, and each of its lanes has a run of that.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "grid.glsl"
#include "experts.push.h"
#include "expert_id.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = EXPERT_COUNT) const uint EXPERTS = 1;
layout(binding = 0) readonly buffer Routes { float routes[]; };
layout(binding = 1) writeonly buffer Lists { uint lists[]; };
layout(push_constant) uniform Push { ExpertSortPush push; };

const uint LANES = gl_WorkGroupSize.x;
shared uint counts[EXPERTS];  // what each is asked
shared uint runs[LANES];      // of that of this one, in each lane's run

uint expert_of(const uint item) {
    const uint token = item / push.used, slot = item % push.used;
    return expert_of_id(routes[push.routes_first + token * push.routes_stride + slot], EXPERTS);
}
uint tiles_for(const uint items) { return (items + push.tile - 1) / push.tile; }
void write_place(const uint place, const uint x, const uint result) {
    lists[place] = x;
    lists[push.places + place] = result;
}
void write_item(const uint place, const uint token, const uint slot) {
    write_place(place, token * push.x_stride + slot * push.x_slot_stride,
                token * push.out_stride + slot * push.out_slot_stride);
}

// The places of all that this expert is asked; returns its first tile.
uint place_routed(const uint expert, const uint lane) {
    const uint items = push.tokens * push.used;
    for (uint i = lane; i < EXPERTS; i += LANES) counts[i] = 0;
    barrier();
    const uint run = (items + LANES - 1) / LANES, begin = min(lane * run, items), end = min(begin + run, items);
    uint own = 0;
    for (uint item = begin; item < end; ++item) {
        const uint of = expert_of(item);
        atomicAdd(counts[of], 1);
        own += of == expert ? 1 : 0;
    }
    runs[lane] = own;
    barrier();

    uint tile = 0, place = 0;  // its first, and the next of this lane
    [[dont_unroll]] for (uint i = 0; i < expert; ++i) tile += tiles_for(counts[i]);
    [[dont_unroll]] for (uint i = 0; i < lane; ++i) place += runs[i];
    place += tile * push.tile;
    for (uint item = begin; item < end; ++item)
        if (expert_of(item) == expert) write_item(place++, item / push.used, item % push.used);
    return tile;
}

void main() {
    const uint expert = group_index(), lane = gl_LocalInvocationID.x;
    if (expert >= EXPERTS) return;
    uint tile, asked = push.tokens;
    if (push.is_slot != 0) {  // all are asked the same
        tile = expert * tiles_for(asked);
        for (uint token = lane; token < asked; token += LANES) write_item(tile * push.tile + token, token, expert);
    } else {
        tile = place_routed(expert, lane);
        asked = counts[expert];
    }
    const uint tiles = tiles_for(asked), past = (tile + tiles) * push.tile;
    for (uint i = tile * push.tile + asked + lane; i < past; i += LANES) write_place(i, 0, EXPERT_NONE);
    const uint last = expert == EXPERTS - 1 ? push.places / push.tile : tile + tiles;
    for (uint i = tile + lane; i < last; i += LANES)
        lists[2 * push.places + i] = i < tile + tiles ? expert : EXPERT_NONE;
}
