#include "jinja/operators.h"

#include "jinja/unicode.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace scoria::jinja {
namespace {

constexpr std::string_view operator_names[] = {"+", "-", "*", "/", "//", "%", "**"};

/// Fails where an operand is undefined, which says more than its type would.
void require_defined(Runtime& runtime, const Value& left, const Value& right) {
    for (const Value* value : {&left, &right})
        if (value->is(Kind::undefined)) runtime.fail("expected a value, got ", *value->undefined().reason);
}

Integer power_of(Runtime& runtime, Integer base, Integer exponent) {
    if (base == 0 || base == 1) return exponent == 0 ? 1 : base;
    if (base == -1) return exponent % 2 == 0 ? 1 : -1;
    Integer result = 1;
    for (; exponent > 0; --exponent)
        if (__builtin_mul_overflow(result, base, &result))
            runtime.fail("expected an int of 128 bits, got more");
    return result;
}

Integer floor_of(Integer left, Integer right) {
    const Integer quotient = left / right;
    return left % right != 0 && (left < 0) != (right < 0) ? quotient - 1 : quotient;
}

Value whole_arithmetic(Runtime& runtime, Operator op, Integer left, Integer right) {
    Integer result = 0;
    bool overflows = false;
    switch (op) {
    case Operator::add:
        overflows = __builtin_add_overflow(left, right, &result);
        break;
    case Operator::subtract:
        overflows = __builtin_sub_overflow(left, right, &result);
        break;
    case Operator::multiply:
        overflows = __builtin_mul_overflow(left, right, &result);
        break;
    case Operator::power:
        if (right < 0) return std::pow(static_cast<double>(left), static_cast<double>(right));
        return power_of(runtime, left, right);
    default:
        if (right == 0) runtime.fail("expected a divisor other than 0, got 0");
        if (op == Operator::divide) return static_cast<double>(left) / static_cast<double>(right);
        // The smallest integer divided by -1 is the one quotient that overflows.
        overflows = right == -1 && __builtin_sub_overflow(Integer(0), left, &result);
        if (!overflows && op == Operator::floor_divide) result = floor_of(left, right);
        if (!overflows && op == Operator::modulo)
            result = right == -1 ? 0 : left - floor_of(left, right) * right;
    }
    if (overflows) runtime.fail("expected an int of 128 bits, got more");
    return result;
}

Value real_arithmetic(Runtime& runtime, Operator op, double left, double right) {
    switch (op) {
    case Operator::add:
        return left + right;
    case Operator::subtract:
        return left - right;
    case Operator::multiply:
        return left * right;
    case Operator::power:
        return std::pow(left, right);
    default:
        if (right == 0) runtime.fail("expected a divisor other than 0, got 0");
        if (op == Operator::divide) return left / right;
        double rest = std::fmod(left, right);
        if (rest == 0)
            rest = std::copysign(0.0, right);
        else if ((rest < 0) != (right < 0))
            rest += right;
        if (op == Operator::modulo) return rest;
        return std::floor((left - rest) / right + 0.5);
    }
}

Value join_texts(Runtime& runtime, const Str& left, const Str& right) {
    Writer out(runtime);
    const bool markup = left.markup || right.markup;
    out.append(markup && !left.markup ? escape_html(runtime, left.text) : left.text);
    out.append(markup && !right.markup ? escape_html(runtime, right.text) : right.text);
    return runtime.text(out.take(), markup);
}

Value join_lists(Runtime& runtime, const List& left, const List& right) {
    runtime.reserve((left.items.size() + right.items.size()) * sizeof(Value));
    runtime.spend(left.items.size() + right.items.size());
    std::vector<Value> items = left.items;
    items.insert(items.end(), right.items.begin(), right.items.end());
    return runtime.list(std::move(items), left.kind);
}

Value repeat(Runtime& runtime, const Value& value, Integer times) {
    const uint64_t size =
        value.is(Kind::string) ? value.text().memory() : value.list().items.size() * sizeof(Value);
    if (times < 0 || size == 0) times = 0;
    if (times > runtime.limits().memory) times = runtime.limits().memory;  // more than fits, without overflow
    const auto count = static_cast<uint64_t>(times);
    if (count > 0 && size > UINT64_MAX / count) runtime.reserve(UINT64_MAX);
    runtime.reserve(size * count);
    runtime.spend(count);
    if (value.is(Kind::string)) {
        Writer out(runtime);
        for (uint64_t i = 0; i < count; ++i) out.append(value.text());
        return runtime.text(out.take(), value.str().markup);
    }
    std::vector<Value> items;
    for (uint64_t i = 0; i < count; ++i)
        items.insert(items.end(), value.list().items.begin(), value.list().items.end());
    return runtime.list(std::move(items), value.list().kind);
}

bool is_repeatable(const Value& value) {
    return value.is(Kind::string) || (value.is(Kind::list) && value.list().kind <= ListKind::tuple);
}

bool equal_lists(Runtime& runtime, const std::vector<Value>& left, const std::vector<Value>& right) {
    if (left.size() != right.size()) return false;
    for (size_t i = 0; i < left.size(); ++i)
        if (!equal(runtime, left[i], right[i])) return false;
    return true;
}

bool equal_dicts(Runtime& runtime, const Dict& left, const Dict& right) {
    if (left.items.size() != right.items.size()) return false;
    for (const auto& [key, value] : left.items) {
        const Value* other = right.get(key);
        if (other == nullptr || !equal(runtime, value, *other)) return false;
    }
    return true;
}

}  // namespace

