// Methods of str, as Python names them.
#include "jinja/native.h"
#include "jinja/text_tools.h"
#include "jinja/unicode.h"

#include <algorithm>

namespace scoria::jinja {
namespace {

template <std::string (*change)(std::string_view)>
Value by_case(Runtime& runtime, const Value& self, Bound&) {
    runtime.reserve(3 * self.text().size());
    return runtime.text(self.text().with_bytes(change(self.text().bytes())));
}

/// Whether all characters of a text that is not empty have one of the properties.
template <Property... properties> Value all_have(Runtime& runtime, const Value& self, Bound&) {
    const std::string& text = self.text().bytes();
    runtime.spend(text.size() / 8);
    for (size_t at = 0; at < text.size();) {
        const char32_t code = next_code(text, at);
        if (!(has(properties, code) || ...)) return false;
    }
    return !text.empty();
}

Value all_space(Runtime&, const Value& self, Bound&) {
    return !self.text().empty() && strip(self.text(), nullptr, true, false).empty();
}
Value all_ascii(Runtime&, const Value& self, Bound&) { return self.str().ascii; }
Value all_printable(Runtime& runtime, const Value& self, Bound& arguments) {
    return self.text().empty() ? Value(true) : all_have<Property::printable>(runtime, self, arguments);
}

template <Property wanted, Property other> Value is_case(Runtime&, const Value& self, Bound&) {
    bool any = false;
    for (size_t at = 0; at < self.text().size();) {
        const char32_t code = next_code(self.text().bytes(), at);
        if (has(other, code) || has(Property::title, code)) return false;
        any |= has(wanted, code);
    }
    return any;
}

Value is_title(Runtime&, const Value& self, Bound&) {
    bool any = false, in_word = false;
    for (size_t at = 0; at < self.text().size();) {
        const char32_t code = next_code(self.text().bytes(), at);
        const bool capital = has(Property::upper, code) || has(Property::title, code),
                   small = has(Property::lower, code);
        if (in_word ? capital : small) return false;
        any |= capital || small;
        in_word = capital || small;
    }
    return any;
}

constexpr Native cases[] = {
    {"capitalize", "", 0, by_case<capitalize>},
    {"isalnum", "", 0, all_have<Property::alpha, Property::decimal, Property::digit, Property::numeric>},
    {"isalpha", "", 0, all_have<Property::alpha>},
    {"isascii", "", 0, all_ascii},
    {"isdecimal", "", 0, all_have<Property::decimal>},
    {"isdigit", "", 0, all_have<Property::digit>},
    {"islower", "", 0, is_case<Property::lower, Property::upper>},
    {"isnumeric", "", 0, all_have<Property::numeric>},
    {"isprintable", "", 0, all_printable},
    {"isspace", "", 0, all_space},
    {"istitle", "", 0, is_title},
    {"isupper", "", 0, is_case<Property::upper, Property::lower>},
    {"lower", "", 0, by_case<lower>},
    {"swapcase", "", 0, by_case<swap_case>},
    {"title", "", 0, by_case<title>},
    {"upper", "", 0, by_case<upper>},
};

/// The argument, or null where it is absent or None.
std::optional<Text> optional_text(const Bound& arguments, size_t i) {
    if (!arguments.given(i)) return std::nullopt;
    return arguments.text(i);
}

template <bool left, bool right> Value strip_method(Runtime& runtime, const Value& self, Bound& arguments) {
    const std::optional<Text> set = optional_text(arguments, 0);
    return runtime.text(strip(self.text(), set ? &*set : nullptr, left, right));
}

/// Words from the left or, in reverse order, from the right; after `most` of them the rest is one.
std::vector<Text> split_space(Runtime& runtime, const Text& text, int64_t most, bool from_right) {
    const std::string_view bytes = text.bytes();
    runtime.spend(bytes.size() / 8);
    size_t begin = 0, end = bytes.size();  // what is left
    // Moves the near end inwards while characters are space, or while they are not.
    const auto pass = [&](bool space) {
        for (size_t at = from_right ? end : begin; begin < end;) {
            const char32_t code = from_right ? previous_code(bytes, at) : next_code(bytes, at);
            if (is_space(code) != space) break;
            (from_right ? end : begin) = at;
        }
    };
    std::vector<Text> parts;
    for (pass(true); begin < end; pass(true)) {
        if (most-- == 0) {
            parts.push_back(text.slice(begin, end));
            break;
        }
        const size_t near = from_right ? end : begin;
        pass(false);
        push(runtime, parts, from_right ? text.slice(end, near) : text.slice(near, begin));
    }
    return parts;
}

/// Where the last `wanted` begins.
size_t search_back(Runtime& runtime, std::string_view text, std::string_view wanted) {
    if (wanted.size() > text.size()) return std::string::npos;
    for (size_t at = text.size() - wanted.size() + 1; at-- > 0;) {
        const auto same = std::ranges::mismatch(wanted, text.substr(at)).in1 - wanted.begin();
        if (static_cast<size_t>(same) == wanted.size()) return at;
        runtime.spend(1 + static_cast<size_t>(same) / 16);
    }
    return std::string::npos;
}

std::vector<Text> split_by(Runtime& runtime, const Text& text, const Text& by, int64_t most,
                           bool from_right) {
    if (by.empty()) runtime.fail("expected a separator, got an empty string");
    std::vector<size_t> found;
    for (size_t at = 0; (at = search(runtime, text.bytes(), by.bytes(), at)) != std::string::npos;
         at += by.size())
        push(runtime, found, at);
    if (from_right) {  // overlapping separators are counted from the end
        found.clear();
        for (size_t end = text.size();
             end >= by.size() && (most < 0 || static_cast<int64_t>(found.size()) < most);) {
            const size_t at = search_back(runtime, std::string_view(text.bytes()).substr(0, end), by.bytes());
            if (at == std::string::npos) break;
            push(runtime, found, end = at);
        }
        std::ranges::reverse(found);
    }
    if (most >= 0 && found.size() > static_cast<size_t>(most)) found.resize(static_cast<size_t>(most));
    runtime.reserve(found.size() * sizeof(Text));
    std::vector<Text> parts;
    size_t begin = 0;
    for (const size_t at : found) {
        parts.push_back(text.slice(begin, at));
        begin = at + by.size();
    }
    parts.push_back(text.slice(begin, text.size()));
    return parts;
}

Value texts(Runtime& runtime, std::vector<Text> parts) {
    std::vector<Value> out;
    runtime.reserve(parts.size() * (sizeof(Value) + sizeof(Str)));
    for (Text& part : parts) out.push_back(runtime.text(std::move(part)));
    return runtime.list(std::move(out));
}

template <bool from_right> Value split(Runtime& runtime, const Value& self, Bound& arguments) {
    const int64_t most = arguments.integer(1, -1);
    if (const std::optional<Text> by = optional_text(arguments, 0))
        return texts(runtime, split_by(runtime, self.text(), *by, most, from_right));
    std::vector<Text> parts = split_space(runtime, self.text(), most, from_right);
    if (from_right) std::ranges::reverse(parts);
    return texts(runtime, std::move(parts));
}

Value split_lines_method(Runtime& runtime, const Value& self, Bound& arguments) {
    return texts(runtime, split_lines(runtime, self.text(), arguments.flag(0, false)));
}

template <bool from_right> Value partition(Runtime& runtime, const Value& self, Bound& arguments) {
    const Text by = arguments.text(0);
    const std::vector<Text> parts = split_by(runtime, self.text(), by, 1, from_right);
    const Value whole = runtime.text(parts[0]), none = runtime.text("");
    if (parts.size() == 2) return runtime.tuple({whole, runtime.text(by), runtime.text(parts[1])});
    return from_right ? runtime.tuple({none, none, whole}) : runtime.tuple({whole, none, none});
}

/// The part of the text that optional arguments `start` and `end` leave, in bytes; nothing if they cross.
std::optional<TextRange> part_of(const Value& self, const Bound& arguments, size_t place) {
    const auto length = static_cast<int64_t>(length_of(self.str()));
    const auto clamped = [&](size_t i, int64_t otherwise) {
        if (!arguments.given(i)) return otherwise;
        const int64_t at = arguments.integer(i, otherwise);
        return at < 0 ? std::max<int64_t>(at + length, 0) : at;
    };
    const int64_t begin = clamped(place, 0), end = std::min(clamped(place + 1, length), length);
    if (begin > end) return std::nullopt;
    return TextRange{byte_of(self.str(), static_cast<size_t>(begin)),
                     byte_of(self.str(), static_cast<size_t>(end))};
}

std::string_view bytes_of(const Value& self, const TextRange& range) {
    return std::string_view(self.text().bytes()).substr(range.begin, range.end - range.begin);
}

template <bool at_end> Value starts(Runtime& runtime, const Value& self, Bound& arguments) {
    const std::optional<TextRange> range = part_of(self, arguments, 1);
    if (!range) return false;
    const std::string_view text = bytes_of(self, *range);
    const auto holds = [&](const Value& part) {
        if (!part.is(Kind::string)) runtime.fail("expected a str or a tuple of them, got ", type_name(part));
        return at_end ? text.ends_with(part.text().bytes()) : text.starts_with(part.text().bytes());
    };
    const Value& wanted = arguments.at(0);
    if (!wanted.is(Kind::list) || wanted.list().kind != ListKind::tuple) return holds(wanted);
    return std::ranges::any_of(wanted.list().items, holds);
}

size_t search_on(Runtime& runtime, std::string_view text, std::string_view wanted) {
    return search(runtime, text, wanted);
}

/// Where the argument lies, in characters, or -1.
template <bool last> int64_t position(Runtime& runtime, const Value& self, const Bound& arguments) {
    const std::optional<TextRange> range = part_of(self, arguments, 1);
    if (!range) return -1;
    const Text wanted = arguments.text(0);
    const std::string_view text = bytes_of(self, *range);
    const size_t found = (last ? search_back : search_on)(runtime, text, wanted.bytes());
    if (found == std::string::npos) return -1;
    return static_cast<int64_t>(
        count_codes(std::string_view(self.text().bytes()).substr(0, range->begin + found)));
}

template <bool last> Value find_method_of(Runtime& runtime, const Value& self, Bound& arguments) {
    return Integer(position<last>(runtime, self, arguments));
}

template <bool last> Value index_method(Runtime& runtime, const Value& self, Bound& arguments) {
    const int64_t found = position<last>(runtime, self, arguments);
    if (found < 0) runtime.fail("expected a str that holds '", arguments.text(0).bytes(), "', got another");
    return Integer(found);
}

Value count(Runtime& runtime, const Value& self, Bound& arguments) {
    const std::optional<TextRange> range = part_of(self, arguments, 1);
    if (!range) return Integer(0);
    const Text wanted = arguments.text(0);
    const std::string_view text = bytes_of(self, *range);
    if (wanted.empty()) return Integer(count_codes(text) + 1);
    Integer found = 0;
    for (size_t at = 0; (at = search(runtime, text, wanted.bytes(), at)) != std::string::npos;
         at += wanted.size())
        ++found;
    return found;
}

constexpr Native splits[] = {
    {"count", "sub start end", 1, count},
    {"endswith", "suffix start end", 1, starts<true>},
    {"find", "sub start end", 1, find_method_of<false>},
    {"index", "sub start end", 1, index_method<false>},
    {"lstrip", "chars", 0, strip_method<true, false>},
    {"partition", "sep", 1, partition<false>},
    {"rfind", "sub start end", 1, find_method_of<true>},
    {"rindex", "sub start end", 1, index_method<true>},
    {"rpartition", "sep", 1, partition<true>},
    {"rsplit", "sep maxsplit", 0, split<true>},
    {"rstrip", "chars", 0, strip_method<false, true>},
    {"split", "sep maxsplit", 0, split<false>},
    {"splitlines", "keepends", 0, split_lines_method},
    {"startswith", "prefix start end", 1, starts<false>},
    {"strip", "chars", 0, strip_method<true, true>},
};

}  // namespace

NativeTable case_methods() { return cases; }
NativeTable split_methods() { return splits; }

}  // namespace scoria::jinja
