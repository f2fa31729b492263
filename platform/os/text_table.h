// Aligned columns for terminals: what every report of the program and of the validation prints.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace scoria {

/// Columns whose cells all begin with a digit, a sign or a dash are aligned to the right. Width counts
/// code points.
class TextTable {
  public:
    explicit TextTable(std::vector<std::string> header) : header_(std::move(header)) {}
    void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
    bool empty() const { return rows_.empty(); }
    std::string text() const;

  private:
    std::vector<std::string> header_;
    std::vector<std::vector<std::string>> rows_;
};

}  // namespace scoria
