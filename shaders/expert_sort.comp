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
shared uint tiles_before;     // of experts before this one
const uint AT_ONCE = 8;       // routes that are loaded before the first is waited for

uint tiles_for(const uint items) { return (items + push.tile - 1) / push.tile; }
void write_place(const uint place, const uint x, const uint result) {
    lists[place] = x;
    lists[push.places + place] = result;
}
void write_item(const uint place, const uint token, const uint slot) {
    write_place(place, token * push.x_stride + slot * push.x_slot_stride,
                token * push.out_stride + slot * push.out_slot_stride);
}

// The experts of items `first` .. `end` - 1, at most AT_ONCE, or EXPERT_NONE.
uint[AT_ONCE] experts_of(const uint first, const uint end) {
    uint experts[AT_ONCE], row = push.routes_first + first / push.used * push.routes_stride, slot = first % push.used;
    [[unroll]] for (uint i = 0; i < AT_ONCE; ++i) {
        experts[i] = expert_of_id(routes[row + slot], EXPERTS);
        if (first + i + 1 >= end) continue;  // the last one again
        const bool next = slot + 1 == push.used;
        slot = next ? 0 : slot + 1;
        row += next ? push.routes_stride : 0;
    }
    [[unroll]] for (uint i = 0; i < AT_ONCE; ++i) experts[i] = first + i < end ? experts[i] : EXPERT_NONE;
    return experts;
}

// The places of all that this expert is asked; returns its first tile.
uint place_routed(const uint expert, const uint lane) {
    const uint items = push.tokens * push.used;
    for (uint i = lane; i < EXPERTS; i += LANES) counts[i] = 0;
    if (lane == 0) tiles_before = 0;
    barrier();
    const uint run = (items + LANES - 1) / LANES, begin = min(lane * run, items), end = min(begin + run, items);
    uint own = 0;
    for (uint first = begin; first < end; first += AT_ONCE) {
        const uint experts[AT_ONCE] = experts_of(first, end);
        [[unroll]] for (uint i = 0; i < AT_ONCE; ++i) {
            if (experts[i] != EXPERT_NONE) atomicAdd(counts[experts[i]], 1);
            own += experts[i] == expert ? 1 : 0;
        }
    }
    runs[lane] = own;
    barrier();

    uint tiles = 0, place = 0;  // of some of the experts before this one; the next of this lane
    for (uint i = lane; i < expert; i += LANES) tiles += tiles_for(counts[i]);
    if (tiles != 0) atomicAdd(tiles_before, tiles);
    for (uint i = 0; i < lane; i += AT_ONCE)
        [[unroll]] for (uint k = 0; k < AT_ONCE; ++k) place += i + k < lane ? runs[min(i + k, LANES - 1)] : 0;
    barrier();
    place += tiles_before * push.tile;
    for (uint first = begin; first < end; first += AT_ONCE) {
        const uint experts[AT_ONCE] = experts_of(first, end);
        uint own_items = 0;
        [[unroll]] for (uint i = 0; i < AT_ONCE; ++i) own_items |= experts[i] == expert ? 1u << i : 0;
        for (; own_items != 0; own_items &= own_items - 1) {
            const uint item = first + findLSB(own_items);
            write_item(place++, item / push.used, item % push.used);
        }
    }
    return tiles_before;
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
