// Seeing inside a model: what a forward pass on the device leaves behind, as numbers that can be shown.
// Everything is captured from the Vulkan kernels of a plan as it runs (Session::trace), but for attention
// weights: no kernel stores them, so they are computed in double precision from the captured queries and the
// cached keys.
#pragma once

#include "session.h"

#include <string>
#include <vector>

namespace scoria::look {

struct LookOptions {
    std::vector<uint32_t> layers, heads;  // which to show; empty: all
    uint32_t candidates = 5;              // tokens of the lens by cell
};

enum class Seen : uint8_t { encoder, self, cross };  // attention in the encoder; among tokens; to the source
inline constexpr const char* seen_names[] = {"encoder", "self", "cross"};

/// Weights of one head: row i says what query i takes from each key. Rows sum to 1, or less where the rest
/// goes to a sink.
struct AttentionMap {
    Seen kind = Seen::self;
    uint32_t layer = 0, head = 0;
    uint32_t queries = 0, keys = 0;
    std::vector<float> weights;  // [queries, keys]
};

/// Lengths (2-norms) of the rows of a tensor, over tokens.
struct StreamNorm {
    bool encoder = false;
    int32_t layer = -1;  // -1: the embedding
    std::string what;    // "stream", or whose output was added to it: "attention", "cross", "feed-forward"
    double mean = 0, max = 0;
};

struct Candidate {
    TokenId token = 0;
    float probability = 0;
};
/// The logit lens (nostalgebraist 2020): the final norm and the output head applied to the stream after a
/// layer.
struct LensRow {
    int32_t layer = -1;  // -1: the embedding; the last one is the model's own answer
    std::vector<std::vector<Candidate>> positions;  // by falling probability
};

struct Insight {
    std::vector<TokenId> ids, source;  // source: of the encoder
    std::vector<AttentionMap> maps;    // by kind, layer, head
    std::vector<StreamNorm> norms;
    std::vector<LensRow> lens;
    std::vector<std::string> notes;  // what is not shown, and why
};

/// Looks at one forward pass of `ids`, of an encoder-decoder after `source`. Errors: bad_argument (a layer or
/// head the model does not have), and those of Session::trace.
Insight look_into(Engine& engine, std::span<const TokenId> ids, std::span<const TokenId> source,
                  const LookOptions& options);

}  // namespace scoria::look
