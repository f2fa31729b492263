// One way to run an op: a compiled module and the sizes it is specialised with.
#pragma once

#include "op.h"
#include "shaders.h"

#include <string_view>

namespace scoria {

struct KernelVariant {
    std::string_view name;  // for reports; a literal
    Shader shader;
    uint32_t workgroup;  // invocations
    uint32_t subgroup;   // lanes of a logical group
};

/// The variants of a kernel that exists with native and with emulated subgroups, default first. `workgroup`:
/// invocations wanted on a GPU; CPU drivers get one subgroup (their barriers cost), and neither exceeds
/// the device's limits.
std::vector<KernelVariant> subgroup_variants(const vk::Caps& caps, Shader native, Shader emulated,
                                             uint32_t workgroup, bool ballot = false);

/// The one variant of a kernel without subgroups; `workgroup` as above.
std::vector<KernelVariant> plain_variants(const vk::Caps& caps, Shader shader, uint32_t workgroup);

/// Its pipeline, with `constants` beside the sizes of its workgroup and, where it has lanes that share work,
/// of its logical group. Shaders without such groups may use the latter's id for their own.
const vk::Pipeline& pipeline_of(OpContext& context, const KernelVariant& variant,
                                std::vector<vk::Constant> constants = {});

/// Workgroups for `items` of which each takes `each`.
constexpr uint64_t groups_for(uint64_t items, uint64_t each) { return (items + each - 1) / each; }

}  // namespace scoria
