// A Hugging Face folder as a source: the model is read as any other, and its weights are written under the
// names of the GGUF family's table. What the GGUF would then be read as must be the model that the folder is,
// so that nothing which GGUF cannot say is lost.
#include "conversion_folder.h"

#include "classifier.h"
#include "conversion_families.h"
#include "conversion_read_back.h"
#include "fail.h"
#include "file.h"
#include "gguf_families.h"
#include "hf_families.h"
#include "hf_folder.h"
#include "hf_text_part.h"
#include "layer_ahead.h"
#include "log.h"
#include "position_tables.h"
#include "tokenizer/json.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace scoria {
namespace {

namespace fs = std::filesystem;
using namespace conversion;

/// How the rows of a role are ordered in the GGUF.
enum class Order : uint8_t {
    same,
    pairs,      // the rotating elements of a head, halves beside each other there
    rope_last,  // the rotating elements of a head are its last there (DeepSeek)
    grouped,    // q, k and v of each head stand together there (lightning)
    tiled,      // heads that share q and k are `groups` apart there (Recurrence::tiled)
    tiled_columns,
};

const Family& family_named(std::span<const Family> families, std::string_view name) {
    return *std::ranges::find(families, name,
                              [](const Family& family) { return std::string_view(family.name); });
}

class FolderSource final : public ConversionSource {
  public:
    FolderSource(const fs::path& path, Model part);
    std::vector<std::string> paths() const override;
    void metadata(GgufWriter& out) const override;
    void read_rows(size_t tensor, uint64_t first_row, std::span<std::byte> out) const override;

  private:
    struct Part {
        const TensorView* view;
        uint64_t rows;  // of a vector: its elements
        Order order;
        TiledHeads heads = {};  // tiled: where they begin, and rows, or columns, of each
    };
    struct Place {
        std::vector<Part> parts;    // one after the other
        std::vector<float> values;  // instead of parts: computed
        uint64_t by_turns = 0;      // > 0: parts by turns, so many rows of each at a time
    };
    bool turns_pairs() const;
    void check_pairs() const;
    void find_family();
    void drop_head();
    void add_divisors();
    void add_divisors(const char* name, const std::vector<double>& divisors);
    void add_layer_scales();
    void add_negated();
    void take_one_epsilon();
    void add_weights();
    void add(WeightRef ref, const TensorView& view);
    void add_values(std::string name, std::vector<uint64_t> dimensions, std::vector<float> values);
    void add_buckets();
    void add_dense();
    void add_classifier();
    void add_whole(std::string name, const TensorView& view, bool vector);
    void fold_logit_scale();
    std::vector<float> floats_of(const TensorView& view) const;
    const Architecture& stack_of(WeightRef ref) const;
    const TensorRow& row_of(WeightRef ref) const;
    Part part_of(WeightRef ref, const TensorView& view, Layout layout, bool vector) const;
    Part tiled(Part part, Role role) const;
    uint64_t source_row(const Part& part, uint64_t row) const;
    void tile_columns(uint64_t bytes, TiledHeads columns, std::span<std::byte> row) const;
    void set_keys(GgufWriter& out) const;
    void check_unused() const;
    void check_read_back() const;
    [[noreturn]] void cannot_say(std::string_view what) const;

