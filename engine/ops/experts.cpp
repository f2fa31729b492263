// See experts.h.
#include "experts.h"

#include "experts.push.h"
#include "weight_layout.h"

namespace scoria {
std::vector<KernelVariant> route_variants(const vk::Caps& caps) {
    return plain_variants(caps, Shader::route, 64);
}

void record_route(OpContext& context, const RouteArgs& args, const KernelVariant& variant) {
    const Routing& routing = args.routing;
    const RoutePush push{
        .tokens = args.scores.rows,
        .experts = routing.experts,
        .used = routing.used,
        .score = uint32_t(routing.score),
        .flags = (routing.renormalise ? ROUTE_RENORMALISE : 0) | (routing.group_by_top2 ? ROUTE_TOP2 : 0) |
                 (args.choice_bias ? ROUTE_CHOICE_BIAS : 0) | (args.weight_scale ? ROUTE_WEIGHT_SCALE : 0),
        .groups = routing.groups,
        .groups_used = routing.groups_used,
        .x_first = args.scores.first,
        .x_stride = args.scores.stride,
        .out_first = args.out.first,
        .out_stride = args.out.stride,
        .scale = routing.scale,
        .margin = routing.margin};
    const vk::Pipeline& pipeline = context.recorder.pipelines().get(
        shader_module(variant.shader), {{vk::constant_workgroup, variant.workgroup}});
    const vk::View& none = args.scores.view;
    context.recorder.dispatch(
        pipeline, {none, args.choice_bias.value_or(none), args.weight_scale.value_or(none), args.out.view},
        push, groups_for(push.tokens, variant.workgroup), "route");
}

std::vector<KernelVariant> expert_linear_variants(const vk::Caps& caps) {
    return plain_variants(caps, Shader::linear_expert, 64);
}

namespace {

/// One dispatch per shard of a weight whose experts stand one after the other; fills in the shard's words.
void record_experts(OpContext& context, ExpertLinearPush push, const DeviceWeight& weight, const vk::View& x,
                    const vk::View& routes, const vk::View& bias, const vk::View& out, Activation activation,
                    const KernelVariant& variant, std::string_view label) {
    push.rows = weight.rows / push.experts;
    push.cols = weight.cols;
    const vk::Pipeline& pipeline = context.recorder.pipelines().get(
        shader_module(variant.shader), {{vk::constant_workgroup, variant.workgroup},
                                        {2, uint32_t(weight.type)},
                                        {EXPERT_ACTIVATION, uint32_t(activation)}});
    const uint64_t tiles = groups_for(groups_for(push.rows, 2), variant.workgroup);
    for (const DeviceWeight::Shard& shard : weight.shards) {
        const WeightPlanes planes = weight_planes(weight.type, shard.rows, weight.cols);
        push.first_row = shard.first_row;
        push.shard_rows = shard.rows;
        push.side_plane = uint32_t(planes.side / 4);
        push.table_plane = uint32_t(planes.table / 4);
        context.recorder.dispatch(pipeline, {shard.view, x, routes, bias, out}, push,
                                  tiles * push.tokens * push.used, label);
    }
}

}  // namespace

void record_expert_linear(OpContext& context, const ExpertLinearArgs& args, const KernelVariant& variant) {
    const bool per_slot = args.x.cols != args.weight.cols;
    const ExpertLinearPush push{.tokens = args.x.rows,
                                .experts = args.experts,
                                .used = args.used,
                                .flags = (args.bias ? EXPERT_BIAS : 0) | (args.glu ? EXPERT_GLU : 0) |
                                         (per_slot ? EXPERT_PER_SLOT : 0),
                                .x_first = args.x.first,
                                .x_stride = args.x.stride,
                                .routes_first = args.routes.first,
                                .routes_stride = args.routes.stride,
                                .out_first = args.out.first,
                                .out_stride = args.out.stride,
                                .slot_stride = args.weight.cols};
    record_experts(context, push, args.weight, args.x.view, args.routes.view, args.bias.value_or(args.x.view),
                   args.out.view, args.activation, variant, "expert_linear");
}

void record_head_linear(OpContext& context, const HeadLinearArgs& args, const KernelVariant& variant) {
    const ExpertLinearPush push{.tokens = args.x.rows,
                                .experts = args.heads,
                                .used = args.heads,
                                .flags = EXPERT_PER_SLOT | EXPERT_IS_SLOT,
                                .x_first = args.x.first + args.first,
                                .x_stride = args.x.stride,
                                .out_first = args.out.first,
                                .out_stride = args.out.stride,
                                .slot_stride = args.x.cols / args.heads};
    record_experts(context, push, args.weight, args.x.view, args.x.view, args.x.view, args.out.view,
                   Activation::silu, variant, "head_linear");
}

std::vector<KernelVariant> expert_sum_variants(const vk::Caps& caps) {
    return plain_variants(caps, Shader::expert_sum, 64);
}

void record_expert_sum(OpContext& context, const ExpertSumArgs& args, const KernelVariant& variant) {
    const ExpertSumPush push{args.out.rows,      args.used,      args.out.cols,
                             args.x.first,       args.x.stride,  args.routes.first,
                             args.routes.stride, args.out.first, args.out.stride};
    const vk::Pipeline& pipeline = context.recorder.pipelines().get(
        shader_module(variant.shader), {{vk::constant_workgroup, variant.workgroup}});
    context.recorder.dispatch(pipeline, {args.x.view, args.routes.view, args.out.view}, push,
                              groups_for(uint64_t(push.tokens) * push.cols, variant.workgroup), "expert_sum");
}

}  // namespace scoria
