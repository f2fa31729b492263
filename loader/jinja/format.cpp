// The two ways in which Python formats: "%5.2f" % x, and "{:>5.2f}".format(x). And the escapes of HTML.
#include "jinja/operators.h"

#include "jinja/unicode.h"
#include "tokenizer/utf8.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace scoria::jinja {
namespace {

constexpr uint64_t max_precision = 300;

struct Spec {
    std::string fill = " ";
    char align = 0;   // < > ^ =, 0: by type
    char sign = '-';  // '-': negative ones only; '+', ' '
    bool alternate = false;
    char group = 0;  // ',' or '_' between thousands
    uint64_t width = 0;
    std::optional<uint64_t> precision;
    char type = 0;
};

uint64_t read_count(Runtime& runtime, std::string_view text, size_t& at) {
    uint64_t value = 0;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
        value = 10 * value + static_cast<uint64_t>(text[at] - '0');
        if (value > runtime.limits().memory) runtime.fail("expected a width that fits in memory, got more");
    }
    return value;
}

Spec read_spec(Runtime& runtime, std::string_view text) {
    Spec spec;
    size_t at = 0;
    const auto is_align = [&](size_t i) {
        return i < text.size() && std::string_view("<>^=").find(text[i]) != std::string_view::npos;
    };
    size_t after_first = 0;
    if (!text.empty()) next_code(text, after_first);
    if (is_align(after_first)) {
        spec.fill = text.substr(0, after_first);
        spec.align = text[after_first];
        at = after_first + 1;
    } else if (is_align(0)) {
        spec.align = text[at++];
    }
    const auto take = [&](std::string_view any) {
        return at < text.size() && any.find(text[at]) != any.npos ? text[at++] : '\0';
    };
    if (const char sign = take("+- ")) spec.sign = sign;
    spec.alternate = take("#") != 0;
    if (take("0") != 0 && spec.align == 0) {
        spec.fill = "0";
        spec.align = '=';
    }
    spec.width = read_count(runtime, text, at);
    spec.group = take(",_");
    if (take(".") != 0) spec.precision = read_count(runtime, text, at);
    if (at < text.size()) spec.type = text[at++];
    if (at < text.size()) runtime.fail("expected a format specification, got '", text, "'");
    return spec;
}

std::string grouped(std::string digits, char separator, size_t size = 3) {
    const size_t whole = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
    for (size_t at = whole; at > size; at -= size) digits.insert(at - size, 1, separator);
    return digits;
}

std::string radix_text(Integer value, unsigned base, bool upper) {
    std::string digits;
    do {
        const auto digit = static_cast<size_t>(value % base);
        digits += (upper ? "0123456789ABCDEF" : "0123456789abcdef")[digit];
        value /= base;
    } while (value != 0);
    std::ranges::reverse(digits);
    return digits;
}

/// Digits of a number that is not negative.
std::string real_digits(Runtime& runtime, double value, const Spec& spec) {
    const uint64_t precision = spec.precision.value_or(6);
    if (precision > max_precision)
        runtime.fail("expected a precision up to ", max_precision, ", got ", precision);
    if (!std::isfinite(value)) return std::isnan(value) ? "nan" : "inf";
    if (spec.type == 0 && !spec.precision) return float_repr(value);
    const char type = static_cast<char>(spec.type | 0x20);
    const auto format = type == 'e'                       ? std::chars_format::scientific
                        : type == 'f' || spec.type == '%' ? std::chars_format::fixed
                                                          : std::chars_format::general;
    char text[1024];
    if (spec.type == '%') value *= 100;
    const auto written = std::to_chars(text, text + sizeof text, value, format, static_cast<int>(precision));
    std::string out(text, written.ptr);
    if (spec.type == 0 && out.find_first_of(".e") == out.npos) out += ".0";
    if (spec.type == '%') out += '%';
    if (spec.type == 'E' || spec.type == 'G')
        std::ranges::transform(out, out.begin(), [](char c) { return c == 'e' ? 'E' : c; });
    return out;
}

std::string whole_digits(Runtime& runtime, Integer value, const Spec& spec) {
    switch (spec.type) {
    case 0:
    case 'd':
    case 'i':
    case 'u':
    case 'n':
        return integer_text(value);
    case 'x':
    case 'X':
        return (spec.alternate ? spec.type == 'x' ? "0x" : "0X" : "") +
               radix_text(value, 16, spec.type == 'X');
    case 'o':
        return (spec.alternate ? "0o" : "") + radix_text(value, 8, false);
    case 'b':
        return (spec.alternate ? "0b" : "") + radix_text(value, 2, false);
    default:
        return real_digits(runtime, static_cast<double>(value), spec);
    }
}

void write_padded(Writer& out, const Text& text, const Spec& spec, char align) {
    const size_t length = count_codes(text.bytes());
    const uint64_t missing = spec.width > length ? spec.width - length : 0;
    const uint64_t before = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
    out.repeat(spec.fill, before);
    out.append(text);
    out.repeat(spec.fill, missing - before);
}