    fs::path folder_;
    Model model_;
    std::vector<RopeSettings> ropes_;
    uint32_t feed_forward_ = 0, buckets_ = 0;
    const ConversionFamily* row_ = nullptr;
    const Family* family_ = nullptr;  // GGUF's
    std::vector<Place> places_;       // of tensors_
};

FolderSource::FolderSource(const fs::path& path, Model part)
    : folder_(hugging_face_paths(path).folder), model_(std::move(part)) {
    find_family();
    const fs::path config = hugging_face_paths(path).config;
    const Settings settings(Settings::Format::hugging_face, config.filename().string(), "",
                            text_part(read_config(config)));
    ropes_ = read_hugging_face_ropes(family_named(hugging_face_families(), model_.architecture.family),
                                     settings, model_.architecture);
    if (model_.architecture.ropes.empty()) ropes_.clear();
    check_pairs();
    const Attention& attention = model_.architecture.attention();
    facts_.layers = stack_of({Role::q, 0, !model_.architecture.encoder.empty()}).layers.size();
    facts_.heads = attention.heads;
    facts_.kv_heads = attention.kv_heads;
    facts_.experts = model_.architecture.routing().experts;
    uint32_t size = 0;
    bool feeds = false;
    for (const Layer& layer : model_.architecture.layers) {
        size = std::max(size, layer.feed_forward.size);
        feeds = feeds || layer.feeds();
    }
    const uint32_t of_expert = model_.architecture.routing().size;
    feed_forward_ = size != 0 || !feeds ? size : settings.size(Field::feed_forward, most_size, of_expert);
    check_unused();
    if (row_->embeds) drop_head();
    add_divisors();
    add_layer_scales();
    add_negated();
    take_one_epsilon();
    if (!model_.architecture.encoder.empty()) {
        buckets_ = settings.size("relative_attention_num_buckets", most_size, 32);
        add_buckets();
        fold_logit_scale();
    }
    add_weights();
    add_dense();
    add_classifier();
    if (!model_.architecture.guesses_ahead()) check_read_back();
}

void FolderSource::find_family() {
    row_ = conversion_family(model_.architecture);
    if (row_ == nullptr) {
        std::string known;
        for (const ConversionFamily& family : conversion_families())
            known += cat(known.empty() ? "" : ", ", family.model_type);
        fail(Status::unsupported, folder_.string(), "model_type: GGUF has no architecture for ",
             model_.architecture.family, " that this build writes; expected one of ", known);
    }
    family_ = &family_named(gguf_families(), row_->architecture);
}

void FolderSource::cannot_say(std::string_view what) const {
    fail(Status::unsupported, folder_.string(), what, ": GGUF's ", row_->architecture,
         " cannot say what config.json does");
}

/// Of a masked language model, which GGUF's readers do not run.
void FolderSource::drop_head() {
    Architecture& architecture = model_.architecture;
    architecture.has_head = architecture.head_transform = architecture.head_bias = false;
    architecture.output_bias = false;
    architecture.tied_embeddings = true;
    architecture.head_activation = Architecture().head_activation;
    for (const Role role : {Role::head, Role::head_bias, Role::head_norm, Role::head_norm_bias, Role::output,
                            Role::output_bias})
        model_.weights.erase({role});
}

/// A weight that GGUF has no place for would be missed in every answer.
void FolderSource::check_unused() const {
    for (const TensorView& view : model_.unused) {
        const bool of_head =
            row_->embeds && (view.name.starts_with("cls.") || view.name.starts_with("lm_head."));
        if (!of_head && !is_spare(model_, view))
            fail(Status::unsupported, folder_.string(), "the tensor ", view.name,
                 " has no place in the GGUF of a ", model_.architecture.family);
    }
}

/// GGUF's "llama" and its kin turn pairs (2i, 2i+1) of a head where folders turn (i, i + width/2).
bool FolderSource::turns_pairs() const { return !ropes_.empty() && ropes_.front().pairs != family_->pairs; }

/// Rows of plain q and k change places, and the other way round nobody needs.
void FolderSource::check_pairs() const {
    const Attention& attention = model_.architecture.attention();
    const bool normed = attention.qk_norm.group != QkNorm::Group::none && !row_->made_norms,
               plain = attention.latent.kv_rank == 0 && !normed;
    if (turns_pairs() && (!plain || ropes_.front().pairs == RopePairs::interleaved))
        cannot_say("rope_interleave");
}

void FolderSource::add_values(std::string name, std::vector<uint64_t> dimensions, std::vector<float> values) {
    tensors_.push_back({std::move(name), std::move(dimensions), TensorType::f32});
    places_.push_back({.parts = {}, .values = std::move(values)});
}

std::vector<float> FolderSource::floats_of(const TensorView& view) const {
    std::vector<float> values(view.bytes() / sizeof(float));
    model_.tensors->read(view, 0, std::as_writable_bytes(std::span(values)));
    return values;
}

/// T5's tables of positions, which the model holds by distance.
void FolderSource::add_buckets() {
    for (const bool encoder : {false, true}) {
        const WeightRef ref{Role::position_bias, 0, encoder};
        const Attention& attention = stack_of(ref).layers.front().attention;
        const std::vector<float> table = floats_of(model_.weights.at(ref));
        const uint32_t most = attention.bias_span - 1, usable = encoder ? buckets_ / 2 : buckets_;
        std::vector<float> buckets;
        if (usable >= 2 && usable / 2 < most)  // as the tables that the model was read from
            buckets = collect_buckets(table, attention.heads, most, encoder, buckets_);
        if (buckets.empty() || expand_buckets(buckets, attention.heads, most, encoder) != table)
            fail(Status::bad_file, folder_.string(), "relative_attention_num_buckets: got ", buckets_,
                 ", which the tables of positions have not");
        add_values(tensor_name(row_of(ref).name, 0), {attention.heads, buckets_}, std::move(buckets));
        model_.weights.erase(ref);
    }
}

/// GGUF's T5 has no scale of logits; the norm before them takes it.
void FolderSource::fold_logit_scale() {
    const WeightRef ref{Role::output_norm};
    std::vector<float> norm = floats_of(model_.weights.at(ref));
    const float scale = std::exchange(model_.architecture.logit_scale, 1.0f);
    for (float& weight : norm) weight *= scale;
    add_values(row_of(ref).name, {norm.size()}, norm);
    model_.weights.erase(ref);
}

/// Two linears behind pooling are what readers know.
constexpr const char* dense_names[] = {"dense_2", "dense_3"};
void FolderSource::add_dense() {
    for (size_t i = 0; i < model_.dense.size(); ++i) {
        const Dense& dense = model_.dense[i];
        if (!row_->dense || i >= std::size(dense_names) || dense.bias ||
            dense.activation != Activation::identity)
            fail(Status::unsupported, folder_.string(), "modules.json: GGUF's ", row_->architecture,
                 " cannot say what its Dense modules do");
        add_whole(cat(dense_names[i], ".weight"), dense.weight, false);
    }
}

void FolderSource::add_whole(std::string name, const TensorView& view, bool vector) {
    tensors_.push_back({std::move(name), {view.cols}, view.type});
    if (!vector) tensors_.back().dimensions.push_back(view.rows);
    places_.push_back({.parts = {{&view, vector ? view.cols : view.rows, Order::same}}, .values = {}});
}

/// Of a model that ranks.
void FolderSource::add_classifier() {
    if (!model_.ranking) return;
    const std::vector<Dense>& layers = model_.ranking->layers;
    if (layers.empty()) cannot_say("LogitScore");
    if (model_.ranking->pooling == Pooling::mean) cannot_say("classifier_pooling");
    const ClassifierForm& form = gguf_classifier_form(*family_);
    for (const Dense& layer : layers) {
        const bool last = &layer == &layers.back();
        if (!last && layer.activation != form.activation) cannot_say("the activation of its classifier");
        const std::string name = last ? form.labels : form.dense;
        add_whole(name + ".weight", layer.weight, false);
        if (layer.bias) add_whole(name + ".bias", *layer.bias, true);
        if (layer.norm) add_whole(cat(form.norm, ".weight"), *layer.norm, true);
    }
}

void FolderSource::add_divisors(const char* name, const std::vector<double>& divisors) {
    add_values(name, {divisors.size()}, {divisors.begin(), divisors.end()});
}

void FolderSource::add_divisors() {
    if (ropes_.empty()) return;
    RopeSettings rope = ropes_.front();
    if (rope.scaling == RopeScaling::longrope) {
        add_divisors("rope_factors_long.weight", rope.long_divisors);
        add_divisors("rope_factors_short.weight", rope.short_divisors);
    } else if (rope.scaling == RopeScaling::llama3) {
        rope.scaling = RopeScaling::none;
        std::vector<double> divisors = make_rope(rope, "quantize").inverse_frequencies;
        for (size_t i = 0; i < divisors.size(); ++i)
            divisors[i] /= model_.architecture.ropes.front().inverse_frequencies[i];
        divisors.resize(size_t(double(divisors.size()) / family_->full_rotary), 1.0);
        add_divisors("rope_freqs.weight", divisors);
    } else if (rope.scaling == RopeScaling::proportional) {
        std::vector<double> divisors(rope.width / 2, still_divisor);
        std::fill_n(divisors.begin(), rope.rotating / 2, rope.factor);
        add_divisors("rope_freqs.weight", divisors);
    }
}

/// The number behind each layer, which is no weight to the model.
void FolderSource::add_layer_scales() {
    const std::vector<Layer>& layers = model_.architecture.layers;
    for (size_t i = 0; i < layers.size(); ++i) {
        if (layers[i].scale == 1) continue;
        const char* tensor = scale_tensor(*family_);
        if (tensor == nullptr) cannot_say("scales of layers");
        add_values(tensor_name(tensor, int32_t(i)), {1}, {layers[i].scale});
    }
}

/// Weights that GGUF has with the other sign.
void FolderSource::add_negated() {
    std::erase_if(model_.weights, [&](const auto& weight) {
        const auto& [ref, view] = weight;
        const bool made = view.name == role_name(ref.role);  // no file holds it
        if (ref.role != Role::mixer_decay || made || row_of(ref).layout != Layout::negated) return false;
        std::vector<float> values = floats_of(view);
        for (float& value : values) value = -value;
        const std::vector<uint64_t> dimensions{1, values.size()};
        add_values(tensor_name(row_of(ref).name, ref.layer), dimensions, std::move(values));
        return true;
    });
}

/// GGUF has one for all norms. Latent ones have another in some classes (Kimi Linear's: 1e-6 for 1e-5), which
/// hardly counts, and llama.cpp's converters leave it out, too.
void FolderSource::take_one_epsilon() {
    const float epsilon = model_.architecture.norm.epsilon;
    bool other = false;
    for (Layer& layer : model_.architecture.layers)
        if (Latent& latent = layer.attention.latent; latent.kv_rank)
            other = std::exchange(latent.epsilon, epsilon) != epsilon || other;
    if (other) log(cat("norms of latent attention get rms_norm_eps, ", epsilon, ", as the others, in GGUF"));
}

/// The decoder, or the encoder.
const Architecture& FolderSource::stack_of(WeightRef ref) const {
    return ref.encoder ? model_.architecture.encoder.front() : model_.architecture;
}

/// The first row of GGUF's table that says how to write the weight.
const TensorRow& FolderSource::row_of(WeightRef ref) const {
    using Rows = std::span<const TensorRow>;
    const Role role = ref.role;
    for (const Rows rows : with_rows_ahead(ref.encoder ? std::span<const Rows>(family_->encoder_tensors)
                                                       : std::span<const Rows>(family_->tensors)))
        for (const TensorRow& row : rows) {
            const bool fused = row.layout == Layout::qkv;
            const bool writable = row.layout == Layout::as_is || row.layout == Layout::gate_up ||
                                  row.layout == Layout::q_rope_last || row.layout == Layout::buckets ||
                                  row.layout == Layout::q_gated || row.layout == Layout::mixer ||
                                  row.layout == Layout::mixer_grouped || row.layout == Layout::negated ||
                                  (fused && row_->fused_qkv);
            const bool split = row.layout == Layout::as_is && row_->fused_qkv &&
                               std::string_view(row.name).starts_with("blk.#.attn_") &&
                               (role == Role::q || role == Role::k || role == Role::v ||
                                role == Role::q_bias || role == Role::k_bias || role == Role::v_bias);
            if (row.role == role && writable && !split &&
                !(row_->lacks && row_->lacks(model_.architecture, row.name)))
                return row;
        }
    cannot_say(role_name(role));
}

void FolderSource::add_weights() {
    std::vector<const Weights::value_type*> in_order;  // of layers
    for (const auto& weight : model_.weights) in_order.push_back(&weight);
    std::ranges::stable_sort(in_order, {}, [](const auto* weight) { return weight->first.layer; });
    for (const auto* weight : in_order) {
        const bool made = weight->second.name == role_name(weight->first.role);  // no file holds it
        const auto& [ref, view] = *weight;
        if (!made)
            add(ref, view);
        else if (row_->made_norms && (ref.role == Role::q_norm || ref.role == Role::k_norm))
            add_values(tensor_name(row_of(ref).name, ref.layer), {view.cols}, floats_of(view));
    }
}

FolderSource::Part FolderSource::part_of(WeightRef ref, const TensorView& view, Layout layout,
                                         bool vector) const {
    const bool rotates =
        ref.role == Role::q || ref.role == Role::k || ref.role == Role::q_bias || ref.role == Role::k_bias;
    const bool grouped = layout == Layout::mixer_grouped && ref.role == Role::mixer_in;
    const Order order = layout == Layout::q_rope_last ? Order::rope_last
                        : grouped                     ? Order::grouped
                        : rotates && turns_pairs()    ? Order::pairs
                                                      : Order::same;
    return tiled({&view, vector ? view.cols : view.rows, order}, ref.role);
}

/// The same part, of whose rows or columns the values' heads stand otherwise in the GGUF.
FolderSource::Part FolderSource::tiled(Part part, Role role) const {
    if (!row_->tiles_heads) return part;
    if (const std::optional<TiledHeads> heads = tiled_heads(role, model_.architecture.recurrence())) {
        part.order = heads->columns ? Order::tiled_columns : Order::tiled;
        part.heads = *heads;
    }
    return part;
}

void FolderSource::add(WeightRef ref, const TensorView& view) {
    const Architecture& stack = stack_of(ref);
    const auto index = static_cast<size_t>(std::max(ref.layer, 0));
    const Layer& layer = stack.layers[index];
    const RoleShape shape = role_shape(ref.role, stack, layer, index);
    const TensorRow& row = row_of(ref);
    const Part part = part_of(ref, view, row.layout, shape.vector);
    const std::string name = tensor_name(row.name, ref.layer);
    const auto before = std::ranges::find(tensors_, name, &Tensor::name);
    if (before != tensors_.end()) {
        const bool by_turns = row.layout == Layout::q_gated || row.layout == Layout::mixer_grouped;
        const bool fused = row.layout == Layout::qkv || row.layout == Layout::gate_up ||
                           row.layout == Layout::mixer || by_turns;
        if (!fused) cannot_say(view.name);  // two weights of one name
        if (before->type != view.type)
            fail(Status::unsupported, folder_.string(), view.name, ": expected the type of those that ", name,
                 " is made of");
        before->dimensions.back() += part.rows;
        Place& place = places_[static_cast<size_t>(before - tensors_.begin())];
        const bool first = (row.layout == Layout::gate_up && layer.feed_forward.up_first) ||
                           (ref.role == Role::mixer_in && layer.recurrence.by_column());
        place.parts.insert(first ? place.parts.begin() : place.parts.end(), part);
        if (by_turns)
            place.by_turns = row.layout == Layout::q_gated ? layer.attention.head_dim
                                                           : layer.recurrence.heads / layer.recurrence.groups;
        return;
    }
    Tensor tensor{name, {view.cols}, view.type};
    // A vector of experts, or of heads with norms of their own, is a matrix there.
    const bool split =
        !shape.vector || ref.role == Role::expert_gate_bias || ref.role == Role::expert_up_bias ||
        ref.role == Role::expert_down_bias ||
        ((ref.role == Role::q_norm || ref.role == Role::k_norm) && layer.attention.qk_norm.own_weights) ||
        (layer.recurrence.by_key && ref.role == Role::mixer_decay) ||
        (layer.recurrence.kind != RecurrenceKind::delta &&
         (ref.role == Role::mixer_decay || ref.role == Role::mixer_skip || ref.role == Role::mixer_norm));
    if (are_taps(ref.role) && layer.recurrence.separate) tensor.dimensions.push_back(1);
    if (!shape.vector) tensor.dimensions.push_back(view.rows);
    if (split && shape.groups > 1 && !are_taps(ref.role)) {
        tensor.dimensions.back() /= shape.groups;
        tensor.dimensions.push_back(shape.groups);
    }
    places_.push_back({.parts = {part}, .values = {}});
    tensors_.push_back(std::move(tensor));
}

std::vector<std::string> FolderSource::paths() const {
    std::vector<std::string> result;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_))
        if (entry.path().extension() == ".safetensors" || entry.path().extension() == ".json")
            result.push_back(entry.path().string());
    return result;
}

