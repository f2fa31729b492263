// Kernels that compute each element alone.
#pragma once

#include "graph.h"
#include "kernel_variant.h"

namespace scoria {

/// out = act(gate) * up, or clamped as GluClamp says; equal shapes; out may be gate or up.
struct GluArgs {
    Matrix gate, up, out;
    Activation activation = Activation::silu;
    GluClamp clamp = {};
};
/// out = a + scale * b; equal shapes; out may be a or b.
struct AddArgs {
    Matrix a, b, out;
    float scale = 1;
};
/// out[t][c] = act(gate[t][c / n]) * x[t][c], x having n times as many columns as gate; out may be x.
struct GateArgs {
    Matrix x, gate, out;
    Activation activation = Activation::sigmoid;
};
/// out = f(x) as MapKind says; out may be x.
struct MapArgs {
    Matrix x, out;
    MapKind kind;
    float value = 0, second = 0;
    Activation activation = Activation::identity;
};

/// out[t][h] = columns of a[t][h], then of b[t][h].
struct PackArgs {
    Matrix a, b, out;
    uint32_t heads;
    op::HeadColumns from_a, from_b;
};

/// As op::Mix says; out may be x, and x may be y.
struct MixArgs {
    Matrix x, y, out;
    std::optional<Matrix> factors;
    uint32_t width;
    float offset, factor;
    uint32_t first;
};

std::vector<KernelVariant> binary_variants(const vk::Caps& caps);
void record_glu(OpContext& context, const GluArgs& args, const KernelVariant& variant);
void record_add(OpContext& context, const AddArgs& args, const KernelVariant& variant);
void record_gate(OpContext& context, const GateArgs& args, const KernelVariant& variant);
std::vector<KernelVariant> map_variants(const vk::Caps& caps);
void record_map(OpContext& context, const MapArgs& args, const KernelVariant& variant);
std::vector<KernelVariant> pack_variants(const vk::Caps& caps);
void record_pack(OpContext& context, const PackArgs& args, const KernelVariant& variant);
std::vector<KernelVariant> mix_variants(const vk::Caps& caps);
void record_mix(OpContext& context, const MixArgs& args, const KernelVariant& variant);

}  // namespace scoria
