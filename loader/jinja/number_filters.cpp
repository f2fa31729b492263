// Filters whose result is a number, and the methods of numbers.
#include "jinja/native.h"
#include "jinja/operators.h"

#include <cmath>

namespace scoria::jinja {
namespace {

void require_defined(Runtime& runtime, const Value& value) {
    if (value.is(Kind::undefined)) runtime.fail("expected a number, got ", *value.undefined().reason);
}

Value absolute(Runtime& runtime, const Value& self, Bound&) {
    if (self.is(Kind::real)) return std::abs(self.number());
    require_defined(runtime, self);
    if (!self.is_whole()) runtime.fail("expected a number for 'abs', got ", type_name(self));
    return self.whole() < 0 ? negate(runtime, self) : Value(self.whole());
}

std::optional<Integer> truncated(double value) {
    if (!(std::abs(value) < 1e38)) return std::nullopt;
    return static_cast<Integer>(value);
}

Value to_integer(Runtime& runtime, const Value& self, Bound& arguments) {
    require_defined(runtime, self);
    std::optional<Integer> value;
    if (self.is_whole()) value = self.whole();
    if (self.is(Kind::real)) value = truncated(self.number());
    if (self.is(Kind::string)) {
        value = parse_integer(self.text().bytes(), arguments.integer(1, 10));
        if (!value)
            if (const std::optional<double> real = parse_float(self.text().bytes())) value = truncated(*real);
    }
    if (value) return *value;
    return arguments[0] ? *arguments[0] : Value(Integer(0));
}

Value to_real(Runtime& runtime, const Value& self, Bound& arguments) {
    require_defined(runtime, self);
    if (self.is_number()) return self.number();
    const std::optional<double> value =
        self.is(Kind::string) ? parse_float(self.text().bytes()) : std::optional<double>();
    if (value) return *value;
    return arguments[0] ? *arguments[0] : Value(0.0);
}

Value round_filter(Runtime& runtime, const Value& self, Bound& arguments) {
    require_defined(runtime, self);
    if (!self.is_number()) runtime.fail("expected a number for 'round', got ", type_name(self));
    const int64_t digits = arguments.integer(0, 0);
    const std::string method = arguments.text(1, "common").bytes();
    if (method == "ceil" || method == "floor") {
        const double scale = std::pow(10.0, static_cast<double>(digits)), scaled = self.number() * scale;
        return (method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale;
    }
    if (method != "common") runtime.fail("expected the method common, ceil or floor, got '", method, "'");
    if (self.is_whole() && digits >= 0) return self.whole();
    const double rounded = round_to(self.number(), digits);
    return self.is_whole() ? Value(static_cast<Integer>(rounded)) : Value(rounded);
}

constexpr Native table[] = {
    {"abs", "", 0, absolute},
    {"float", "default", 0, to_real},
    {"int", "default base", 0, to_integer},
    {"round", "precision method", 0, round_filter},
};

Value is_integer(Runtime&, const Value& self, Bound&) {
    return self.is_whole() || self.number() == std::trunc(self.number());
}

constexpr Native methods[] = {{"is_integer", "", 0, is_integer}};

}  // namespace

NativeTable number_filters() { return table; }
NativeTable number_methods() { return methods; }

}  // namespace scoria::jinja
