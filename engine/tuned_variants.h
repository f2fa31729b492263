// What `scoria tune` found on one device under one driver with one build: kept in the cache folder, a name of
// a variant by the shape that it is fastest at. A name counts only where it is one of that shape's
// candidates on the device as it is now, so that no file can make an engine run what is not valid.
#pragma once

#include "variant_uses.h"

#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace scoria {

using TunedEntries = std::map<std::string, std::string, std::less<>>;  // variant by TuneTarget::key

/// The file of a device; damaged ones, and those of another device, driver or build, count as empty. What
/// cannot be written is logged once. Nothing here ever fails a run.
class TunedBook {
  public:
    /// Reads. An empty folder: nothing is kept.
    TunedBook(const std::string& folder, const vk::Caps& caps);
    const TunedEntries& entries() const { return entries_; }
    const std::string& path() const { return path_; }
    void set(const std::string& key, const std::string& variant) {
        entries_.insert_or_assign(key, variant);
        changed_.insert(key);
    }
    void erase(const std::string& key) {
        entries_.erase(key);
        changed_.insert(key);
    }
    /// Reads again, and changes there what was changed here: another process may tune for another model.
    void save() noexcept;

  private:
    TunedEntries read() const noexcept;
    std::string folder_, path_, device_, driver_;
    TunedEntries entries_;
    std::set<std::string, std::less<>> changed_;  // keys, since entries_ were read or written
};

/// One op at one size.
struct TuneTarget {
    size_t kernel;  // of the plan: the first of this size
    uint32_t tokens;
    std::variant<LinearShape, ExpertShape, CachedAttention> shape;  // as tuned_shape() leaves it
    std::string key() const;                                        // "linear Q4_1 960x576 tokens 1 balanced"
};

/// Each size of linear, of experts, and of attention without biases, that a plan has: one token first, then
/// the largest batch, then those between; of a batch, the largest matrix first.
std::vector<TuneTarget> tune_targets(const Plan& plan, const Graph& graph, const Choices& choices,
                                     const UseLimits& limits);

/// Has `choices` run the entries of these targets, where they are valid.
void use_tuned(Choices& choices, const vk::Caps& caps, const std::vector<TuneTarget>& targets,
               const TunedEntries& entries);

}  // namespace scoria
