// The heads of sequence classifiers, which rerankers are.
#pragma once

#include "families.h"
#include "ranking.h"

namespace scoria {

/// Which tensors are a head, without ".weight" and ".bias".
struct ClassifierForm {
    const char* dense = nullptr;  // null: none
    const char* norm = nullptr;   // behind it and its activation, with weights alone; null: none
    const char* labels = nullptr;
    std::optional<Activation> activation = Activation::tanh;  // none: the feed-forward's
    const char* pooling = nullptr;                            // a setting: "cls" or "mean"
};

/// The head of a folder's tensors, taken from the catalog; none where there is none. Errors: bad_file, for
/// other shapes; unsupported, for weights of integers and another pooling.
std::optional<Ranking> take_classifier(const Family& family, const Settings& config, Catalog& catalog,
                                       const Architecture& architecture);
/// Which tensors of a GGUF file are one, as llama.cpp names and computes them.
const ClassifierForm& gguf_classifier_form(const Family& family);
/// pooling_type of such a file.
inline constexpr uint32_t gguf_rank_pooling = 4;
/// That of such a GGUF file, whose scores are logits. `form`: its template of pairs, or empty.
Ranking take_gguf_classifier(const Family& family, const Settings& keys, Catalog& catalog,
                             const Architecture& architecture, std::string form);

}  // namespace scoria