Value arithmetic(Runtime& runtime, Operator op, const Value& left, const Value& right) {
    runtime.spend(1);
    if (left.is_whole() && right.is_whole())
        return whole_arithmetic(runtime, op, left.whole(), right.whole());
    if (left.is_number() && right.is_number())
        return real_arithmetic(runtime, op, left.number(), right.number());
    if (op == Operator::modulo && left.is(Kind::string))
        return runtime.text(percent_format(runtime, left.text(), right), left.str().markup);
    require_defined(runtime, left, right);
    if (op == Operator::add) {
        if (left.is(Kind::string) && right.is(Kind::string))
            return join_texts(runtime, left.str(), right.str());
        if (is_repeatable(left) && right.is(Kind::list) && left.is(Kind::list) &&
            left.list().kind == right.list().kind)
            return join_lists(runtime, left.list(), right.list());
    }
    if (op == Operator::multiply) {
        if (is_repeatable(left) && right.is_whole()) return repeat(runtime, left, right.whole());
        if (is_repeatable(right) && left.is_whole()) return repeat(runtime, right, left.whole());
    }
    runtime.fail("expected operands that '", operator_names[static_cast<size_t>(op)], "' takes, got ",
                 type_name(left), " and ", type_name(right));
}

Value negate(Runtime& runtime, const Value& value) {
    if (value.is(Kind::real)) return -value.number();
    if (value.is_whole()) return whole_arithmetic(runtime, Operator::subtract, 0, value.whole());
    require_defined(runtime, value, value);
    runtime.fail("expected a number to negate, got ", type_name(value));
}

bool equal(Runtime& runtime, const Value& left, const Value& right) {
    runtime.spend(1);
    if (left.is_whole() && right.is_whole()) return left.whole() == right.whole();
    if (left.is_number() && right.is_number()) return left.number() == right.number();
    if (left.kind() != right.kind()) return false;
    switch (left.kind()) {
    case Kind::string:
        runtime.spend(std::min(left.text().size(), right.text().size()) / 64);
        return left.text().bytes() == right.text().bytes();
    case Kind::list:
        return left.list().kind == right.list().kind &&
               equal_lists(runtime, left.list().items, right.list().items);
    case Kind::dict:
        return equal_dicts(runtime, left.dict(), right.dict());
    case Kind::object:
        return &left.object() == &right.object();
    default:  // None, undefined
        return true;
    }
}

bool less(Runtime& runtime, const Value& left, const Value& right) {
    runtime.spend(1);
    if (left.is_whole() && right.is_whole()) return left.whole() < right.whole();
    if (left.is_number() && right.is_number()) return left.number() < right.number();
    if (left.is(Kind::string) && right.is(Kind::string)) {
        runtime.spend(std::min(left.text().size(), right.text().size()) / 64);
        // Bytes of UTF-8 order as their code points do; char_traits<char> compares them unsigned.
        return left.text().bytes() < right.text().bytes();
    }
    if (left.is(Kind::list) && right.is(Kind::list) && left.list().kind == right.list().kind &&
        left.list().kind <= ListKind::tuple) {
        const std::vector<Value>&a = left.list().items, &b = right.list().items;
        for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
            if (!equal(runtime, a[i], b[i])) return less(runtime, a[i], b[i]);
        return a.size() < b.size();
    }
    require_defined(runtime, left, right);
    runtime.fail("expected values that can be ordered, got ", type_name(left), " and ", type_name(right));
}

bool contains(Runtime& runtime, const Value& container, const Value& item) {
    if (container.is(Kind::string)) {
        require_defined(runtime, item, item);
        if (!item.is(Kind::string))
            runtime.fail("expected a str to look for in a str, got ", type_name(item));
        return search(runtime, container.text().bytes(), item.text().bytes()) != std::string::npos;
    }
    if (container.is(Kind::dict)) {
        runtime.spend(item.is(Kind::string) ? 1 + item.text().size() / 16 : 1);
        if (!key_of(item) && !item.is(Kind::undefined) && !item.is(Kind::object))
            runtime.fail("expected a key that can be hashed, got ", type_name(item));
        return container.dict().get(item) != nullptr;
    }
    return !runtime.each(container, [&](const Value& other) { return !equal(runtime, item, other); });
}

