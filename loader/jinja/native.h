// Filters, tests, methods and functions: rows of tables, with their parameters by name.
#pragma once

#include "jinja/runtime.h"

namespace scoria::jinja {

/// Arguments laid out by a row's parameters.
class Bound {
  public:
    Bound(Runtime& runtime, std::string_view callable, std::string_view parameters, unsigned required,
          Arguments arguments);

    /// The i-th parameter's argument, or null.
    const Value* operator[](size_t i) const { return i < slots_.size() && slots_[i] ? &*slots_[i] : nullptr; }
    const Value& at(size_t i) const { return *slots_[i]; }  // of a required one
    // Arguments of a kind, or what stands for an absent one; fail on another kind.
    int64_t integer(size_t i, int64_t otherwise) const;
    bool flag(size_t i, bool otherwise) const;
    Text text(size_t i, std::string_view otherwise = {}) const;
    /// Whether the argument is there and not None.
    bool given(size_t i) const { return (*this)[i] != nullptr && !(*this)[i]->is(Kind::none); }
    /// All arguments, of a row that takes any.
    Arguments& all() { return all_; }

  private:
    Runtime& runtime_;
    std::string_view callable_;
    std::vector<std::optional<Value>> slots_;
    Arguments all_;
};

constexpr std::string_view any_arguments = "*";

struct Native {
    std::string_view name;
    std::string_view parameters;  // separated by spaces, or any_arguments
    unsigned required;            // how many of them
    Value (*apply)(Runtime& runtime, const Value& self, Bound& arguments);
};

using NativeTable = std::span<const Native>;
NativeTable text_filters();
NativeTable number_filters();
NativeTable sequence_filters();
NativeTable selection_filters();
NativeTable tests();
NativeTable functions();
NativeTable case_methods();
NativeTable split_methods();
NativeTable string_methods();
NativeTable dict_methods();
NativeTable list_methods();
NativeTable number_methods();

const Native* find(NativeTable table, std::string_view name);
Value apply(Runtime& runtime, const Native& native, const Value& self, Arguments arguments);
/// By name; fail where there is none.
Value apply_filter(Runtime& runtime, std::string_view name, const Value& value, Arguments arguments);
bool apply_test(Runtime& runtime, std::string_view name, const Value& value, Arguments arguments);
bool has_filter(std::string_view name);
bool has_test(std::string_view name);
/// The methods of a kind of value.
const Native* find_method(const Value& value, std::string_view name);

/// A function of the table, or a method with the value it is of.
class NativeCall final : public Object {
  public:
    NativeCall(const Native& native, Value self) : native_(native), self_(std::move(self)) {}
    std::string_view type() const override { return "builtin_function_or_method"; }
    bool callable() const override { return true; }
    Value call(Runtime& runtime, Arguments arguments) override {
        return apply(runtime, native_, self_, std::move(arguments));
    }

  private:
    const Native& native_;
    Value self_;
};

/// A mutable set of attributes, the only value that can change. The runtime keeps all of them to its end and
/// empties them then, so that neither cycles nor long chains of them matter.
class Namespace final : public Object {
  public:
    std::string_view type() const override { return "namespace"; }
    std::optional<Value> attribute(Runtime&, std::string_view name) override {
        const auto found = values_.find(name);
        return found == values_.end() ? std::nullopt : std::optional(found->second);
    }
    void set(Runtime& runtime, std::string_view name, Value value) {
        if (values_.insert_or_assign(std::string(name), std::move(value)).second)
            runtime.keep(128 + name.size());
    }
    void empty() override { values_.clear(); }

  private:
    std::map<std::string, Value, std::less<>> values_;
};

}  // namespace scoria::jinja
