// Aligned columns for terminals: what every report of the program and of the validation prints. No byte of a
// name steers a terminal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace scoria {

/// Names and messages may come from a file that somebody else made: control characters, which a terminal
/// obeys, are written \x1b, but for tabs and ends of lines unless `in_one_line`.
std::string shown(std::string_view text, bool in_one_line = false);

/// Columns whose cells all begin with a digit, a sign or a dash are aligned to the right. Width counts
/// code points. Cells are as shown() in one line.
class TextTable {
  public:
    explicit TextTable(std::vector<std::string> header) : header_(std::move(header)) {}
    void add(std::vector<std::string> row);
    bool empty() const { return rows_.empty(); }
    std::string text() const;

  private:
    std::vector<std::string> header_;
    std::vector<std::vector<std::string>> rows_;
};

}  // namespace scoria
