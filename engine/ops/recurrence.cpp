// See recurrence.h.
#include "recurrence.h"

#include "recurrence.push.h"

namespace scoria {

uint64_t state_bytes(const Recurrence& shape) { return 4 * shape.state_floats(); }

std::vector<KernelVariant> convolve_variants(const vk::Caps& caps) {
    return plain_variants(caps, Shader::convolve, 64);
}

void record_convolve(OpContext& context, const ConvolveArgs& args, const KernelVariant& variant) {
    const Recurrence& shape = args.shape;
    const ConvolvePush push{.pieces = args.pieces.count,
                            .pieces_word = args.pieces.word,
                            .sequence_words = uint32_t(args.states.stride / 4),
                            .slot_words = uint32_t(shape.state_floats()),
                            .tokens = args.x.rows,
                            .channels = shape.channels(),
                            .has_bias = args.bias.has_value(),
                            .x_first = args.x.first,
                            .x_stride = args.x.stride,
                            .out_first = args.out.first,
                            .out_stride = args.out.stride};
    const vk::Pipeline& pipeline = pipeline_of(
        context, variant, {{CONVOLVE_ACTIVATION, uint32_t(args.activation)}, {CONVOLVE_TAPS, shape.taps}});
    context.recorder.dispatch(
        pipeline,
        {args.step, args.x.view, args.taps, args.bias.value_or(args.taps), args.states.view, args.out.view},
        push, groups_for(push.tokens, CONVOLVE_ROWS) * groups_for(push.channels, variant.workgroup),
        "convolve");
}

std::vector<KernelVariant> scan_variants(const vk::Caps& caps) {
    const uint32_t most = std::min(caps.max_invocations, caps.max_workgroup_x);
    const uint32_t whole = std::min(64u, most), parted = std::min(128u, most);
    constexpr uint32_t parts = 4;
    if (!caps.is_cpu()) return {{"parts", Shader::scan_unrolled, parted, parts}};
    std::vector<KernelVariant> variants;
    if (caps.native_subgroups() && caps.subgroup_ballot && whole % caps.subgroup_size == 0)
        variants.push_back({"subgroup", Shader::scan_sg, whole, caps.subgroup_size});
    variants.push_back({"columns", Shader::scan, whole, 1});
    variants.push_back({"parts", Shader::scan, parted, parts});
    return variants;
}

namespace {

constexpr uint32_t most_keys = 32;  // of a lane: what GPUs have registers for

uint32_t parts_of(const Recurrence& shape, uint32_t parts) {
    while (parts > 1 && parts * most_keys < shape.key_dim) parts *= 2;
    return parts;
}

/// With the constants that scan.comp and wkv.comp share beside `constants`.
void dispatch_scan(OpContext& context, const ScanArgs& args, const KernelVariant& variant, uint32_t parts,
                   std::vector<vk::Constant> constants, std::string_view name) {
    const Recurrence& shape = args.shape;
    const uint32_t columns = variant.workgroup / parts;
    const Matrix steps = args.steps.value_or(args.qk), beta = args.beta.value_or(steps);
    const ScanPush push{.pieces = args.pieces.count,
                        .pieces_word = args.pieces.word,
                        .sequence_words = uint32_t(args.states.stride / 4),
                        .slot_words = uint32_t(shape.state_floats()),
                        .heads = shape.heads,
                        .groups = shape.groups,
                        .key_dim = shape.key_dim,
                        .value_dim = shape.value_dim,
                        .tiled = shape.tiled,
                        .state_first = uint32_t(shape.convolved_floats()),
                        .q_first = args.qk.first + args.q_first,
                        .k_first = args.qk.first + args.k_first,
                        .qk_stride = args.qk.stride,
                        .v_first = args.v.first + args.v_first,
                        .v_stride = args.v.stride,
                        .step_first = steps.first,
                        .step_stride = steps.stride,
                        .beta_first = beta.first,
                        .beta_stride = beta.stride,
                        .out_first = args.out.first,
                        .out_stride = args.out.stride,
                        .q_scale = args.q_scale,
                        .k_scale = args.k_scale,
                        .bound = shape.bound};
    constants.insert(constants.end(),
                     {{SCAN_PARTS, parts}, {SCAN_KEYS, uint32_t(groups_for(shape.key_dim, parts))}});
    context.recorder.dispatch(
        pipeline_of(context, variant, std::move(constants)),
        {args.step, args.qk.view, args.v.view, steps.view, beta.view, args.parameters, args.states.view,
         args.out.view},
        push, uint64_t{push.pieces} * shape.heads * groups_for(shape.value_dim, columns), name);
}

}  // namespace

void record_scan(OpContext& context, const ScanArgs& args, const KernelVariant& variant) {
    const Recurrence& shape = args.shape;
    const bool native = variant.shader == Shader::scan_sg;
    const uint32_t parts = native ? 1 : parts_of(shape, variant.subgroup);
    std::vector<vk::Constant> constants{
        {SCAN_WHOLE, shape.key_dim % parts == 0},
        {SCAN_DELTA, shape.kind == RecurrenceKind::delta},
        {SCAN_BY_COLUMN, shape.by_column()},
        {SCAN_FIXED, shape.kind == RecurrenceKind::lightning},
        {SCAN_BY_KEY, shape.bound < 0 ? SCAN_BOUNDED : uint32_t(shape.by_key)}};
    dispatch_scan(context, args, variant, parts, std::move(constants), "scan");
}

std::vector<KernelVariant> wkv_variants(const vk::Caps& caps) {
    const uint32_t workgroup = std::min({128u, caps.max_invocations, caps.max_workgroup_x});
    return {{"parts", caps.is_cpu() ? Shader::wkv : Shader::wkv_unrolled, workgroup, 4}};
}

void record_wkv(OpContext& context, const ScanArgs& args, const KernelVariant& variant) {
    dispatch_scan(context, args, variant, parts_of(args.shape, variant.subgroup), {}, "wkv");
}

std::vector<KernelVariant> shift_variants(const vk::Caps& caps) {
    return plain_variants(caps, Shader::shift, 64);
}

void record_shift(OpContext& context, const ShiftArgs& args, const KernelVariant& variant) {
    const Recurrence& shape = args.shape;
    const ShiftPush push{.pieces = args.pieces.count,
                         .pieces_word = args.pieces.word,
                         .sequence_words = uint32_t(args.states.stride / 4),
                         .slot_words = uint32_t(shape.state_floats()),
                         .state_first = uint32_t(args.feed_forward ? shape.fed_first() : 0),
                         .tokens = args.x.rows,
                         .cols = args.x.cols,
                         .mixes = args.out.cols / args.x.cols,
                         .x_first = args.x.first,
                         .x_stride = args.x.stride,
                         .out_first = args.out.first,
                         .out_stride = args.out.stride};
    context.recorder.dispatch(pipeline_of(context, variant),
                              {args.step, args.x.view, args.shift, args.states.view, args.out.view}, push,
                              groups_for(uint64_t{push.tokens} * push.cols, variant.workgroup), "shift");
}

}  // namespace scoria
