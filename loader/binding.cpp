// See binding.h.
#include "binding.h"

#include "fail.h"
#include "layouts.h"
#include "position_tables.h"

#include <algorithm>

namespace scoria {
namespace {

std::vector<uint64_t> without_ones(std::vector<uint64_t> shape) {
    std::erase(shape, 1);
    return shape;
}

class Binder {
  public:
    Binder(const Architecture& architecture, std::span<const std::span<const TensorRow>> rows,
           Catalog& catalog, const GatheredTensors& source, BoundWeights& bound)
        : architecture_(architecture), rows_(rows), catalog_(catalog), source_(source), bound_(bound) {}

    /// The weights of one stack; `encoder` says which.
    void take(const Synthesised& synthesised, bool encoder) {
        for (const RoleRule& rule : role_rules()) {
            const size_t count = rule.of_layer ? architecture_.own_layers() : 1;
            for (size_t i = 0; i < count; ++i) {
                const Layer& layer = rule.of_layer ? architecture_.layers[i] : no_layer_;
                const RoleShape shape = rule.shape(architecture_, layer, i);
                if (shape.rows == 0) continue;
                const WeightRef ref{rule.role, rule.of_layer ? static_cast<int32_t>(i) : -1, encoder};
                const auto made = synthesised.find(ref);
                if (made != synthesised.end())
                    add_values(ref, shape, role_name(ref.role), made->second());
                else
                    add_stored(ref, shape, layer);
            }
        }
    }

  private:
    /// The role's first row whose tensor the file has, else its first one; null: it has none.
    const TensorRow* row_of(WeightRef ref) const {
        const TensorRow* row = nullptr;
        for (const std::span<const TensorRow> rows : rows_)
            for (const TensorRow& each : rows) {
                if (each.role != ref.role) continue;
                if (catalog_.find(tensor_name(each.name, ref.layer)) != nullptr) return &each;
                if (row == nullptr) row = &each;
            }
        return row;
    }

    void add_stored(WeightRef ref, const RoleShape& shape, const Layer& layer) {
        const TensorRow* row = row_of(ref);
        if (row == nullptr)
            fail(Status::unsupported, catalog_.format(), "family ", architecture_.family,
                 " has no tensor for the role ", role_name(ref.role));
        const std::string name = tensor_name(row->name, ref.layer);
        if (catalog_.find(name) == nullptr)
            fail(Status::bad_file, catalog_.format(), "tensor ", name, " is missing");
        add_row(ref, shape, layer, *row);
    }

    void add_row(WeightRef ref, const RoleShape& shape, const Layer& layer, const TensorRow& row) {
        if (row.layout >= Layout::buckets) return add_made(ref, shape, row, layer.attention);
        if (row.layout == Layout::channels) return add_channels(ref, shape, layer.recurrence);
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

    /// Taps of separate q, k and v, wherever those of all are cut.
    void add_channels(WeightRef ref, const RoleShape& shape, const Recurrence& recurrence) {
        const uint64_t first = uint64_t{ref.role != Role::mixer_q_taps} * recurrence.keys() +
                               uint64_t{ref.role == Role::mixer_v_taps} * recurrence.keys();
        TensorView view{tensor_name(row_of(ref)->name, ref.layer), TensorType::f32, shape.rows, shape.cols};
        GatherRecipe recipe;
        recipe.cols = shape.cols;
        uint64_t begin = 0;  // of the tensor's channels
        for (WeightRef part = ref;
             const Role role : {Role::mixer_q_taps, Role::mixer_k_taps, Role::mixer_v_taps}) {
            part.role = role;
            const std::string name = tensor_name(row_of(part)->name, ref.layer);
            const StoredTensor* tensor = catalog_.take(name);
            if (tensor == nullptr) fail(Status::bad_file, catalog_.format(), "tensor ", name, " is missing");
            const std::vector<uint64_t>& sizes = tensor->shape;
            const uint64_t rows = sizes.empty() ? 0 : sizes.front();
            if (without_ones(sizes) != without_ones({rows, shape.cols}))
                fail(Status::bad_file, catalog_.format(), "tensor ", name, ": expected rows of ", shape.cols,
                     ", got ", shape_text(sizes));
            if (tensor->decode != Decode::none || tensor_type_info(tensor->type).block > 1 ||
                (begin != 0 && tensor->type != recipe.stored))
                fail(Status::unsupported, catalog_.format(), "tensor ", name,
                     ": expected floats, of one type, got ", tensor_type_info(tensor->type).name);
            recipe.stored = tensor->type;
            const uint64_t from = std::max(first, begin), to = std::min(first + shape.rows, begin + rows);
            if (from < to) {
                recipe.strips.push_back(strip((from - begin) * shape.cols, shape.cols, 1, to - from));
                recipe.strips.back().file = tensor->file;
                recipe.strips.back().offset = tensor->offset;
            }
            begin += rows;
        }
        if (begin != recurrence.channels())
            fail(Status::bad_file, catalog_.format(), "tensors of taps in layer ", ref.layer, ": expected ",
                 recurrence.channels(), " channels together, got ", begin);
        view.recipe = add_recipe(std::move(recipe));
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
        if (layout == Layout::experts_transposed)
            fits = fits || is({frame.groups * frame.cols, frame.group_rows()});
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
        tensor.rename(each.to + tensor.name.substr(from.size()));
        return true;
    }
    return false;
}

void refuse_two(const std::string& format, const StoredTensor& one, const StoredTensor& other) {
    fail(Status::bad_file, format, "tensors ", one.name_in_file(), " and ", other.name_in_file(),
         ": expected one of them, as both are ", other.name);
}

Catalog::Catalog(std::string format, std::vector<StoredTensor> tensors) : format_(std::move(format)) {
    for (StoredTensor& tensor : tensors) {
        const auto [other, is_new] = tensors_.try_emplace(tensor.name, std::move(tensor));
        if (!is_new) refuse_two(format_, other->second, tensor);
    }
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
                          std::span<const std::span<const TensorRow>> encoder_rows,
                          const Synthesised& synthesised, Catalog& catalog, const GatheredTensors& source) {
    BoundWeights bound;
    Binder(architecture, rows, catalog, source, bound).take(synthesised, false);
    for (const Architecture& encoder : architecture.encoder)
        Binder(encoder, encoder_rows, catalog, source, bound).take(synthesised, true);
    return bound;
}

}  // namespace scoria
