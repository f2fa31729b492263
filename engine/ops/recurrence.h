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

struct ShiftArgs {
    Matrix x, out;   // [tokens, width], [tokens, n * width]
    vk::View shift;  // [n, width] float32
    bool feed_forward;
    vk::View step;
    DeviceStates states;
    Pieces pieces;
    Recurrence shape;
};
std::vector<KernelVariant> shift_variants(const vk::Caps& caps);
void record_shift(OpContext& context, const ShiftArgs& args, const KernelVariant& variant);

struct ScanArgs {
    Matrix qk, v;  // [tokens, ..]: q, k and v from the columns below on
    uint32_t q_first, k_first, v_first;
    float q_scale, k_scale;
    std::optional<Matrix> steps;  // [tokens, shape.steps()]; by key behind softplus
    std::optional<Matrix> beta;   // likewise
    Matrix out;                   // [tokens, heads * value_dim]
    vk::View parameters;  // float32: shape.decays(), then, of activated steps, biases and skips, one each
    vk::View step;
    DeviceStates states;
    Pieces pieces;
    Recurrence shape;
};
/// `subgroup` of a variant whose module knows no subgroups: parts of the keys, at least.
std::vector<KernelVariant> scan_variants(const vk::Caps& caps);
void record_scan(OpContext& context, const ScanArgs& args, const KernelVariant& variant);

/// op::Wkv: `qk` is r and k, `steps` w, `beta` the rate; parameters: erase, rate_scale, bonus.
std::vector<KernelVariant> wkv_variants(const vk::Caps& caps);
void record_wkv(OpContext& context, const ScanArgs& args, const KernelVariant& variant);

}  // namespace scoria
