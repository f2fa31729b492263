// Chooses experts: out[t] = ids of the best `used` by falling score (lower id first among equals), then their weights.
// A logical subgroup per token, whose lanes share out the experts and keep what they are chosen by.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "subgroup.glsl"
#include "grid.glsl"
#include "numerics.glsl"
#include "experts.push.h"

layout(binding = 0) readonly buffer Scores { float scores[]; };
layout(binding = 1) readonly buffer Choice { float choice_bias[]; };
layout(binding = 2) readonly buffer Scale { float weight_scale[]; };
layout(binding = 3) writeonly buffer Out { float result[]; };
layout(push_constant) uniform Push { RoutePush push; };

layout(constant_id = ROUTE_EXPERTS) const uint EXPERTS = 1;
layout(constant_id = ROUTE_USED) const uint USED = 1;

const float LOWEST = -3e38;
const float NO_KEY = -3.4e38;  // of what cannot be chosen
const uint NONE = 0xFFFFFFFFu;

float most, total;  // of the softmax over all experts
const uint LANE_EXPERTS = (EXPERTS + SG_SIZE - 1) / SG_SIZE;
float keys[LANE_EXPERTS];  // of this lane's, every SG_SIZE-th
const uint LANE_SLOTS = (USED + SG_SIZE - 1) / SG_SIZE;
uint expert_at(const uint i) { return i * SG_SIZE + sg_lane(); }  // likewise of slots

float weight_of(const float score) {
    if (push.score == ROUTE_SOFTMAX) return exp_safe(score - most) / total;
    return push.score == ROUTE_SIGMOID ? sigmoid(score) : score;
}

// What experts are chosen by. NaN counts as the lowest.
float key_of_score(const float score, const uint expert) {
    const float key = weight_of(score) + ((push.flags & ROUTE_CHOICE_BIAS) != 0 ? choice_bias[min(expert, EXPERTS - 1)] : 0.0);
    return is_nan(key) ? LOWEST : max(key, LOWEST);
}
float key_of(const uint first, const uint expert) { return key_of_score(scores[first + expert], expert); }

// Of what the lanes offer (NONE: nothing), the least index that has the greatest key.
uint best_of_lanes(const uint index, const float key) {
    const float best = sg_max(index == NONE ? NO_KEY : key);
    return ~sg_max(index != NONE && key == best ? ~index : 0u);
}

// What a group of experts is chosen by.
const uint AT_ONCE = 4;  // keys that are loaded before the first is waited for
float group_key(const uint first, const uint group) {
    const uint members = EXPERTS / push.groups;
    float top = LOWEST, second = LOWEST;
    for (uint e = 0; e < members; e += AT_ONCE) {
        float some[AT_ONCE];
        [[unroll]] for (uint i = 0; i < AT_ONCE; ++i) some[i] = key_of(first, group * members + min(e + i, members - 1));
        [[unroll]] for (uint i = 0; i < AT_ONCE; ++i) {
            const float key = e + i < members ? some[i] : LOWEST;
            second = max(second, min(top, key));
            top = max(top, key);
        }
    }
    return (push.flags & ROUTE_TOP2) != 0 ? max(top + second, LOWEST) : top;
}

// The groups whose bits are set are open. A lane has every SG_SIZE-th.
const uint LANE_GROUPS = (ROUTE_MOST_GROUPS + SG_SIZE - 1) / SG_SIZE;
uint open_groups(const uint first) {
    if (push.groups_used >= push.groups) return 0xFFFFFFFFu;
    float group_keys[LANE_GROUPS];
    for (uint i = 0; i < LANE_GROUPS; ++i) {
        const uint group = i * SG_SIZE + sg_lane();
        group_keys[i] = group < push.groups ? group_key(first, group) : NO_KEY;
    }
    uint open = 0;
    [[dont_unroll]] for (uint n = 0; n < push.groups_used; ++n) {
        float best_key = NO_KEY;
        uint best = NONE;
        for (uint i = 0; i < LANE_GROUPS; ++i) {
            const uint group = i * SG_SIZE + sg_lane();
            if (group >= push.groups || (open >> min(group, 31u) & 1u) != 0) continue;
            if (best == NONE || group_keys[i] > best_key) {
                best = group;
                best_key = group_keys[i];
            }
        }
        open |= 1u << min(best_of_lanes(best, best_key), 31u);
    }
    return open;
}

