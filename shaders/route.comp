// Chooses experts: out[t] = ids of the best `used` by falling score (lower id first among equals), then their weights.
// A logical subgroup per token, whose lanes share out the experts: these are tens to hundreds, and reading them again is
// cheaper than keeping lists.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "subgroup.glsl"
#include "grid.glsl"
#include "numerics.glsl"
#include "experts.push.h"

layout(binding = 0) readonly buffer Scores { float scores[]; };
layout(binding = 1) readonly buffer Choice { float choice_bias[]; };
layout(binding = 2) readonly buffer Scale { float weight_scale[]; };
layout(binding = 3) buffer Out { float result[]; };
layout(push_constant) uniform Push { RoutePush push; };

const float LOWEST = -3e38;
const float NO_KEY = -3.4e38;  // of lanes that have nothing to offer
const uint NONE = 0xFFFFFFFFu;

float most, total;  // of the softmax over all experts

float weight_of(const uint first, const uint expert) {
    const float score = scores[first + expert];
    if (push.score == ROUTE_SOFTMAX) return exp_safe(score - most) / total;
    return push.score == ROUTE_SIGMOID ? sigmoid(score) : score;
}

// What experts are chosen by. NaN counts as the lowest.
float key_of(const uint first, const uint expert) {
    const float key = weight_of(first, expert) + ((push.flags & ROUTE_CHOICE_BIAS) != 0 ? choice_bias[expert] : 0.0);
    return is_nan(key) ? LOWEST : max(key, LOWEST);
}

// Of what the lanes offer (NONE: nothing), the least index that has the greatest key.
uint best_of_lanes(const uint index, const float key) {
    const float best = sg_max(index == NONE ? NO_KEY : key);
    return ~sg_max(index != NONE && key == best ? ~index : 0u);
}

// What a group of experts is chosen by.
float group_key(const uint first, const uint group) {
    const uint members = push.experts / push.groups;
    float top = LOWEST, second = LOWEST;
    for (uint e = group * members; e < (group + 1) * members; ++e) {
        const float key = key_of(first, e);
        second = max(second, min(top, key));
        top = max(top, key);
    }
    return (push.flags & ROUTE_TOP2) != 0 ? max(top + second, LOWEST) : top;
}

// The groups whose bits are set are open. A lane has every SG_SIZE-th.
const uint LANE_GROUPS = (ROUTE_MOST_GROUPS + SG_SIZE - 1) / SG_SIZE;
uint open_groups(const uint first) {
    if (push.groups_used >= push.groups) return 0xFFFFFFFFu;
    float keys[LANE_GROUPS];
    for (uint i = 0; i < LANE_GROUPS; ++i) {
        const uint group = i * SG_SIZE + sg_lane();
        keys[i] = group < push.groups ? group_key(first, group) : NO_KEY;
    }
    uint open = 0;
    for (uint n = 0; n < push.groups_used; ++n) {
        float best_key = NO_KEY;
        uint best = NONE;
        for (uint i = 0; i < LANE_GROUPS; ++i) {
            const uint group = i * SG_SIZE + sg_lane();
            if (group >= push.groups || (open >> min(group, 31u) & 1u) != 0) continue;
            if (best == NONE || keys[i] > best_key) {
                best = group;
                best_key = keys[i];
            }
        }
        open |= 1u << min(best_of_lanes(best, best_key), 31u);
    }
    return open;
}

// The expert of an open group that comes after `last` by falling key.
uint next_best(const uint first, const uint open, const uint last) {
    const uint members = push.experts / push.groups;
    const float last_key = last == NONE ? 0.0 : key_of(first, last);
    float best_key = NO_KEY;
    uint best = NONE;
    for (uint e = sg_lane(); e < push.experts; e += SG_SIZE) {
        if ((open >> min(e / members, 31u) & 1u) == 0) continue;
        const float key = key_of(first, e);
        const bool after = last == NONE || key < last_key || (key == last_key && e > last);
        if (after && (best == NONE || key > best_key)) {
            best = e;
            best_key = key;
        }
    }
    return best_of_lanes(best, best_key);
}

// The softmax of a chosen expert over itself and those that come after it and are near.
float weight_near(const uint first, const uint expert) {
    const float best = scores[first + expert];
    float sum = 0.0;
    for (uint e = sg_lane(); e < push.experts; e += SG_SIZE) {
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
    most = LOWEST;
    for (uint e = sg_lane(); e < push.experts; e += SG_SIZE) most = max(most, scores[first + e]);
    most = sg_max(most);
    total = 0.0;
    for (uint e = sg_lane(); e < push.experts; e += SG_SIZE) total += exp_safe(scores[first + e] - most);
    total = sg_add(total);

    const uint open = open_groups(first);
    float sum = 0.0;
    uint last = NONE;
    for (uint slot = 0; slot < push.used; ++slot) {
        last = next_best(first, open, last);
        const uint expert = min(last, push.experts - 1);
        float weight = weight_of(first, expert);
        if (push.score == ROUTE_SOFTMAX_CHOSEN) weight = exp_safe(weight - most);
        if (push.score == ROUTE_SOFTMAX_NEAR) weight = weight_near(first, expert);
        sum += weight;
        if (sg_lane() == slot % SG_SIZE) {
            result[to + slot] = float(expert);
            result[to + push.used + slot] = weight;
        }
    }
    const bool divide = push.score == ROUTE_SOFTMAX_CHOSEN || (push.flags & ROUTE_RENORMALISE) != 0;
    const float scale = divide ? push.scale / sum : push.scale;
    for (uint slot = sg_lane(); slot < push.used; slot += SG_SIZE) {  // what it wrote itself
        const uint expert = min(uint(result[to + slot]), push.experts - 1);
        const float own = (push.flags & ROUTE_WEIGHT_SCALE) != 0 ? weight_scale[expert] : 1.0;
        result[to + push.used + slot] *= scale * own;
    }
}
