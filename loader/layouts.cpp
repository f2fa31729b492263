// See layouts.h.
#include "layouts.h"

namespace scoria {
namespace {

bool second_half(Role role) {
    return role == Role::up || role == Role::shared_up || role == Role::expert_up || role == Role::up_bias ||
           role == Role::expert_up_bias;
}

Laid lay_qkv(const Frame& f, Layout layout) {
    const uint64_t d = f.attention().head_dim, kv = f.attention().kv_heads, heads = f.attention().heads;
    const uint64_t v_dim = f.attention().v_head_dim(), total = (heads + kv) * d + kv * v_dim;
    const uint64_t per_group = layout == Layout::qkv_grouped ? kv : 1;
    const uint64_t queries = heads * d / per_group, keys = kv * d / per_group,
                   values = kv * v_dim / per_group;
    const bool is_q = f.role == Role::q || f.role == Role::q_bias;
    const bool is_k = f.role == Role::k || f.role == Role::k_bias;
    const uint64_t first = is_q ? 0 : is_k ? queries : queries + keys;
    if (layout == Layout::qkv_transposed && !f.vector)
        return {{f.cols, total}, {strip(first, 1, total, f.rows)}};
    Laid laid{f.shape({total, f.cols}), {}};
    for (uint64_t g = 0; g < per_group; ++g)
        laid.strips.push_back(strip((g * (queries + keys + values) + first) * f.cols, f.cols, 1,
                                    is_q   ? queries
                                    : is_k ? keys
                                           : values));
    return laid;
}

Laid lay_experts(const Frame& f, Layout layout) {
    const uint64_t n = f.group_rows(), half = second_half(f.role) ? 1 : 0;
    Laid laid;
    if (layout == Layout::experts_transposed)
        laid.expected = {f.groups, f.cols, n};
    else if (layout == Layout::experts_gate_up || layout == Layout::experts_gate_up_rows)
        laid.expected = f.shape({f.groups, 2 * n, f.cols});
    else
        laid.expected = f.vector ? std::vector<uint64_t>{f.groups, 2 * n}
                                 : std::vector<uint64_t>{f.groups, f.cols, 2 * n};
    for (uint64_t e = 0; e < f.groups; ++e) {
        if (layout == Layout::experts_transposed)
            laid.strips.push_back(strip(e * n * f.cols, 1, n, n));
        else if (layout == Layout::experts_gate_up)
            laid.strips.push_back(strip((2 * e + half) * n * f.cols, f.cols, 1, n));
        else if (layout == Layout::experts_gate_up_rows)
            laid.strips.push_back(strip((2 * e * n + half) * f.cols, 2 * f.cols, 1, n));
        else if (layout == Layout::experts_gate_up_halves)
            laid.strips.push_back(strip(e * 2 * n * f.cols + half * n, 1, 2 * n, n));
        else
            laid.strips.push_back(strip(e * 2 * n * f.cols + half, 2, 2 * n, n));
    }
    return laid;
}

Laid lay_quarters(const Frame& f) {
    const uint64_t part = f.rows / 4, place = f.role == Role::q ? 0 : f.role == Role::v ? 1 : 2;
    Laid laid{{3 * f.rows, f.cols}, {}};
    for (uint64_t i = 0; i < 4; ++i)
        laid.strips.push_back(strip((3 * i + place) * part * f.cols, f.cols, 1, part));
    return laid;
}

/// DeepSeek's q_b_proj and kv_b_proj, heads one after the other.
Laid lay_latent(const Frame& f, Layout layout) {
    const Latent& latent = f.attention().latent;
    const uint64_t heads = f.attention().heads, head = f.attention().head_dim, rope = latent.rope_dim;
    const uint64_t fixed = head - rope, rank = latent.kv_rank, pair = fixed + latent.value_dim;
    Laid laid{layout == Layout::q_rope_last ? std::vector<uint64_t>{f.rows, f.cols}
                                            : std::vector<uint64_t>{heads * pair, rank},
              {}};
    for (uint64_t h = 0; h < heads; ++h)
        if (layout == Layout::q_rope_last) {
            laid.strips.push_back(strip((h * head + fixed) * f.cols, f.cols, 1, rope));
            laid.strips.push_back(strip(h * head * f.cols, f.cols, 1, fixed));
        } else if (f.role == Role::latent_k) {  // absorbed: the transpose of the head's rows
            laid.strips.push_back(strip(h * pair * rank, 1, rank, rank));
        } else {
            laid.strips.push_back(strip((h * pair + fixed) * rank, rank, 1, latent.value_dim));
        }
    return laid;
}

Laid lay_gated(const Frame& f) {
    const uint64_t d = f.attention().head_dim, second = f.role == Role::attention_gate ? d : 0;
    Laid laid{f.shape({2 * f.rows, f.cols}), {}};
    for (uint64_t h = 0; h < f.attention().heads; ++h)
        laid.strips.push_back(strip((2 * h * d + second) * f.cols, f.cols, 1, d));
    return laid;
}

/// A projected state space's.
Laid lay_projected(const Frame& f) {
    const Recurrence& r = f.layer.recurrence;
    const uint64_t kq = 2ull * r.key_dim;
    if (f.role == Role::mixer_step_low || f.role == Role::mixer_kq)
        return {{kq + r.step_rank, f.cols},
                {strip(f.role == Role::mixer_kq ? 0 : kq * f.cols, f.cols, 1, f.rows)}};
    Laid laid{{2ull * r.width, f.cols}, {}};
    const uint64_t second = f.role == Role::mixer_in ? 1 : 0;
    for (uint64_t h = 0; h < r.heads; ++h)
        laid.strips.push_back(strip((2 * h + second) * r.value_dim * f.cols, f.cols, 1, r.value_dim));
    return laid;
}

Laid lay_mixer(const Frame& f) {
    const Recurrence& r = f.layer.recurrence;
    if (r.projected) return lay_projected(f);
    if (r.kind == RecurrenceKind::selective) {
        const bool parts = f.role == Role::mixer_step_low || f.role == Role::mixer_kq;
        const uint64_t above = f.role == Role::mixer_gate ? r.width
                               : f.role == Role::mixer_kq ? r.step_rank
                                                          : 0;
        return {{parts ? r.step_rank + 2ull * r.key_dim : 2ull * r.width, f.cols},
                {strip(above * f.cols, f.cols, 1, f.rows)}};
    }
    const bool gates_input = r.kind == RecurrenceKind::convolution;
    const uint64_t before_channels = gates_input ? 2ull * r.width : r.width;
    const uint64_t first = f.role == Role::mixer_in     ? before_channels
                           : f.role == Role::mixer_step ? before_channels + r.channels()
                           : f.role == Role::mixer_gate ? before_channels - r.width
                                                        : 0;
    return {{before_channels + r.channels() + r.heads, f.cols}, {strip(first * f.cols, f.cols, 1, f.rows)}};
}

Laid lay_mixer_grouped(const Frame& f) {
    const Recurrence& r = f.layer.recurrence;
    const uint64_t heads = r.heads / r.groups, values = heads * r.value_dim;
    const bool vectors = f.role == Role::mixer_beta || f.role == Role::mixer_step;
    const uint64_t gate = r.kind == RecurrenceKind::lightning ? 0 : values;
    const uint64_t group = vectors ? 2 * heads : 2 * r.key_dim + values + gate;
    Laid laid{{r.groups * group, f.cols}, {}};
    const auto of_groups = [&](uint64_t first, uint64_t rows) {
        for (uint64_t g = 0; g < r.groups; ++g)
            laid.strips.push_back(strip((g * group + first) * f.cols, f.cols, 1, rows));
    };
    if (vectors) {
        of_groups(f.role == Role::mixer_beta ? 0 : heads, heads);
    } else if (f.role == Role::mixer_gate) {
        of_groups(2 * r.key_dim + values, values);
    } else {
        of_groups(0, r.key_dim);
        of_groups(r.key_dim, r.key_dim);
        of_groups(2 * r.key_dim, values);
    }
    return laid;
}

}  // namespace

Strip strip(uint64_t first, uint64_t row_stride, uint64_t col_stride, uint64_t rows) {
    Strip made;
    made.first = first;
    made.row_stride = row_stride;
    made.col_stride = col_stride;
    made.rows = static_cast<uint32_t>(rows);
    return made;
}

Laid lay(const Frame& f, Layout layout) {
    switch (layout) {
    case Layout::q_gated:
        return lay_gated(f);
    case Layout::mixer:
        return lay_mixer(f);
    case Layout::mixer_grouped:
        return lay_mixer_grouped(f);
    case Layout::q_rope_last:
    case Layout::latent_kv_b:
        return lay_latent(f, layout);
    case Layout::positions:
        return {{f.rows_before + f.rows, f.cols}, {strip(f.rows_before * f.cols, f.cols, 1, f.rows)}};
    case Layout::first_beyond:
        return {{f.stored_rows, f.cols},
                {strip(0, f.cols, 1, f.stored_rows), strip(0, 0, 1, f.rows - f.stored_rows)}};
    case Layout::transposed:
        return {{f.cols, f.rows}, {strip(0, 1, f.rows, f.rows)}};
    case Layout::qkv:
    case Layout::qkv_transposed:
    case Layout::qkv_grouped:
        return lay_qkv(f, layout);
    case Layout::qvk_quarters:
        return lay_quarters(f);
    case Layout::gate_up:
        return {f.shape({2 * f.rows, f.cols}),
                {strip(second_half(f.role) != f.layer.feed_forward.up_first ? f.rows * f.cols : 0, f.cols, 1,
                       f.rows)}};
    case Layout::per_expert:
        return {f.shape({f.group_rows(), f.cols}), {strip(0, f.cols, 1, f.group_rows())}};
    case Layout::experts_transposed:
    case Layout::experts_gate_up:
    case Layout::experts_gate_up_columns:
    case Layout::experts_gate_up_rows:
    case Layout::experts_gate_up_halves:
        return lay_experts(f, layout);
    default:
        break;
    }
    return {f.shape({f.rows, f.cols}), {strip(0, f.cols, 1, f.rows)}};
}

Laid lay_matrix(Role role, uint64_t rows, uint64_t cols, Layout layout, const Layer& layer) {
    return lay({rows, cols, 1, false, role, layer}, layout);
}

std::vector<Strip> channel_strips(const Recurrence& shape, uint64_t taps) {
    std::vector<Strip> strips;
    const auto add = [&](uint64_t first, uint32_t rows, float factor) {
        strips.push_back(strip(first * taps, taps, 1, rows));
        strips.back().factor = factor;
    };
    add(shape.v_channel(), shape.width, shape.v_scale);
    add(shape.k_channel(), shape.keys(), shape.k_scale);
    add(shape.q_channel(), shape.keys(), shape.q_scale);
    return strips;
}

}  // namespace scoria