// The expert that comes next by falling key; it cannot be chosen again.
uint next_best() {
    float best_key = NO_KEY;
    uint best = NONE;
    for (uint i = 0; i < LANE_EXPERTS; ++i)
        if (keys[i] > best_key) {
            best = expert_at(i);
            best_key = keys[i];
        }
    best = best_of_lanes(best, best_key);
    for (uint i = 0; i < LANE_EXPERTS; ++i)
        if (expert_at(i) == best) keys[i] = NO_KEY;
    return best;
}

// The softmax of a chosen expert over itself and those that come after it and are near.
float weight_near(const uint first, const uint expert) {
    const float best = scores[first + expert];
    float sum = 0.0;
    for (uint e = sg_lane(); e < EXPERTS; e += SG_SIZE) {
        const float score = scores[first + e];
        const bool after = score < best || (score == best && e > expert);
        const bool near = best - score <= push.margin * max(abs(score), best);
        if (e == expert || (after && near)) sum += exp_safe(score - best);
    }
    return 1.0 / sg_add(sum);
}

void main() {
    const uint token = group_index() * SG_COUNT + sg_index();
    if (token >= push.tokens) return;  // emulated subgroups have a workgroup each
    const uint first = push.x_first + token * push.x_stride, to = push.out_first + token * push.out_stride;
    float mine[LANE_EXPERTS];
    for (uint i = 0; i < LANE_EXPERTS; ++i) mine[i] = scores[first + min(expert_at(i), EXPERTS - 1)];
    most = LOWEST;
    for (uint i = 0; i < LANE_EXPERTS; ++i) most = max(most, mine[i]);
    most = sg_max(most);
    total = 0.0;
    for (uint i = 0; i < LANE_EXPERTS; ++i) total += expert_at(i) < EXPERTS ? exp_safe(mine[i] - most) : 0.0;
    total = sg_add(total);

    const uint open = open_groups(first), members = EXPERTS / push.groups;
    for (uint i = 0; i < LANE_EXPERTS; ++i) {
        const uint expert = expert_at(i);
        const bool is_open = expert < EXPERTS && (open >> min(expert / members, 31u) & 1u) != 0;
        keys[i] = is_open ? key_of_score(mine[i], expert) : NO_KEY;
    }
    uint chosen[LANE_SLOTS];  // of this lane's, every SG_SIZE-th; then their weights
    float weights[LANE_SLOTS];
    [[dont_unroll]] for (uint slot = 0; slot < USED; ++slot) {
        const uint expert = min(next_best(), EXPERTS - 1);
        const float near = push.score == ROUTE_SOFTMAX_NEAR ? weight_near(first, expert) : 0.0;
        // By constant places: compilers keep what is indexed otherwise in memory, and Turnip's of Mesa 26.2 crashes.
        [[unroll]] for (uint i = 0; i < LANE_SLOTS; ++i) {
            if (expert_at(i) == slot) {
                chosen[i] = expert;
                weights[i] = near;
            }
        }
    }
    float sum = 0.0;
    for (uint i = 0; i < LANE_SLOTS; ++i) {
        if (i * SG_SIZE + sg_lane() >= USED) continue;
        if (push.score != ROUTE_SOFTMAX_NEAR) weights[i] = weight_of(scores[first + chosen[i]]);
        if (push.score == ROUTE_SOFTMAX_CHOSEN) weights[i] = exp_safe(weights[i] - most);
        sum += weights[i];
    }
    sum = sg_add(sum);
    const bool divide = push.score == ROUTE_SOFTMAX_CHOSEN || (push.flags & ROUTE_RENORMALISE) != 0;
    const float scale = divide ? push.scale / sum : push.scale;
    for (uint i = 0; i < LANE_SLOTS; ++i) {
        const uint slot = i * SG_SIZE + sg_lane();
        if (slot >= USED) continue;
        const float own = (push.flags & ROUTE_WEIGHT_SCALE) != 0 ? weight_scale[chosen[i]] : 1.0;
        result[to + slot] = float(chosen[i]);
        result[to + USED + slot] = weights[i] * scale * own;
    }
}
