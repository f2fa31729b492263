// Moves a compressed memory on by one segment, in the cache of a layer (CompressedMemory).
#pragma once

#include "architecture.h"
#include "kernel_variant.h"

namespace scoria {

struct CompressArgs {
    vk::View step;
    uint32_t table;  // word of the step buffer where the sequence's block table starts
    const DeviceKv* kv;
    CompressedWindow before, after;
    uint32_t rate;
};

std::vector<KernelVariant> compress_variants(const vk::Caps& caps);
/// Errors: unsupported, for a cache of several shards.
void record_compress(OpContext& context, const CompressArgs& args, const KernelVariant& variant);

}  // namespace scoria
