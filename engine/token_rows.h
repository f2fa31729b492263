// Rows of floats that belong to consecutive tokens of a sequence, in host memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace scoria {

class TokenRows {
  public:
    explicit TokenRows(size_t cols) : cols_(cols) {}
    /// Rows of the tokens from `token` on, in place of those that stood there and behind; where there would
    /// be a gap, in place of all.
    void put(size_t token, std::span<const float> rows) {
        if (token < first_ || token > end()) {
            first_ = token;
            rows_.clear();
        }
        cut(token);
        rows_.insert(rows_.end(), rows.begin(), rows.end());
    }
    /// Leaves those before `token`.
    void cut(size_t token) { rows_.resize(cols_ * (std::clamp(token, first_, end()) - first_)); }
    /// Leaves those from `token` on.
    void forget_before(size_t token) {
        const size_t kept = std::clamp(token, first_, end());
        rows_.erase(rows_.begin(), rows_.begin() + std::ptrdiff_t(cols_ * (kept - first_)));
        first_ = kept;
    }
    /// Empty: not known.
    std::span<const float> row(size_t token) const {
        if (token < first_ || token >= end()) return {};
        return std::span(rows_).subspan(cols_ * (token - first_), cols_);
    }

  private:
    size_t end() const { return first_ + rows_.size() / cols_; }
    size_t cols_, first_ = 0;  // the token of the first row
    std::vector<float> rows_;
};

}  // namespace scoria