void write_number(Writer& out, Runtime& runtime, const Value& value, const Spec& spec) {
    if (spec.type != 0 && std::string_view("diunxXobeEfFgG%").find(spec.type) == std::string_view::npos)
        runtime.fail("expected a format for numbers, got '", spec.type, "'");
    const bool real = value.is(Kind::real);
    if (real && spec.type != 0 && std::string_view("diunxXob").find(spec.type) != std::string_view::npos)
        runtime.fail("expected an int for the format '", spec.type, "', got float");
    const bool negative = real ? std::signbit(value.number()) : value.whole() < 0;
    const Integer whole = real ? 0 : value.whole();
    if (whole == static_cast<Integer>(1) << 126 << 1) runtime.fail("expected an int of 127 bits, got more");
    std::string digits = real ? real_digits(runtime, std::abs(value.number()), spec)
                              : whole_digits(runtime, negative ? -whole : whole, spec);
    if (spec.group != 0) digits = grouped(std::move(digits), spec.group);
    const std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
    if (spec.align == '=') {
        Spec rest = spec;
        rest.width -= std::min<uint64_t>(rest.width, sign.size());
        out.append(sign);
        write_padded(out, Text(digits), rest, '>');
    } else {
        write_padded(out, Text(sign + digits), spec, spec.align != 0 ? spec.align : '>');
    }
}

/// As many characters as the precision allows.
void write_text(Writer& out, const Text& text, const Spec& spec, char align) {
    size_t end = spec.precision ? 0 : text.size();
    for (uint64_t i = 0; spec.precision && i < *spec.precision && end < text.size(); ++i)
        next_code(text.bytes(), end);
    write_padded(out, text.slice(0, end), spec, align);
}

std::string character_of(Runtime& runtime, Integer code) {
    if (code < 0 || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
        runtime.fail("expected the number of a character, got ", integer_text(code));
    std::string out;
    utf8::append(out, static_cast<char32_t>(code));
    return out;
}

void write_formatted(Writer& out, Runtime& runtime, const Value& value, const Spec& spec) {
    if (value.is_number() && !(value.is(Kind::boolean) && spec.type == 0))
        return write_number(out, runtime, value, spec);
    if (spec.type != 0 && spec.type != 's')
        runtime.fail("expected a number for the format '", spec.type, "', got ", type_name(value));
    write_text(out, to_text(runtime, value), spec, spec.align != 0 && spec.align != '=' ? spec.align : '<');
}

/// Hands out the values of `format % values`.
class PercentArguments {
  public:
    PercentArguments(Runtime& runtime, const Value& values) : runtime_(runtime), values_(values) {}
    const Value& next() {
        if (!is_tuple()) {
            if (used_++ > 0) runtime_.fail("expected as many values as formats, got too few");
            return values_;
        }
        if (used_ == values_.list().items.size())
            runtime_.fail("expected as many values as formats, got too few");
        return values_.list().items[used_++];
    }
    Value named(std::string_view name) {
        named_ = true;
        return runtime_.subscript(values_, runtime_.text(name));
    }
    void finish() const {
        const bool unused = is_tuple() ? used_ < values_.list().items.size() : used_ == 0;
        // What can be indexed may name its values, so none of them need be used.
        const bool indexable =
            values_.is(Kind::dict) || values_.is(Kind::list) || values_.is(Kind::undefined);
        if (unused && !named_ && (is_tuple() || !indexable))
            runtime_.fail("expected as many values as formats, got too many");
    }

  private:
    bool is_tuple() const { return values_.is(Kind::list) && values_.list().kind == ListKind::tuple; }
    Runtime& runtime_;
    const Value& values_;
    size_t used_ = 0;
    bool named_ = false;
};

/// One %-format whose '%' lies before `at`, which moves past it.
void write_percent(Writer& out, Runtime& runtime, std::string_view text, size_t& at,
                   PercentArguments& values) {
    const auto peek = [&] { return at < text.size() ? text[at] : '\0'; };
    std::optional<Value> value;
    if (peek() == '(') {
        const size_t end = text.find(')', at);
        if (end == text.npos) runtime.fail("expected ')' in a format, got its end");
        value = values.named(text.substr(at + 1, end - at - 1));
        at = end + 1;
    }
    Spec spec;
    spec.align = '>';
    for (; peek() != 0 && std::string_view("-+ #0").find(peek()) != std::string_view::npos; ++at) {
        if (peek() == '-') spec.align = '<';
        if (peek() == '0' && spec.align != '<') {
            spec.align = '=';
            spec.fill = "0";
        }
        if (peek() == '#') spec.alternate = true;
        if (peek() == '+' || (peek() == ' ' && spec.sign != '+')) spec.sign = peek();
    }
    if (spec.align == '<') spec.fill = " ";
    spec.width = read_count(runtime, text, at);
    if (peek() == '.') spec.precision = read_count(runtime, text, ++at);
    spec.type = peek();
    ++at;
    if (spec.type == '%') return out.append("%");
    if (!value) value = values.next();
    if (spec.type == 's' || spec.type == 'r' || spec.type == 'a' || spec.type == 'c') {
        Writer written(runtime);
        if (spec.type == 'c' && value->is_whole())
            written.append(character_of(runtime, value->whole()));
        else if (spec.type == 's' || spec.type == 'c')
            write_str(written, runtime, *value);
        else
            write_repr(written, runtime, *value);
        spec.type = 's';
        if (spec.align == '=') {
            spec.align = '>';
            spec.fill = " ";
        }
        return write_text(out, written.take(), spec, spec.align);
    }
    if (!value->is_number())
        runtime.fail("expected a number for '%", spec.type, "', got ", type_name(*value));
    if (value->is(Kind::real) && std::string_view("diu").find(spec.type) != std::string_view::npos) {
        if (!(std::abs(value->number()) < 1e37)) runtime.fail("expected a number that fits an int, got more");
        value = static_cast<Integer>(value->number());
    }
    if (!value->is(Kind::real)) value = value->whole();
    write_number(out, runtime, *value, spec);
}

/// The field "name.attribute[key]" of a brace format; `next` numbers the unnamed.
Value field_value(Runtime& runtime, std::string_view field, const Arguments& arguments, size_t& next) {
    size_t at = std::min(field.find_first_of(".["), field.size());
    const std::string_view name = field.substr(0, at);
    Value value;
    const std::optional<Integer> number = name.empty() ? std::optional<Integer>(next++) : parse_integer(name);
    if (number) {
        if (*number < 0 || *number >= static_cast<Integer>(arguments.positional.size()))
            runtime.fail("expected a value for the format '{", field, "}', got none");
        value = arguments.positional[static_cast<size_t>(*number)];
    } else {
        const auto found = std::ranges::find(arguments.named, name,
                                             [](const auto& pair) { return std::string_view(pair.first); });
        if (found == arguments.named.end())
            runtime.fail("expected a value for the format '{", field, "}', got none");
        value = found->second;
    }
    while (at < field.size()) {
        const bool dot = field[at] == '.';
        const size_t end = std::min(field.find_first_of(dot ? ".[" : "]", at + 1), field.size());
        const std::string_view part = field.substr(at + 1, end - at - 1);
        const std::optional<Integer> index = dot ? std::nullopt : parse_integer(part);
        value = dot ? runtime.attribute(value, part)
                    : runtime.subscript(value, index ? Value(*index) : runtime.text(part));
        at = dot ? end : std::min(end + 1, field.size());
    }
    return value;
}

}  // namespace

