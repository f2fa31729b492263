// How well a document answers a query, as rerankers say: a sequence classifier over the pair of texts
// (cross-encoders, Nogueira & Cho 2019), or a decoder's logits of "yes" and "no" behind a template of both.
#pragma once

#include "pooling.h"
#include "tokenizer/tokenizer.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace scoria {

struct EmbeddingTexts;
struct Model;

struct Ranking {
    // A classifier: the pooled hidden states go through these layers; the last has a row per label.
    Pooling pooling = Pooling::first;
    std::vector<Dense> layers;
    // Or, where there are no layers, a decoder: its logits of these tokens behind the last of the pair.
    std::vector<TokenId> tokens;
    bool odds = false;     // of two values, for yes and no, the score is the first less the second
    bool logistic = true;  // 1 / (1 + e^-score) is what is said
    std::string form;      // the text of a pair, with {query} and {document}; empty: as the tokenizer or the
                           // template says
};

struct RankedPair {
    EncodedPair pair;
    bool was_cut = false;
};
/// The tokens of a pair as a model that ranks was made for. The prompt is one of the model's by name, as for
/// embeddings. What is more than `most` tokens is cut from the ends of the texts: of the longer one first,
/// or, where a template puts them together, of the document. Errors: bad_argument, for a prompt that the
/// model has not and where a query leaves the document no room; the template's.
RankedPair encode_ranked(const Model& model, const EmbeddingTexts& texts, std::string_view query,
                         std::string_view document, const std::optional<std::string>& prompt, size_t most);

}  // namespace scoria
