// See classifier.h.
#include "classifier.h"

#include "fail.h"

#include <algorithm>
#include <array>

namespace scoria {
namespace {

/// Of GenericForSequenceClassification, which decoders have.
constexpr ClassifierForm decoder_form{.labels = "score"};

/// A tensor [rows, cols], or [cols], which one row may be, too.
TensorView take(Catalog& catalog, const std::string& name, std::span<const uint64_t> shape) {
    const StoredTensor* const tensor = catalog.take(name);
    if (tensor == nullptr) fail(Status::bad_file, catalog.format(), "tensor ", name, " is missing");
    const bool is_row = shape.size() == 2 && shape[0] == 1 && tensor->shape.size() == 1;
    if (!std::ranges::equal(tensor->shape, shape.subspan(is_row)))
        fail(Status::bad_file, catalog.format(), "tensor ", name, ": expected ", shape_text(shape), ", got ",
             shape_text(tensor->shape));
    if (tensor->decode != Decode::none)
        fail(Status::unsupported, catalog.format(), "tensor ", name, ": expected F32, F16 or BF16");
    return {tensor->name,           tensor->type, uint32_t(shape.size() == 2 ? shape[0] : 1),
            uint32_t(shape.back()), tensor->file, tensor->offset};
}

/// The layer of that name over `cols` features; its rows are the file's.
Dense take_layer(Catalog& catalog, const std::string& name, uint32_t cols, Activation activation) {
    const StoredTensor* const tensor = catalog.find(name + ".weight");
    const size_t dims = tensor != nullptr ? tensor->shape.size() : 0;
    const uint64_t rows = dims == 2 ? tensor->shape[0] : dims;  // llama.cpp's tools write one row as a vector
    if (rows == 0 || rows > most_size)
        fail(Status::bad_file, catalog.format(), "tensor ", name, ".weight: expected [labels, ", cols, "]");
    Dense layer{take(catalog, name + ".weight", std::array<uint64_t, 2>{rows, cols}), {}, activation};
    if (catalog.find(name + ".bias") != nullptr) layer.bias = take(catalog, name + ".bias", std::array{rows});
    return layer;
}

std::vector<Dense> take_layers(const ClassifierForm& form, Catalog& catalog,
                               const Architecture& architecture) {
    std::vector<Dense> layers;
    uint32_t cols = architecture.output_width();
    if (form.dense != nullptr && catalog.find(cat(form.dense, ".weight")) != nullptr) {
        const Activation activation =
            form.activation.value_or(architecture.layers.front().feed_forward.activation);
        layers.push_back(take_layer(catalog, form.dense, cols, activation));
        cols = layers.back().weight.rows;
        if (form.norm != nullptr && catalog.find(cat(form.norm, ".weight")) != nullptr) {
            layers.back().norm = take(catalog, cat(form.norm, ".weight"), std::array{uint64_t{cols}});
            layers.back().epsilon = architecture.norm.epsilon;
            if (catalog.find(cat(form.norm, ".bias")) != nullptr)
                fail(Status::unsupported, catalog.format(), "tensor ", form.norm, ".bias: expected none");
        }
    }
    layers.push_back(take_layer(catalog, form.labels, cols, Activation::identity));
    return layers;
}

}  // namespace

std::optional<Ranking> take_classifier(const Family& family, const Settings& config, Catalog& catalog,
                                       const Architecture& architecture) {
    const bool sees_all = architecture.bidirectional();
    if (sees_all && family.classifier == nullptr) return {};
    const ClassifierForm& form = family.classifier != nullptr ? *family.classifier : decoder_form;
    const auto has = [&](const char* layer) { return catalog.find(cat(layer, ".weight")) != nullptr; };
    if (!has(form.labels) || !architecture.encoder.empty()) return {};
    // Classifiers of tokens name theirs alike.
    const std::vector<std::string> classes = config.texts("architectures");
    const auto of_tokens = [](std::string_view name) { return name.ends_with("ForTokenClassification"); };
    if ((form.dense != nullptr && !has(form.dense)) || std::ranges::any_of(classes, of_tokens)) return {};
    Ranking ranking{.pooling = sees_all ? Pooling::first : Pooling::last};
    if (form.pooling != nullptr) {
        const std::string name = config.text(form.pooling, "cls");
        if (name != "cls" && name != "mean") config.wrong(form.pooling, "cls or mean");
        if (name == "mean") ranking.pooling = Pooling::mean;
    }
    ranking.layers = take_layers(form, catalog, architecture);
    return ranking;
}

const ClassifierForm& gguf_classifier_form(const Family& family) {
    static constexpr ClassifierForm usual{.dense = "cls", .norm = "cls.norm", .labels = "cls.output"};
    return family.classifier != nullptr ? *family.classifier : usual;
}

Ranking take_gguf_classifier(const Family& family, const Settings& keys, Catalog& catalog,
                             const Architecture& architecture, std::string form) {
    const ClassifierForm& head = gguf_classifier_form(family);
    const bool decodes = !architecture.bidirectional();
    Ranking ranking{.pooling = decodes ? Pooling::last : Pooling::first, .form = std::move(form)};
    if (catalog.find(cat(head.labels, ".weight")) != nullptr)
        ranking.layers = take_layers(head, catalog, architecture);
    else  // a classifier of one layer
        ranking.layers.push_back(
            take_layer(catalog, head.dense, architecture.output_width(), Activation::tanh));
    ranking.odds = decodes && keys.texts("classifier.output_labels") == std::vector<std::string>{"yes", "no"};
    ranking.logistic = ranking.odds;
    return ranking;
}

}  // namespace scoria