bool compare(Runtime& runtime, Comparison op, const Value& left, const Value& right) {
    switch (op) {
    case Comparison::equal:
        return equal(runtime, left, right);
    case Comparison::not_equal:
        return !equal(runtime, left, right);
    case Comparison::less:
        return less(runtime, left, right);
    case Comparison::greater:
        return less(runtime, right, left);
    case Comparison::less_equal:
        return less(runtime, left, right) || equal(runtime, left, right);
    case Comparison::greater_equal:
        return less(runtime, right, left) || equal(runtime, left, right);
    case Comparison::in:
        return contains(runtime, right, left);
    case Comparison::not_in:
        return !contains(runtime, right, left);
    }
    return false;
}

size_t search(Runtime& runtime, std::string_view text, std::string_view needle, size_t from) {
    if (needle.empty()) return from <= text.size() ? from : std::string::npos;
    while (from + needle.size() <= text.size()) {
        const char* start = text.data() + from;
        const void* found = std::memchr(start, needle.front(), text.size() - needle.size() - from + 1);
        runtime.spend(1 + (found ? static_cast<const char*>(found) - start : text.size() - from) / 64);
        if (found == nullptr) break;
        from = static_cast<size_t>(static_cast<const char*>(found) - text.data());
        const auto differs = std::ranges::mismatch(needle, text.substr(from)).in1;
        if (differs == needle.end()) return from;
        runtime.spend(static_cast<size_t>(differs - needle.begin()) / 16);
        ++from;
    }
    return std::string::npos;
}

size_t length_of(const Str& str) { return str.ascii ? str.text.size() : count_codes(str.text.bytes()); }

size_t byte_of(const Str& str, size_t index) {
    if (str.ascii) return std::min(index, str.text.size());
    size_t at = 0;
    while (index-- > 0 && at < str.text.size()) next_code(str.text.bytes(), at);
    return at;
}

namespace {

/// A bound of a slice as a position in [0, length], or [-1, length - 1] for backward steps.
Integer slice_bound(Runtime& runtime, const Value* bound, Integer length, bool backward, Integer otherwise) {
    if (bound == nullptr || bound->is(Kind::none)) return otherwise;
    if (!bound->is_whole()) runtime.fail("expected an int or None in a slice, got ", type_name(*bound));
    Integer at = bound->whole();
    if (at < 0) at = std::max<Integer>(at, -length - 1) + length;
    return std::clamp<Integer>(at, backward ? -1 : 0, backward ? length - 1 : length);
}

}  // namespace

Value slice(Runtime& runtime, const Value& value, const Value* from, const Value* to, const Value* step) {
    require_defined(runtime, value, value);
    const bool is_text = value.is(Kind::string);
    if (!is_text && (!value.is(Kind::list) || value.list().is_view()))
        runtime.fail("expected a str or a list to slice, got ", type_name(value));
    const auto length = static_cast<Integer>(is_text ? length_of(value.str()) : value.list().items.size());
    Integer stride = 1;
    if (step != nullptr && !step->is(Kind::none)) {
        if (!step->is_whole()) runtime.fail("expected an int or None in a slice, got ", type_name(*step));
        stride = std::clamp<Integer>(step->whole(), -length - 1, length + 1);
        if (step->whole() == 0) runtime.fail("expected a slice step other than 0, got 0");
    }
    const bool backward = stride < 0;
    const Integer begin = slice_bound(runtime, from, length, backward, backward ? length - 1 : 0);
    const Integer end = slice_bound(runtime, to, length, backward, backward ? -1 : length);
    runtime.spend(static_cast<uint64_t>(length) / 16);
    if (is_text && stride == 1) {
        const Str& str = value.str();
        const size_t first = byte_of(str, static_cast<size_t>(begin));
        const size_t last = byte_of(str, static_cast<size_t>(std::max(begin, end)));
        return runtime.text(str.text.slice(first, last), str.markup);
    }
    const std::vector<Value> all = runtime.items(value);
    std::vector<Value> picked;
    for (Integer at = begin; backward ? at > end : at < end; at += stride)
        picked.push_back(all[static_cast<size_t>(at)]);
    if (!is_text) return runtime.list(std::move(picked), value.list().kind);
    Writer out(runtime);
    for (const Value& character : picked) out.append(character.text());
    return runtime.text(out.take(), value.str().markup);
}

}  // namespace scoria::jinja
