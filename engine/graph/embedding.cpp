// What a stack begins with.
#include "parts.h"

namespace scoria {
namespace {

constexpr NormRoles embedding_norm{"embedding norm", Role::embedding_norm, Role::embedding_norm_bias};

/// x plus a row and a column of the tables (Architecture::Axial).
TensorId with_axial_positions(GraphBuilder& graph, const Architecture::Axial& axial, TensorId x) {
    const auto axis = [&](const char* name, uint32_t cols, Role role, uint32_t divide, uint32_t period) {
        return graph.emit(
            op::Embed{graph.tensor(name, cols), graph.weight(role), EmbedBy::position, 1, divide, period});
    };
    const TensorId rows = axis("axial rows", axial.width, Role::axial_rows, axial.cols, axial.rows);
    const TensorId cols =
        axis("axial cols", graph.stack->hidden - axial.width, Role::axial_cols, 1, axial.cols);
    return graph.add("embedding with positions", x, graph.side_by_side("positions", rows, cols));
}

}  // namespace

TensorId build_embedding(GraphBuilder& graph) {
    const Architecture& stack = *graph.stack;
    const uint32_t cols = stack.embedding ? stack.embedding : stack.hidden;
    const WeightRef table{Role::token_embedding, -1, graph.in_encoder() && stack.vocab != 0};
    TensorId x =
        graph.emit(op::Embed{graph.tensor("embedding", cols), table, EmbedBy::token, stack.embedding_scale});
    if (stack.embedding && !stack.projects_last)
        x = graph.linear("embedding in", x, stack.hidden, Role::embedding_in);
    const auto add_row = [&](const char* name, const char* with, Role role, EmbedBy by) {
        const TensorId row = graph.emit(op::Embed{graph.tensor_like(name, x), graph.weight(role), by});
        x = graph.add(with, x, row);
    };
    if (stack.positions)
        add_row("positions", "embedding with positions", Role::position_embedding, EmbedBy::position);
    if (stack.axial.rows) x = with_axial_positions(graph, stack.axial, x);
    if (stack.token_types)
        add_row("token types", "embedding with token types", Role::token_type_embedding, EmbedBy::token_type);
    if (stack.embedding_norm) x = graph.norm(embedding_norm, x);
    if (!stack.projects_last) return x;
    return graph.linear("embedding in", x, stack.hidden, Role::embedding_in,
                        graph.optional(true, Role::embedding_in_bias));
}

}  // namespace scoria