/// The folder's row for the GGUF's.
uint64_t FolderSource::source_row(const Part& part, uint64_t row) const {
    const Order order = part.order;
    if (order == Order::same) return row;
    if (order == Order::tiled) return part.heads.in_folder(row, model_.architecture.recurrence());
    if (order == Order::grouped) {  // q, k and v of a head are as many rows each
        const Recurrence& r = model_.architecture.recurrence();
        const uint64_t dim = r.key_dim, head = row / (3 * dim), which = row / dim % 3;
        return (which * r.heads + head) * dim + row % dim;
    }
    const Attention& attention = model_.architecture.attention();
    const uint64_t head = attention.head_dim, at = row % head, start = row - at;
    if (order == Order::pairs) return start + row_of_halves(at, ropes_.front().width);
    if (order == Order::rope_last) {
        const uint64_t rope = attention.latent.rope_dim, fixed = head - rope;
        return start + (at < fixed ? at + rope : at - fixed);
    }
    return row;
}

/// Of blocks of so many bytes, a head's columns each.
void FolderSource::tile_columns(uint64_t bytes, TiledHeads columns, std::span<std::byte> row) const {
    const std::vector<std::byte> before(row.begin(), row.end());
    for (uint64_t head = 0; head * bytes < row.size(); ++head) {
        const uint64_t from =
            columns.in_folder(head * columns.size, model_.architecture.recurrence()) / columns.size;
        std::memcpy(row.data() + head * bytes, before.data() + from * bytes, bytes);
    }
}

