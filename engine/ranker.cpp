// See ranker.h.
#include "ranker.h"

#include "fail.h"
#include "session.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace scoria {

Ranker::Ranker(const Model& model)
    : model_(model), texts_(model.ranking ? embedding_texts_of(model) : EmbeddingTexts()),
      layers_(*model.tensors,
              model.ranking ? std::span<const Dense>(model.ranking->layers) : std::span<const Dense>()) {}

void Ranker::check() const {
    if (!model_.ranking)
        fail(Status::unsupported, "rank", "expected a model made for ranking (a cross-encoder), got ",
             model_.name);
    if (!model_.tokenizer)
        fail(Status::unsupported, "rank",
             "expected a model with a tokenizer, got none: ", model_.tokenizer_problem);
    const size_t values = layers_.empty() ? model_.ranking->tokens.size() : layers_.size(),
                 wanted = model_.ranking->odds ? 2 : 1;
    if (values != wanted)
        fail(Status::unsupported, "rank", "expected a classifier of ", wanted,
             wanted == 1 ? " label" : " labels", ", got ", values, ": ", model_.name);
}

std::vector<double> Ranker::values(Session& session, const EncodedPair& pair) const {
    const Ranking& ranking = *model_.ranking;
    if (layers_.empty()) {
        session.append(pair.ids);
        const std::vector<float> logits = session.logits();
        std::vector<double> values;
        for (const TokenId token : ranking.tokens) values.push_back(double(logits[size_t(token)]));
        return values;
    }
    const bool last = ranking.pooling == Pooling::last;
    const ForwardResult result =
        session.forward(pair.ids, false, pair.types, {}, last ? Outputs::last_hidden : Outputs::hidden);
    return layers_(pooled(result.last_hidden, model_.architecture.output_width(), ranking.pooling));
}

Ranker::Score Ranker::score(Session& session, std::string_view query, std::string_view document,
                            const std::optional<std::string>& prompt) const {
    check();
    const RankedPair ranked = encode_ranked(model_, texts_, query, document, prompt, session.capacity());
    session.truncate(0);
    const std::vector<double> found = values(session, ranked.pair);
    const double score = model_.ranking->odds ? found[0] - found[1] : found[0];
    if (!std::isfinite(score)) fail(Status::non_finite, "rank", "expected a finite score, got ", score);
    return {model_.ranking->logistic ? 1 / (1 + std::exp(-score)) : score, ranked.pair.ids.size(),
            ranked.was_cut};
}

std::vector<size_t> ranked(std::span<const double> scores, size_t most) {
    std::vector<size_t> order(scores.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return scores[i]; });
    if (most != 0) order.resize(std::min(most, order.size()));
    return order;
}

}  // namespace scoria
