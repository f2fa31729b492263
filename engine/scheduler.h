// Keeps submissions short. Operating systems reset a GPU whose submission runs too long (2 s on Windows,
// and on some Linux drivers), so work is cut where its predicted time reaches a budget; predictions
// follow what earlier submissions were seen to take.
#pragma once

#include <cstddef>

#include <limits>
#include <mutex>
#include <span>
#include <vector>

namespace scoria {

/// Predicts GPU time from abstract cost (multiply-adds plus bytes; only ratios matter). Thread-safe.
class Pacer {
  public:
    /// `budget` in seconds of GPU time per submission; `first_guess` in seconds per cost, until something
    /// was measured.
    Pacer(double budget, double first_guess) : budget_(budget), seconds_per_cost_(first_guess) {}
    void set_budget(double seconds);

    /// How many of consecutive costs are predicted to stay under the budget together, and are no more than
    /// `most`; a single item that exceeds it is a run of its own.
    size_t fitting(std::span<const double> costs,
                   double most = std::numeric_limits<double>::infinity()) const;
    /// Cuts all of them into such runs. Returns the end index of every run.
    std::vector<size_t> cut(std::span<const double> costs) const;
    /// The cost predicted to take as long as the budget.
    double most_cost() const;
    /// Learns from a finished submission. Slower than predicted moves the estimate at once, faster half way.
    void learn(double cost, double seconds);

    /// The device was lost with a submission of this pacer on its way: its like will be a fourth as long.
    void submission_lost();

  private:
    mutable std::mutex mutex_;  // guards all of it
    double budget_;
    double seconds_per_cost_;
};

}  // namespace scoria
