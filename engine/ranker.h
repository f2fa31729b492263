// Scores of pairs of texts by a model that ranks (loader/ranking.h).
#pragma once

#include "dense_layers.h"
#include "embedding_texts.h"

namespace scoria {

class Session;

class Ranker {
  public:
    /// Errors: bad_file.
    explicit Ranker(const Model& model);
    /// Errors: unsupported, for a model that does not rank, or gives a pair more numbers than one.
    void check() const;
    struct Score {
        double score = 0;  // greater for a better answer; from 0 to 1 but where the model says it as it is
        size_t tokens = 0;
        bool was_cut = false;  // to what the model is meant for, or the session has room for
    };
    /// The session's sequence is forgotten before; it holds the pair after. Errors: check()'s,
    /// encode_ranked()'s, Session's; non_finite.
    Score score(Session& session, std::string_view query, std::string_view document,
                const std::optional<std::string>& prompt = {}) const;

  private:
    std::vector<double> values(Session& session, const EncodedPair& pair) const;

    const Model& model_;
    const EmbeddingTexts texts_;
    const DenseLayers layers_;
};

/// Indices of scores, the greatest first, earlier ones first among equals; `most` of them, or all for 0.
std::vector<size_t> ranked(std::span<const double> scores, size_t most = 0);

}  // namespace scoria
