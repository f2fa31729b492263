// See elementwise.h.
#include "elementwise.h"

#include "elementwise.push.h"

#include <algorithm>

namespace scoria {
namespace {

std::vector<KernelVariant> variants_of(const vk::Caps& caps, Shader shader) {
    return {{"plain", shader, std::min({128u, caps.max_invocations, caps.max_workgroup_x}), 1}};
}

void record(OpContext& context, const Matrix& a, const Matrix& b, const Matrix& out,
            const KernelVariant& variant, std::string_view label) {
    const ElementwisePush push{out.rows, out.cols, a.first,   a.stride,
                               b.first,  b.stride, out.first, out.stride};
    const vk::Pipeline& pipeline = context.recorder.pipelines().get(
        shader_module(variant.shader), {{vk::constant_workgroup, variant.workgroup}});
    context.recorder.dispatch(
        pipeline, {a.view, b.view, out.view}, push,
        groups_for(uint64_t(out.rows) * out.cols, variant.workgroup * ELEMENTS_PER_LANE), label);
}

}  // namespace

std::vector<KernelVariant> glu_variants(const vk::Caps& caps) { return variants_of(caps, Shader::glu); }
void record_glu(OpContext& context, const GluArgs& args, const KernelVariant& variant) {
    record(context, args.gate, args.up, args.out, variant, "glu");
}

std::vector<KernelVariant> add_variants(const vk::Caps& caps) { return variants_of(caps, Shader::add); }
void record_add(OpContext& context, const AddArgs& args, const KernelVariant& variant) {
    record(context, args.a, args.b, args.out, variant, "add");
}

std::vector<KernelVariant> soft_cap_variants(const vk::Caps& caps) {
    return variants_of(caps, Shader::soft_cap);
}
void record_soft_cap(OpContext& context, const SoftCapArgs& args, const KernelVariant& variant) {
    const auto& [x, out, cap] = args;
    const SoftCapPush push{out.rows, out.cols, x.first, x.stride, out.first, out.stride, cap};
    const vk::Pipeline& pipeline = context.recorder.pipelines().get(
        shader_module(variant.shader), {{vk::constant_workgroup, variant.workgroup}});
    context.recorder.dispatch(
        pipeline, {x.view, out.view}, push,
        groups_for(uint64_t(out.rows) * out.cols, variant.workgroup * ELEMENTS_PER_LANE), "soft_cap");
}

}  // namespace scoria
