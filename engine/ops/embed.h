// out[t] = table[id(t)], ids from the step buffer (shaders/step.h); an id past the table counts as its last
// row.
#pragma once

#include "kernel_variant.h"

namespace scoria {

struct EmbedArgs {
    const DeviceWeight& table;  // [vocab, cols]
    vk::View step;
    Matrix out;  // [tokens, cols]
};

std::vector<KernelVariant> embed_variants(const vk::Caps& caps);
/// Records one dispatch per shard.
void record_embed(OpContext& context, const EmbedArgs& args, const KernelVariant& variant);

}  // namespace scoria
