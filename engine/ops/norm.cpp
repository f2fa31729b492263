// See norm.h.
#include "norm.h"

#include "norm.push.h"

namespace scoria {

static_assert(uint32_t(NormKind::rms) == NORM_RMS && uint32_t(NormKind::layer) == NORM_LAYER &&
              uint32_t(NormKind::scale) == NORM_SCALE && uint32_t(NormKind::match) == NORM_MATCH &&
              uint32_t(NormKind::cut) == NORM_CUT);

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
                        .like_first = args.like ? args.like->first : 0,
                        .like_stride = args.like ? args.like->stride : 0,
                        .out_first = args.out.first,
                        .out_stride = args.out.stride,
                        .epsilon = args.epsilon};
    // Where a workgroup is one subgroup, as on CPU drivers, loads have no latency to hide.
    const uint32_t loads = variant.workgroup > variant.subgroup ? 8 : 1;
    const vk::Pipeline& pipeline =
        pipeline_of(context, variant, {{NORM_KIND, uint32_t(args.kind)}, {NORM_LOADS, loads}});
    const vk::View &none = args.x.view, &second = args.like     ? args.like->view
                                                  : args.weight ? *args.weight
                                                                : none;
    context.recorder.dispatch(pipeline, {args.x.view, second, args.bias.value_or(none), args.out.view}, push,
                              uint64_t(push.rows) * push.groups, "norm");
}

}  // namespace scoria
