// Strings and integers of JSON; regular expressions are in json_pattern.cpp.
#include "json_text.h"

#include "unicode_text.h"

#include <algorithm>

namespace scoria::grammar {
namespace {

CodeSet special() { return {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}; }  // wants an escape

Expr hex(CodeSet set) { return characters(united(std::move(set))); }
Expr any_hex() { return hex({{'0', '9'}, {'a', 'f'}, {'A', 'F'}}); }

std::string escape_of(char32_t code) {
    switch (code) {
    case '"':
        return "\\\"";
    case '\\':
        return "\\\\";
    case '\b':
        return "\\b";
    case '\f':
        return "\\f";
    case '\n':
        return "\\n";
    case '\r':
        return "\\r";
    case '\t':
        return "\\t";
    default:
        return std::string("\\u00") + "01"[code >> 4] + "0123456789abcdef"[code & 15];
    }
}

Expr digits(uint32_t least, uint32_t most) { return repeat(characters({{'0', '9'}}), least, most); }

/// Two digits from `first` to `last`.
Expr two_digits(int first, int last) {
    std::vector<Expr> all;
    for (int tens = first / 10; tens <= last / 10; ++tens) {
        const int low = tens == first / 10 ? first % 10 : 0, high = tens == last / 10 ? last % 10 : 9;
        all.push_back(sequence({text(std::string(1, char('0' + tens))),
                                characters({{char32_t('0' + low), char32_t('0' + high)}})}));
    }
    return choice(std::move(all));
}

Expr date() {
    // 29 February is left out, since it depends on the year.
    const Expr february = sequence({text("02-"), two_digits(1, 28)});
    const Expr short_months =
        sequence({choice({text("04"), text("06"), text("09"), text("11")}), text("-"), two_digits(1, 30)});
    const Expr long_months = sequence(
        {choice({text("01"), text("03"), text("05"), text("07"), text("08"), text("10"), text("12")}),
         text("-"), two_digits(1, 31)});
    // Year 0000 is none to many readers.
    const Expr year = choice({sequence({characters({{'1', '9'}}), digits(3, 3)}),
                              sequence({text("0"), characters({{'1', '9'}}), digits(2, 2)})});
    return sequence({year, text("-"), choice({february, short_months, long_months})});
}

Expr time() {
    const Expr fraction = optional(sequence({text("."), digits(1, 9)}));
    const Expr offset = choice({text("Z"), sequence({characters({{'+', '+'}, {'-', '-'}}), two_digits(0, 23),
                                                     text(":"), two_digits(0, 59)})});
    return sequence(
        {two_digits(0, 23), text(":"), two_digits(0, 59), text(":"), two_digits(0, 59), fraction, offset});
}

/// Digit strings of one length from `low` to `high`, leading zeros included.
Expr between(const std::string& low, const std::string& high) {
    if (low.empty()) return text("");
    const auto same = [](char digit) { return text(std::string(1, digit)); };
    if (low[0] == high[0]) return sequence({same(low[0]), between(low.substr(1), high.substr(1))});
    const std::string zeros(low.size() - 1, '0'), nines(low.size() - 1, '9');
    char first = low[0], last = high[0];
    std::vector<Expr> all;
    if (low.substr(1) != zeros) all.push_back(sequence({same(first++), between(low.substr(1), nines)}));
    const bool whole = high.substr(1) == nines;
    if (!whole) --last;
    if (first <= last)
        all.push_back(sequence({characters({{char32_t(first), char32_t(last)}}),
                                digits(uint32_t(zeros.size()), uint32_t(zeros.size()))}));
    if (!whole) all.push_back(sequence({same(high[0]), between(zeros, high.substr(1))}));
    return choice(std::move(all));
}

/// Natural numbers from `least` to `most`.
Expr naturals(uint64_t least, uint64_t most) {
    std::vector<Expr> all;
    const std::string low = std::to_string(least), high = std::to_string(most);
    for (size_t length = low.size(); length <= high.size(); ++length) {
        const std::string shortest = "1" + std::string(length - 1, '0');
        all.push_back(between(length == low.size() ? low : shortest,
                              length == high.size() ? high : std::string(length, '9')));
    }
    return choice(std::move(all));
}

uint64_t size_of(int64_t value) { return value < 0 ? 0 - uint64_t(value) : uint64_t(value); }

std::pair<int64_t, int64_t> closed(std::optional<int64_t> least, std::optional<int64_t> most) {
    constexpr int64_t large = 9'999'999'999'999'999;
    return {least.value_or(std::min(-large, most.value_or(-large))),
            most.value_or(std::max(large, least.value_or(large)))};
}

}  // namespace

Expr json_characters(const CodeSet& set) {
    std::vector<Expr> all;
    CodeSet plain = intersection(set, complement(special()));
    if (!plain.empty()) all.push_back(characters(std::move(plain)));
    for (const CodeRange& range : intersection(set, special()))
        for (char32_t code = range.first; code <= range.last; ++code) all.push_back(text(escape_of(code)));
    return choice(std::move(all));
}

Expr json_any_character() {
    const Expr low_or_plain = choice({
        sequence(
            {hex({{'0', '9'}, {'a', 'c'}, {'e', 'f'}, {'A', 'C'}, {'E', 'F'}}), repeat(any_hex(), 3, 3)}),
        sequence({hex({{'d', 'd'}, {'D', 'D'}}), characters({{'0', '7'}}), repeat(any_hex(), 2, 2)}),
    });
    const Expr pair = sequence({hex({{'d', 'd'}, {'D', 'D'}}), hex({{'8', '9'}, {'a', 'b'}, {'A', 'B'}}),
                                repeat(any_hex(), 2, 2), text("\\u"), hex({{'d', 'd'}, {'D', 'D'}}),
                                hex({{'c', 'f'}, {'C', 'F'}}), repeat(any_hex(), 2, 2)});
    CodeSet letters;
    for (const char letter : std::string_view("\"\\/bfnrt"))
        letters.push_back({char32_t(letter), char32_t(letter)});
    const Expr escape =
        choice({characters(united(letters)), sequence({text("u"), choice({low_or_plain, pair})})});
    return choice({characters(complement(special())), sequence({text("\\"), escape})});
}

Expr json_literal(std::string_view bytes) {
    std::string out;
    for (const char byte : bytes) {
        const auto code = static_cast<unsigned char>(byte);
        if (code < 0x20 || code == '"' || code == '\\')
            out += escape_of(code);
        else
            out += byte;
    }
    return text(std::move(out));
}

std::optional<Expr> json_format(std::string_view format) {
    if (format == "date") return date();
    if (format == "time") return time();
    if (format == "date-time") return sequence({date(), text("T"), time()});
    if (format == "uuid") {
        const auto group = [](uint32_t count) { return repeat(hex({{'0', '9'}, {'a', 'f'}}), count, count); };
        return sequence(
            {group(8), text("-"), group(4), text("-"), group(4), text("-"), group(4), text("-"), group(12)});
    }
    return std::nullopt;
}

Expr json_integers(std::optional<int64_t> least, std::optional<int64_t> most) {
    const auto [low, high] = closed(least, most);
    std::vector<Expr> all;
    if (low < 0) all.push_back(sequence({text("-"), naturals(high < 0 ? size_of(high) : 1, size_of(low))}));
    if (high >= 0) all.push_back(naturals(low < 0 ? 0 : uint64_t(low), uint64_t(high)));
    return choice(std::move(all));
}

Expr json_numbers(std::optional<int64_t> least, std::optional<int64_t> most) {
    const auto [low, high] = closed(least, most);
    // A fraction moves a number away from zero: the last whole number before the bound takes none.
    const Expr fraction = sequence({text("."), digits(1, 16)});
    std::vector<Expr> all{json_integers(low, high)};
    const uint64_t nearest = high < 0 ? size_of(high) : 0;
    if (low < 0 && nearest < size_of(low))
        all.push_back(sequence({text("-"), naturals(nearest, size_of(low) - 1), fraction}));
    if (high > 0 && low < high)
        all.push_back(sequence({naturals(low < 0 ? 0 : uint64_t(low), uint64_t(high) - 1), fraction}));
    return choice(std::move(all));
}

}  // namespace scoria::grammar
