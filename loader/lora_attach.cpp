// Adapters beside a model's weights: which weight a tensor belongs to, in whichever of the two formats each
// came, and B's rows in the order of the model's.
#include "lora.h"

#include "conversion_families.h"
#include "fail.h"
#include "gguf_families.h"
#include "hf_families.h"
#include "hf_folder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>

namespace scoria {
namespace {

using Format = Settings::Format;

/// GGUF's name of a folder's family.
std::string gguf_name(const Architecture& folder) {
    const conversion::ConversionFamily* family = conversion::conversion_family(folder);
    return family == nullptr ? folder.family : std::string(family->architecture);
}

/// Whether models of a family of folders are of this one as GGUF: some are of one of several.
bool may_be(const Family& hugging_face, const std::string& gguf) {
    bool has_others = false;
    for (const conversion::ConversionFamily& row : conversion::conversion_families()) {
        if (row.model_type != std::string_view(hugging_face.name)) continue;
        if (row.architecture == gguf) return true;
        has_others = true;
    }
    return !has_others && hugging_face.name == gguf;
}

/// Whether the heads of values of a model's recurrences lie otherwise in the other format.
bool tiles_heads(const Architecture& model, bool is_folder) {
    return std::ranges::any_of(
        conversion::conversion_families(), [&](const conversion::ConversionFamily& row) {
            return row.tiles_heads && (is_folder ? row.model_type : row.architecture) == model.family;
        });
}

/// How an adapter's format names a model's weights, and which elements of its heads rotate together.
struct Naming {
    std::vector<const TensorRow*> rows, encoder_rows;
    std::string prefix;  // which some files leave out
    std::optional<RopePairs> pairs;
    bool tiled = false;  // heads of values: the adapter's lie otherwise than the model's
};

void add_family(Naming& naming, const Family& family) {
    const auto add = [](std::vector<const TensorRow*>& all,
                        std::span<const std::span<const TensorRow>> tables) {
        for (const std::span<const TensorRow> rows : tables)
            for (const TensorRow& row : rows) {
                const auto same = [&](const TensorRow* other) {
                    return other->role == row.role && std::string_view(other->name) == row.name;
                };
                if (std::ranges::none_of(all, same)) all.push_back(&row);
            }
    };
    add(naming.rows, family.tensors);
    add(naming.encoder_rows, family.encoder_tensors);
    naming.prefix = family.prefix;
    naming.pairs = family.pairs;
}

/// Of an adapter for a model. Where both are of the same format, a head's rows already lie as the model's.
Naming naming_for(const Model& model, const Adapter& adapter) {
    const std::string& family = model.architecture.family;
    const bool is_folder = is_hugging_face_model(model.path);
    const std::string common = is_folder ? gguf_name(model.architecture) : family;
    Naming naming;
    if (adapter.format == Format::gguf) {
        if (adapter.base != common)
            fail(Status::bad_file, "lora", adapter.name, ": general.architecture: expected ", common,
                 ", got ", adapter.base.empty() ? "nothing" : adapter.base);
        add_family(naming, find_family(gguf_families(), adapter.base, "lora", "general.architecture"));
    } else {
        for (const Family& each : hugging_face_families())
            if (is_folder ? each.name == family : may_be(each, family)) add_family(naming, each);
        if (naming.rows.empty())
            fail(Status::unsupported, "lora", adapter.name,
                 ": expected a GGUF adapter for a model of family ", family,
                 ", whose Hugging Face names are not known, got one of PEFT");
    }
    const bool alike = (adapter.format == Format::hugging_face) == is_folder;
    if (alike) naming.pairs.reset();
    naming.tiled = !alike && tiles_heads(model.architecture, is_folder);
    return naming;
}

/// How B lies where W lies so: A and B are linears of their own, so nothing of them is ever transposed.
/// Empty where rows of W are no rows of B.
std::optional<Layout> layout_of_b(Layout layout) {
    switch (layout) {
    case Layout::as_is:
    case Layout::qkv:
    case Layout::qkv_grouped:
    case Layout::gate_up:
    case Layout::q_rope_last:
    case Layout::q_gated:
    case Layout::mixer:
    case Layout::mixer_grouped:
        return layout;
    case Layout::transposed:
        return Layout::as_is;
    case Layout::qkv_transposed:
        return Layout::qkv;
    default:
        return {};
    }
}

/// Rows of heads in the order of the model's pairs: (2i, 2i + 1) or (i, i + width / 2).
std::vector<float> reordered(const std::vector<float>& rows, uint32_t cols, uint32_t head_dim,
                             const Rope& rope) {
    std::vector<float> result = rows;
    const uint32_t half = rope.width / 2;
    for (size_t head = 0; head < rows.size() / cols; head += head_dim)
        for (uint32_t i = 0; i < rope.width; ++i) {
            const uint64_t from =
                rope.pairs == RopePairs::interleaved ? row_of_halves(i, rope.width) : i % half * 2 + i / half;
            std::copy_n(rows.begin() + std::ptrdiff_t((head + from) * cols), cols,
                        result.begin() + std::ptrdiff_t((head + i) * cols));
        }
    return result;
}

/// Rows [.., cols], or with heads.columns their columns, with the heads of values as the model has them.
std::vector<float> retiled(const std::vector<float>& values, uint32_t cols,
                           const conversion::TiledHeads& heads, const Recurrence& shape) {
    std::vector<float> result(values.size());
    for (size_t i = 0; i < values.size(); ++i) {
        const size_t row = i / cols, col = i % cols, place = heads.columns ? col : row;
        const size_t from = shape.tiled ? heads.in_folder(place, shape) : heads.in_gguf(place, shape);
        result[i] = values[heads.columns ? row * cols + from : from * cols + col];
    }
    return result;
}

/// What one adapter, or several concatenated, add to a weight.
struct Update {
    std::string name;  // of the first A
    uint32_t rows = 0, cols = 0, rank = 0;
    std::vector<float> a;               // [rank, cols]
    std::vector<std::vector<float>> b;  // of each adapter, [rows, its rank]
};

/// The weights, and those of adapters, which are in memory.
class AdaptedTensors final : public TensorSource {
  public:
    static constexpr uint32_t file = UINT32_MAX;  // of their views, whose recipe is an index

