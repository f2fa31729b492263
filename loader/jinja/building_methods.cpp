// Methods of str that build others, and those of list and dict.
#include "jinja/native.h"
#include "jinja/text_tools.h"
#include "jinja/unicode.h"

#include <algorithm>

namespace scoria::jinja {
namespace {

Value replace_method(Runtime& runtime, const Value& self, Bound& arguments) {
    return runtime.text(
        replace(runtime, self.text(), arguments.text(0), arguments.text(1), arguments.integer(2, -1)));
}

Value join(Runtime& runtime, const Value& self, Bound& arguments) {
    if (arguments.at(0).is(Kind::undefined))
        runtime.fail("expected something to join, got ", *arguments.at(0).undefined().reason);
    Writer out(runtime);
    bool first = true;
    runtime.each(arguments.at(0), [&](const Value& item) {
        if (!item.is(Kind::string)) runtime.fail("expected strings to join, got ", type_name(item));
        if (!first) out.append(self.text());
        first = false;
        out.append(item.text());
        return true;
    });
    return runtime.text(out.take());
}

Value format(Runtime& runtime, const Value& self, Bound& arguments) {
    return runtime.text(brace_format(runtime, self.text(), arguments.all()));
}

enum class Side : uint8_t { left, right, both };

template <Side side> Value justify(Runtime& runtime, const Value& self, Bound& arguments) {
    const auto width = static_cast<uint64_t>(std::max<int64_t>(arguments.integer(0, 0), 0));
    const Text fill = arguments.text(1, " ");
    if (count_codes(fill.bytes()) != 1)
        runtime.fail("expected one character to fill with, got '", fill.bytes(), "'");
    const uint64_t length = length_of(self.str()), missing = width > length ? width - length : 0;
    const uint64_t centred = missing / 2 + (missing & width & 1);
    const uint64_t before = side == Side::left ? 0 : side == Side::right ? missing : centred;
    return runtime.text(pad(runtime, self.text(), before, missing - before, fill));
}

Value zero_fill(Runtime& runtime, const Value& self, Bound& arguments) {
    const auto width = static_cast<uint64_t>(std::max<int64_t>(arguments.integer(0, 0), 0));
    const uint64_t length = length_of(self.str()), missing = width > length ? width - length : 0;
    const Text& text = self.text();
    const size_t sign = text.bytes().starts_with('-') || text.bytes().starts_with('+');
    Writer out(runtime);
    out.append(text, 0, sign);
    out.repeat("0", missing);
    out.append(text, sign, text.size());
    return runtime.text(out.take());
}

Value remove_prefix(Runtime& runtime, const Value& self, Bound& arguments) {
    const Text prefix = arguments.text(0);
    if (!self.text().bytes().starts_with(prefix.bytes())) return self;
    return runtime.text(self.text().slice(prefix.size(), self.text().size()));
}

Value remove_suffix(Runtime& runtime, const Value& self, Bound& arguments) {
    const Text suffix = arguments.text(0);
    if (!self.text().bytes().ends_with(suffix.bytes())) return self;
    return runtime.text(self.text().slice(0, self.text().size() - suffix.size()));
}

Value expand_tabs(Runtime& runtime, const Value& self, Bound& arguments) {
    const auto stop = static_cast<uint64_t>(std::max<int64_t>(arguments.integer(0, 8), 0));
    Writer out(runtime);
    uint64_t column = 0;
    for (size_t at = 0; at < self.text().size();) {
        const size_t begin = at;
        const char32_t code = next_code(self.text().bytes(), at);
        if (code == '\t') {
            const uint64_t spaces = stop == 0 ? 0 : stop - column % stop;
            out.repeat(" ", spaces);
            column += spaces;
        } else {
            out.append(self.text(), begin, at);
            column = code == '\n' || code == '\r' ? 0 : column + 1;
        }
    }
    return runtime.text(out.take());
}

constexpr Native strings[] = {
    {"center", "width fillchar", 1, justify<Side::both>},
    {"expandtabs", "tabsize", 0, expand_tabs},
    {"format", any_arguments, 0, format},
    {"join", "iterable", 1, join},
    {"ljust", "width fillchar", 1, justify<Side::left>},
    {"removeprefix", "prefix", 1, remove_prefix},
    {"removesuffix", "suffix", 1, remove_suffix},
    {"replace", "old new count", 2, replace_method},
    {"rjust", "width fillchar", 1, justify<Side::right>},
    {"zfill", "width", 1, zero_fill},
};

Value copy(Runtime&, const Value& self, Bound&) { return self; }

Value get(Runtime& runtime, const Value& self, Bound& arguments) {
    if (!key_of(arguments.at(0)) && !arguments.at(0).is(Kind::undefined))
        runtime.fail("expected a key that can be hashed, got ", type_name(arguments.at(0)));
    if (const Value* found = self.dict().get(arguments.at(0))) return *found;
    return arguments[1] ? *arguments[1] : Value(None{});
}

template <ListKind kind> Value view(Runtime& runtime, const Value& self, Bound&) {
    std::vector<Value> items;
    runtime.reserve(self.dict().items.size() * (sizeof(List) + 3 * sizeof(Value)));
    for (const auto& [key, value] : self.dict().items)
        items.push_back(kind == ListKind::keys     ? key
                        : kind == ListKind::values ? value
                                                   : runtime.tuple({key, value}));
    return runtime.list(std::move(items), kind);
}

constexpr Native dicts[] = {
    {"copy", "", 0, copy},
    {"get", "key default", 1, get},
    {"items", "", 0, view<ListKind::items>},
    {"keys", "", 0, view<ListKind::keys>},
    {"values", "", 0, view<ListKind::values>},
};

Value count(Runtime& runtime, const Value& self, Bound& arguments) {
    Integer found = 0;
    for (const Value& item : self.list().items) found += equal(runtime, item, arguments.at(0));
    return found;
}

Value index(Runtime& runtime, const Value& self, Bound& arguments) {
    const std::vector<Value>& items = self.list().items;
    for (size_t i = 0; i < items.size(); ++i)
        if (equal(runtime, items[i], arguments.at(0))) return Integer(i);
    runtime.fail("expected a list that holds the value, got another");
}

constexpr Native lists[] = {
    {"copy", "", 0, copy},
    {"count", "value", 1, count},
    {"index", "value", 1, index},
};

}  // namespace

NativeTable string_methods() { return strings; }
NativeTable dict_methods() { return dicts; }
NativeTable list_methods() { return lists; }

}  // namespace scoria::jinja
