// What every operation of a rendering shares: its limits, where it is, and the making of values.
#pragma once

#include "fail.h"
#include "jinja/value.h"

#include <functional>
#include <span>

namespace scoria::jinja {

struct Limits {
    uint64_t steps = 50'000'000;     // a node evaluated, 64 bytes copied, an item visited: seconds at most
    uint64_t memory = 256ull << 20;  // bytes of all values alive
    uint64_t output = 64ull << 20;   // bytes rendered
    unsigned depth = 400;            // nested evaluations, about 1 KiB of stack each
};
constexpr unsigned max_value_depth = 200;  // of lists in lists

/// Seconds since 1970 of a civil time without zone, as strftime_now shows it.
using CivilSeconds = int64_t;

class Runtime {
  public:
    Runtime(const Limits& limits, CivilSeconds now) : limits_(limits), now_(now) {
        budget_.limit = limits.memory;
    }
    virtual ~Runtime() {
        for (const auto& object : kept_) object->empty();
    }
    Runtime(const Runtime&) = delete;
    Runtime& operator=(const Runtime&) = delete;

    template <class... Parts> [[noreturn]] void fail(const Parts&... parts) const {
        scoria::fail(Status::failed, "template", "line ", line_, ": ", parts...);
    }
    void spend(uint64_t steps) {
        if (steps > limits_.steps - steps_) fail("expected at most ", limits_.steps, " steps, got more");
        steps_ += steps;
    }
    /// Before `bytes` are made: they fit and their copying is paid.
    void reserve(uint64_t bytes) {
        spend(bytes / 64);
        if (budget_.live > budget_.limit || bytes > budget_.limit - budget_.live)
            fail("expected values of at most ", budget_.limit, " bytes, got more");
    }
    const Limits& limits() const { return limits_; }
    CivilSeconds now() const { return now_; }
    void set_line(uint32_t line) { line_ = line; }
    uint32_t line() const { return line_; }

    Value text(Text text, bool markup = false);
    Value text(std::string_view bytes) { return text(Text(std::string(bytes))); }
    Value list(std::vector<Value> items, ListKind kind = ListKind::list, bool group = false);
    Value tuple(std::vector<Value> items) { return list(std::move(items), ListKind::tuple); }
    /// A later value of a key takes the place of the earlier.
    Value dict(std::vector<std::pair<Value, Value>> items);
    /// What a generator yields: read once, without a length.
    Value iterator(std::vector<Value> items);
    template <class T, class... Parts> Value object(Parts&&... parts) {
        constexpr uint64_t bytes = 200;  // of most of them, with what the allocator adds
        reserve(bytes);
        auto made = std::make_shared<T>(std::forward<Parts>(parts)...);
        made->charge.emplace(budget_, bytes);
        return std::shared_ptr<Object>(std::move(made));
    }
    /// Until the end of the rendering: an object, bytes.
    void keep(std::shared_ptr<Object> object) { kept_.push_back(std::move(object)); }
    void keep(uint64_t bytes) {
        reserve(bytes);
        budget_.live += bytes;
    }
    template <class... Parts> Value undefined(const Parts&... parts) const {
        return Undefined{std::make_shared<const std::string>(cat(parts...))};
    }

    Value call(const Value& callee, Arguments arguments);
    /// `value.name`, and `value[key]`.
    Value attribute(const Value& value, std::string_view name);
    Value subscript(const Value& value, const Value& key);
    /// Visits the items in order; returns false when the visitor stops it by returning false.
    bool each(const Value& value, const std::function<bool(const Value&)>& visit);
    std::vector<Value> items(const Value& value);

  protected:
    Budget budget_;

  private:
    Limits limits_;
    CivilSeconds now_;
    uint64_t steps_ = 0;
    uint32_t line_ = 1;
    std::vector<std::shared_ptr<Object>> kept_;
};

/// A text under construction, within the limits.
class Writer {
  public:
    explicit Writer(Runtime& runtime) : runtime_(runtime) {}
    void append(std::string_view bytes, bool from_input = false) {
        grow(bytes.size());
        text_.append(bytes, from_input);
    }
    void append(const Text& text) { append(text, 0, text.size()); }
    void append(const Text& text, size_t begin, size_t end) {
        grow(end - begin);
        text_.append(text, begin, end);
    }
    void repeat(std::string_view bytes, uint64_t times) {
        if (!bytes.empty() && times > runtime_.limits().memory / bytes.size()) runtime_.reserve(UINT64_MAX);
        runtime_.reserve(bytes.size() * times);
        while (times-- > 0) append(bytes);
    }
    Text take() { return std::move(text_); }
    const Text& text() const { return text_; }

  private:
    void grow(size_t bytes) {
        runtime_.spend(bytes / 64);
        if (text_.memory() + bytes > checked_) {
            checked_ = 2 * (text_.memory() + bytes);
            runtime_.reserve(checked_);
        }
    }
    Runtime& runtime_;
    Text text_;
    size_t checked_ = 0;
};

}  // namespace scoria::jinja
