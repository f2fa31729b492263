// Numbers as Python reads, rounds and writes them; never by the locale.
#include "jinja/operators.h"

#include "jinja/unicode.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace scoria::jinja {
namespace {

std::string_view strip(std::string_view text) {
    size_t begin = 0, end = text.size();
    for (size_t at = 0; at < end && is_space(next_code(text, at));) begin = at;
    for (size_t at = end; at > begin && is_space(previous_code(text, at));) end = at;
    return text.substr(begin, end - begin);
}

/// Without the underscores that may stand between digits; nothing where one stands elsewhere.
std::optional<std::string> without_underscores(std::string_view text) {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '_') {
            out += text[i];
            continue;
        }
        const auto is_digit = [&](size_t at) {
            return at < text.size() && std::isxdigit(static_cast<uint8_t>(text[at]));
        };
        if (i == 0 || !is_digit(i - 1) || !is_digit(i + 1)) return std::nullopt;
    }
    return out;
}

int digit_of(char character) {
    if (character >= '0' && character <= '9') return character - '0';
    const char small = static_cast<char>(character | 0x20);
    return small >= 'a' && small <= 'z' ? small - 'a' + 10 : 99;
}

/// The base that "0x" and its kin name, or 0.
int prefixed_base(std::string_view text) {
    if (text.size() < 2 || text[0] != '0') return 0;
    const char letter = static_cast<char>(text[1] | 0x20);
    return letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
}

}  // namespace

std::string integer_text(Integer value) {
    std::string digits;
    const bool negative = value < 0;
    do {
        const int digit = static_cast<int>(value % 10);
        digits += static_cast<char>('0' + (negative ? -digit : digit));
        value /= 10;
    } while (value != 0);
    if (negative) digits += '-';
    std::ranges::reverse(digits);
    return digits;
}

// The shortest digits that read back as the same number; an exponent below 1e-4 and from 1e16.
std::string float_repr(double value) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
    char text[64];
    const double size = std::abs(value);
    const bool scientific = size != 0 && (size < 1e-4 || size >= 1e16);
    const auto format = scientific ? std::chars_format::scientific : std::chars_format::fixed;
    std::string out(text, std::to_chars(text, text + sizeof text, value, format).ptr);
    if (!scientific && out.find('.') == out.npos) out += ".0";
    return out;
}

std::optional<Integer> parse_integer(std::string_view text, int64_t base) {
    text = strip(text);
    const bool negative = text.starts_with('-');
    if (negative || text.starts_with('+')) text.remove_prefix(1);
    const int named = prefixed_base(text);
    if (named != 0 && (base == 0 || base == named)) text.remove_prefix(2);
    if (named != 0 && text.starts_with('_')) text.remove_prefix(1);
    if (base == 0) base = named != 0 ? named : 10;
    const std::optional<std::string> digits = without_underscores(text);
    if (base < 2 || base > 36 || !digits || digits->empty()) return std::nullopt;
    Integer value = 0;
    for (const char character : *digits) {
        const int digit = digit_of(character);
        if (digit >= base) return std::nullopt;
        if (__builtin_mul_overflow(value, Integer(base), &value) ||
            __builtin_add_overflow(value, digit, &value))
            return std::nullopt;
    }
    return negative ? -value : value;
}

std::optional<double> parse_float(std::string_view text) {
    text = strip(text);
    const bool negative = text.starts_with('-');
    if (negative || text.starts_with('+')) text.remove_prefix(1);
    const std::optional<std::string> plain = without_underscores(text);
    // from_chars takes a sign of its own.
    if (!plain || plain->empty() || plain->front() == '-') return std::nullopt;
    double value = 0;
    const auto read = std::from_chars(plain->data(), plain->data() + plain->size(), value);
    if (read.ptr != plain->data() + plain->size() || read.ec == std::errc::invalid_argument)
        return std::nullopt;
    if (read.ec == std::errc::result_out_of_range)
        value = plain->find("e-") != plain->npos || plain->find("E-") != plain->npos ? 0 : HUGE_VAL;
    return negative ? -value : value;
}

double round_to(double value, int64_t digits) {
    if (!std::isfinite(value) || digits > 308) return value;
    if (digits < -308) return std::copysign(0.0, value);
    if (digits < 0) {
        const double scale = std::pow(10.0, static_cast<double>(-digits));
        return std::nearbyint(value / scale) * scale;
    }
    char text[800];  // 309 digits before the point, 308 after
    const auto end =
        std::to_chars(text, text + sizeof text, value, std::chars_format::fixed, static_cast<int>(digits))
            .ptr;
    double rounded = value;
    std::from_chars(text, end, rounded);
    return rounded;
}

}  // namespace scoria::jinja
