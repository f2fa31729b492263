// See kernel_variant.h.
#include "kernel_variant.h"

#include <algorithm>

namespace scoria {

std::vector<KernelVariant> subgroup_variants(const vk::Caps& caps, Shader native, Shader emulated,
                                             uint32_t workgroup, bool ballot) {
    const uint32_t most = std::min(caps.max_invocations, caps.max_workgroup_x);
    std::vector<KernelVariant> variants;
    if (caps.native_subgroups() && caps.subgroup_size <= most && (!ballot || caps.subgroup_ballot)) {
        const uint32_t subgroups =
            caps.is_cpu() ? 1 : std::max(1u, std::min(workgroup, most) / caps.subgroup_size);
        variants.push_back({"subgroup", native, subgroups * caps.subgroup_size, caps.subgroup_size});
    }
    // One group of 32: where subgroups are emulated, barriers within one group are the cost.
    variants.push_back({"emulated", emulated, 32, 32});
    return variants;
}

std::vector<KernelVariant> plain_variants(const vk::Caps& caps, Shader shader, uint32_t workgroup) {
    return {{"plain", shader, std::min({workgroup, caps.max_invocations, caps.max_workgroup_x}), 1}};
}

const vk::Pipeline& pipeline_of(OpContext& context, const KernelVariant& variant,
                                std::vector<vk::Constant> constants) {
    const vk::ShaderModule& module = shader_module(variant.shader);
    constants.push_back({vk::constant_workgroup, variant.workgroup});
    if (variant.subgroup > 1 && std::ranges::count(module.constant_ids, vk::constant_subgroup) != 0)
        constants.push_back({vk::constant_subgroup, variant.subgroup});
    return context.recorder.pipelines().get(module, constants);
}

}  // namespace scoria
