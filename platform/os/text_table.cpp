// Two spaces between columns, no rules, nothing after the last cell of a line.
#include "text_table.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <utility>

namespace scoria {
namespace {

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

size_t width_of(const std::string& cell) {
    return cell.size() - static_cast<size_t>(std::count_if(cell.begin(), cell.end(), continues));
}

/// Of the character that `text`, not empty, begins with; 0 if its lead byte or what follows is none:
/// terminals of eight bits take such bytes for control codes.
size_t character_bytes(std::string_view text) {
    const auto lead = static_cast<unsigned char>(text[0]);
    if (lead < 0x80) return 1;
    const size_t bytes = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
    if (bytes == 0 || text.size() < bytes) return 0;
    return std::ranges::all_of(text.substr(1, bytes - 1), continues) ? bytes : 0;
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
    for (size_t i = 0; i < text.size();) {
        const auto byte = static_cast<uint8_t>(text[i]);
        const size_t bytes = character_bytes(text.substr(i));
        const bool kept = !in_one_line && (byte == '\t' || byte == '\n');
        const bool steers = byte == 0xC2 && bytes == 2 && static_cast<uint8_t>(text[i + 1]) < 0xA0;
        if (bytes == 0 || (byte < 0x20 && !kept) || byte == 0x7F)
            escape(byte);
        else if (steers)  // U+0080 to U+009F
            escape(static_cast<uint8_t>(text[i + 1]));
        else
            out += text.substr(i, bytes);
        i += std::max<size_t>(bytes, 1);
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
