// op::Convolve and op::Scan: what layers with a recurrence remember (struct Recurrence).
#pragma once

#include "architecture.h"
#include "kernel_variant.h"

namespace scoria {

uint64_t state_bytes(const Recurrence& shape);  // of a slot

/// States of so many sequences, `stride` bytes from one to the next.
struct DeviceStates {
    vk::View view;
    uint64_t stride = 0;
};
/// Of a batch, in the step buffer (recurrence.push.h).
struct Pieces {
    uint32_t count = 1, word = 0;
};

struct ConvolveArgs {
    Matrix x, out;  // [tokens, channels]
    vk::View taps;  // [channels, taps] float32
    std::optional<vk::View> bias;
    vk::View step;
    DeviceStates states;
    Pieces pieces;
    Activation activation;
    Recurrence shape;
};
std::vector<KernelVariant> convolve_variants(const vk::Caps& caps);
void record_convolve(OpContext& context, const ConvolveArgs& args, const KernelVariant& variant);

struct ScanArgs {
    Matrix qk, v;  // [tokens, ..]: q, k and v from the columns below on
    uint32_t q_first, k_first, v_first;
    float q_scale, k_scale;
    Matrix steps;                // [tokens, shape.steps()]; by key behind softplus
    std::optional<Matrix> beta;  // likewise
    Matrix out;                  // [tokens, heads * value_dim]
    vk::View parameters;  // float32: shape.decays(), then, but by key, biases and skips, shape.steps() each
    vk::View step;
    DeviceStates states;
    Pieces pieces;
    Recurrence shape;
};
/// `subgroup` of a variant whose module knows no subgroups: parts of the keys, at least.
std::vector<KernelVariant> scan_variants(const vk::Caps& caps);
void record_scan(OpContext& context, const ScanArgs& args, const KernelVariant& variant);

}  // namespace scoria
