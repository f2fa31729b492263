// Patterns around attention: q, k and v side by side, their norms and rotations, what goes into the cache.
#include "planner.h"

#include <array>

namespace scoria {

size_t Planner::past_adapters(size_t i) const {
    const auto of_adapter = [&](const op::Linear* linear) {
        return linear && linear->weight.part != WeightPart::base;
    };
    while (at<op::Add>(i) || of_adapter(at<op::Linear>(i))) ++i;
    return i;
}

/// linear q, linear k, linear v of one input, or a norm of k for v, or v packed with k. Their outputs are
/// side by side whether or not they are fused, because rope_attention wants them so.
std::optional<TensorId> Planner::v_of(size_t i) const {
    const auto *q = at<op::Linear>(i), *k = at<op::Linear>(i + 1), *v = at<op::Linear>(i + 2);
    if (!q || !k || !(q->x == k->x)) return {};
    const bool own = v && v->x == q->x && v->weight.part == WeightPart::base;
    const size_t next = past_adapters(i + (own ? 3 : 2));
    const auto* norm = at<op::Norm>(next);
    const auto* pack = own ? at<op::Pack>(next) : nullptr;
    if (pack && !(pack->a == v->out)) pack = nullptr;  // of q and k, for PositionBias::by_pair
    if (!own && (!norm || norm->weight)) return {};
    for (size_t j = next + (pack ? 1 : 0); j < graph_.ops.size(); ++j) {
        if (const auto* attention = at<op::Attention>(j))
            return attention->k ? std::optional(pack ? pack->out : own ? v->out : norm->out) : std::nullopt;
        if (!at<op::Map>(j) && !at<op::Norm>(j) && !at<op::Rope>(j) && !at<op::Pack>(j) &&
            !at<op::HeadLinear>(j))
            return {};
    }
    return {};
}

void Planner::one_below_another(std::span<const op::Linear* const> parts) {
    VectorGroup biases;
    std::vector<WeightRef> weights;
    std::vector<TensorId> results;
    uint32_t sum = 0;
    for (const op::Linear* part : parts) {
        weights.push_back(part->weight);
        biases.parts.push_back({part->bias, cols(part->out)});
        results.push_back(part->out);
        sum += cols(part->out);
    }
    std::optional<VectorId> bias;
    if (std::ranges::any_of(parts, [](const op::Linear* part) { return part->bias.has_value(); }))
        bias = vector_group(std::move(biases));
    const op::Linear& first = *parts.front();
    emit(kernel::Linear{first.x, first.out, sum, weight_group(std::move(weights)), bias, {}, {}},
         std::array{first.x}, results);
}

size_t Planner::qkv_linear(size_t i) {
    const std::optional<TensorId> v_out = v_of(i);
    if (!v_out) return 0;
    const auto *q = at<op::Linear>(i), *k = at<op::Linear>(i + 1), *v = at<op::Linear>(i + 2);
    std::vector<const op::Linear*> parts{q, k};
    if (!same_type({q->weight, k->weight})) return 0;
    if (v && v->out == *v_out && same_type({q->weight, v->weight}))
        parts.push_back(v);  // Q4_K_M has some of another type
    define({q->out, k->out, *v_out});
    one_below_another(parts);
    return parts.size();
}

size_t Planner::head_norms(size_t i, const op::Norm*& q_norm, const op::Norm*& k_norm) const {
    const auto fits = [&](const op::Norm* norm) {
        return norm && norm->kind == NormKind::rms && norm->weight && !norm->bias &&
               norm->weights == norm->group &&
               (norm->weight->role == Role::q_norm || norm->weight->role == Role::k_norm);
    };
    const auto *q = at<op::Norm>(i), *k = at<op::Norm>(i + 1);
    if (!fits(q) || q->weight->role != Role::q_norm) return 0;
    q_norm = q;
    if (!fits(k)) return 1;
    k_norm = k;
    return 2;
}

size_t Planner::norm_rope_attention(size_t i) {
    const op::Norm *q = nullptr, *k = nullptr;
    const size_t norms = head_norms(i, q, k);
    if (!norms) return 0;
    const size_t taken = emit_rope_attention(i + norms, q, k);
    return taken ? norms + taken : 0;
}

size_t Planner::rope_attention(size_t i) { return emit_rope_attention(i, nullptr, nullptr); }

/// [rope q, rope k] [norm q, norm k] attention, of which any may lack but the last.
size_t Planner::emit_rope_attention(size_t i, const op::Norm* q_norm, const op::Norm* k_norm) {
    size_t at_op = i;
    const auto* rope_q = at<op::Rope>(at_op);
    if (rope_q) at_op += at<op::Rope>(at_op + 1) ? 2 : 1;
    const bool norm_before = q_norm != nullptr;
    if (!norm_before) at_op += head_norms(at_op, q_norm, k_norm);
    const auto* attention = at<op::Attention>(at_op);
    if (!attention || (q_norm && q_norm->group != attention->shape.head_dim)) return 0;

    const bool with_kv = attention->k.has_value();
    const TensorId q = norm_before ? q_norm->x : rope_q ? rope_q->x : q_norm ? q_norm->x : attention->q;
    const uint32_t dim = attention->shape.head_dim,
                   cache = with_kv ? attention->layer : uint32_t(attention->shape.kv_layer);
    kernel::RopeCache rope{.q = q,
                           .with_kv = with_kv,
                           .rotated = attention->q,
                           .layer = cache,
                           .q_norm = {},
                           .k_norm = {},
                           .norm_after = !norm_before,
                           .epsilon = 0,
                           .shape = attention->shape};
    if (q_norm) {
        rope.q_norm = vector_of(*q_norm->weight, dim);
        rope.k_norm = k_norm ? vector_of(*k_norm->weight, dim) : rope.q_norm;
        rope.epsilon = q_norm->epsilon;
    }
    alias(attention->q, q);
    emit(rope, {q}, {attention->q});  // without any of these it still spreads q, where the cache is
    kernel::Attention kernel{.q = attention->q,
                             .out = attention->out,
                             .layer = cache,
                             .shape = attention->shape,
                             .bias = {},
                             .sinks = {},
                             .distance_values = {},
                             .distances = attention->distances,
                             .chosen = attention->chosen};
    kernel.bias = vector_of(attention->bias, attention->shape.heads * attention->shape.bias_cols());
    kernel.sinks = vector_of(attention->sinks, attention->shape.heads);
    kernel.distance_values =
        vector_of(attention->distance_values, attention->shape.bias_span * attention->shape.head_dim);
    std::vector<TensorId> reads{attention->q};
    if (attention->distances) reads.push_back(*attention->distances);
    if (attention->chosen) reads.push_back(*attention->chosen);
    if (attention->base) {
        alias(attention->out, *attention->base);
        reads.push_back(*attention->base);
    }
    emit(kernel, reads, std::array{attention->out});
    return at_op + 1 - i;
}

void Planner::fold_heads() {
    for (size_t i = 0; i < plan_.kernels.size(); ++i) {
        auto* rope = std::get_if<kernel::RopeCache>(&plan_.kernels[i].kernel);
        if (!rope || rope->q_norm || rope->shape.latent.kv_rank) continue;
        const Placement& q = plan_.placements[rope->q.index];
        const scoria::Attention& shape = rope->shape;
        uint32_t missing = (shape.heads + (rope->with_kv ? 2 * shape.kv_heads : 0)) * shape.head_dim;
        std::vector<size_t> linears;
        for (size_t j = i; missing != 0 && j-- > 0;) {
            const auto* linear = std::get_if<kernel::Linear>(&plan_.kernels[j].kernel);
            if (!linear || linear->residual || plan_.placements[linear->out.index].storage != q.storage ||
                std::ranges::any_of(plan_.kernels[j].results,
                                    [&](TensorId t) { return readers_[t.index] != 1; }))
                break;
            linears.push_back(j);
            missing -= std::min(missing, linear->cols);
        }
        if (missing != 0) continue;
        for (const size_t j : linears) std::get<kernel::Linear>(plan_.kernels[j].kernel).heads = i;
        rope->folds_into = std::move(linears);
    }
}

/// The index q of a Choose, beside which its k will stand: linear q, linear k, norm k.
size_t Planner::index_linear(size_t i) {
    const auto *q = at<op::Linear>(i), *k = at<op::Linear>(i + 1);
    const auto* k_norm = at<op::Norm>(i + 2);
    if (!q || !k || !k_norm || q->weight.role != Role::index_q) return 0;
    define({q->out, k_norm->out});
    return linear(i);
}

/// rope q, rope k, choose
size_t Planner::choose(size_t i) {
    const auto *q = at<op::Rope>(i), *k = at<op::Rope>(i + 1);
    const auto* op = at<op::Choose>(i + 2);
    if (!q || !k || !op) return 0;
    kernel::RopeCache rope{.q = q->x,
                           .with_kv = true,
                           .rotated = q->out,
                           .layer = op->layer,
                           .q_norm = {},
                           .k_norm = {},
                           .norm_after = false,
                           .epsilon = 0,
                           .shape = op->shape};
    alias(q->out, q->x);
    emit(rope, {q->x, k->x}, {q->out});
    emit(kernel::Choose{q->out, op->weights, op->out, op->layer, op->shape}, {q->out, op->weights},
         {op->out});
    return 3;
}

/// linear k, linear v of one input, both for the cache: side by side.
size_t Planner::kv_linear(size_t i) {
    const auto *k = at<op::Linear>(i), *v = at<op::Linear>(i + 1);
    if (!k || !v || !(k->x == v->x) || !at<op::Store>(past_adapters(i + 2))) return 0;
    define({k->out, v->out});
    if (fusion_ && same_type({k->weight, v->weight})) {
        one_below_another(std::array{k, v});
    } else {
        linear(i);
        linear(i + 1);
    }
    return 2;
}

size_t Planner::store(size_t i) {
    const auto* store = at<op::Store>(i);
    if (!store) return 0;
    alias(store->out, store->k);
    kernel::RopeCache cache{.q = store->k,
                            .with_kv = true,
                            .rotated = store->out,
                            .layer = store->layer,
                            .q_norm = {},
                            .k_norm = {},
                            .norm_after = false,
                            .epsilon = 0,
                            .shape = store->shape};
    cache.shape.heads = 0;
    emit(cache, {store->k, store->v}, {store->out});
    return 1;
}

}  // namespace scoria
