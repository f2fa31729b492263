// See embed.h; the kernel is shaders/embed.comp.
#include "embed.h"

#include "embed.push.h"
#include "step.h"
#include "weight_layout.h"

#include <cassert>

namespace scoria {

namespace {
uint32_t step_word(EmbedBy by) {
    constexpr uint32_t words[] = {STEP_TOKEN_ID, STEP_TOKEN_POSITION, STEP_TOKEN_TYPE};
    return words[size_t(by)];
}
}  // namespace

std::vector<KernelVariant> embed_variants(const vk::Caps& caps) {
    return plain_variants(caps, Shader::embed, 64);
}

void record_embed(OpContext& context, const EmbedArgs& args, const KernelVariant& variant) {
    const DeviceWeight& table = args.table;
    assert(args.out.cols == table.cols);
    const vk::Pipeline& pipeline = pipeline_of(context, variant, {{2, uint32_t(table.type)}});
    const uint64_t blocks = (uint64_t(table.cols) + 31) / 32;  // of four lanes each
    for (const DeviceWeight::Shard& shard : table.shards) {
        const WeightPlanes planes = weight_planes(table.type, shard.rows, table.cols);
        const EmbedPush push{.first_row = shard.first_row,
                             .rows = shard.rows,
                             .cols = table.cols,
                             .vocab = table.rows,
                             .tokens = args.out.rows,
                             .side_plane = uint32_t(planes.side / 4),
                             .table_plane = uint32_t(planes.table / 4),
                             .out_first = args.out.first,
                             .out_stride = args.out.stride,
                             .step_word = step_word(args.by),
                             .scale = args.scale,
                             .divide = args.divide,
                             .period = args.period};
        context.recorder.dispatch(pipeline, {shard.view, args.step, args.out.view}, push,
                                  groups_for(args.out.rows * blocks * 4, variant.workgroup), "embed");
    }
}

}  // namespace scoria
