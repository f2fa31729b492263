// What an Engine owns; for the engine room only.
#pragma once

#include "batch.h"
#include "constraint.h"
#include "device_model.h"
#include "graph.h"
#include "pipelines.h"
#include "plan.h"
#include "scheduler.h"
#include "session.h"

#include <mutex>
#include <optional>

namespace scoria {

/// Rows whose logits one batch computes at most; more are computed in several batches.
inline constexpr uint32_t max_outputs = 64;

struct Engine::Impl {
    Impl(std::shared_ptr<const Model> model_, const EngineOptions& options_);

    vk::RecorderOptions recorder_options(bool simultaneous_use = false) const;
    KvType kv_type() const;
    bool knows_global_tokens() const;

    std::shared_ptr<const Model> model;
    EngineOptions options;
    vk::Device device;
    vk::Pipelines pipelines;
    Graph graph;
    Plan plan;
    StepLayout layout;  // of every session's workspace
    Arena placement;
    MemoryPlan memory;
    std::optional<DeviceModel> weights;
    Pacer pacer;

    /// The vocabulary as grammars want it, made when first asked for. Thread-safe.
    std::shared_ptr<const grammar::TokenTrie> token_trie();

  private:
    std::once_flag trie_made_;
    std::shared_ptr<const grammar::TokenTrie> trie_;
};

}  // namespace scoria
