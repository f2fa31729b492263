// Kernels that compute each element alone.
#pragma once

#include "architecture.h"
#include "kernel_variant.h"

namespace scoria {

/// out = act(gate) * up; equal shapes.
struct GluArgs {
    Matrix gate, up, out;
    Activation activation = Activation::silu;
};
/// out = a + b; equal shapes; out may be a or b.
struct AddArgs {
    Matrix a, b, out;
};

/// out = cap * tanh(x / cap), which bounds logits smoothly (Bello et al. 2016); out may be x.
struct SoftCapArgs {
    Matrix x, out;
    float cap;
};

std::vector<KernelVariant> glu_variants(const vk::Caps& caps);
void record_glu(OpContext& context, const GluArgs& args, const KernelVariant& variant);
std::vector<KernelVariant> add_variants(const vk::Caps& caps);
void record_add(OpContext& context, const AddArgs& args, const KernelVariant& variant);
std::vector<KernelVariant> soft_cap_variants(const vk::Caps& caps);
void record_soft_cap(OpContext& context, const SoftCapArgs& args, const KernelVariant& variant);

}  // namespace scoria
