// out[i] = x[outputs[i]]: the rows whose logits are wanted, listed in the step buffer.
#pragma once

#include "kernel_variant.h"

namespace scoria {

struct SelectArgs {
    Matrix x;    // [tokens, cols]; a listed row past its end reads the last one
    Matrix out;  // [outputs, cols]; rows past the step's output count are left as they are
    vk::View step;
    uint32_t outputs_word;  // of the step buffer, where the list starts
};

std::vector<KernelVariant> select_variants(const vk::Caps& caps);
void record_select(OpContext& context, const SelectArgs& args, const KernelVariant& variant);

}  // namespace scoria
