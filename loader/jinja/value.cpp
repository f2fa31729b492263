#include "jinja/value.h"

#include "jinja/operators.h"
#include "jinja/runtime.h"

#include <cmath>

namespace scoria::jinja {

const Value* Dict::find(std::string_view key) const {
    const auto found = index.find(key);
    return found == index.end() ? nullptr : &items[found->second].second;
}

const Value* Dict::get(const Value& key) const {
    if (key.is(Kind::string)) return find(key.text().bytes());
    const std::optional<std::string> wanted = key_of(key);
    return wanted ? find(*wanted) : nullptr;
}

// Texts are valid UTF-8, so a key that begins with the byte FF is none of them.
std::optional<std::string> key_of(const Value& value) {
    switch (value.kind()) {
    case Kind::string:
        return value.text().bytes();
    case Kind::none:
        return "\xFFnone";
    case Kind::boolean:
    case Kind::integer:
        return cat("\xFF", integer_text(value.whole()));
    case Kind::real: {
        const double number = value.number();
        if (std::abs(number) < 1e18 && number == std::trunc(number))
            return cat("\xFF", integer_text(static_cast<Integer>(number)));
        return cat("\xFF", number);
    }
    case Kind::list: {
        if (value.list().kind != ListKind::tuple) return std::nullopt;
        std::string key = "\xFF(";
        for (const Value& item : value.list().items) {
            const std::optional<std::string> part = key_of(item);
            if (!part) return std::nullopt;
            key += cat(part->size(), ":", *part);
            // Tuples of tuples of the same would double with every level.
            if (key.size() > 65536) return std::nullopt;
        }
        return key;
    }
    default:
        return std::nullopt;
    }
}

Value Object::call(Runtime& runtime, Arguments) { runtime.fail("expected something to call, got ", type()); }

std::string_view type_name(const Value& value) {
    constexpr std::string_view lists[] = {"list", "tuple", "range", "dict_keys", "dict_values", "dict_items"};
    constexpr std::string_view kinds[] = {"undefined", "None", "bool", "int", "float", "str", "list", "dict"};
    if (value.is(Kind::list)) return lists[static_cast<size_t>(value.list().kind)];
    if (value.is(Kind::object)) return value.object().type();
    return kinds[static_cast<size_t>(value.kind())];
}

bool is_true(const Value& value) {
    switch (value.kind()) {
    case Kind::undefined:
    case Kind::none:
        return false;
    case Kind::boolean:
    case Kind::integer:
        return value.whole() != 0;
    case Kind::real:
        return value.number() != 0;
    case Kind::string:
        return !value.text().empty();
    case Kind::list:
        return !value.list().items.empty();
    case Kind::dict:
        return !value.dict().items.empty();
    case Kind::object:
        return true;
    }
    return true;
}

}  // namespace scoria::jinja