    explicit AdaptedTensors(std::shared_ptr<const TensorSource> base) : base_(std::move(base)) {}
    TensorView add(std::string name, uint32_t rows, uint32_t cols, std::vector<float> values) {
        values_.push_back(std::move(values));
        return {std::move(name), TensorType::f32, rows, cols, file, 0, int32_t(values_.size() - 1)};
    }
    void read(const TensorView& tensor, uint64_t first, std::span<std::byte> out) const override {
        if (tensor.file != file) return base_->read(tensor, first, out);
        const auto bytes = std::as_bytes(std::span(values_.at(size_t(tensor.recipe))));
        if (first > bytes.size() || out.size() > bytes.size() - first)
            fail(Status::bad_argument, "tensor", tensor.name, ": expected a range inside ", bytes.size(),
                 " bytes, got ", out.size(), " at ", first);
        if (!out.empty()) std::memcpy(out.data(), bytes.data() + first, out.size());
    }

  private:
    std::shared_ptr<const TensorSource> base_;
    std::vector<std::vector<float>> values_;
};

using Updates = std::map<WeightRef, Update>;

class Attacher {
  public:
    Attacher(const Model& model, const Adapter& adapter, double scale, Updates& updates)
        : model_(model), adapter_(adapter), naming_(naming_for(model, adapter)), scale_(scale),
          updates_(updates) {
        const auto has_it = [&](const auto& pair) { return pair.first.starts_with(naming_.prefix); };
        leaves_prefix_out_ = std::ranges::none_of(adapter.pairs, has_it);
    }

    void run() {
        for (const auto& [ref, base] : model_.weights) add(ref, base);
        if (model_.architecture.tied_embeddings)  // the logits' update is no part of the table's
            add({Role::output}, model_.weights.at({Role::token_embedding}));
        for (const auto& [name, pair] : adapter_.pairs)
            if (!taken_.contains(name))
                wrong(Status::bad_file, pair.a,
                      cat("a weight of this model (", model_.architecture.family, ")"), "another name");
    }

  private:
    [[noreturn]] void wrong(Status status, const StoredTensor& tensor, std::string_view expected,
                            std::string_view got) const {
        fail(status, "lora", adapter_.name, ": tensor ", tensor.name, ": expected ", expected, ", got ", got);
    }

    void add(const WeightRef& ref, const TensorView& base) {
        for (const TensorRow* row : ref.encoder ? naming_.encoder_rows : naming_.rows) {
            if (row->role != ref.role) continue;
            std::string name = tensor_name(row->name, ref.layer);
            if (leaves_prefix_out_ && name.starts_with(naming_.prefix)) name.erase(0, naming_.prefix.size());
            const auto pair = adapter_.pairs.find(name);
            if (pair == adapter_.pairs.end()) continue;
            taken_.insert(name);
            add(ref, base, pair->second, row->layout);
        }
    }

