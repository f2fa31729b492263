// See rms_norm.h.
#include "rms_norm.h"

#include "rms_norm.push.h"

namespace scoria {

std::vector<KernelVariant> rms_norm_variants(const vk::Caps& caps) {
    return subgroup_variants(caps, Shader::rms_norm_sg, Shader::rms_norm, 128);
}

void record_rms_norm(OpContext& context, const RmsNormArgs& args, const KernelVariant& variant) {
    const RmsNormPush push{args.x.rows,   args.x.cols / args.group, args.group,      args.x.first,
                           args.x.stride, args.out.first,           args.out.stride, args.epsilon};
    const vk::Pipeline& pipeline = context.recorder.pipelines().get(
        shader_module(variant.shader),
        {{vk::constant_workgroup, variant.workgroup}, {vk::constant_subgroup, variant.subgroup}});
    context.recorder.dispatch(pipeline, {args.x.view, args.weight, args.out.view}, push,
                              uint64_t(push.rows) * push.groups, "rms_norm");
}

}  // namespace scoria
