// See scheduler.h.
#include "scheduler.h"

#include <algorithm>

namespace scoria {

size_t Pacer::fitting(std::span<const double> costs, double most) const {
    most = std::min(most, most_cost());
    double run = 0;
    for (size_t i = 0; i < costs.size(); ++i) {
        if (run > 0 && run + costs[i] > most) return i;
        run += costs[i];
    }
    return costs.size();
}

std::vector<size_t> Pacer::cut(std::span<const double> costs) const {
    std::vector<size_t> ends;
    for (size_t at = 0; at < costs.size(); ends.push_back(at)) at += fitting(costs.subspan(at));
    return ends;
}

double Pacer::most_cost() const {
    const std::lock_guard lock(mutex_);
    return budget_ / seconds_per_cost_;
}

void Pacer::set_budget(double seconds) {
    const std::lock_guard lock(mutex_);
    budget_ = seconds;
}

void Pacer::learn(double cost, double seconds) {
    const std::lock_guard lock(mutex_);
    if (cost <= 0) return;
    const double seen = seconds / cost;
    seconds_per_cost_ = seen > seconds_per_cost_ ? seen : 0.5 * (seconds_per_cost_ + seen);
}

void Pacer::submission_lost() {
    const std::lock_guard lock(mutex_);
    seconds_per_cost_ *= 4;
}

}  // namespace scoria