    void add(const WeightRef& ref, const TensorView& base, const Adapter::Pair& pair, Layout layout) {
        const std::optional<Layout> b_layout = layout_of_b(layout);
        if (!b_layout) wrong(Status::unsupported, pair.a, "a linear layer", role_name(ref.role));
        const uint32_t rank = pair.rank();
        const Architecture& stack = ref.encoder ? model_.architecture.encoder[0] : model_.architecture;
        const Layer layer = ref.layer < 0 ? Layer() : stack.layers[size_t(ref.layer)];
        const Laid laid = lay_matrix(ref.role, base.rows, rank, *b_layout, layer);
        const std::vector<uint64_t> expected_a{rank, base.cols};
        if (pair.a.shape != expected_a)
            wrong(Status::bad_file, pair.a, shape_text(expected_a), shape_text(pair.a.shape));
        if (pair.b.shape != laid.expected)
            wrong(Status::bad_file, pair.b, shape_text(laid.expected), shape_text(pair.b.shape));

        std::vector<float> a = adapter_.tensors->floats(pair.a);
        const std::vector<float> stored = adapter_.tensors->floats(pair.b);
        std::vector<float> b;
        for (const Strip& strip : laid.strips)
            for (uint64_t i = 0; i < uint64_t{strip.rows} * rank; ++i)
                b.push_back(static_cast<float>(scale_ * pair.scale * double{stored[strip.first + i]}));
        const std::vector<Rope>& ropes = model_.architecture.ropes;
        const Attention& attention = layer.attention;
        const bool rotated = (ref.role == Role::q || ref.role == Role::k) && attention.latent.kv_rank == 0;
        if (rotated && !ropes.empty() && naming_.pairs.value_or(ropes[0].pairs) != ropes[0].pairs)
            b = reordered(b, rank, attention.head_dim, ropes[0]);
        const auto heads = conversion::tiled_heads(ref.role, layer.recurrence);
        if (naming_.tiled && heads) {
            std::vector<float>& turned = heads->columns ? a : b;
            turned = retiled(turned, heads->columns ? base.cols : rank, *heads, layer.recurrence);
        }

        Update& update =
            updates_.try_emplace(ref, Update{pair.a.name, base.rows, base.cols, 0, {}, {}}).first->second;
        update.rank += rank;
        update.a.insert(update.a.end(), a.begin(), a.end());
        update.b.push_back(std::move(b));
    }

    const Model& model_;
    const Adapter& adapter_;
    const Naming naming_;
    const double scale_;
    Updates& updates_;
    bool leaves_prefix_out_ = false;
    std::set<std::string> taken_;
};

/// The B of all adapters side by side, [rows, rank].
std::vector<float> concatenated(const Update& update) {
    std::vector<float> all;
    all.reserve(size_t{update.rows} * update.rank);
    for (size_t row = 0; row < update.rows; ++row)
        for (const std::vector<float>& b : update.b) {
            const size_t cols = b.size() / update.rows;
            all.insert(all.end(), b.begin() + std::ptrdiff_t(row * cols),
                       b.begin() + std::ptrdiff_t((row + 1) * cols));
        }
    return all;
}

}  // namespace

void attach_adapters(Model& model, std::span<const AdapterChoice> choices) {
    if (choices.empty()) return;
    if (!model.architecture.adapters.empty())
        fail(Status::bad_argument, "lora", "expected all adapters of a model at once, got more later");
    Updates updates;
    for (const AdapterChoice& choice : choices) {
        if (!std::isfinite(choice.scale))
            fail(Status::bad_argument, "lora", choice.path.string(), ": expected a finite scale, got ",
                 choice.scale);
        const Adapter adapter = open_adapter(choice.path);
        Attacher(model, adapter, choice.scale, updates).run();
    }
    const auto tensors = std::make_shared<AdaptedTensors>(model.tensors);
    for (auto& [ref, update] : updates) {
        WeightRef part = ref;
        part.part = WeightPart::b;
        model.weights[part] = tensors->add(update.name, update.rows, update.rank, concatenated(update));
        part.part = WeightPart::a;
        model.weights[part] = tensors->add(update.name, update.rank, update.cols, std::move(update.a));
        model.architecture.adapters[ref] = update.rank;
    }
    model.tensors = tensors;
}

}  // namespace scoria
