// Runs the graph op by op in double precision on one thread, with a contiguous cache: the specification
// that the Vulkan executor is compared with.
#pragma once

#include "graph.h"
#include "model.h"
#include "rounding.h"

#include <functional>
#include <span>
#include <vector>

namespace scoria::reference {

/// What one call computed; row-major.
struct Result {
    uint32_t tokens = 0, outputs = 0;         // outputs: rows of logits and last_hidden
    std::vector<double> logits;               // [outputs, vocab]
    std::vector<double> last_hidden;          // [outputs, hidden], after the final norm
    std::vector<std::vector<double>> hidden;  // [layers + 1][tokens, hidden]
};

enum class Outputs : uint8_t { all, last };  // tokens whose logits are wanted

class Executor {
  public:
    /// Sees every op's output, in graph order.
    using Observer = std::function<void(const Graph&, const Op&, std::span<const double> output)>;

    /// `model` must outlive the executor. Nothing is rounded by default. Not thread-safe.
    explicit Executor(const Model& model, Rounding rounding = {});

    /// Appends ids to the sequence. Errors: bad_argument (no ids, or one outside the vocabulary; nothing is
    /// appended), bad_file (a weight is missing, has the wrong shape, or cannot be read).
    /// An encoder begins anew with each call; token_types: one per id, or none: all 0.
    Result forward(std::span<const TokenId> ids, Outputs outputs = Outputs::all,
                   const Observer& observer = {}, std::span<const TokenId> token_types = {});
    /// Encoder-decoders: what the decoder will see; begins its sequence anew. last_hidden and hidden of the
    /// result are the encoder's. Errors: as forward; unsupported, for other models.
    Result encode(std::span<const TokenId> ids, const Observer& observer = {});
    /// Which tokens of the following encoder passes are global (Longformer), by position; empty: none.
    void set_global(std::vector<uint8_t> global) { global_ = std::move(global); }
    /// Index of the largest logit after the last appended token, appended in turn, `count` times.
    std::vector<TokenId> greedy(std::span<const TokenId> prompt, uint32_t count);
    /// The rows that the ids of the next forward pass come with (Graph::given).
    void set_given(std::vector<double> rows) { given_ = std::move(rows); }
    /// As Session::set_prefix; reset() forgets it not.
    void set_prefix(size_t length) { prefix_ = length; }
    /// Forgets the sequence.
    void reset();
    size_t length() const { return ids_.size(); }
    const Graph& graph() const { return graph_; }

  private:
    CompressedWindow window() const;  // of the segment that the next token is in
    static void check_ids(std::span<const TokenId> ids, uint32_t vocab);
    /// forward, cut where segments end.
    Result run_segments(std::span<const TokenId> ids, Outputs outputs, const Observer& observer);
    Result run(std::span<const TokenId> ids, Outputs outputs, const Observer& observer,
               std::span<const TokenId> token_types = {});
    /// Whether appending to `length` positions changes the frequencies that cached keys were rotated by, or
    /// there is no cache.
    bool computes_anew(uint64_t length) const;

    struct LayerCache {
        std::vector<double> keys, values;  // [length, kv_heads * head_dim]
    };
    struct Step;  // the tensors of one call

    const Model& model_;
    Rounding rounding_;
    Graph graph_;
    std::vector<LayerCache> cache_;  // by slot (cache_slots)
    std::vector<TokenId> ids_;       // of the sequence
    size_t prefix_ = 0;
    std::vector<uint8_t> global_;
    std::vector<double> given_;
    size_t length_ = 0;     // positions in the cache
    uint32_t segment_ = 0;  // that the compressed memory stands at
};

}  // namespace scoria::reference
