#include "jinja/runtime.h"

#include "jinja/native.h"
#include "jinja/operators.h"
#include "jinja/unicode.h"

#include <algorithm>

namespace scoria::jinja {
namespace {

class Iterator final : public Object {
  public:
    Iterator(std::vector<Value> items, Budget& budget)
        : items_(std::move(items)), items_charge_(budget, items_.size() * sizeof(Value)) {}
    std::string_view type() const override { return "generator"; }
    bool iterable() const override { return true; }
    std::optional<Value> next(Runtime&) override {
        if (at_ == items_.size()) return std::nullopt;
        return items_[at_++];
    }

  private:
    std::vector<Value> items_;
    size_t at_ = 0;
    Charge items_charge_;
};

unsigned depth_of(const Value& value) {
    if (value.is(Kind::list)) return value.list().depth;
    if (value.is(Kind::dict)) return value.dict().depth;
    return 0;
}

}  // namespace

Value Runtime::text(Text text, bool markup) {
    const uint64_t bytes = sizeof(Str) + text.memory();
    reserve(bytes);
    const bool ascii = is_ascii(text.bytes());
    return std::shared_ptr<const Str>(new Str{std::move(text), ascii, markup, Charge(budget_, bytes)});
}

Value Runtime::list(std::vector<Value> items, ListKind kind, bool group) {
    const uint64_t bytes = sizeof(List) + items.capacity() * sizeof(Value);
    reserve(bytes);
    unsigned depth = 0;
    for (const Value& item : items) depth = std::max(depth, depth_of(item));
    if (depth >= max_value_depth) fail("expected at most ", max_value_depth, " nested lists, got more");
    return std::shared_ptr<const List>(
        new List{std::move(items), kind, static_cast<uint16_t>(depth + 1), Charge(budget_, bytes), group});
}

Value Runtime::dict(std::vector<std::pair<Value, Value>> items) {
    constexpr uint64_t node_bytes = 96;  // of the index
    std::vector<std::pair<Value, Value>> kept;
    kept.reserve(items.size());
    std::map<std::string, size_t, std::less<>> index;
    unsigned depth = 0;
    uint64_t bytes = sizeof(Dict) + items.size() * (sizeof(items[0]) + node_bytes);
    reserve(bytes);
    for (auto& [key, value] : items) {
        std::optional<std::string> name = key_of(key);
        if (!name) fail("expected a key that can be hashed, got ", type_name(key));
        bytes += name->size();
        spend(1 + name->size() / 16);
        depth = std::max({depth, depth_of(key), depth_of(value)});
        const auto [place, fresh] = index.emplace(std::move(*name), kept.size());
        if (fresh)
            kept.emplace_back(std::move(key), std::move(value));
        else
            kept[place->second].second = std::move(value);
    }
    reserve(bytes);
    if (depth >= max_value_depth) fail("expected at most ", max_value_depth, " nested dicts, got more");
    return std::shared_ptr<const Dict>(new Dict{std::move(kept), std::move(index),
                                                static_cast<uint16_t>(depth + 1), Charge(budget_, bytes)});
}

Value Runtime::iterator(std::vector<Value> items) {
    reserve(items.size() * sizeof(Value));
    return object<Iterator>(std::move(items), budget_);
}

Value Runtime::call(const Value& callee, Arguments arguments) {
    spend(1);
    if (callee.is(Kind::object)) return callee.object().call(*this, std::move(arguments));
    if (callee.is(Kind::undefined)) fail("expected something to call, got ", *callee.undefined().reason);
    fail("expected something to call, got ", type_name(callee));
}

Value Runtime::attribute(const Value& value, std::string_view name) {
    if (value.is(Kind::undefined))
        fail("expected a value with '", name, "', got ", *value.undefined().reason);
    if (value.is(Kind::object)) {
        if (std::optional<Value> found = value.object().attribute(*this, name)) return *found;
    } else if (const Native* method = find_method(value, name)) {
        // Lists and dicts are immutable here, as in the sandbox that templates are made for.
        if (method->apply == nullptr)
            return undefined("the forbidden attribute '", name, "' of ", type_name(value));
        return object<NativeCall>(*method, value);
    }
    if (value.is(Kind::dict))
        if (const Value* found = value.dict().find(name)) return *found;
    if (value.is(Kind::list) && value.list().group && (name == "grouper" || name == "list"))
        return value.list().items[name == "list"];
    return undefined("the undefined attribute '", name, "' of ", type_name(value));
}

Value Runtime::subscript(const Value& value, const Value& key) {
    if (value.is(Kind::undefined)) fail("expected a value to index, got ", *value.undefined().reason);
    if (key.is(Kind::string)) spend(key.text().size() / 16);
    if (value.is(Kind::dict)) {
        if (const Value* found = value.dict().get(key)) return *found;
    } else if (key.is_whole() &&
               (value.is(Kind::string) || (value.is(Kind::list) && !value.list().is_view()))) {
        const auto length =
            static_cast<Integer>(value.is(Kind::list) ? value.list().items.size() : length_of(value.str()));
        const Integer index = key.whole() < 0 ? key.whole() + length : key.whole();
        if (index >= 0 && index < length) {
            const auto at = static_cast<size_t>(index);
            if (value.is(Kind::list)) return value.list().items[at];
            spend(value.str().ascii ? 0 : at / 64);
            return text(value.text().slice(byte_of(value.str(), at), byte_of(value.str(), at + 1)));
        }
    }
    if (key.is(Kind::string)) return attribute(value, key.text().bytes());
    return undefined("the undefined element ", to_text(*this, key).bytes(), " of ", type_name(value));
}

bool Runtime::each(const Value& value, const std::function<bool(const Value&)>& visit) {
    const auto visit_paid = [&](const Value& item) {
        spend(1);
        return visit(item);
    };
    switch (value.kind()) {
    case Kind::undefined:
        return true;
    case Kind::list:
        return std::ranges::all_of(value.list().items, visit_paid);
    case Kind::dict:
        return std::ranges::all_of(value.dict().items,
                                   [&](const auto& item) { return visit_paid(item.first); });
    case Kind::string: {
        const Text& from = value.text();
        for (size_t at = 0; at < from.size();) {
            const size_t begin = at;
            next_code(from.bytes(), at);
            if (!visit_paid(text(from.slice(begin, at)))) return false;
        }
        return true;
    }
    case Kind::object:
        if (value.object().iterable()) {
            while (const std::optional<Value> item = value.object().next(*this))
                if (!visit_paid(*item)) return false;
            return true;
        }
        [[fallthrough]];
    default:
        fail("expected something to iterate over, got ", type_name(value));
    }
}

std::vector<Value> Runtime::items(const Value& value) {
    std::vector<Value> all;
    each(value, [&](const Value& item) {
        if (all.size() == all.capacity()) reserve(2 * all.size() * sizeof(Value));
        all.push_back(item);
        return true;
    });
    return all;
}

}  // namespace scoria::jinja
