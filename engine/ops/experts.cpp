// See experts.h.
#include "experts.h"

#include "experts.push.h"
#include "weight_layout.h"

#include <algorithm>

namespace scoria {
std::vector<KernelVariant> route_variants(const vk::Caps& caps) {
    return subgroup_variants(caps, Shader::route_sg, Shader::route, 64);
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
    const vk::Pipeline& pipeline =
        pipeline_of(context, variant, {{ROUTE_EXPERTS, routing.experts}, {ROUTE_USED, routing.used}});
    const vk::View& none = args.scores.view;
    context.recorder.dispatch(
        pipeline, {none, args.choice_bias.value_or(none), args.weight_scale.value_or(none), args.out.view},
        push, groups_for(push.tokens, variant.workgroup / variant.subgroup), "route");
}

namespace {

/// A lane for two rows of an expert, whatever their number. One dispatch per shard of the weight.
void record_plain(OpContext& context, const LinearArgs& args, const LinearVariant& variant) {
    const DeviceWeight& weight = args.weight;
    const LinearExperts& experts = *args.experts;
    const Matrix routes = experts.routes.value_or(args.x);
    ExpertLinearPush push{.tokens = args.x.rows,
                          .experts = experts.experts,
                          .used = experts.used,
                          .rows = weight.rows / experts.experts,
                          .cols = weight.cols,
                          .flags = (args.bias ? EXPERT_BIAS : 0) | (args.glu ? EXPERT_GLU : 0) |
                                   (experts.routes ? 0 : EXPERT_IS_SLOT),
                          .x_first = args.x.first,
                          .x_stride = args.x.stride,
                          .routes_first = routes.first,
                          .routes_stride = routes.stride,
                          .out_first = args.out.first,
                          .out_stride = args.out.stride,
                          .slot_stride = experts.slot_stride};
    const vk::Pipeline& pipeline = context.recorder.pipelines().get(
        shader_module(variant.shader), {{vk::constant_workgroup, variant.workgroup},
                                        {2, uint32_t(weight.type)},
                                        {EXPERT_ACTIVATION, uint32_t(args.activation)}});
    const uint64_t tiles = groups_for(groups_for(push.rows, 2), variant.workgroup);
    for (const DeviceWeight::Shard& shard : weight.shards) {
        const WeightPlanes planes = weight_planes(weight.type, shard.rows, weight.cols);
        push.first_row = shard.first_row;
        push.shard_rows = shard.rows;
        push.side_plane = uint32_t(planes.side / 4);
        push.table_plane = uint32_t(planes.table / 4);
        context.recorder.dispatch(
            pipeline,
            {shard.view, args.x.view, routes.view, args.bias ? *args.bias : args.x.view, args.out.view}, push,
            tiles * push.tokens * push.used, experts.routes ? "expert_linear" : "head_linear");
    }
}

}  // namespace

void record_expert_linear(OpContext& context, const ExpertLinearArgs& args, const LinearVariant& variant) {
    const bool per_slot = args.x.cols != args.weight.cols;
    Matrix x = args.x;
    x.first += args.first;
    const LinearArgs linear{.x = x,
                            .out = args.out,
                            .weight = args.weight,
                            .bias = args.bias ? &*args.bias : nullptr,
                            .experts =
                                LinearExperts{args.routes, args.experts, args.used,
                                              per_slot ? x.cols / args.used : 0, args.first_tile, args.tiles},
                            .glu = args.glu,
                            .activation = args.activation,
                            .scratch = args.scratch};
    if (variant.shader == Shader::linear_expert)
        record_plain(context, linear, variant);
    else
        record_linear(context, linear, variant);
}

std::vector<KernelVariant> expert_sum_variants(const vk::Caps& caps) {
    return plain_variants(caps, Shader::expert_sum, 64);
}

void record_expert_sum(OpContext& context, const ExpertSumArgs& args, const KernelVariant& variant) {
    const Matrix residual = args.residual.value_or(args.x);
    const ExpertSumPush push{.tokens = args.out.rows,
                             .cols = args.out.cols,
                             .x_first = args.x.first,
                             .x_stride = args.x.stride,
                             .routes_first = args.routes.first,
                             .routes_stride = args.routes.stride,
                             .out_first = args.out.first,
                             .out_stride = args.out.stride,
                             .residual_first = residual.first,
                             .residual_stride = residual.stride,
                             .adds = args.residual.has_value(),
                             .scale = args.scale};
    const vk::Pipeline& pipeline = pipeline_of(context, variant, {{EXPERT_SUM_USED, args.used}});
    context.recorder.dispatch(pipeline, {args.x.view, args.routes.view, residual.view, args.out.view}, push,
                              groups_for(uint64_t(push.tokens) * push.cols, variant.workgroup), "expert_sum");
}

}  // namespace scoria
