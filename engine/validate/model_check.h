// Proof of a whole model: every tensor of the graph that the Vulkan executor keeps, compared with the
// reference executor's, so that the first op that diverges has a name.
#pragma once

#include "check.h"
#include "graph.h"
#include "session.h"

#include <functional>
#include <optional>
#include <string>

namespace scoria::validate {

/// Values [rows, cols] of a tensor; empty where it is never in memory (fused away).
using FetchTensor = std::function<std::vector<float>(TensorId)>;

struct ModelCheck {
    std::vector<CheckResult> ops;  // in graph order; op "linear", variant "layer 3 q", shape "5 x 576"
    std::optional<size_t> first_diverging;  // index into ops
    size_t fused_away = 0;                  // tensors that had no value to compare
    bool passed() const { return !first_diverging; }
    /// "linear -> layer 3 q, tensor 41 of 300: NMSE 2.1e-02 (bound 2.0e-05)"; empty if none diverges.
    std::string name_of_first() const;
};

/// Runs the reference over `ids`, from an empty sequence, and compares. Bounds come from what the class and
/// the cache type do to this model on these ids: the reference runs with its operands rounded so, too.
ModelCheck check_model(const Model& model, std::span<const TokenId> ids, const FetchTensor& fetch,
                       Precision precision, KvType kv);

/// The same with a fresh session of `engine`, in its precision. Errors: as Session::trace.
ModelCheck check_model(Engine& engine, std::span<const TokenId> ids);

}  // namespace scoria::validate