Text percent_format(Runtime& runtime, const Text& format, const Value& values) {
    Writer out(runtime);
    PercentArguments arguments(runtime, values);
    const std::string& text = format.bytes();
    for (size_t at = 0; at < text.size();) {
        const size_t percent = std::min(text.find('%', at), text.size());
        out.append(format, at, percent);
        at = percent;
        if (at == text.size()) break;
        if (++at == text.size()) runtime.fail("expected a format after '%', got its end");
        write_percent(out, runtime, text, at, arguments);
    }
    arguments.finish();
    return out.take();
}

Text brace_format(Runtime& runtime, const Text& format, const Arguments& arguments) {
    Writer out(runtime);
    const std::string& text = format.bytes();
    size_t next = 0;
    for (size_t at = 0; at < text.size();) {
        const size_t brace = std::min(text.find_first_of("{}", at), text.size());
        out.append(format, at, brace);
        if (brace == text.size()) break;
        if (brace + 1 < text.size() && text[brace + 1] == text[brace]) {
            out.append(format, brace, brace + 1);
            at = brace + 2;
            continue;
        }
        const size_t end = text.find_first_of("{}", brace + 1);
        if (text[brace] == '}' || end == text.npos || text[end] == '{')
            runtime.fail("expected '{field}' in a format, got '", text.substr(brace, 20), "'");
        std::string_view field(text.data() + brace + 1, end - brace - 1), spec;
        if (const size_t colon = field.find(':'); colon != field.npos) {
            spec = field.substr(colon + 1);
            field = field.substr(0, colon);
        }
        bool repr = false;
        if (field.ends_with("!r") || field.ends_with("!s")) {
            repr = field.ends_with('r');
            field.remove_suffix(2);
        }
        Value value = field_value(runtime, field, arguments, next);
        if (repr) {
            Writer written(runtime);
            write_repr(written, runtime, value);
            value = runtime.text(written.take());
        }
        write_formatted(out, runtime, value, read_spec(runtime, spec));
        at = end + 1;
    }
    return out.take();
}

Text escape_html(Runtime& runtime, const Text& text) {
    Writer out(runtime);
    for (size_t at = 0; at < text.size();) {
        const size_t special = std::min(text.bytes().find_first_of("&<>\"'", at), text.size());
        out.append(text, at, special);
        at = special;
        if (at == text.size()) break;
        const char c = text.bytes()[at++];
        out.append(c == '&'   ? "&amp;"
                   : c == '<' ? "&lt;"
                   : c == '>' ? "&gt;"
                   : c == '"' ? "&#34;"
                              : "&#39;",
                   text.has_input());
    }
    return out.take();
}

}  // namespace scoria::jinja
