// See unicode_text.h; and sets of code points.
#include "unicode_text.h"

#include <algorithm>

namespace scoria::grammar {

void append_utf8(std::string& out, char32_t code) {
    const auto put = [&](char32_t bits) { out += char(static_cast<unsigned char>(bits)); };
    if (code < 0x80) {
        put(code);
    } else if (code < 0x800) {
        put(0xC0 | code >> 6);
        put(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
        put(0xE0 | code >> 12);
        put(0x80 | (code >> 6 & 0x3F));
        put(0x80 | (code & 0x3F));
    } else {
        put(0xF0 | code >> 18);
        put(0x80 | (code >> 12 & 0x3F));
        put(0x80 | (code >> 6 & 0x3F));
        put(0x80 | (code & 0x3F));
    }
}

std::optional<Utf8Step> utf8_step(std::string_view text) {
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
    const uint32_t lead = byte(0);
    if (lead < 0x80) return Utf8Step{lead, 1};
    const uint32_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return std::nullopt;
    char32_t code = lead & (0x7Fu >> bytes);
    for (uint32_t i = 1; i < bytes; ++i) {
        if ((byte(i) & 0xC0) != 0x80) return std::nullopt;
        code = code << 6 | (byte(i) & 0x3Fu);
    }
    const char32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (code < least[bytes] || code > last_code || (code >= 0xD800 && code <= 0xDFFF)) return std::nullopt;
    return Utf8Step{code, bytes};
}

std::string first_character(std::string_view text) {
    const auto step = text.empty() ? std::nullopt : utf8_step(text);
    return step ? std::string(text.substr(0, step->bytes)) : "?";
}

std::optional<uint32_t> hex_digit(char byte) {
    if (byte >= '0' && byte <= '9') return uint32_t(byte - '0');
    if (byte >= 'a' && byte <= 'f') return uint32_t(byte - 'a' + 10);
    if (byte >= 'A' && byte <= 'F') return uint32_t(byte - 'A' + 10);
    return std::nullopt;
}

CodeSet united(CodeSet ranges) {
    std::ranges::sort(ranges, {}, &CodeRange::first);
    CodeSet set;
    for (const CodeRange& range : ranges) {
        if (!set.empty() && range.first <= set.back().last + 1)
            set.back().last = std::max(set.back().last, range.last);
        else
            set.push_back(range);
    }
    return set;
}

CodeSet complement(const CodeSet& set) {
    CodeSet rest;
    char32_t next = 0;
    for (const CodeRange& range : set) {
        if (range.first > next) rest.push_back({next, range.first - 1});
        next = range.last + 1;
    }
    if (next <= last_code) rest.push_back({next, last_code});
    return rest;
}

CodeSet intersection(const CodeSet& a, const CodeSet& b) {
    CodeSet both;
    for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
        const char32_t first = std::max(a[i].first, b[j].first), last = std::min(a[i].last, b[j].last);
        if (first <= last) both.push_back({first, last});
        if (a[i].last < b[j].last)
            ++i;
        else
            ++j;
    }
    return both;
}

}  // namespace scoria::grammar
