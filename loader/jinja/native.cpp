#include "jinja/native.h"

#include "jinja/operators.h"

#include <algorithm>
#include <array>

namespace scoria::jinja {
namespace {

std::string_view next_word(std::string_view& words) {
    const size_t end = std::min(words.find(' '), words.size());
    const std::string_view word = words.substr(0, end);
    words.remove_prefix(std::min(end + 1, words.size()));
    return word;
}

const Native* find_filter(std::string_view name) {
    for (const NativeTable table :
         {text_filters(), number_filters(), sequence_filters(), selection_filters()})
        if (const Native* found = find(table, name)) return found;
    return nullptr;
}

// What would change a value; a row without function is there, and forbidden.
constexpr Native forbidden_of_lists[] = {
    {"append", any_arguments, 0, nullptr},  {"clear", any_arguments, 0, nullptr},
    {"extend", any_arguments, 0, nullptr},  {"insert", any_arguments, 0, nullptr},
    {"pop", any_arguments, 0, nullptr},     {"remove", any_arguments, 0, nullptr},
    {"reverse", any_arguments, 0, nullptr}, {"sort", any_arguments, 0, nullptr},
};
constexpr Native forbidden_of_dicts[] = {
    {"clear", any_arguments, 0, nullptr},   {"pop", any_arguments, 0, nullptr},
    {"popitem", any_arguments, 0, nullptr}, {"setdefault", any_arguments, 0, nullptr},
    {"update", any_arguments, 0, nullptr},
};

}  // namespace

Bound::Bound(Runtime& runtime, std::string_view callable, std::string_view parameters, unsigned required,
             Arguments arguments)
    : runtime_(runtime), callable_(callable) {
    if (parameters == any_arguments) {
        if (arguments.positional.size() < required)
            runtime.fail("expected at least ", required, " arguments of '", callable, "', got ",
                         arguments.positional.size());
        all_ = std::move(arguments);
        return;
    }
    for (Value& value : arguments.positional) slots_.emplace_back(std::move(value));
    size_t count = 0;
    for (std::string_view rest = parameters; !rest.empty(); ++count) {
        const std::string_view name = next_word(rest);
        if (slots_.size() <= count) slots_.resize(count + 1);
        for (auto& [given, value] : arguments.named) {
            if (given != name) continue;
            if (slots_[count]) runtime.fail("expected '", name, "' of '", callable, "' once, got it twice");
            slots_[count] = std::move(value);
            given.clear();
        }
        if (!slots_[count] && count < required)
            runtime.fail("expected the argument '", name, "' of '", callable, "', got none");
    }
    if (slots_.size() > count)
        runtime.fail("expected at most ", count, " arguments of '", callable, "', got ", slots_.size());
    for (const auto& [given, value] : arguments.named)
        if (!given.empty())
            runtime.fail("expected arguments of '", callable, "', got the unknown '", given, "'");
}

int64_t Bound::integer(size_t i, int64_t otherwise) const {
    const Value* value = (*this)[i];
    if (value == nullptr) return otherwise;
    if (!value->is_whole()) runtime_.fail("expected an int for '", callable_, "', got ", type_name(*value));
    // No count that matters is larger, and none below overflows when added to.
    constexpr Integer most = int64_t(1) << 48;
    return static_cast<int64_t>(std::clamp(value->whole(), -most, most));
}

bool Bound::flag(size_t i, bool otherwise) const {
    const Value* value = (*this)[i];
    return value == nullptr ? otherwise : is_true(*value);
}

Text Bound::text(size_t i, std::string_view otherwise) const {
    const Value* value = (*this)[i];
    if (value == nullptr) return Text(std::string(otherwise));
    if (!value->is(Kind::string))
        runtime_.fail("expected a str for '", callable_, "', got ", type_name(*value));
    return value->text();
}

const Native* find(NativeTable table, std::string_view name) {
    const auto found = std::ranges::find(table, name, &Native::name);
    return found == table.end() ? nullptr : &*found;
}

Value apply(Runtime& runtime, const Native& native, const Value& self, Arguments arguments) {
    runtime.spend(1);
    Bound bound(runtime, native.name, native.parameters, native.required, std::move(arguments));
    return native.apply(runtime, self, bound);
}

Value apply_filter(Runtime& runtime, std::string_view name, const Value& value, Arguments arguments) {
    const Native* filter = find_filter(name);
    if (filter == nullptr) runtime.fail("expected a known filter, got '", name, "'");
    return apply(runtime, *filter, value, std::move(arguments));
}

bool apply_test(Runtime& runtime, std::string_view name, const Value& value, Arguments arguments) {
    const Native* test = find(tests(), name);
    if (test == nullptr) runtime.fail("expected a known test, got '", name, "'");
    return is_true(apply(runtime, *test, value, std::move(arguments)));
}

bool has_filter(std::string_view name) { return find_filter(name) != nullptr; }
bool has_test(std::string_view name) { return find(tests(), name) != nullptr; }

const Native* find_method(const Value& value, std::string_view name) {
    const auto first_of = [&](std::initializer_list<NativeTable> tables) -> const Native* {
        for (const NativeTable table : tables)
            if (const Native* found = find(table, name)) return found;
        return nullptr;
    };
    switch (value.kind()) {
    case Kind::string:
        return first_of({case_methods(), split_methods(), string_methods()});
    case Kind::dict:
        return first_of({dict_methods(), forbidden_of_dicts});
    case Kind::list:
        if (value.list().is_view()) return nullptr;
        return value.list().kind == ListKind::list ? first_of({list_methods(), forbidden_of_lists})
                                                   : find(list_methods(), name);
    case Kind::boolean:
    case Kind::integer:
    case Kind::real:
        return find(number_methods(), name);
    default:
        return nullptr;
    }
}

}  // namespace scoria::jinja
