// Which keys of the paged cache the tokens of a batch see in sparse attention (struct Indexer, op::Choose).
// The index keys are in the cache already (rope.h).
#pragma once

#include "architecture.h"
#include "kernel_variant.h"

namespace scoria {

struct ChooseArgs {
    Matrix q;        // [tokens, heads * head_dim], rotated
    Matrix weights;  // [tokens, heads]
    Matrix out;      // [tokens, positions / chosen_bits], see there
    vk::View step;
    const DeviceKv* kv;
    vk::View scratch;    // choose_scratch_bytes
    uint32_t positions;  // of a sequence, at most
    const Indexer& indexer;
    uint32_t first_token = 0;  // of the batch, whose rows these are from there on
};

std::vector<KernelVariant> choose_variants(const vk::Caps& caps);
/// For the scores of as many tokens as are computed at a time.
uint64_t choose_scratch_bytes(uint32_t tokens, uint32_t positions);
void record_choose(OpContext& context, const ChooseArgs& args, const KernelVariant& variant);

}  // namespace scoria
