// Filters that apply another filter or a test to each item.
#include "jinja/operators.h"
#include "jinja/selection.h"

#include <algorithm>

namespace scoria::jinja {
namespace {

std::string take_name(Runtime& runtime, Arguments& given, std::string_view what) {
    if (!given.positional[0].is(Kind::string))
        runtime.fail("expected the name of a ", what, ", got ", type_name(given.positional[0]));
    std::string name = given.positional[0].text().bytes();
    given.positional.erase(given.positional.begin());
    return name;
}

// What is false (None, 0, an empty string) counts as empty here.
Value map(Runtime& runtime, const Value& self, Bound& arguments) {
    if (!is_true(self)) return runtime.iterator({});
    Arguments given = std::move(arguments.all());
    std::vector<Value> out;
    const auto add = [&](Value value) {
        if (out.size() == out.capacity()) runtime.reserve(2 * out.size() * sizeof(Value));
        out.push_back(std::move(value));
        return true;
    };
    if (!given.positional.empty()) {
        const std::string name = take_name(runtime, given, "filter");
        runtime.each(self, [&](const Value& item) { return add(apply_filter(runtime, name, item, given)); });
        return runtime.iterator(std::move(out));
    }
    const Bound named(runtime, "map", "attribute default", 1, std::move(given));
    runtime.each(self,
                 [&](const Value& item) { return add(attribute_of(runtime, item, named.at(0), named[1])); });
    return runtime.iterator(std::move(out));
}

/// select, reject, selectattr and rejectattr: by a test of the items or of an attribute of theirs.
template <bool wanted, bool by_attribute>
Value choose(Runtime& runtime, const Value& self, Bound& arguments) {
    if (!is_true(self)) return runtime.iterator({});
    Arguments given = std::move(arguments.all());
    std::optional<Value> path;
    if (by_attribute) {
        path = given.positional.front();
        given.positional.erase(given.positional.begin());
    }
    const std::string test = given.positional.empty() ? "" : take_name(runtime, given, "test");
    std::vector<Value> out;
    runtime.each(self, [&](const Value& item) {
        const Value value = path ? attribute_of(runtime, item, *path) : item;
        const bool holds = test.empty() ? is_true(value) : apply_test(runtime, test, value, given);
        if (out.size() == out.capacity()) runtime.reserve(2 * out.size() * sizeof(Value));
        if (holds == wanted) out.push_back(item);
        return true;
    });
    return runtime.iterator(std::move(out));
}

constexpr Native table[] = {
    {"map", any_arguments, 0, map},
    {"reject", any_arguments, 0, choose<false, false>},
    {"rejectattr", any_arguments, 1, choose<false, true>},
    {"select", any_arguments, 0, choose<true, false>},
    {"selectattr", any_arguments, 1, choose<true, true>},
};

}  // namespace

NativeTable selection_filters() { return table; }

}  // namespace scoria::jinja
