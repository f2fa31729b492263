// Strings and integers of JSON; regular expressions are in json_pattern.cpp.
#include "json_text.h"

#include "fail.h"
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

/// Fractions between two bounds of one whole number, from digit `at` on: whether none will do, and which
/// will, of at least one digit. No bound: all of that side.
struct Fractions {
    bool none = false;
    std::optional<Expr> some{};
};
Fractions fractions(const Bound* low, const Bound* high, size_t at) {
    const bool low_ended = low && at >= low->fraction.size();
    if (low_ended && !low->open) low = nullptr;
    if (high && at >= high->fraction.size()) return {.none = !high->open && !low};
    if (!low && !high) return {true, digits(1, 16)};
    if (low_ended && low && !high)
        return {false, sequence({repeat(text("0"), 0, 15), characters({{'1', '9'}}), digits(0, 16)})};
    const char first = low && !low_ended ? low->fraction[at] : '0', last = high ? high->fraction[at] : '9';
    std::vector<Expr> all;
    for (char digit = first; digit <= last; ++digit) {
        Fractions rest = fractions(digit == first ? low : nullptr, digit == last ? high : nullptr, at + 1);
        if (!rest.none && !rest.some) continue;
        Expr tail = rest.some ? *std::move(rest.some) : text("");
        if (rest.none) tail = optional(std::move(tail));
        all.push_back(sequence({text(std::string(1, digit)), std::move(tail)}));
    }
    return {!low, all.empty() ? std::nullopt : std::optional(choice(std::move(all)))};
}

/// Numbers without a sign between two of them.
void add_magnitudes(const Bound& low, const Bound& high, const char* sign, std::vector<Expr>& all) {
    const auto add = [&](uint64_t least, uint64_t most, const Bound* from, const Bound* to) {
        Fractions behind = fractions(from, to, 0);
        if (!behind.none && !behind.some) return;
        Expr fraction = behind.some ? sequence({text("."), *std::move(behind.some)}) : text("");
        if (behind.none) fraction = optional(std::move(fraction));
        all.push_back(sequence({text(sign), naturals(least, most), std::move(fraction)}));
    };
    if (low.whole > high.whole) return;
    if (low.whole == high.whole) return add(low.whole, low.whole, &low, &high);
    add(low.whole, low.whole, &low, nullptr);
    if (high.whole - low.whole > 1) add(low.whole + 1, high.whole - 1, nullptr, nullptr);
    add(high.whole, high.whole, nullptr, &high);
}

constexpr uint64_t large = 9'999'999'999'999'999;

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
    // RFC 3339's appendix A; RFC 1123, of at most 253 characters; RFC 5321, of at most 254; RFC 4291.
    const std::string count = "[0-9]{1,9}", group = "[0-9a-fA-F]{1,4}",
                      octet = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
    const auto label = [](const char* first, int more) {
        return cat(first, "[a-zA-Z0-9]{0,19}(-[a-zA-Z0-9]{1,20}){0,", more, "}");
    };
    const auto falling = [&](char first, char second, char third) {
        return cat("(", count, first, "(", count, second, "(", count, third, ")?)?|", count, second, "(",
                   count, third, ")?|", count, third, ")");
    };
    const std::string clock = cat("T", falling('H', 'M', 'S'));
    std::string ipv6 = cat("(", group, ":){7}", group, "|(", group, ":){1,7}:|:(:", group, "){1,7}|::");
    for (int before = 1; before < 7; ++before)
        ipv6 += cat("|(", group, ":){", before, "}(:", group, "){1,", 7 - before, "}");
    const std::pair<std::string_view, std::string> patterns[] = {
        {"uuid", "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"},
        {"duration", cat("P(", falling('Y', 'M', 'D'), "(", clock, ")?|", clock, "|", count, "W)")},
        {"hostname", cat("(", label("[a-zA-Z0-9]", 2), "\\.){0,3}", label("[a-zA-Z]", 2))},
        {"email", cat("[a-zA-Z0-9_+-]{1,20}(\\.[a-zA-Z0-9_+-]{1,20}){0,2}@(", label("[a-zA-Z0-9]", 1),
                      "\\.){1,4}[a-zA-Z]{2,20}")},
        {"ipv4", cat("(", octet, "\\.){3}", octet)},
        {"ipv6", ipv6},
    };
    for (const auto& [name, pattern] : patterns)
        if (format == name) return json_pattern(cat("^(", pattern, ")$"), text(""));
    return std::nullopt;
}

int64_t Bound::scaled(uint32_t decimals, bool up) const {
    std::string all = std::to_string(whole) + fraction.substr(0, decimals);
    all.append(decimals - std::min<size_t>(decimals, fraction.size()), '0');
    if (all.size() > 19 || (decimals > 0 && all.size() > 18))
        fail(Status::unsupported, "json schema", "expected a bound of at most 18 digits, got ", all);
    const int64_t towards_zero = negative ? -int64_t(std::stoull(all)) : int64_t(std::stoull(all));
    const bool exact = fraction.size() <= decimals;
    const bool beyond = exact ? open : up != negative;
    return towards_zero + (beyond ? (up ? 1 : -1) : 0);
}

std::pair<int64_t, int64_t> closed_range(std::optional<int64_t> least, std::optional<int64_t> most) {
    constexpr auto side = int64_t(large);
    return {least.value_or(std::min(-side, most.value_or(-side))),
            most.value_or(std::max(side, least.value_or(side)))};
}

Expr json_integers(std::optional<int64_t> least, std::optional<int64_t> most) {
    const auto [low, high] = closed_range(least, most);
    std::vector<Expr> all;
    if (low < 0) all.push_back(sequence({text("-"), naturals(high < 0 ? size_of(high) : 1, size_of(low))}));
    if (high >= 0) all.push_back(naturals(low < 0 ? 0 : uint64_t(low), uint64_t(high)));
    return choice(std::move(all));
}

std::optional<Expr> json_numbers(const std::optional<Bound>& least, const std::optional<Bound>& most) {
    const auto side = [](bool negative, const std::optional<Bound>& other) {
        const bool same = other && other->negative == negative;
        return Bound{.negative = negative, .whole = same ? std::max(large, other->whole) : large};
    };
    const Bound low = least.value_or(side(true, most)), high = most.value_or(side(false, least));
    std::vector<Expr> all;
    if (low.negative) add_magnitudes(high.negative ? high : Bound{.open = true}, low, "-", all);
    if (!high.negative) add_magnitudes(low.negative ? Bound() : low, high, "", all);
    return all.empty() ? std::nullopt : std::optional(choice(std::move(all)));
}

}  // namespace scoria::grammar
