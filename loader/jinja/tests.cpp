// Tests: what follows `is`.
#include "jinja/native.h"
#include "jinja/operators.h"
#include "jinja/unicode.h"

#include <cmath>

namespace scoria::jinja {
namespace {

template <Kind... kinds> Value is_kind(Runtime&, const Value& self, Bound&) {
    return (self.is(kinds) || ...);
}

template <Comparison op> Value compared(Runtime& runtime, const Value& self, Bound& arguments) {
    return compare(runtime, op, self, arguments.at(0));
}

Value defined(Runtime&, const Value& self, Bound&) { return !self.is(Kind::undefined); }
Value is_callable(Runtime&, const Value& self, Bound&) {
    // An undefined value has the methods of all others, which fail when they are called.
    return self.is(Kind::undefined) || (self.is(Kind::object) && self.object().callable());
}
Value truth(Runtime&, const Value& self, Bound&) { return self.is(Kind::boolean) && self.boolean(); }
Value falsehood(Runtime&, const Value& self, Bound&) { return self.is(Kind::boolean) && !self.boolean(); }
Value escaped(Runtime&, const Value& self, Bound&) { return self.is(Kind::string) && self.str().markup; }

Value iterable(Runtime&, const Value& self, Bound&) {
    return self.is(Kind::undefined) || (self.is(Kind::object) && self.object().iterable()) ||
           self.is(Kind::string) || self.is(Kind::list) || self.is(Kind::dict);
}

Value sequence(Runtime&, const Value& self, Bound&) {
    return self.is(Kind::undefined) || self.is(Kind::string) || self.is(Kind::dict) ||
           (self.is(Kind::list) && !self.list().is_view());
}

template <Property property> Value has_case(Runtime& runtime, const Value& self, Bound&) {
    const Text text = to_text(runtime, self);
    constexpr Property other = property == Property::upper ? Property::lower : Property::upper;
    bool any = false;
    for (size_t at = 0; at < text.size();) {
        const char32_t code = next_code(text.bytes(), at);
        if (has(other, code) || has(Property::title, code)) return false;
        any |= has(property, code);
    }
    return any;
}

bool divides(Runtime& runtime, const Value& value, const Value& by) {
    const Value rest = arithmetic(runtime, Operator::modulo, value, by);
    return rest.is_number() && rest.number() == 0;
}

Value divisible(Runtime& runtime, const Value& self, Bound& arguments) {
    return divides(runtime, self, arguments.at(0));
}
Value even(Runtime& runtime, const Value& self, Bound&) { return divides(runtime, self, Integer(2)); }
Value odd(Runtime& runtime, const Value& self, Bound&) {
    const Value rest = arithmetic(runtime, Operator::modulo, self, Integer(2));
    return rest.is_number() && rest.number() == 1;
}

Value same_as(Runtime& runtime, const Value& self, Bound& arguments) {
    const Value& other = arguments.at(0);
    if (self.kind() != other.kind()) return false;
    if (self.is(Kind::list)) return &self.list() == &other.list();
    if (self.is(Kind::dict)) return &self.dict() == &other.dict();
    return equal(runtime, self, other);
}

Value is_in(Runtime& runtime, const Value& self, Bound& arguments) {
    return contains(runtime, arguments.at(0), self);
}
Value names_filter(Runtime&, const Value& self, Bound&) {
    return self.is(Kind::string) && has_filter(self.text().bytes());
}
Value names_test(Runtime&, const Value& self, Bound&) {
    return self.is(Kind::string) && has_test(self.text().bytes());
}

constexpr Native table[] = {
    {"!=", "other", 1, compared<Comparison::not_equal>},
    {"<", "other", 1, compared<Comparison::less>},
    {"<=", "other", 1, compared<Comparison::less_equal>},
    {"==", "other", 1, compared<Comparison::equal>},
    {">", "other", 1, compared<Comparison::greater>},
    {">=", "other", 1, compared<Comparison::greater_equal>},
    {"boolean", "", 0, is_kind<Kind::boolean>},
    {"callable", "", 0, is_callable},
    {"defined", "", 0, defined},
    {"divisibleby", "num", 1, divisible},
    {"eq", "other", 1, compared<Comparison::equal>},
    {"equalto", "other", 1, compared<Comparison::equal>},
    {"escaped", "", 0, escaped},
    {"even", "", 0, even},
    {"false", "", 0, falsehood},
    {"filter", "", 0, names_filter},
    {"float", "", 0, is_kind<Kind::real>},
    {"ge", "other", 1, compared<Comparison::greater_equal>},
    {"greaterthan", "other", 1, compared<Comparison::greater>},
    {"gt", "other", 1, compared<Comparison::greater>},
    {"in", "seq", 1, is_in},
    {"integer", "", 0, is_kind<Kind::integer>},
    {"iterable", "", 0, iterable},
    {"le", "other", 1, compared<Comparison::less_equal>},
    {"lessthan", "other", 1, compared<Comparison::less>},
    {"lower", "", 0, has_case<Property::lower>},
    {"lt", "other", 1, compared<Comparison::less>},
    {"mapping", "", 0, is_kind<Kind::dict>},
    {"ne", "other", 1, compared<Comparison::not_equal>},
    {"none", "", 0, is_kind<Kind::none>},
    {"number", "", 0, is_kind<Kind::boolean, Kind::integer, Kind::real>},
    {"odd", "", 0, odd},
    {"sameas", "other", 1, same_as},
    {"sequence", "", 0, sequence},
    {"string", "", 0, is_kind<Kind::string>},
    {"test", "", 0, names_test},
    {"true", "", 0, truth},
    {"undefined", "", 0, is_kind<Kind::undefined>},
    {"upper", "", 0, has_case<Property::upper>},
};

}  // namespace

NativeTable tests() { return table; }

}  // namespace scoria::jinja
