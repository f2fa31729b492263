// See role_shapes.h.
#include "role_shapes.h"

#include <iterator>

namespace scoria {
namespace {

using A = Architecture;
using L = Layer;

RoleShape matrix(uint32_t rows, uint32_t cols, uint32_t groups = 1) {
    if (rows == 0 || cols == 0) return {};
    return {rows, cols, groups, false};
}
RoleShape vector(bool wanted, uint32_t cols, uint32_t groups = 1) {
    if (!wanted || cols == 0) return {};
    return {1, cols, groups, true};
}

uint32_t embedding(const A& a) { return a.embedding != 0 ? a.embedding : a.hidden; }
uint32_t output(const A& a) { return a.embedding != 0 ? a.embedding : a.output_width(); }
uint32_t queries(const L& l) { return l.attention.heads * l.attention.head_dim; }
bool own_keys(const L& l) { return l.attention.kv_layer < 0; }
const Latent& latent(const L& l) { return l.attention.latent; }
uint32_t latent_rows(const L& l) { return latent(l).kv_rank ? latent(l).kv_rank + latent(l).rope_dim : 0; }
const Indexer& indexer(const L& l) { return l.attention.indexer; }
uint32_t index_dim(const L& l) { return indexer(l).chooses() ? indexer(l).head_dim : 0; }
uint32_t keys(const L& l) {
    return own_keys(l) && latent(l).kv_rank == 0 ? l.attention.kv_heads * l.attention.head_dim : 0;
}
/// Where keys are the queries, normed, they have no projection of their own.
uint32_t projected_keys(const L& l) { return l.attention.chunks.rounds == 0 ? keys(l) : 0; }
uint32_t values(const L& l) {
    return l.attention.v_is_k ? 0 : keys(l) / std::max(l.attention.head_dim, 1u) * l.attention.v_head_dim();
}
/// What attention finds.
uint32_t found(const L& l) {
    return l.attention.heads * (latent(l).kv_rank ? latent(l).value_dim : l.attention.v_head_dim());
}
uint32_t cross_queries(const L& l) { return l.cross.heads * l.cross.head_dim; }
uint32_t cross_keys(const L& l) { return l.cross.kv_heads * l.cross.head_dim; }
bool global(const L& l) { return l.attention.global_tokens; }
uint32_t dense(const L& l) { return l.feed_forward.size; }
const Routing& routing(const L& l) { return l.feed_forward.routing; }
uint32_t expert_rows(const L& l) { return routing(l).experts * routing(l).size; }

uint32_t all_per_layer(const A& a) { return a.per_layer * uint32_t(a.layers.size()); }

/// Of streams but the first, one matrix each.
RoleShape between_streams(const A& a) {
    const uint32_t count = a.alternating.count;
    return count > 1 ? matrix((count - 1) * a.hidden, a.hidden, count - 1) : RoleShape{};
}

const Recurrence& mixer(const L& l) { return l.recurrence; }
using Kind = RecurrenceKind;
bool is(const L& l, Kind kind) { return l.recurrence.kind == kind; }
bool projects(const L& l) { return l.recurrence.convolves_v_alone(); }
uint32_t or_else(uint32_t rank, uint32_t otherwise) { return rank ? rank : otherwise; }
uint32_t separate_keys(const L& l) { return mixer(l).separate ? mixer(l).keys() : 0; }
uint32_t separate_values(const L& l) { return mixer(l).separate ? mixer(l).width : 0; }
RoleShape taps(const L& l, uint32_t channels) {
    return matrix(mixer(l).taps && !mixer(l).shifts_x() ? channels : 0, mixer(l).taps, channels);
}
uint32_t wkv_keys(const L& l) { return is(l, Kind::wkv) ? mixer(l).keys() : 0; }
RoleShape mixer_norm(const Recurrence& r) {
    switch (r.kind) {
    case Kind::delta:
        return vector(true, r.value_dim);
    case Kind::state_space:
        return vector(r.normed, r.width, r.groups);
    case Kind::lightning:
    case Kind::wkv:
        return vector(r.normed, r.width);
    default:
        return {};
    }
}
bool weights_parts(const L& l) { return l.recurrence.part_norms == Recurrence::PartNorms::weighted; }

bool has_pre_norm(const A& a, const L& l) {
    const NormPlacement placement = a.placement_of(l);
    return placement != NormPlacement::post && placement != NormPlacement::post_2 &&
           placement != NormPlacement::output;
}
bool has_feed_forward_norm(const A& a, const L& l) {
    return has_pre_norm(a, l) && a.placement_of(l) != NormPlacement::parallel;
}
bool has_post_norm(const A& a, const L& l) {
    return !has_pre_norm(a, l) || a.placement_of(l) == NormPlacement::sandwich;
}

RoleShape qk_norm(const Attention& attention, uint32_t heads, bool wanted) {
    const bool per_head = attention.qk_norm.group == QkNorm::Group::head && !attention.qk_norm.own_weights;
    if (attention.qk_norm.group == QkNorm::Group::none || !wanted) return {};
    return vector(true, per_head ? attention.head_dim : heads * attention.head_dim, per_head ? 1 : heads);
}
RoleShape q_norm(const L& l, bool wanted) { return qk_norm(l.attention, l.attention.heads, wanted); }
RoleShape k_norm(const L& l, bool wanted) {
    return qk_norm(l.attention, l.attention.kv_heads, wanted && own_keys(l));
}

RoleShape position_bias(const A& a, const L& l, size_t index) {
    const Attention& attention = l.attention;
    if (attention.bias == PositionBias::linear) return vector(index == 0, attention.heads);
    const bool table =
        (attention.bias == PositionBias::table || attention.bias == PositionBias::table_both) && index == 0 &&
        !a.layers.empty();
    return table ? matrix(attention.heads, attention.bias_cols()) : RoleShape{};
}

RoleShape hash_rotations(const A& a) {
    for (const L& l : a.layers)
        if (l.attention.chunks.rounds != 0)
            return vector(true, l.attention.heads * l.attention.head_dim * l.attention.chunks.rounds *
                                    l.attention.chunks.rotated());
    return {};
}

#define SCORIA_SHAPE(expression) \
    [](const A& a, const L& l, size_t i) -> RoleShape { return (void)a, (void)l, (void)i, expression; }

constexpr RoleRule rules[] = {
    {Role::token_embedding, false, SCORIA_SHAPE(matrix(a.vocab, embedding(a)))},
    {Role::position_embedding, false, SCORIA_SHAPE(matrix(a.positions, a.embedded()))},
    {Role::token_type_embedding, false, SCORIA_SHAPE(matrix(a.token_types, a.embedded()))},
    {Role::embedding_in, false, SCORIA_SHAPE(matrix(a.embedding ? a.hidden : 0, a.embedding))},
    {Role::embedding_in_bias, false, SCORIA_SHAPE(vector(a.projects_last, a.hidden))},
    {Role::embedding_norm, false, SCORIA_SHAPE(vector(a.embedding_norm&& a.norm.weight, a.embedded()))},
    {Role::embedding_norm_bias, false, SCORIA_SHAPE(vector(a.embedding_norm&& a.norm.bias, a.embedded()))},
    {Role::embedding_out, false, SCORIA_SHAPE(matrix(a.projects_last ? 0 : a.embedding, a.hidden))},
    {Role::output_norm, false, SCORIA_SHAPE(vector(a.output_norm&& a.norm.weight, a.output_width()))},
    {Role::output_norm_bias, false, SCORIA_SHAPE(vector(a.output_norm&& a.norm.bias, a.output_width()))},
    {Role::head, false, SCORIA_SHAPE(matrix(a.head_transform ? a.embedded() : 0, a.hidden))},
    {Role::head_bias, false, SCORIA_SHAPE(vector(a.head_bias, a.embedded()))},
    {Role::head_norm, false, SCORIA_SHAPE(vector(a.head_transform&& a.norm.weight, a.embedded()))},
    {Role::head_norm_bias, false, SCORIA_SHAPE(vector(a.head_transform&& a.norm.bias, a.embedded()))},
    {Role::output, false,
     SCORIA_SHAPE(matrix(a.tied_embeddings || !a.has_head ? 0
                         : a.outputs                      ? a.outputs
                                                          : a.vocab,
                         output(a)))},
    {Role::output_bias, false, SCORIA_SHAPE(vector(a.output_bias, a.outputs ? a.outputs : a.vocab))},
    {Role::attention_norm, true,
     SCORIA_SHAPE(vector(has_pre_norm(a, l) && l.mixes() && l.attention_norm && a.norm.weight, a.hidden))},
    {Role::attention_norm_bias, true,
     SCORIA_SHAPE(vector(has_pre_norm(a, l) && l.attention_norm && a.norm.bias, a.hidden))},
    {Role::q, true, SCORIA_SHAPE(matrix(queries(l), latent(l).q_rank ? latent(l).q_rank : a.attended()))},
    {Role::k, true, SCORIA_SHAPE(matrix(projected_keys(l), a.attended()))},
    {Role::v, true, SCORIA_SHAPE(matrix(values(l), a.attended()))},
    {Role::o, true, SCORIA_SHAPE(matrix(found(l) ? a.hidden : 0, found(l)))},
    {Role::q_bias, true, SCORIA_SHAPE(vector(l.attention.q_bias, queries(l), l.attention.heads))},
    {Role::k_bias, true, SCORIA_SHAPE(vector(l.attention.k_bias, keys(l)))},
    {Role::v_bias, true, SCORIA_SHAPE(vector(l.attention.v_bias, values(l)))},
    {Role::o_bias, true, SCORIA_SHAPE(vector(l.attention.o_bias&& l.attention.heads, a.hidden))},
    {Role::q_norm, true, SCORIA_SHAPE(q_norm(l, l.attention.qk_norm.norm.weight))},
    {Role::k_norm, true, SCORIA_SHAPE(k_norm(l, l.attention.qk_norm.norm.weight))},
    {Role::q_norm_bias, true, SCORIA_SHAPE(q_norm(l, l.attention.qk_norm.norm.bias))},
    {Role::k_norm_bias, true, SCORIA_SHAPE(k_norm(l, l.attention.qk_norm.norm.bias))},
    {Role::position_bias, true, SCORIA_SHAPE(position_bias(a, l, i))},
    {Role::sinks, true, SCORIA_SHAPE(vector(l.attention.sinks, l.attention.heads))},
    {Role::attention_post_norm, true, SCORIA_SHAPE(vector(has_post_norm(a, l) && a.norm.weight, a.hidden))},
    {Role::attention_post_norm_bias, true,
     SCORIA_SHAPE(vector(has_post_norm(a, l) && a.norm.bias, a.hidden))},
    {Role::attention_post_norm_2, true,
     SCORIA_SHAPE(vector(a.placement_of(l) == NormPlacement::post_2 && a.norm.weight, a.hidden))},
    {Role::attention_post_norm_2_bias, true,
     SCORIA_SHAPE(vector(a.placement_of(l) == NormPlacement::post_2 && a.norm.bias, a.hidden))},
    {Role::feed_forward_norm, true,
     SCORIA_SHAPE(vector(has_feed_forward_norm(a, l) && l.feeds() && a.norm.weight, a.hidden))},
    {Role::feed_forward_norm_bias, true,
     SCORIA_SHAPE(vector(has_feed_forward_norm(a, l) && a.norm.bias, a.hidden))},
    {Role::gate, true, SCORIA_SHAPE(matrix(l.feed_forward.gated ? dense(l) : 0, a.hidden))},
    {Role::gate_bias, true, SCORIA_SHAPE(vector(l.feed_forward.gate_bias, dense(l)))},
    {Role::up, true, SCORIA_SHAPE(matrix(dense(l), a.hidden))},
    {Role::up_bias, true, SCORIA_SHAPE(vector(l.feed_forward.up_bias, dense(l)))},
    {Role::down, true, SCORIA_SHAPE(matrix(a.hidden, dense(l)))},
    {Role::down_bias, true, SCORIA_SHAPE(vector(l.feed_forward.down_bias, a.hidden))},
    {Role::feed_forward_post_norm, true,
     SCORIA_SHAPE(vector(has_post_norm(a, l) && a.norm.weight, a.hidden))},
    {Role::feed_forward_post_norm_bias, true,
     SCORIA_SHAPE(vector(has_post_norm(a, l) && a.norm.bias, a.hidden))},
    {Role::router, true, SCORIA_SHAPE(matrix(routing(l).experts, a.hidden))},
    {Role::router_bias, true, SCORIA_SHAPE(vector(routing(l).router_bias, routing(l).experts))},
    {Role::router_choice_bias, true, SCORIA_SHAPE(vector(routing(l).choice_bias, routing(l).experts))},
    {Role::expert_gate, true,
     SCORIA_SHAPE(matrix(l.feed_forward.gated ? expert_rows(l) : 0, a.hidden, routing(l).experts))},
    {Role::expert_gate_bias, true,
     SCORIA_SHAPE(vector(routing(l).bias&& l.feed_forward.gated, expert_rows(l), routing(l).experts))},
    {Role::expert_up, true, SCORIA_SHAPE(matrix(expert_rows(l), a.hidden, routing(l).experts))},
    {Role::expert_up_bias, true, SCORIA_SHAPE(vector(routing(l).bias, expert_rows(l), routing(l).experts))},
    {Role::expert_down, true,
     SCORIA_SHAPE(matrix(routing(l).experts* a.hidden, routing(l).size, routing(l).experts))},
    {Role::expert_down_bias, true,
     SCORIA_SHAPE(vector(routing(l).bias, routing(l).experts* a.hidden, routing(l).experts))},
    {Role::shared_gate, true,
     SCORIA_SHAPE(matrix(l.feed_forward.gated ? routing(l).shared_size : 0, a.hidden))},
    {Role::shared_up, true, SCORIA_SHAPE(matrix(routing(l).shared_size, a.hidden))},
    {Role::shared_down, true,
     SCORIA_SHAPE(matrix(routing(l).shared_size ? a.hidden : 0, routing(l).shared_size))},
    {Role::shared_gate_bias, true,
     SCORIA_SHAPE(vector(routing(l).shared_bias&& l.feed_forward.gated, routing(l).shared_size))},
    {Role::shared_up_bias, true, SCORIA_SHAPE(vector(routing(l).shared_bias, routing(l).shared_size))},
    {Role::shared_down_bias, true, SCORIA_SHAPE(vector(routing(l).shared_bias, a.hidden))},
    {Role::shared_expert_gate, true, SCORIA_SHAPE(vector(routing(l).shared_gate, a.hidden))},
    {Role::latent_q, true, SCORIA_SHAPE(matrix(latent(l).q_rank, a.hidden))},
    {Role::latent_q_bias, true, SCORIA_SHAPE(vector(latent(l).bias, latent(l).q_rank))},
    {Role::latent_q_norm, true, SCORIA_SHAPE(vector(true, latent(l).q_rank))},
    {Role::latent_kv, true, SCORIA_SHAPE(matrix(latent_rows(l), a.hidden))},
    {Role::latent_kv_bias, true, SCORIA_SHAPE(vector(latent(l).bias, latent_rows(l)))},
    {Role::latent_kv_norm, true, SCORIA_SHAPE(vector(true, latent(l).kv_rank))},
    {Role::latent_k, true,
     SCORIA_SHAPE(matrix(l.attention.heads* latent(l).kv_rank, l.attention.head_dim - latent(l).rope_dim,
                         l.attention.heads))},
    {Role::latent_v, true,
     SCORIA_SHAPE(matrix(l.attention.heads* latent(l).value_dim, latent(l).kv_rank, l.attention.heads))},
    {Role::index_q, true, SCORIA_SHAPE(matrix(indexer(l).heads* index_dim(l), latent(l).q_rank))},
    {Role::index_k, true, SCORIA_SHAPE(matrix(index_dim(l), a.hidden))},
    {Role::index_norm, true, SCORIA_SHAPE(vector(true, index_dim(l)))},
    {Role::index_norm_bias, true, SCORIA_SHAPE(vector(true, index_dim(l)))},
    {Role::index_weights, true, SCORIA_SHAPE(matrix(indexer(l).heads, a.hidden))},
    {Role::cross_norm, true, SCORIA_SHAPE(vector(l.cross.heads != 0 && a.norm.weight, a.hidden))},
    {Role::cross_norm_bias, true, SCORIA_SHAPE(vector(l.cross.heads != 0 && a.norm.bias, a.hidden))},
    {Role::cross_q, true, SCORIA_SHAPE(matrix(cross_queries(l), a.hidden))},
    {Role::cross_k, true, SCORIA_SHAPE(matrix(cross_keys(l), a.hidden))},
    {Role::cross_v, true, SCORIA_SHAPE(matrix(cross_keys(l), a.hidden))},
    {Role::cross_o, true, SCORIA_SHAPE(matrix(l.cross.heads ? a.hidden : 0, cross_queries(l)))},
    {Role::cross_q_bias, true, SCORIA_SHAPE(vector(l.cross.q_bias, cross_queries(l)))},
    {Role::cross_k_bias, true, SCORIA_SHAPE(vector(l.cross.k_bias, cross_keys(l)))},
    {Role::cross_v_bias, true, SCORIA_SHAPE(vector(l.cross.v_bias, cross_keys(l)))},
    {Role::cross_o_bias, true, SCORIA_SHAPE(vector(l.cross.o_bias, a.hidden))},
    {Role::distance_q_bias, true,
     SCORIA_SHAPE(vector(l.attention.distance_q_bias, queries(l), l.attention.heads))},
    {Role::distance_k, true, SCORIA_SHAPE(matrix(l.attention.distance_cols(), l.attention.head_dim))},
    {Role::distance_v, true,
     SCORIA_SHAPE(matrix(l.attention.distance_values ? l.attention.bias_span : 0, l.attention.head_dim))},
    {Role::global_q, true, SCORIA_SHAPE(matrix(global(l) ? queries(l) : 0, a.hidden))},
    {Role::global_k, true, SCORIA_SHAPE(matrix(global(l) ? keys(l) : 0, a.hidden))},
    {Role::global_v, true, SCORIA_SHAPE(matrix(global(l) ? keys(l) : 0, a.hidden))},
    {Role::global_q_bias, true, SCORIA_SHAPE(vector(global(l) && l.attention.q_bias, queries(l)))},
    {Role::global_k_bias, true, SCORIA_SHAPE(vector(global(l) && l.attention.k_bias, keys(l)))},
    {Role::global_v_bias, true, SCORIA_SHAPE(vector(global(l) && l.attention.v_bias, keys(l)))},
    {Role::axial_rows, false, SCORIA_SHAPE(matrix(a.axial.rows, a.axial.width, a.axial.rows))},
    {Role::axial_cols, false,
     SCORIA_SHAPE(matrix(a.axial.cols, a.axial.rows ? a.hidden - a.axial.width : 0))},
    {Role::hash_rotations, false, SCORIA_SHAPE(hash_rotations(a))},
    {Role::attention_gate, true, SCORIA_SHAPE(matrix(l.attention.gate_columns(), a.hidden))},
    {Role::mixer_in_gate, true,
     SCORIA_SHAPE(matrix(is(l, Kind::convolution) ? mixer(l).width : 0, a.hidden))},
    {Role::mixer_gate, true,
     SCORIA_SHAPE(matrix(is(l, Kind::wkv) && !mixer(l).gate_rank ? 0 : mixer(l).width,
                         or_else(mixer(l).gate_rank, a.hidden)))},
    {Role::mixer_in, true,
     SCORIA_SHAPE(matrix(l.recurs() && !mixer(l).separate ? mixer(l).channels() : 0, a.hidden))},
    {Role::mixer_q, true, SCORIA_SHAPE(matrix(separate_keys(l), a.hidden))},
    {Role::mixer_k, true, SCORIA_SHAPE(matrix(separate_keys(l), a.hidden))},
    {Role::mixer_v, true, SCORIA_SHAPE(matrix(separate_values(l), a.hidden))},
    {Role::mixer_gate_low, true, SCORIA_SHAPE(matrix(mixer(l).gate_rank, a.hidden))},
    {Role::mixer_beta, true, SCORIA_SHAPE(matrix(is(l, Kind::delta) ? mixer(l).heads : 0, a.hidden))},
    {Role::mixer_step_low, true,
     SCORIA_SHAPE(matrix(mixer(l).step_rank, projects(l) ? mixer(l).width : a.hidden))},
    {Role::mixer_kq, true, SCORIA_SHAPE(matrix(projects(l) ? 2 * mixer(l).key_dim : 0, mixer(l).width))},
    {Role::mixer_step, true, SCORIA_SHAPE(matrix(mixer(l).steps(), or_else(mixer(l).step_rank, a.hidden)))},
    {Role::mixer_step_bias, true, SCORIA_SHAPE(vector(true, mixer(l).steps()))},
    {Role::mixer_decay, true,
     SCORIA_SHAPE(vector(true, mixer(l).decays(), mixer(l).by_column() ? mixer(l).width : mixer(l).heads))},
    {Role::mixer_skip, true,
     SCORIA_SHAPE(
         vector(!is(l, Kind::delta) && mixer(l).activates_steps(), mixer(l).steps(), mixer(l).heads))},
    {Role::mixer_step_norm, true, SCORIA_SHAPE(vector(weights_parts(l), mixer(l).step_rank))},
    {Role::mixer_k_norm, true, SCORIA_SHAPE(vector(weights_parts(l), mixer(l).key_dim))},
    {Role::mixer_q_norm, true, SCORIA_SHAPE(vector(weights_parts(l), mixer(l).key_dim))},
    {Role::mixer_taps, true, SCORIA_SHAPE(taps(l, mixer(l).separate ? 0 : mixer(l).channels()))},
    {Role::mixer_q_taps, true, SCORIA_SHAPE(taps(l, separate_keys(l)))},
    {Role::mixer_k_taps, true, SCORIA_SHAPE(taps(l, separate_keys(l)))},
    {Role::mixer_v_taps, true, SCORIA_SHAPE(taps(l, separate_values(l)))},
    {Role::mixer_taps_bias, true, SCORIA_SHAPE(vector(mixer(l).taps_bias, mixer(l).channels()))},
    {Role::mixer_norm, true, SCORIA_SHAPE(mixer_norm(mixer(l)))},
    {Role::mixer_norm_bias, true, SCORIA_SHAPE(vector(is(l, Kind::wkv) && mixer(l).normed, mixer(l).width))},
    {Role::mixer_shift, true, SCORIA_SHAPE(matrix(is(l, Kind::wkv) ? mixer(l).shifts() : 0, mixer(l).width))},
    {Role::feed_forward_shift, true, SCORIA_SHAPE(vector(mixer(l).feed_forward_shift, a.hidden))},
    {Role::mixer_rate_low, true, SCORIA_SHAPE(matrix(mixer(l).rate_rank, a.hidden))},
    {Role::mixer_rate, true, SCORIA_SHAPE(matrix(wkv_keys(l), mixer(l).rate_rank))},
    {Role::mixer_rate_bias, true, SCORIA_SHAPE(vector(true, wkv_keys(l)))},
    {Role::mixer_rate_scale, true, SCORIA_SHAPE(vector(true, wkv_keys(l)))},
    {Role::mixer_value_low, true, SCORIA_SHAPE(matrix(mixer(l).value_rank, a.hidden))},
    {Role::mixer_value, true, SCORIA_SHAPE(matrix(mixer(l).width, mixer(l).value_rank))},
    {Role::mixer_value_bias, true, SCORIA_SHAPE(vector(mixer(l).value_rank != 0, mixer(l).width))},
    {Role::mixer_erase, true, SCORIA_SHAPE(vector(true, wkv_keys(l)))},
    {Role::mixer_bonus, true, SCORIA_SHAPE(vector(true, wkv_keys(l), mixer(l).heads))},
    {Role::mixer_out, true, SCORIA_SHAPE(matrix(mixer(l).width ? a.hidden : 0, mixer(l).width))},
    {Role::per_layer_embedding, false, SCORIA_SHAPE(matrix(a.vocab, all_per_layer(a)))},
    {Role::per_layer_projection, false, SCORIA_SHAPE(matrix(all_per_layer(a), a.hidden))},
    {Role::per_layer_norm, false, SCORIA_SHAPE(vector(true, a.per_layer))},
    {Role::per_layer_gate, true, SCORIA_SHAPE(matrix(a.per_layer, a.hidden))},
    {Role::per_layer_out, true, SCORIA_SHAPE(matrix(a.per_layer ? a.hidden : 0, a.per_layer))},
    {Role::per_layer_post_norm, true, SCORIA_SHAPE(vector(a.per_layer != 0, a.hidden))},
    {Role::router_norm, true, SCORIA_SHAPE(vector(routing(l).apart, a.hidden))},
    {Role::router_weight_scale, true, SCORIA_SHAPE(vector(routing(l).weight_scale, routing(l).experts))},
    {Role::expert_norm, true, SCORIA_SHAPE(vector(routing(l).apart, a.hidden))},
    {Role::expert_post_norm, true, SCORIA_SHAPE(vector(routing(l).apart, a.hidden))},
    {Role::shared_post_norm, true, SCORIA_SHAPE(vector(routing(l).apart, a.hidden))},
    {Role::altup_in, false, SCORIA_SHAPE(between_streams(a))},
    {Role::altup_out, false, SCORIA_SHAPE(between_streams(a))},
    {Role::altup_router, true, SCORIA_SHAPE(matrix(a.alternating.count, a.hidden))},
    {Role::altup_router_norm, true, SCORIA_SHAPE(vector(a.alternating.count != 0, a.hidden))},
    {Role::altup_predict, true,
     SCORIA_SHAPE(matrix(a.alternating.count* a.alternating.count, a.alternating.count))},
    {Role::altup_correct, true, SCORIA_SHAPE(matrix(a.alternating.count, a.alternating.count))},
    {Role::altup_scale, true,
     SCORIA_SHAPE(vector(a.alternating.count != 0 && a.alternating.scaled, a.hidden))},
    {Role::laurel_left, true, SCORIA_SHAPE(matrix(a.alternating.laurel, a.hidden))},
    {Role::laurel_right, true,
     SCORIA_SHAPE(matrix(a.alternating.laurel ? a.hidden : 0, a.alternating.laurel))},
    {Role::laurel_norm, true, SCORIA_SHAPE(vector(a.alternating.count != 0, a.hidden))},
    {Role::heads_norm, true, SCORIA_SHAPE(vector(l.attention.heads_norm, queries(l)))},
    {Role::inner_norm, true, SCORIA_SHAPE(vector(l.feed_forward.inner_norm, dense(l)))},
    {Role::ahead_embedding_norm, false, SCORIA_SHAPE(vector(a.guesses_ahead() && a.features == 0, a.hidden))},
    {Role::ahead_hidden_norm, false, SCORIA_SHAPE(vector(a.guesses_ahead(), a.hidden))},
    {Role::ahead_in, false,
     SCORIA_SHAPE(matrix(a.guesses_ahead() ? a.hidden : 0, a.features ? a.features : 2 * a.hidden))},
    {Role::ahead_features_norm, false, SCORIA_SHAPE(vector(a.features_normed, a.features))},
};
#undef SCORIA_SHAPE
static_assert(std::size(rules) == static_cast<size_t>(Role::ahead_features_norm) + 1);

}  // namespace

std::span<const RoleRule> role_rules() { return rules; }

}  // namespace scoria