void FolderSource::read_rows(size_t tensor, uint64_t first_row, std::span<std::byte> out) const {
    const Place& place = places_[tensor];
    const Tensor& its = tensors_[tensor];
    const auto stored = [&](uint64_t weights) {
        const TensorTypeInfo& info = tensor_type_info(its.type);
        return weights / info.block * info.block_bytes;
    };
    if (!place.values.empty()) {
        std::memcpy(out.data(), place.values.data() + first_row * its.cols(), out.size());
        return;
    }
    // A vector's elements are its parts' rows, and so are those of a matrix that is a vector to the model.
    const bool vector = place.parts.front().view->rows == 1 && place.parts.front().rows > 1;
    const uint64_t width = vector ? 1 : its.cols(), bytes = stored(width);
    uint64_t row = first_row * its.cols() / width, left = out.size() / bytes;
    for (; place.by_turns != 0 && left > 0; ++row, --left) {
        const uint64_t turn = row / place.by_turns, parts = place.parts.size();
        const uint64_t from = turn / parts * place.by_turns + row % place.by_turns;
        model_.tensors->read(*place.parts[turn % parts].view, from * bytes, out.first(bytes));
        out = out.subspan(bytes);
    }
    for (const Part& part : place.parts) {
        if (row >= part.rows) {
            row -= part.rows;
            continue;
        }
        while (left > 0 && row < part.rows) {
            const uint64_t from = source_row(part, row);
            uint64_t run = 1;  // of rows that lie one after the other
            const uint64_t most = std::min(left, part.rows - row);
            if (part.order == Order::same) run = most;
            while (run < most && source_row(part, row + run) == from + run) ++run;
            model_.tensors->read(*part.view, from * bytes, out.first(run * bytes));
            if (part.order == Order::tiled_columns)
                for (uint64_t i = 0; i < run; ++i)
                    tile_columns(stored(part.heads.size), part.heads, out.subspan(i * bytes, bytes));
            out = out.subspan(run * bytes);
            left -= run;
            row += run;
        }
        row = 0;
    }
}

