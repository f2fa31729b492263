// Tensors, and the ops that many parts of a graph add.
#include "builder.h"

#include "fail.h"

namespace scoria {

uint32_t GraphBuilder::slot() const {
    return in_encoder() || model.bidirectional() ? encoder_slot(model) : uint32_t(layer);
}

TensorId GraphBuilder::tensor(std::string_view name, uint32_t cols, RowKind rows) {
    const TensorId id{static_cast<uint32_t>(made.tensors.size())};
    const char* whose = in_encoder() ? "encoder " : "";
    made.tensors.push_back(
        {layer < 0 ? cat(whose, name) : cat(whose, "layer ", layer, " ", name), rows, cols});
    return id;
}

TensorId GraphBuilder::tensor_like(std::string_view name, TensorId like) {
    return tensor(name, at(like).cols, at(like).rows);
}

TensorId GraphBuilder::emit(const Op& op) {
    made.ops.push_back(op);
    made.layers.push_back(layer);
    return output_of(op);
}

TensorId GraphBuilder::norm(const Norm& kind, const NormRoles& roles, TensorId x, uint32_t group,
                            uint32_t weights) {
    return emit(op::Norm{x, tensor_like(roles.name, x), optional(kind.weight, roles.weight),
                         optional(kind.bias, roles.bias), kind.kind, kind.epsilon, group, weights});
}

TensorId GraphBuilder::norm(const NormRoles& roles, TensorId x) {
    return norm(stack->norm, roles, x, at(x).cols, at(x).cols);
}

TensorId GraphBuilder::linear(std::string_view name, TensorId x, uint32_t cols, Role role,
                              std::optional<WeightRef> bias) {
    return adapted(bare_linear(name, x, cols, role, bias), x, role);
}

std::vector<TensorId> GraphBuilder::projected(TensorId x, std::span<const Projection> all) {
    std::vector<TensorId> outs;
    for (const Projection& each : all)
        outs.push_back(bare_linear(each.name, x, each.cols, each.role, optional(each.has_bias, each.bias)));
    for (size_t i = 0; i < all.size(); ++i) outs[i] = adapted(outs[i], x, all[i].role);
    return outs;
}

TensorId GraphBuilder::bare_linear(std::string_view name, TensorId x, uint32_t cols, Role role,
                                   std::optional<WeightRef> bias) {
    return emit(op::Linear{x, tensor(name, cols, at(x).rows), weight(role), bias});
}

TensorId GraphBuilder::adapted(TensorId y, TensorId x, Role role) {
    const auto found = model.adapters.find(weight(role));
    if (found == model.adapters.end()) return y;
    adapters.insert(found->first);
    WeightRef a = found->first, b = a;
    a.part = WeightPart::a, b.part = WeightPart::b;
    const auto part = [&](const char* name, TensorId in, uint32_t cols, const WeightRef& ref) {
        const TensorId out = tensor(cat(role_name(role), name), cols, at(in).rows);
        return emit(op::Linear{in, out, ref, std::nullopt});
    };
    const TensorId update = part(" adapter B", part(" adapter A", x, found->second, a), at(y).cols, b);
    return add(cat(role_name(role), " adapted"), y, update);
}

TensorId GraphBuilder::map(std::string_view name, TensorId x, MapKind kind, float value,
                           Activation activation) {
    return emit(op::Map{x, tensor_like(name, x), kind, value, 0, activation});
}

TensorId GraphBuilder::scaled(std::string_view name, TensorId x, float factor) {
    return factor == 1 ? x : map(name, x, MapKind::scale, factor);
}

TensorId GraphBuilder::add(std::string_view name, TensorId a, TensorId b, float scale) {
    return emit(op::Add{a, b, tensor_like(name, a), scale});
}

TensorId GraphBuilder::rope(std::string_view name, TensorId x, const Attention& shape, uint32_t heads,
                            bool queries) {
    if (shape.rope < 0) return x;
    return emit(op::Rope{x, tensor_like(name, x), heads, shape.head_dim, uint32_t(shape.rope), queries});
}

TensorId GraphBuilder::columns(std::string_view name, TensorId x, uint32_t first, uint32_t count) {
    return emit(op::Columns{x, tensor(name, count, at(x).rows), first});
}

TensorId GraphBuilder::side_by_side(std::string_view name, TensorId a, TensorId b) {
    return emit(op::Pack{a, b, tensor(name, at(a).cols + at(b).cols), 1, {0, at(a).cols}, {0, at(b).cols}});
}

}  // namespace scoria
