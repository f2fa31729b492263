// Filters over sequences and dicts, and those that make them.
#include "jinja/native.h"
#include "jinja/operators.h"
#include "jinja/read_json.h"
#include "jinja/selection.h"
#include "jinja/unicode.h"

#include <algorithm>

namespace scoria::jinja {

Value attribute_of(Runtime& runtime, const Value& item, const Value& path, const Value* otherwise) {
    if (!path.is(Kind::string)) return runtime.subscript(item, path);
    Value value = item;
    std::string_view rest = path.text().bytes();
    while (true) {
        const size_t end = std::min(rest.find('.'), rest.size());
        const std::string_view part = rest.substr(0, end);
        const bool number = !part.empty() && part.find_first_not_of("0123456789") == part.npos;
        const std::optional<Integer> index = number ? parse_integer(part) : std::nullopt;
        value = runtime.subscript(value, index ? Value(*index) : runtime.text(part));
        if (value.is(Kind::undefined) && otherwise != nullptr) value = *otherwise;
        if (end == rest.size()) return value;
        rest.remove_prefix(end + 1);
    }
}

namespace {

Value folded(Runtime& runtime, const Value& value) {
    if (!value.is(Kind::string)) return value;
    runtime.reserve(3 * value.text().size());
    return runtime.text(lower(value.text().bytes()));
}

/// What an item is ordered by: itself or an attribute, without case unless told.
Value order_key(Runtime& runtime, const Value& item, const Value* attribute, bool case_sensitive) {
    const Value value =
        attribute == nullptr || attribute->is(Kind::none) ? item : attribute_of(runtime, item, *attribute);
    return case_sensitive ? value : folded(runtime, value);
}

using Keyed = std::pair<Value, Value>;  // an item's key, the item

std::vector<Keyed> keyed(Runtime& runtime, const Value& self, const Value* attribute, bool case_sensitive) {
    std::vector<Keyed> all;
    for (const Value& item : runtime.items(self))
        all.emplace_back(order_key(runtime, item, attribute, case_sensitive), item);
    return all;
}

/// Stable, also in reverse, as Python's.
void sort_keyed(Runtime& runtime, std::vector<Keyed>& items, bool reverse) {
    runtime.reserve(items.size() * sizeof(Keyed));
    std::ranges::stable_sort(items, [&](const Keyed& a, const Keyed& b) {
        return reverse ? less(runtime, b.first, a.first) : less(runtime, a.first, b.first);
    });
}

std::vector<Value> without_keys(std::vector<Keyed> items) {
    std::vector<Value> out;
    for (Keyed& item : items) out.push_back(std::move(item.second));
    return out;
}

Value length(Runtime& runtime, const Value& self, Bound&) {
    switch (self.kind()) {
    case Kind::undefined:
        return Integer(0);
    case Kind::string:
        runtime.spend(self.text().size() / 64);
        return Integer(length_of(self.str()));
    case Kind::list:
        return Integer(self.list().items.size());
    case Kind::dict:
        return Integer(self.dict().items.size());
    default:
        runtime.fail("expected something with a length, got ", type_name(self));
    }
}

Value default_filter(Runtime& runtime, const Value& self, Bound& arguments) {
    const bool absent = self.is(Kind::undefined) || (arguments.flag(1, false) && !is_true(self));
    if (!absent) return self;
    return arguments[0] ? *arguments[0] : runtime.text("");
}

Value first(Runtime& runtime, const Value& self, Bound&) {
    std::optional<Value> found;
    runtime.each(self, [&](const Value& item) {
        found = item;
        return false;
    });
    return found ? *found : runtime.undefined("the undefined first item of an empty sequence");
}

Value last(Runtime& runtime, const Value& self, Bound&) {
    if (self.is(Kind::object))
        runtime.fail("expected a sequence that can be reversed, got ", type_name(self));
    const std::vector<Value> items = runtime.items(self);
    return items.empty() ? runtime.undefined("the undefined last item of an empty sequence") : items.back();
}

Value list(Runtime& runtime, const Value& self, Bound&) { return runtime.list(runtime.items(self)); }

Value reverse(Runtime& runtime, const Value& self, Bound&) {
    std::vector<Value> items = runtime.items(self);
    std::ranges::reverse(items);
    if (!self.is(Kind::string)) return runtime.iterator(std::move(items));
    Writer out(runtime);
    for (const Value& character : items) out.append(character.text());
    return runtime.text(out.take());
}

Value join(Runtime& runtime, const Value& self, Bound& arguments) {
    const Text between = arguments[0] ? to_text(runtime, *arguments[0]) : Text();
    Writer out(runtime);
    bool is_first = true;
    runtime.each(self, [&](const Value& item) {
        if (!is_first) out.append(between);
        is_first = false;
        write_str(out, runtime, arguments.given(1) ? attribute_of(runtime, item, arguments.at(1)) : item);
        return true;
    });
    return runtime.text(out.take());
}

Value pairs(Runtime& runtime, const Value& self, ListKind kind) {
    std::vector<Value> items;
    runtime.reserve(self.dict().items.size() * (sizeof(List) + 3 * sizeof(Value)));
    for (const auto& [key, value] : self.dict().items) items.push_back(runtime.tuple({key, value}));
    return runtime.list(std::move(items), kind);
}

Value items(Runtime& runtime, const Value& self, Bound&) {
    if (self.is(Kind::undefined)) return runtime.iterator({});
    if (!self.is(Kind::dict)) runtime.fail("expected a dict for 'items', got ", type_name(self));
    return runtime.iterator(pairs(runtime, self, ListKind::items).list().items);
}

Value dict_sort(Runtime& runtime, const Value& self, Bound& arguments) {
    if (!self.is(Kind::dict)) runtime.fail("expected a dict for 'dictsort', got ", type_name(self));
    const std::string by = arguments.text(1, "key").bytes();
    if (by != "key" && by != "value") runtime.fail("expected 'key' or 'value' to sort by, got '", by, "'");
    const Value place = Integer(by == "value");
    std::vector<Keyed> all =
        keyed(runtime, pairs(runtime, self, ListKind::list), &place, arguments.flag(0, false));
    sort_keyed(runtime, all, arguments.flag(2, false));
    return runtime.list(without_keys(std::move(all)));
}

Value sort(Runtime& runtime, const Value& self, Bound& arguments) {
    const bool reversed = arguments.flag(0, false), case_sensitive = arguments.flag(1, false);
    std::vector<Value> attributes(1, arguments[2] ? *arguments[2] : Value(None()));
    if (attributes[0].is(Kind::string)) {
        const std::string names = attributes[0].text().bytes();
        attributes.clear();
        for (size_t at = 0, end = 0; at <= names.size(); at = end + 1) {
            end = std::min(names.find(',', at), names.size());
            attributes.push_back(runtime.text(std::string_view(names).substr(at, end - at)));
        }
    }
    std::vector<Keyed> all;
    for (const Value& item : runtime.items(self)) {
        // A list, whose equal items are not ordered: None or what is undefined may be all that there is.
        std::vector<Value> keys;
        for (const Value& attribute : attributes)
            keys.push_back(order_key(runtime, item, &attribute, case_sensitive));
        all.emplace_back(runtime.list(std::move(keys)), item);
    }
    sort_keyed(runtime, all, reversed);
    return runtime.list(without_keys(std::move(all)));
}

Value unique(Runtime& runtime, const Value& self, Bound& arguments) {
    std::vector<Value> kept;
    std::map<std::string, bool> seen;
    for (Keyed& item : keyed(runtime, self, arguments[1], arguments.flag(0, false))) {
        std::optional<std::string> key =
            item.first.is(Kind::undefined) ? std::optional("\xFFundefined") : key_of(item.first);
        if (!key) runtime.fail("expected items that can be hashed, got ", type_name(item.first));
        runtime.reserve(100 + key->size());
        if (seen.emplace(std::move(*key), true).second) kept.push_back(std::move(item.second));
    }
    return runtime.iterator(std::move(kept));
}

template <bool largest> Value extreme(Runtime& runtime, const Value& self, Bound& arguments) {
    std::optional<Keyed> best;
    for (Keyed& item : keyed(runtime, self, arguments[1], arguments.flag(0, false))) {
        const bool better = !best || (largest ? less(runtime, best->first, item.first)
                                              : less(runtime, item.first, best->first));
        if (better) best = std::move(item);
    }
    return best ? best->second : runtime.undefined("the undefined extreme of an empty sequence");
}

Value sum(Runtime& runtime, const Value& self, Bound& arguments) {
    Value total = arguments[1] ? *arguments[1] : Value(Integer(0));
    runtime.each(self, [&](const Value& item) {
        const Value part = arguments.given(0) ? attribute_of(runtime, item, arguments.at(0)) : item;
        total = arithmetic(runtime, Operator::add, total, part);
        return true;
    });
    return total;
}

Value batch(Runtime& runtime, const Value& self, Bound& arguments) {
    const auto size = static_cast<size_t>(std::max<int64_t>(arguments.integer(0, 1), 1));
    std::vector<Value> all = runtime.items(self), out;
    for (size_t at = 0; at < all.size(); at += size) {
        std::vector<Value> part(all.begin() + static_cast<ptrdiff_t>(at),
                                all.begin() + static_cast<ptrdiff_t>(std::min(at + size, all.size())));
        if (arguments.given(1) && part.size() < size) {
            runtime.reserve(size * sizeof(Value));
            runtime.spend(size);
            part.resize(size, arguments.at(1));
        }
        out.push_back(runtime.list(std::move(part)));
    }
    return runtime.iterator(std::move(out));
}

Value slice_filter(Runtime& runtime, const Value& self, Bound& arguments) {
    const int64_t count = arguments.integer(0, 1);
    if (count < 1) runtime.fail("expected at least 1 slice, got ", count);
    const auto slices = static_cast<size_t>(count);
    runtime.reserve(slices * (sizeof(List) + sizeof(Value)));
    runtime.spend(slices);
    const std::vector<Value> all = runtime.items(self);
    const size_t each = all.size() / slices, longer = all.size() % slices;
    std::vector<Value> out;
    for (size_t i = 0, at = 0; i < slices; ++i) {
        const size_t size = each + (i < longer);
        std::vector<Value> part(all.begin() + static_cast<ptrdiff_t>(at),
                                all.begin() + static_cast<ptrdiff_t>(at + size));
        if (arguments.given(1) && i >= longer) part.push_back(arguments.at(1));
        out.push_back(runtime.list(std::move(part)));
        at += size;
    }
    return runtime.iterator(std::move(out));
}

Value group_by(Runtime& runtime, const Value& self, Bound& arguments) {
    std::vector<Keyed> all;
    for (const Value& item : runtime.items(self)) {
        const Value key = attribute_of(runtime, item, arguments.at(0), arguments[1]);
        all.emplace_back(arguments.flag(2, false) ? key : folded(runtime, key), item);
    }
    sort_keyed(runtime, all, false);
    std::vector<Value> groups;
    for (size_t begin = 0, end = 0; begin < all.size(); begin = end) {
        std::vector<Value> members;
        for (end = begin; end < all.size() && equal(runtime, all[end].first, all[begin].first); ++end)
            members.push_back(all[end].second);
        // The group's name is as its first member spells it.
        const Value name = attribute_of(runtime, members.front(), arguments.at(0), arguments[1]);
        groups.push_back(runtime.list({name, runtime.list(std::move(members))}, ListKind::tuple, true));
    }
    return runtime.list(std::move(groups));
}

Value attribute_filter(Runtime& runtime, const Value& self, Bound& arguments) {
    const std::string name = arguments.text(0).bytes();
    if (self.is(Kind::dict) && find_method(self, name) == nullptr)  // attributes only, not items
        return runtime.undefined("the undefined attribute '", name, "' of dict");
    return runtime.attribute(self, name);
}

/// What templates made for llama.cpp read arguments of tool calls with.
Value from_json(Runtime& runtime, const Value& self, Bound&) {
    if (!self.is(Kind::string)) runtime.fail("expected a str for 'from_json', got ", type_name(self));
    return read_json(runtime, self.text());
}

constexpr Native table[] = {
    {"attr", "name", 1, attribute_filter},
    {"batch", "linecount fill_with", 1, batch},
    {"count", "", 0, length},
    {"d", "default_value boolean", 0, default_filter},
    {"default", "default_value boolean", 0, default_filter},
    {"dictsort", "case_sensitive by reverse", 0, dict_sort},
    {"first", "", 0, first},
    {"from_json", "", 0, from_json},
    {"groupby", "attribute default case_sensitive", 1, group_by},
    {"items", "", 0, items},
    {"join", "d attribute", 0, join},
    {"last", "", 0, last},
    {"length", "", 0, length},
    {"list", "", 0, list},
    {"max", "case_sensitive attribute", 0, extreme<true>},
    {"min", "case_sensitive attribute", 0, extreme<false>},
    {"reverse", "", 0, reverse},
    {"slice", "slices fill_with", 1, slice_filter},
    {"sort", "reverse case_sensitive attribute", 0, sort},
    {"sum", "attribute start", 0, sum},
    {"unique", "case_sensitive attribute", 0, unique},
};

}  // namespace

NativeTable sequence_filters() { return table; }

}  // namespace scoria::jinja
