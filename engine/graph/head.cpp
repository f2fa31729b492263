// What a model ends with.
#include "parts.h"

namespace scoria {
namespace {

constexpr NormRoles head_norm{"head norm", Role::head_norm, Role::head_norm_bias};

}  // namespace

void build_head(GraphBuilder& graph, TensorId stream) {
    const Architecture& stack = *graph.stack;
    const auto selected = [&](TensorId x) {
        return graph.emit(op::Select{x, graph.tensor("selected", graph.at(x).cols, RowKind::outputs)});
    };
    TensorId x = stack.shows_head() ? stream : selected(stream);
    if (stack.alternating.count) x = build_merged_streams(graph, x);
    if (stack.output_norm) x = graph.norm(output_norm, x);
    for (const uint32_t each : stack.shows)
        graph.made.shown.push_back(each == read_by_head ? x : graph.made.hidden[each]);
    if (stack.shows_head()) x = selected(x);
    graph.made.last_hidden = graph.made.logits = x;
    if (!stack.has_head) return;
    if (stack.head_transform) {
        x = graph.linear("head", x, stack.embedded(), Role::head,
                         graph.optional(stack.head_bias, Role::head_bias));
        x = graph.map("head activated", x, MapKind::activate, 0, stack.head_activation);
        x = graph.norm(head_norm, x);
    }
    if (stack.embedding && !stack.projects_last)
        x = graph.linear("embedding out", x, stack.embedding, Role::embedding_out);
    const Role table = stack.tied_embeddings ? Role::token_embedding : Role::output;
    const TensorId logits = graph.bare_linear("logits", x, stack.logits(), table,
                                              graph.optional(stack.output_bias, Role::output_bias));
    x = graph.adapted(logits, x, Role::output);
    x = graph.scaled("logits scaled", x, stack.logit_scale);
    if (stack.logit_soft_cap != 0) x = graph.map("logits capped", x, MapKind::soft_cap, stack.logit_soft_cap);
    graph.made.logits = x;
}

}  // namespace scoria
