// Filters whose result is a text.
#include "jinja/native.h"
#include "jinja/operators.h"
#include "jinja/text_tools.h"
#include "jinja/unicode.h"

#include <algorithm>

namespace scoria::jinja {
namespace {

/// str(value), since these filters take any value.
Text soft(Runtime& runtime, const Value& value) { return to_text(runtime, value); }

template <std::string (*change)(std::string_view)>
Value by_case(Runtime& runtime, const Value& self, Bound&) {
    const Text text = soft(runtime, self);
    runtime.reserve(3 * text.size());
    return runtime.text(text.with_bytes(change(text.bytes())));
}

/// Words begin after spaces, hyphens and opening brackets.
std::string title_words(std::string_view text) {
    const auto separates = [](char32_t code) {
        return is_space(code) || (code < 0x80 && std::string_view("-({[<").find(static_cast<char>(code)) !=
                                                     std::string_view::npos);
    };
    std::string out;
    for (size_t at = 0; at < text.size();) {
        const size_t begin = at;
        const bool separator = separates(next_code(text, at));
        out += upper(text.substr(begin, at - begin));
        const size_t rest = at;
        for (size_t next = at; next < text.size() && separates(next_code(text, next)) == separator;)
            at = next;
        out += lower(text.substr(rest, at - rest));
    }
    return out;
}

Value trim(Runtime& runtime, const Value& self, Bound& arguments) {
    const Text text = soft(runtime, self), set = arguments.given(0) ? arguments.text(0) : Text();
    return runtime.text(strip(text, arguments.given(0) ? &set : nullptr, true, true));
}

Value center(Runtime& runtime, const Value& self, Bound& arguments) {
    const Text text = soft(runtime, self);
    const auto width = static_cast<uint64_t>(std::max<int64_t>(arguments.integer(0, 80), 0));
    const uint64_t length = count_codes(text.bytes()), missing = width > length ? width - length : 0;
    // As Python does: an odd rest goes to the left where the width is odd.
    const uint64_t before = missing / 2 + (missing & width & 1);
    return runtime.text(pad(runtime, text, before, missing - before, Text(" ")));
}

Value escape(Runtime& runtime, const Value& self, Bound&) {
    if (self.is(Kind::string) && self.str().markup) return self;
    return runtime.text(escape_html(runtime, soft(runtime, self)), true);
}

Value force_escape(Runtime& runtime, const Value& self, Bound&) {
    return runtime.text(escape_html(runtime, soft(runtime, self)), true);
}

Value safe(Runtime& runtime, const Value& self, Bound&) { return runtime.text(soft(runtime, self), true); }

Value string(Runtime& runtime, const Value& self, Bound&) {
    return self.is(Kind::string) ? self : runtime.text(soft(runtime, self));
}

Value pretty(Runtime& runtime, const Value& self, Bound&) {
    Writer out(runtime);
    write_repr(out, runtime, self);
    return runtime.text(out.take());
}

Value format(Runtime& runtime, const Value& self, Bound& arguments) {
    Arguments& given = arguments.all();
    if (!given.named.empty() && !given.positional.empty())
        runtime.fail("expected either positional or named arguments of 'format', got both");
    if (given.named.empty())
        return runtime.text(
            percent_format(runtime, soft(runtime, self), runtime.tuple(std::move(given.positional))));
    std::vector<std::pair<Value, Value>> items;
    for (auto& [name, value] : given.named) items.emplace_back(runtime.text(name), std::move(value));
    return runtime.text(percent_format(runtime, soft(runtime, self), runtime.dict(std::move(items))));
}

Text indention(Runtime& runtime, const Bound& arguments, size_t place, int64_t otherwise) {
    const Value* width = arguments[place];
    if (width != nullptr && width->is(Kind::string)) return width->text();
    Writer out(runtime);
    out.repeat(" ", static_cast<uint64_t>(std::max<int64_t>(arguments.integer(place, otherwise), 0)));
    return out.take();
}

Value indent(Runtime& runtime, const Value& self, Bound& arguments) {
    if (!self.is(Kind::string)) runtime.fail("expected a str for 'indent', got ", type_name(self));
    const Text by = indention(runtime, arguments, 0, 4);
    const bool first = arguments.flag(1, false), blank = arguments.flag(2, false);
    Text text = soft(runtime, self);
    text.append("\n");
    Writer out(runtime);
    bool is_first = true;
    for (const Text& line : split_lines(runtime, text, false)) {
        if (!is_first) out.append("\n");
        if (is_first ? first : blank || !line.empty()) out.append(by);
        out.append(line);
        is_first = false;
    }
    return runtime.text(out.take());
}

Value replace_filter(Runtime& runtime, const Value& self, Bound& arguments) {
    const Text from = to_text(runtime, arguments.at(0)), to = to_text(runtime, arguments.at(1));
    const int64_t most = arguments.given(2) ? arguments.integer(2, -1) : -1;
    return runtime.text(replace(runtime, soft(runtime, self), from, to, most));
}

Value truncate(Runtime& runtime, const Value& self, Bound& arguments) {
    if (self.is(Kind::list) && static_cast<int64_t>(self.list().items.size()) <= arguments.integer(0, 255))
        return self;
    if (!self.is(Kind::string)) runtime.fail("expected a str for 'truncate', got ", type_name(self));
    const Value& whole = self;
    const int64_t length = arguments.integer(0, 255),
                  leeway = arguments.given(3) ? arguments.integer(3, 5) : 5;
    const Text end = arguments.text(2, "...");
    const auto end_length = static_cast<int64_t>(count_codes(end.bytes()));
    if (length < end_length) runtime.fail("expected a length of at least ", end_length, ", got ", length);
    if (static_cast<int64_t>(length_of(whole.str())) <= length + leeway) return whole;
    size_t cut = byte_of(whole.str(), static_cast<size_t>(length - end_length));
    if (!arguments.flag(1, false)) {
        const size_t space = cut == 0 ? std::string::npos : whole.text().bytes().rfind(' ', cut - 1);
        if (space != std::string::npos) cut = space;
    }
    Writer out(runtime);
    out.append(whole.text(), 0, cut);
    out.append(end);
    return runtime.text(out.take());
}

Value url_encode(Runtime& runtime, const Value& self, Bound&) {
    if (!self.is(Kind::string) && !self.is_number())
        runtime.fail("expected a str for 'urlencode', got ", type_name(self));
    const Text text = soft(runtime, self);
    std::string out;
    runtime.reserve(3 * text.size());
    for (const char c : text.bytes()) {
        if (std::isalnum(static_cast<uint8_t>(c)) != 0 ||
            std::string_view("_.-~/").find(c) != std::string_view::npos)
            out += c;
        else
            ((out += '%') += "0123456789ABCDEF"[static_cast<uint8_t>(c) >> 4]) += "0123456789ABCDEF"[c & 15];
    }
    return runtime.text(Text(out, text.has_input()));
}

Value word_count(Runtime& runtime, const Value& self, Bound&) {
    const Text text = soft(runtime, self);
    Integer words = 0;
    bool inside = false;
    for (size_t at = 0; at < text.size();) {
        const char32_t code = next_code(text.bytes(), at);
        const bool part = code == '_' || has(Property::alpha, code) || has(Property::numeric, code);
        words += part && !inside;
        inside = part;
    }
    return words;
}

Value json(Runtime& runtime, const Value& self, Bound& arguments) {
    JsonStyle style;
    style.ensure_ascii = arguments.flag(0, false);
    if (arguments.given(1)) style.indent = indention(runtime, arguments, 1, 0).bytes();
    if (arguments.given(2)) {
        const std::vector<Value> both = runtime.items(arguments.at(2));
        if (both.size() != 2 || !both[0].is(Kind::string) || !both[1].is(Kind::string))
            runtime.fail("expected two strings as separators, got something else");
        style.separators.emplace(both[0].text().bytes(), both[1].text().bytes());
    }
    style.sort_keys = arguments.flag(3, false);
    return runtime.text(to_json(runtime, self, style));
}

constexpr Native table[] = {
    {"capitalize", "", 0, by_case<capitalize>},
    {"center", "width", 0, center},
    {"e", "", 0, escape},
    {"escape", "", 0, escape},
    {"forceescape", "", 0, force_escape},
    {"format", any_arguments, 0, format},
    {"indent", "width first blank", 0, indent},
    {"lower", "", 0, by_case<lower>},
    {"pprint", "", 0, pretty},
    {"replace", "old new count", 2, replace_filter},
    {"safe", "", 0, safe},
    {"string", "", 0, string},
    {"title", "", 0, by_case<title_words>},
    {"tojson", "ensure_ascii indent separators sort_keys", 0, json},
    {"trim", "chars", 0, trim},
    {"truncate", "length killwords end leeway", 0, truncate},
    {"upper", "", 0, by_case<upper>},
    {"urlencode", "", 0, url_encode},
    {"wordcount", "", 0, word_count},
};

}  // namespace

NativeTable text_filters() { return table; }

}  // namespace scoria::jinja
