// See norm.h.
#include "norm.h"

#include "norm.push.h"

namespace scoria {

std::vector<KernelVariant> norm_variants(const vk::Caps& caps) {
    return subgroup_variants(caps, Shader::norm_sg, Shader::norm, 256);
}

void record_norm(OpContext& context, const NormArgs& args, const KernelVariant& variant) {
    const NormPush push{.rows = args.x.rows,
                        .groups = args.x.cols / args.group,
                        .group = args.group,
                        .flags = (args.weight ? NORM_WEIGHT : 0) | (args.bias ? NORM_BIAS : 0) |
                                 (args.own_weights ? NORM_OWN_WEIGHTS : 0),
                        .x_first = args.x.first,
                        .x_stride = args.x.stride,
                        .out_first = args.out.first,
                        .out_stride = args.out.stride,
                        .epsilon = args.epsilon};
    // Where a workgroup is one subgroup, as on CPU drivers, loads have no latency to hide.
    const uint32_t loads = variant.workgroup > variant.subgroup ? 8 : 1;
    const vk::Pipeline& pipeline = context.recorder.pipelines().get(
        shader_module(variant.shader), {{vk::constant_workgroup, variant.workgroup},
                                        {vk::constant_subgroup, variant.subgroup},
                                        {NORM_CENTRED, args.kind == NormKind::layer},
                                        {NORM_LOADS, loads}});
    const vk::View& none = args.x.view;
    context.recorder.dispatch(
        pipeline, {args.x.view, args.weight.value_or(none), args.bias.value_or(none), args.out.view}, push,
        uint64_t(push.rows) * push.groups, "norm");
}

}  // namespace scoria
