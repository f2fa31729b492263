// What an importance matrix is made of (loader/importance.h): how large the inputs of a model's linear layers
// are on some text, column by column, as the kernels of the device compute them.
#pragma once

#include "importance.h"
#include "session.h"

namespace scoria {

class ActivationMeter {
  public:
    /// Errors: unsupported, unless the model is a GGUF file, whose names the sums go by.
    explicit ActivationMeter(Engine& engine);
    /// Most ids that add() takes at once, at most `wanted`.
    uint32_t window(uint32_t wanted) const;
    /// Runs `ids` as a sequence of its own, kernel by kernel, and adds what it saw; of an encoder-decoder
    /// both halves get them. Errors: those of Session::trace; non_finite, naming the weight.
    void add(std::span<const TokenId> ids);
    /// By the weight's name. Embeddings and the output matrix are left out, as the field does: the latter is
    /// better off in a wide type.
    const std::map<std::string, ActivationSums>& sums() const { return sums_; }

  private:
    struct Rows;
    void see(const PlannedKernel& planned, const TraceFetch& fetch);
    std::vector<std::string> names(uint32_t group, bool whole) const;
    void add_rows(const std::string& name, const Rows& rows);

    Engine& engine_;
    Session session_;
    std::map<std::string, ActivationSums> sums_;
};

}  // namespace scoria
