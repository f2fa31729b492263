// See feature_draft.h.
#include "feature_draft.h"

#include "fail.h"
#include "model.h"

#include <algorithm>

namespace scoria {
namespace {

constexpr Renamed folder_names[] = {
    {"midlayer.hidden_norm.", "ahead.hidden_norm."},
    {"midlayer.", "model.layers.0."},
    {"layers.0.hidden_norm.", "ahead.hidden_norm."},
    {"layers.0.", "model.layers.0."},
    {"embed_tokens.", "model.embed_tokens."},
    {"norm.", "model.norm."},
    {"fc.", "ahead.in."},
    {"input_norm.", "ahead.features_norm."},
};
constexpr Renamed gguf_names[] = {
    {"blk.0.attn_norm_2.", "ahead.hidden_norm."},
    {"fc.", "ahead.in."},
    {"enc.output_norm.", "ahead.features_norm."},
};

/// Tensors of two sources: those of the second have file numbers from here on.
constexpr uint32_t of_second = 1u << 20;
class TwoSources final : public TensorSource {
  public:
    TwoSources(std::shared_ptr<const TensorSource> first, std::shared_ptr<const TensorSource> second)
        : first_(std::move(first)), second_(std::move(second)) {}
    void read(const TensorView& tensor, uint64_t from, std::span<std::byte> out) const override {
        if (tensor.file < of_second) return first_->read(tensor, from, out);
        TensorView its = tensor;
        its.file -= of_second;
        second_->read(its, from, out);
    }

  private:
    std::shared_ptr<const TensorSource> first_, second_;
};

}  // namespace

void name_feature_draft(Settings::Format format, std::vector<StoredTensor>& tensors) {
    const bool gguf = format == Settings::Format::gguf;
    for (StoredTensor& tensor : tensors)
        rename(tensor, gguf ? std::span<const Renamed>(gguf_names) : folder_names, 0);
}

void read_feature_draft(Reading& r) {
    const Settings& s = r.settings;
    Architecture& a = r.architecture;
    const bool gguf = s.format() == Settings::Format::gguf;
    for (const char* name :
         {"draft_vocab_size", "target_hidden_size", "target_vocab_size", "speculators_config",
          "speculators_version", "speculators_model_type", "embed_requires_grad", "has_no_defaults_at_init",
          "inference_type", "num_aux_hidden_states"})
        s.understood(name);
    if (a.layers.size() != 1) s.wrong(s.name_of(Field::layers), "1");
    const Settings eagle = s.section("eagle_config");
    const auto listed = [&](const char* name) {
        for (const Settings* where : {&s, &eagle}) {
            if (!a.takes.empty()) return;
            for (const double layer : where->numbers(name)) {
                if (layer < 0 || layer > most_layers) where->wrong(name, "numbers of layers");
                a.takes.push_back(static_cast<uint32_t>(layer));
            }
        }
    };
    if (gguf)
        listed("target_layers");
    else
        listed(s.has("aux_hidden_state_layer_ids") ? "aux_hidden_state_layer_ids"
                                                   : "eagle_aux_hidden_state_layer_ids");
    const auto shape = [&](const char* name) -> std::vector<uint64_t> {
        const StoredTensor* tensor = r.catalog.find(name);
        if (tensor == nullptr || tensor->shape.size() != 2 || std::ranges::max(tensor->shape) > most_size)
            fail(Status::bad_file, r.catalog.format(), "tensor ", name, ": expected a matrix, got ",
                 tensor ? shape_text(tensor->shape) : "none");
        return tensor->shape;
    };
    a.ahead = Ahead::features;
    a.shows = {1};
    a.features = static_cast<uint32_t>(shape("ahead.in.weight")[1]);
    a.outputs = static_cast<uint32_t>(shape(gguf ? "output.weight" : "lm_head.weight")[0]);
    a.features_normed = s.flag("norm_before_fc", false);
    const bool speculators = s.has("transformer_layer_config");
    a.normed_residual = s.flag("norm_before_residual", speculators);
    if (r.catalog.find(gguf ? "token_embd.weight" : "model.embed_tokens.weight") == nullptr) a.vocab = 0;
}

std::vector<TokenId> output_ids(Settings::Format format, Catalog& catalog, const GatheredTensors& tensors,
                                uint32_t outputs) {
    const StoredTensor* tensor = catalog.take("d2t");
    catalog.take("t2d");  // the same the other way round
    if (tensor == nullptr) return {};
    if (tensor->shape != std::vector<uint64_t>{outputs} || tensor->decode == Decode::none)
        fail(Status::bad_file, catalog.format(), "tensor d2t: expected ", outputs, " integers, got ",
             shape_text(tensor->shape));
    std::vector<TokenId> ids;
    for (const float each : tensors.floats(*tensor)) {
        // Folders tell how much larger an id is than its place.
        const double id = double{each} + (format == Settings::Format::gguf ? 0 : double(ids.size()));
        if (!(id >= 0) || id >= double(most_size))
            fail(Status::bad_file, catalog.format(), "tensor d2t: expected ids of tokens, got ", id);
        ids.push_back(static_cast<TokenId>(id));
    }
    return ids;
}

std::shared_ptr<const Model> with_target(std::shared_ptr<const Model> draft,
                                         const std::shared_ptr<const Model>& target) {
    if (draft->architecture.ahead != Ahead::features) return draft;
    const auto joined = std::make_shared<Model>(*draft);
    Architecture& a = joined->architecture;
    const Architecture& of = target->architecture;
    const auto wrong = [&](const auto&... what) {
        fail(Status::bad_argument, draft->path.string(), what...);
    };
    const auto layers = static_cast<uint32_t>(of.layers.size());
    if (a.takes.empty() && layers >= 3) a.takes = {2, layers / 2, layers - 3};  // of the published code
    for (const uint32_t each : a.takes)
        if (each > layers) wrong("expected a target of ", each, " layers or more, got ", layers);
    if (a.takes.empty() || a.features != a.takes.size() * of.hidden || of.stream_width() != of.hidden)
        wrong("expected a target whose streams of ", a.takes.size(), " layers are ", a.features,
              " wide together, got ", of.stream_width(), " each");
    if (a.vocab == 0) {
        const auto table = target->weights.find({Role::token_embedding});
        if (table == target->weights.end() || table->second.cols != a.hidden)
            wrong("expected a target with an embedding of ", a.hidden, " columns, got ", of.hidden);
        TensorView view = table->second;
        view.file += of_second;
        joined->weights.insert_or_assign({Role::token_embedding}, std::move(view));
        joined->tensors = std::make_shared<TwoSources>(draft->tensors, target->tensors);
        a.vocab = of.vocab;
    }
    for (const TokenId id : joined->output_ids)
        if (static_cast<uint32_t>(id) >= of.logits())
            wrong("expected ids of a target with ", of.logits(), " tokens, got ", id);
    joined->tokenizer = target->tokenizer;
    joined->tokenizer_problem = target->tokenizer_problem;
    return joined;
}

}  // namespace scoria
