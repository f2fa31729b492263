// See select.h.
#include "select.h"

#include "elementwise.push.h"

namespace scoria {

std::vector<KernelVariant> select_variants(const vk::Caps& caps) {
    return plain_variants(caps, Shader::select, 128);
}

void record_select(OpContext& context, const SelectArgs& args, const KernelVariant& variant) {
    const SelectPush push{args.out.rows, args.out.cols,  args.x.rows,     args.x.first,
                          args.x.stride, args.out.first, args.out.stride, args.outputs_word};
    context.recorder.dispatch(
        pipeline_of(context, variant), {args.x.view, args.step, args.out.view}, push,
        groups_for(uint64_t(args.out.rows) * args.out.cols, variant.workgroup * ELEMENTS_PER_LANE), "select");
}

}  // namespace scoria
