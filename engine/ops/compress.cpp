// See compress.h.
#include "compress.h"

#include "compress.push.h"
#include "fail.h"
#include "kv_layout.h"

namespace scoria {

std::vector<KernelVariant> compress_variants(const vk::Caps& caps) {
    return plain_variants(caps, Shader::compress, 64);
}

void record_compress(OpContext& context, const CompressArgs& args, const KernelVariant& variant) {
    const DeviceKv& kv = *args.kv;
    if (kv.shards.size() != 1)
        fail(Status::unsupported, "compress", "expected a cache in one buffer (a smaller --ctx), got ",
             kv.shards.size());
    if (kv_quantised(kv.type))
        fail(Status::unsupported, "compress",
             "expected a cache of f32, f16 or bf16 (--kv), got a quantised one");
    const uint32_t words = kv_row_words(kv.type, kv.head_dim);
    const CompressPush push{kv.kv_heads,        words,          args.table,        kv.shards[0].blocks,
                            args.before.memory, args.after.low, args.after.memory, args.rate};
    const vk::Pipeline& pipeline = pipeline_of(context, variant, {{KV_TYPE_CONSTANT, uint32_t(kv.type)}});
    context.recorder.dispatch(pipeline, {args.step, kv.shards[0].view}, push,
                              groups_for(uint64_t{2} * kv.kv_heads * words, variant.workgroup), "compress");
}

}  // namespace scoria
