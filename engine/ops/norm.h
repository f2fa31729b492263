// out = (x - mean) / sqrt(mean((x - mean)^2) + epsilon) * weight + bias over each row, or over each `group`
// columns of it (Ba et al. 2016); mean = 0 for an RMS norm (Zhang & Sennrich 2019, eq. 4). Other kinds as
// NormKind says.
#pragma once

#include "kernel_variant.h"

namespace scoria {

struct NormArgs {
    Matrix x, out;  // [rows, cols] each; may be the same
    NormKind kind;
    std::optional<vk::View> weight, bias;  // [group] float32, or [cols] with own_weights
    float epsilon;
    uint32_t group;  // divides cols; cols: whole rows
    bool own_weights = false;
    std::optional<Matrix> like = {};  // [rows, group], of NormKind::match, which has neither weight nor bias
};

std::vector<KernelVariant> norm_variants(const vk::Caps& caps);
void record_norm(OpContext& context, const NormArgs& args, const KernelVariant& variant);

}  // namespace scoria
