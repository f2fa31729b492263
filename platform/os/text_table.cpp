// Two spaces between columns, no rules, nothing after the last cell of a line.
#include "text_table.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <utility>

namespace scoria {
namespace {

size_t width_of(const std::string& cell) {
    const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; };
    return cell.size() - static_cast<size_t>(std::count_if(cell.begin(), cell.end(), continues));
}

bool numeric(const std::string& cell) { return cell.empty() || cell.find_first_of("0123456789+-") == 0; }

}  // namespace

std::string shown(std::string_view text, bool in_one_line) {
    std::string out;
    const auto escape = [&](uint8_t byte) {
        char hex[5];
        std::snprintf(hex, sizeof hex, "\\x%02x", byte);
        out += hex;
    };
    for (size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<uint8_t>(text[i]);
        const auto next = static_cast<uint8_t>(i + 1 < text.size() ? text[i + 1] : 0);
        const bool kept = !in_one_line && (byte == '\t' || byte == '\n');
        if (byte == 0xC2 && next >= 0x80 && next < 0xA0)  // U+0080 to U+009F
            escape(next), ++i;
        else if ((byte < 0x20 && !kept) || byte == 0x7F)
            escape(byte);
        else
            out += text[i];
    }
    return out;
}

void TextTable::add(std::vector<std::string> row) {
    for (std::string& cell : row) cell = shown(cell, true);
    rows_.push_back(std::move(row));
}

std::string TextTable::text() const {
    std::vector<size_t> widths(header_.size());
    std::vector<bool> right(header_.size(), true);
    for (size_t column = 0; column < header_.size(); ++column) {
        widths[column] = width_of(header_[column]);
        for (const std::vector<std::string>& row : rows_) {
            widths[column] = std::max(widths[column], width_of(row[column]));
            right[column] = right[column] && numeric(row[column]);
        }
    }
    std::string out;
    const auto line = [&](const std::vector<std::string>& cells) {
        std::string text;
        for (size_t column = 0; column < cells.size(); ++column) {
            const std::string fill(widths[column] - width_of(cells[column]), ' ');
            text += column == 0 ? "" : "  ";
            text += right[column] ? fill + cells[column] : cells[column] + fill;
        }
        text.erase(text.find_last_not_of(' ') + 1);
        out += text + '\n';
    };
    line(header_);
    for (const std::vector<std::string>& row : rows_) line(row);
    return out;
}

}  // namespace scoria
