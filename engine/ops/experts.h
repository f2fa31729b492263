// Mixture of experts (Shazeer et al. 2017): the choice, the experts' linears, the weighted sum. No host round
// trip: expert ids stay on the device.
#pragma once

#include "kernel_variant.h"
#include "linear.h"

namespace scoria {

/// out[t] = ids of the chosen experts as floats, then their weights.
struct RouteArgs {
    Matrix scores, out;  // [tokens, experts], [tokens, 2 * used]
    const Routing& routing;
    std::optional<vk::View> choice_bias, weight_scale;  // [experts]
};

/// out[t][s] = W[expert s of t] x[t] + bias, or of x[t][s].
struct ExpertLinearArgs {
    Matrix x;  // [tokens, cols] or [tokens, used * any], of whose parts columns from `first` on are read
    std::optional<Matrix> routes;  // of RouteArgs; none: of heads, slot s is that of head s
    Matrix out;                    // [tokens, used * rows]
    const DeviceWeight&
        weight;  // [experts * rows, cols]; rows interleave gate and up if glu, which halves out's
    std::optional<vk::View> bias;  // [experts * rows]
    uint32_t experts, used;
    bool glu = false;
    Activation activation = Activation::silu;  // of glu
    vk::View scratch{};                        // of expert_scratch_bytes()
    uint32_t first_tile = 0, tiles = 0;        // as LinearExperts have them
    uint32_t first = 0;
};

/// out[t] = sum over s of weight[t][s] * x[t][s], or residual + scale times that
struct ExpertSumArgs {
    Matrix x, routes, out;  // [tokens, used * cols], [tokens, 2 * used], [tokens, cols]
    uint32_t used;
    std::optional<Matrix> residual = std::nullopt;  // shape of out; may be out itself
    float scale = 1;
};

std::vector<KernelVariant> route_variants(const vk::Caps& caps);
void record_route(OpContext& context, const RouteArgs& args, const KernelVariant& variant);
/// Of expert_linear_variants(), for as many tokens or more.
void record_expert_linear(OpContext& context, const ExpertLinearArgs& args, const LinearVariant& variant);
std::vector<KernelVariant> expert_sum_variants(const vk::Caps& caps);
void record_expert_sum(OpContext& context, const ExpertSumArgs& args, const KernelVariant& variant);

}  // namespace scoria
