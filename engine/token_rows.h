// Rows of floats that belong to consecutive tokens of a sequence, in host memory.
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <vector>

namespace scoria {

class TokenRows {
  public:
    /// The row of a token, in place of its own and of those behind it; where there would be a gap, of all.
    void put(size_t token, std::span<const float> row) {
        if (token < first_ || token > end()) clear(), first_ = token;
        cut(token);
        rows_.emplace_back(row.begin(), row.end());
    }
    /// Leaves those before `token`.
    void cut(size_t token) {
        while (!rows_.empty() && end() > token) rows_.pop_back();
    }
    /// Leaves those from `token` on.
    void forget_before(size_t token) {
        for (; !rows_.empty() && first_ < token; ++first_) rows_.pop_front();
    }
    void clear() { rows_.clear(); }
    /// Empty: not known.
    std::span<const float> row(size_t token) const {
        return token < first_ || token >= end() ? std::span<const float>() : rows_[token - first_];
    }

  private:
    size_t end() const { return first_ + rows_.size(); }
    size_t first_ = 0;  // the token of the first row
    std::deque<std::vector<float>> rows_;
};

}  // namespace scoria