void FolderSource::set_keys(GgufWriter& out) const {
    out.set("general.architecture", row_->architecture);
    out.set("general.type", "model");
    out.set("general.name", model_.name);
    Keys keys(row_->architecture, out);
    const Described described{model_.architecture, ropes_, feed_forward_, buckets_};
    set_shared_keys(described, keys);
    if (row_->keys != nullptr) row_->keys(described, keys);
    constexpr uint32_t pooling[] = {1, 2, 3};  // of Pooling: mean, first, last
    if (model_.ranking) keys.set("pooling_type", gguf_rank_pooling);
    if (!row_->embeds) return;
    if (!model_.ranking) keys.set("pooling_type", pooling[static_cast<size_t>(model_.pooling)]);
    for (size_t i = 0; i < model_.dense.size(); ++i) {
        keys.set(cat(dense_names[i], "_feat_in"), model_.dense[i].weight.cols);
        keys.set(cat(dense_names[i], "_feat_out"), model_.dense[i].weight.rows);
    }
    out.set("tokenizer.ggml.token_type_count", model_.architecture.token_types);
}

void FolderSource::metadata(GgufWriter& out) const {
    set_keys(out);
    add_folder_vocabulary(folder_, model_.architecture.vocab, out);
}

/// Reads the header as it will be, and of the data what is computed, which lies first.
void FolderSource::check_read_back() const {
    GgufWriter writer;
    set_keys(writer);
    for (const Tensor& tensor : tensors_) writer.add(tensor.name, tensor.dimensions, tensor.type);
    std::vector<std::byte> bytes = writer.header(facts_.alignment);
    for (size_t i = 0; i < tensors_.size() && !places_[i].values.empty(); ++i) {
        bytes.resize(writer.tensors()[i].offset);
        const auto values = std::as_bytes(std::span(places_[i].values));
        bytes.insert(bytes.end(), values.begin(), values.end());
    }
    const ReadModel read = read_back(writer, bytes, ModelPart::whole);
    for (const TensorView& view : read.unused) cannot_say(view.name);
    const std::string lost = what_differs(model_.architecture, read.architecture, row_->tiles_heads);
    if (!lost.empty()) cannot_say(lost);
}

}  // namespace

std::unique_ptr<const ConversionSource> open_conversion_part(const fs::path& path, Model part) {
    return std::make_unique<const FolderSource>(path, std::move(part));
}

}  // namespace scoria
