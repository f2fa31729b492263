// See binding.h.
#include "binding.h"

#include "fail.h"
#include "position_tables.h"

#include <algorithm>

namespace scoria {
namespace {

/// A role's shape in the terms of Layout, with vectors as rows of one column, and where q, k and v begin.
struct Frame {
    uint64_t rows, cols, groups;
    bool vector;
    Role role;
    const Layer& layer;
    uint64_t stored_rows;  // 1 to `rows`, of a tensor that may have fewer
    uint64_t rows_before;  // of a table of positions

    const Attention& attention() const { return layer.attention; }
    uint64_t group_rows() const { return rows / groups; }
    std::vector<uint64_t> shape(std::vector<uint64_t> sizes) const {  // the last size is `cols`
        if (vector) sizes.pop_back();
        return sizes;
    }
};

Strip strip(uint64_t first, uint64_t row_stride, uint64_t col_stride, uint64_t rows) {
    Strip made;
    made.first = first;
    made.row_stride = row_stride;
    made.col_stride = col_stride;
    made.rows = static_cast<uint32_t>(rows);
    return made;
}

std::vector<uint64_t> without_ones(std::vector<uint64_t> shape) {
    std::erase(shape, 1);
    return shape;
}

bool second_half(Role role) {
    return role == Role::up || role == Role::shared_up || role == Role::expert_up || role == Role::up_bias ||
           role == Role::expert_up_bias;
}

Laid lay_qkv(const Frame& f, Layout layout) {
    const uint64_t d = f.attention().head_dim, kv = f.attention().kv_heads, heads = f.attention().heads;
    const uint64_t total = (heads + 2 * kv) * d, per_group = layout == Layout::qkv_grouped ? kv : 1;
    const uint64_t queries = heads * d / per_group, keys = kv * d / per_group;
    const bool is_q = f.role == Role::q || f.role == Role::q_bias;
    const bool is_k = f.role == Role::k || f.role == Role::k_bias;
    const uint64_t first = is_q ? 0 : is_k ? queries : queries + keys;
    if (layout == Layout::qkv_transposed && !f.vector)
        return {{f.cols, total}, {strip(first, 1, total, f.rows)}};
    Laid laid{f.shape({total, f.cols}), {}};
    for (uint64_t g = 0; g < per_group; ++g)
        laid.strips.push_back(
            strip((g * (queries + 2 * keys) + first) * f.cols, f.cols, 1, is_q ? queries : keys));
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

Laid lay_mixer(const Frame& f) {
    const Recurrence& r = f.layer.recurrence;
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
    const uint64_t group = vectors ? 2 * heads : 2 * (r.key_dim + values);
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

/// The taps of a state space's channels, in their order, by what multiplies them.
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

class Binder {
  public:
    Binder(const Architecture& architecture, std::span<const std::span<const TensorRow>> rows,
           Catalog& catalog, const GatheredTensors& source, BoundWeights& bound)
        : architecture_(architecture), rows_(rows), catalog_(catalog), source_(source), bound_(bound) {}

    /// The weights of one stack; `encoder` says which.
    void take(Synthesised& synthesised, bool encoder) {
        for (const RoleRule& rule : role_rules()) {
            const size_t count = rule.of_layer ? architecture_.layers.size() : 1;
            for (size_t i = 0; i < count; ++i) {
                const Layer& layer = rule.of_layer ? architecture_.layers[i] : no_layer_;
                const RoleShape shape = rule.shape(architecture_, layer, i);
                if (shape.rows == 0) continue;
                const WeightRef ref{rule.role, rule.of_layer ? static_cast<int32_t>(i) : -1, encoder};
                const auto made = synthesised.find(ref);
                if (made != synthesised.end())
                    add_values(ref, shape, role_name(ref.role), std::move(made->second));
                else
                    add_stored(ref, shape, layer);
            }
        }
    }

  private:
    void add_stored(WeightRef ref, const RoleShape& shape, const Layer& layer) {
        const TensorRow* row = nullptr;
        for (const std::span<const TensorRow> rows : rows_)
            for (const TensorRow& each : rows) {
                if (each.role != ref.role) continue;
                if (row == nullptr) row = &each;  // the one whose absence is told
                if (catalog_.find(tensor_name(each.name, ref.layer)) == nullptr) continue;
                return add_row(ref, shape, layer, each);
            }
        if (row == nullptr)
            fail(Status::unsupported, catalog_.format(), "family ", architecture_.family,
                 " has no tensor for the role ", role_name(ref.role));
        fail(Status::bad_file, catalog_.format(), "tensor ", tensor_name(row->name, ref.layer),
             " is missing");
    }

    void add_row(WeightRef ref, const RoleShape& shape, const Layer& layer, const TensorRow& row) {
        if (row.layout >= Layout::buckets) return add_made(ref, shape, row, layer.attention);
        Frame frame{shape.rows,
                    shape.cols,
                    shape.groups,
                    shape.vector,
                    ref.role,
                    layer,
                    1,
                    architecture_.rows_before_positions};
        if (shape.vector) frame.rows = shape.cols, frame.cols = 1;
        if (const auto& stored = catalog_.find(tensor_name(row.name, ref.layer))->shape;
            row.layout == Layout::first_beyond && !stored.empty())
            frame.stored_rows = std::clamp<uint64_t>(stored.front(), 1, frame.rows);
        Laid laid = lay(frame, row.layout);
        if (row.layout == Layout::negated) laid.strips.front().factor = -1;
        const bool scaled = ref.role == Role::mixer_taps && layer.recurrence.scales_channels();
        if (scaled) laid.strips = channel_strips(layer.recurrence, frame.cols);
        const uint32_t tensors = row.layout == Layout::per_expert ? shape.groups : 1;
        GatherRecipe recipe;
        TensorView view;
        bool as_blocks = !shape.vector && !are_taps(ref.role);
        for (uint32_t expert = 0; expert < tensors; ++expert) {
            const StoredTensor& tensor =
                take(tensor_name(row.name, ref.layer, expert), laid, frame, row.layout);
            if (expert == 0) {
                view = {tensor.name, tensor.type, shape.rows, shape.cols, tensor.file, tensor.offset};
                recipe.stored = tensor.type;
                recipe.decode = tensor.decode;
            } else if (tensor.type != recipe.stored || tensor.decode != recipe.decode) {
                fail(Status::unsupported, catalog_.format(), "tensor ", tensor.name,
                     ": expected the type of ", view.name);
            }
            as_blocks = as_blocks && tensor.blocks;
            for (Strip each : laid.strips) {
                each.file = tensor.file;
                each.offset = tensor.offset;
                each.scales = tensor.scales;
                recipe.strips.push_back(each);
            }
        }
        recipe.cols = static_cast<uint32_t>(frame.cols);
        recipe.add = row.layout == Layout::plus_one ? 1.0f : 0.0f;
        recipe.negative_exp = row.layout == Layout::negative_exp;
        if (as_blocks && takes_rows(recipe, recipe.cols)) {
            const bool float8 = recipe.decode == Decode::f8_e4m3;
            if (float8) recipe.decode = Decode::float8;
            view.type = recipe.stored = float8 ? TensorType::f8_e4m3 : TensorType::nvfp4_s;
        }
        const bool blocks = tensor_type_info(recipe.stored).block > 1;
        // Vectors are small and enter sums, so they are F32, and so are taps; matrices keep the precision.
        const bool f32 = (shape.vector || recipe.add != 0 || are_taps(ref.role)) && !blocks;
        view.type = recipe.type = f32 ? TensorType::f32 : view.type;
        check_blocks(view, recipe, blocks);
        const bool plain = row.layout == Layout::as_is && recipe.type == recipe.stored &&
                           recipe.decode == Decode::none && !scaled;
        if (!plain) view.recipe = add_recipe(std::move(recipe));
        bound_.weights[ref] = std::move(view);
    }

    /// Whether parts of rows are taken as they are, that begin at multiples of `block`.
    static bool takes_rows(const GatherRecipe& recipe, uint32_t block) {
        return recipe.add == 0 && !recipe.negative_exp &&
               std::ranges::all_of(recipe.strips, [&](const Strip& each) {
                   return each.col_stride == 1 && each.first % block == 0 && each.row_stride % block == 0 &&
                          each.factor == 1;
               });
    }

    void check_blocks(const TensorView& view, const GatherRecipe& recipe, bool blocks) const {
        const bool packed = is_packed(recipe.decode);
        if (!blocks && !packed) return;
        const uint32_t block = packed ? recipe.cols : tensor_type_info(recipe.stored).block;
        const bool whole = takes_rows(recipe, block) && recipe.type == recipe.stored;
        if (!whole || (recipe.cols % block != 0 && view.rows != 1))
            fail(Status::unsupported, catalog_.format(), "tensor ", view.name, ": type ",
                 tensor_type_info(recipe.stored).name, " cannot be rearranged as this family needs");
    }

    const StoredTensor& take(const std::string& name, const Laid& laid, const Frame& frame, Layout layout) {
        const StoredTensor* tensor = catalog_.take(name);
        if (tensor == nullptr) fail(Status::bad_file, catalog_.format(), "tensor ", name, " is missing");
        const auto is = [&](const std::vector<uint64_t>& shape) { return tensor->shape == shape; };
        bool fits = is(laid.expected);
        if (layout == Layout::as_is || layout == Layout::plus_one || layout == Layout::negative_exp ||
            layout == Layout::negated) {
            fits = fits || is(frame.shape({frame.groups, frame.group_rows(), frame.cols}));
            fits = fits || without_ones(tensor->shape) == without_ones(laid.expected);
        }
        if (!fits)
            fail(Status::bad_file, catalog_.format(), "tensor ", name, ": expected ",
                 shape_text(laid.expected), ", got ", shape_text(tensor->shape));
        return *tensor;
    }

    /// A table that is computed from the stored one (position_tables.h).
    void add_made(WeightRef ref, const RoleShape& shape, const TensorRow& row, const Attention& attention) {
        const std::string name = tensor_name(row.name, ref.layer);
        const StoredTensor& tensor = *catalog_.take(name);
        const bool matrix = tensor.shape.size() == 2 && tensor_type_info(tensor.type).block == 1;
        const uint64_t rows = matrix ? tensor.shape[0] : 0, cols = matrix ? tensor.shape[1] : 0;
        const auto expect = [&](bool fits, const auto&... shape_parts) {
            if (!fits)
                fail(Status::bad_file, catalog_.format(), "tensor ", name, ": expected [", shape_parts...,
                     "], got ", shape_text(tensor.shape));
        };
        const uint32_t heads = attention.heads, span = attention.bias_span;
        const uint64_t offsets = 2 * uint64_t{span} - 1;
        const bool both = attention.bias == PositionBias::table_both;
        switch (row.layout) {
        case Layout::buckets: {
            const uint64_t usable = both ? rows / 2 : rows;
            expect(cols == heads && usable >= 2 && usable / 2 < span - 1, "buckets, ", heads);
            return add_values(ref, shape, name,
                              expand_buckets(source_.floats(tensor), heads, span - 1, both));
        }
        case Layout::distance_projection:
            expect(rows == uint64_t{heads} * attention.head_dim && cols == architecture_.hidden,
                   heads * attention.head_dim, ", ", architecture_.hidden);
            return add_values(ref, shape, name,
                              distance_keys(source_.floats(tensor), heads, span, architecture_.hidden));
        default:
            expect(rows == offsets && cols == attention.head_dim, offsets, ", ", attention.head_dim);
            return add_values(ref, shape, name,
                              clipped_rows(source_.floats(tensor), span, shape.rows / span));
        }
    }

    void add_values(WeightRef ref, const RoleShape& shape, std::string name, std::vector<float> values) {
        TensorView view{std::move(name), TensorType::f32, shape.rows, shape.cols};
        GatherRecipe recipe;
        recipe.cols = shape.cols;
        recipe.values = std::move(values);
        view.recipe = add_recipe(std::move(recipe));
        bound_.weights[ref] = std::move(view);
    }

    int32_t add_recipe(GatherRecipe recipe) {
        bound_.recipes.push_back(std::move(recipe));
        return static_cast<int32_t>(bound_.recipes.size() - 1);
    }

    const Architecture& architecture_;
    std::span<const std::span<const TensorRow>> rows_;
    Catalog& catalog_;
    const GatheredTensors& source_;
    const Layer no_layer_;
    BoundWeights& bound_;
};

}  // namespace

std::string shape_text(std::span<const uint64_t> shape) {
    std::string text = "[";
    for (const uint64_t size : shape) text += cat(text.size() > 1 ? ", " : "", size);
    return text + "]";
}

Laid lay_matrix(Role role, uint64_t rows, uint64_t cols, Layout layout, const Layer& layer) {
    return lay({rows, cols, 1, false, role, layer}, layout);
}

std::string tensor_name(std::string_view pattern, int32_t layer, uint32_t expert) {
    std::string name;
    for (const char c : pattern) {
        if (c == '#')
            name += cat(layer);
        else if (c == '@')
            name += cat(expert);
        else
            name += c;
    }
    return name;
}

bool rename(StoredTensor& tensor, std::span<const Renamed> names, int32_t layer) {
    for (const Renamed& each : names) {
        const std::string from = tensor_name(each.from, layer);
        if (!tensor.name.starts_with(from)) continue;
        tensor.name = each.to + tensor.name.substr(from.size());
        return true;
    }
    return false;
}

Catalog::Catalog(std::string format, std::vector<StoredTensor> tensors) : format_(std::move(format)) {
    for (StoredTensor& tensor : tensors) tensors_.emplace(tensor.name, std::move(tensor));
}

bool Catalog::set_prefix(std::string prefix) {
    const auto has_it = [&](const auto& entry) { return entry.first.starts_with(prefix); };
    if (std::ranges::any_of(tensors_, has_it)) return false;
    prefix_ = std::move(prefix);
    return true;
}

const StoredTensor* Catalog::find(const std::string& name) const {
    const bool cut = !prefix_.empty() && name.starts_with(prefix_);
    const auto found = tensors_.find(cut ? name.substr(prefix_.size()) : name);
    return found == tensors_.end() ? nullptr : &found->second;
}

const StoredTensor* Catalog::take(const std::string& name) {
    const StoredTensor* tensor = find(name);
    if (tensor != nullptr) taken_.insert(tensor->name);
    return tensor;
}

std::vector<TensorView> Catalog::rest() const {
    std::vector<TensorView> views;
    for (const auto& [name, tensor] : tensors_) {
        if (!taken_.contains(name)) views.push_back(view_of(tensor));
    }
    return views;
}

BoundWeights bind_weights(const Architecture& architecture, std::span<const std::span<const TensorRow>> rows,
                          std::span<const std::span<const TensorRow>> encoder_rows, Synthesised synthesised,
                          Catalog& catalog, const GatheredTensors& source) {
    BoundWeights bound;
    Binder(architecture, rows, catalog, source, bound).take(synthesised, false);
    for (const Architecture& encoder : architecture.encoder)
        Binder(encoder, encoder_rows, catalog, source, bound).take(synthesised, true);
    return bound;
}

}  // namespace scoria
