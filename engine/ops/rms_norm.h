// out = x / sqrt(mean(x^2) + epsilon) * weight over each row, or over each `group` columns of it
// (Zhang & Sennrich 2019, eq. 4).
#pragma once

#include "kernel_variant.h"

namespace scoria {

struct RmsNormArgs {
    Matrix x, out;    // [rows, cols] each; may be the same
    vk::View weight;  // [group] float32
    float epsilon;
    uint32_t group;  // divides cols; cols: whole rows
};

std::vector<KernelVariant> rms_norm_variants(const vk::Caps& caps);
void record_rms_norm(OpContext& context, const RmsNormArgs& args, const KernelVariant& variant);

}  // namespace scoria
