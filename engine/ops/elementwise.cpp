// See elementwise.h.
#include "elementwise.h"

#include "elementwise.push.h"

namespace scoria {
namespace {

static_assert(uint32_t(MapKind::scale) == MAP_SCALE && uint32_t(MapKind::clamp) == MAP_CLAMP &&
              uint32_t(MapKind::soft_cap) == MAP_SOFT_CAP && uint32_t(MapKind::activate) == MAP_ACTIVATE &&
              uint32_t(MapKind::xielu) == MAP_XIELU);

const vk::Pipeline& pipeline_for(OpContext& context, const KernelVariant& variant, uint32_t kind,
                                 Activation activation) {
    return pipeline_of(context, variant,
                       {{ELEMENTWISE_KIND, kind}, {ELEMENTWISE_ACTIVATION, uint32_t(activation)}});
}

uint64_t workgroups(const Matrix& out, const KernelVariant& variant) {
    return groups_for(uint64_t(out.rows) * out.cols, variant.workgroup * ELEMENTS_PER_LANE);
}

struct Binary {
    uint32_t kind;
    float value = 1, slope = 1, offset = 0;
    Activation activation = Activation::silu;
};

void record(OpContext& context, const Matrix& a, const Matrix& b, const Matrix& out, const Binary& binary,
            const KernelVariant& variant, std::string_view label) {
    const BinaryPush push{out.cols / b.cols, out.rows,     out.cols,     a.first,
                          a.stride,          b.first,      b.stride,     out.first,
                          out.stride,        binary.value, binary.slope, binary.offset};
    const vk::Pipeline& pipeline = pipeline_for(context, variant, binary.kind, binary.activation);
    context.recorder.dispatch(pipeline, {a.view, b.view, out.view}, push, workgroups(out, variant), label);
}

}  // namespace

std::vector<KernelVariant> binary_variants(const vk::Caps& caps) {
    return plain_variants(caps, Shader::binary, 128);
}

void record_glu(OpContext& context, const GluArgs& args, const KernelVariant& variant) {
    const GluClamp& clamp = args.clamp;
    const Binary binary{.kind = uint32_t(clamp.limit == 0  ? BINARY_GLU
                                         : clamp.activated ? BINARY_GLU_ACTIVATED_CLAMPED
                                                           : BINARY_GLU_CLAMPED),
                        .value = clamp.limit,
                        .slope = clamp.slope,
                        .offset = clamp.offset,
                        .activation = args.activation};
    record(context, args.gate, args.up, args.out, binary, variant, "glu");
}

void record_add(OpContext& context, const AddArgs& args, const KernelVariant& variant) {
    record(context, args.a, args.b, args.out, {.kind = BINARY_ADD, .value = args.scale}, variant, "add");
}

void record_gate(OpContext& context, const GateArgs& args, const KernelVariant& variant) {
    record(context, args.x, args.gate, args.out, {.kind = BINARY_GATE, .activation = args.activation},
           variant, "gate");
}

std::vector<KernelVariant> map_variants(const vk::Caps& caps) {
    return plain_variants(caps, Shader::map, 128);
}

void record_map(OpContext& context, const MapArgs& args, const KernelVariant& variant) {
    const auto& [x, out, kind, value, second, activation] = args;
    const MapPush push{out.rows, out.cols, x.first, x.stride, out.first, out.stride, value, second};
    const vk::Pipeline& pipeline = pipeline_for(context, variant, uint32_t(kind), activation);
    context.recorder.dispatch(pipeline, {x.view, out.view}, push, workgroups(out, variant), "map");
}

std::vector<KernelVariant> pack_variants(const vk::Caps& caps) {
    return plain_variants(caps, Shader::pack, 128);
}

void record_pack(OpContext& context, const PackArgs& args, const KernelVariant& variant) {
    const auto& [a, b, out, heads, from_a, from_b] = args;
    const PackPush push{.rows = out.rows,
                        .heads = heads,
                        .a_count = from_a.count,
                        .b_count = from_b.count,
                        .a_head = a.cols / heads,
                        .b_head = b.cols / heads,
                        .a_first = a.first + from_a.first,
                        .a_stride = a.stride,
                        .b_first = b.first + from_b.first,
                        .b_stride = b.stride,
                        .out_first = out.first,
                        .out_stride = out.stride};
    context.recorder.dispatch(pipeline_of(context, variant), {a.view, b.view, out.view}, push,
                              groups_for(uint64_t(out.rows) * out.cols, variant.workgroup), "pack");
}

std::vector<KernelVariant> mix_variants(const vk::Caps& caps) {
    return plain_variants(caps, Shader::mix, 128);
}

void record_mix(OpContext& context, const MixArgs& args, const KernelVariant& variant) {
    const auto& [x, y, out, factors, width, offset, factor, first] = args;
    const Matrix& third = factors ? *factors : y;
    const MixPush push{.rows = out.rows,
                       .width = width,
                       .streams = out.cols / width,
                       .unchanged = first,
                       .x_first = x.first,
                       .x_stride = x.stride,
                       .y_first = y.first,
                       .y_stride = y.stride,
                       .factors_first = third.first,
                       .factors_stride = third.stride,
                       .out_first = out.first,
                       .out_stride = out.stride,
                       .offset = offset,
                       .factor = factor};
    const vk::Pipeline& pipeline =
        pipeline_of(context, variant, {{MIX_FACTORS, factors.has_value()}, {MIX_INPUTS, y.cols / width}});
    context.recorder.dispatch(pipeline, {x.view, y.view, third.view, out.view}, push,
                              groups_for(uint64_t(out.rows) * width, variant.workgroup), "mix");
}

}  // namespace scoria
