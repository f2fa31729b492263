// See experts.h.
#include "experts.h"

#include "experts.push.h"
#include "weight_layout.h"

#include <algorithm>

namespace scoria {
namespace {

std::vector<KernelVariant> plain(const vk::Caps& caps, Shader shader) {
    return {{"plain", shader, std::min({64u, caps.max_invocations, caps.max_workgroup_x}), 1}};
}

}  // namespace

std::vector<KernelVariant> route_variants(const vk::Caps& caps) { return plain(caps, Shader::route); }

void record_route(OpContext& context, const RouteArgs& args, const KernelVariant& variant) {
    const Routing& routing = args.routing;
    const RoutePush push{.tokens = args.scores.rows,
                         .experts = routing.experts,
                         .used = routing.used,
                         .score = uint32_t(routing.score),
                         .flags = (routing.renormalise ? ROUTE_RENORMALISE : 0) |
                                  (routing.group_by_top2 ? ROUTE_TOP2 : 0) |
                                  (args.choice_bias ? ROUTE_CHOICE_BIAS : 0),
                         .groups = routing.groups,
                         .groups_used = routing.groups_used,
                         .x_first = args.scores.first,
                         .x_stride = args.scores.stride,
                         .out_first = args.out.first,
                         .out_stride = args.out.stride,
                         .scale = routing.scale};
    const vk::Pipeline& pipeline = context.recorder.pipelines().get(
        shader_module(variant.shader), {{vk::constant_workgroup, variant.workgroup}});
    context.recorder.dispatch(pipeline,
                              {args.scores.view, args.choice_bias.value_or(args.scores.view), args.out.view},
                              push, groups_for(push.tokens, variant.workgroup), "route");
}

std::vector<KernelVariant> expert_linear_variants(const vk::Caps& caps) {
    return plain(caps, Shader::linear_expert);
}

void record_expert_linear(OpContext& context, const ExpertLinearArgs& args, const KernelVariant& variant) {
    const DeviceWeight& weight = args.weight;
    const bool per_slot = args.x.cols != weight.cols;
    ExpertLinearPush push{.tokens = args.x.rows,
                          .experts = args.experts,
                          .used = args.used,
                          .rows = weight.rows / args.experts,
                          .cols = weight.cols,
                          .flags = (args.bias ? EXPERT_BIAS : 0) | (args.glu ? EXPERT_GLU : 0) |
                                   (per_slot ? EXPERT_PER_SLOT : 0),
                          .x_first = args.x.first,
                          .x_stride = args.x.stride,
                          .routes_first = args.routes.first,
                          .routes_stride = args.routes.stride,
                          .out_first = args.out.first,
                          .out_stride = args.out.stride};
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
            {shard.view, args.x.view, args.routes.view, args.bias.value_or(args.x.view), args.out.view}, push,
            tiles * push.tokens * push.used, "expert_linear");
    }
}

std::vector<KernelVariant> expert_sum_variants(const vk::Caps& caps) {
    return plain(caps, Shader::expert_sum);
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
