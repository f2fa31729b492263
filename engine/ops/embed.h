// out[t] = scale * table[i(t)], i being the token's id or its position, from the step buffer
// (shaders/step.h); an index past the table counts as its last row.
#pragma once

#include "graph.h"
#include "kernel_variant.h"

namespace scoria {

struct EmbedArgs {
    const DeviceWeight& table;  // [vocab, cols]
    vk::View step;
    Matrix out;  // [tokens, cols]
    EmbedBy by = EmbedBy::token;
    float scale = 1;
    uint32_t divide = 1, period = 0;  // of period > 0: row position / divide mod period
};

std::vector<KernelVariant> embed_variants(const vk::Caps& caps);
/// Records one dispatch per shard.
void record_embed(OpContext& context, const EmbedArgs& args, const KernelVariant& variant);

}  // namespace scoria
