// Values of a template: Python's None, bool, int, float, str, list, tuple and dict, Jinja's undefined, and
// objects (methods, macros, loops, namespaces). All but objects are immutable, so no value holds itself.
#pragma once

#include "jinja/text.h"

#include <concepts>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace scoria::jinja {

__extension__ typedef __int128 Integer;  // Python's have no limit; JSON's reach 64 unsigned bits

/// Bytes that the values of one rendering hold. It outlives them.
struct Budget {
    uint64_t live = 0, limit = 0;
};
/// A value's share of the budget.
class Charge {
  public:
    Charge(Budget& budget, uint64_t bytes) : budget_(&budget), bytes_(bytes) { budget.live += bytes; }
    ~Charge() { budget_->live -= bytes_; }
    Charge(const Charge&) = delete;
    Charge& operator=(const Charge&) = delete;

  private:
    Budget* budget_;
    uint64_t bytes_;
};

struct Str;
struct List;
struct Dict;
class Object;

struct Undefined {
    std::shared_ptr<const std::string> reason;  // what to say when it is used
};
struct None {};

/// In the order of Value's alternatives.
enum class Kind : uint8_t { undefined, none, boolean, integer, real, string, list, dict, object };

class Value {
  public:
    Value() = default;
    template <class T>
    requires(!std::same_as<T, Value>) Value(T part) : part_(std::move(part)) {}

    Kind kind() const { return static_cast<Kind>(part_.index()); }
    bool is(Kind wanted) const { return kind() == wanted; }
    bool is_number() const { return kind() >= Kind::boolean && kind() <= Kind::real; }
    bool is_whole() const { return is(Kind::boolean) || is(Kind::integer); }

    // Each requires its kind; whole() takes a boolean too, number() any number.
    const Undefined& undefined() const { return std::get<Undefined>(part_); }
    bool boolean() const { return std::get<bool>(part_); }
    Integer whole() const { return is(Kind::boolean) ? Integer(boolean()) : std::get<Integer>(part_); }
    double number() const { return is(Kind::real) ? std::get<double>(part_) : static_cast<double>(whole()); }
    const Str& str() const { return *std::get<std::shared_ptr<const Str>>(part_); }
    const Text& text() const;
    const List& list() const { return *std::get<std::shared_ptr<const List>>(part_); }
    const Dict& dict() const { return *std::get<std::shared_ptr<const Dict>>(part_); }
    Object& object() const { return *std::get<std::shared_ptr<Object>>(part_); }

  private:
    std::variant<Undefined, None, bool, Integer, double, std::shared_ptr<const Str>,
                 std::shared_ptr<const List>, std::shared_ptr<const Dict>, std::shared_ptr<Object>>
        part_;
};

struct Str {
    Text text;
    bool ascii;   // characters are bytes
    bool markup;  // passed through `safe` or `escape`: what is added to it is escaped
    Charge charge;
};
inline const Text& Value::text() const { return str().text; }

enum class ListKind : uint8_t { list, tuple, range, keys, values, items };  // the last three: views of a dict
struct List {
    std::vector<Value> items;
    ListKind kind;
    uint16_t depth;  // 1: nothing nested
    Charge charge;
    bool group = false;  // of groupby: a tuple of two, which are .grouper and .list, too
    bool is_view() const { return kind >= ListKind::keys; }
};

struct Dict {
    std::vector<std::pair<Value, Value>> items;  // in the order of insertion
    std::map<std::string, size_t, std::less<>> index;
    uint16_t depth;
    Charge charge;
    const Value* find(std::string_view key) const;
    const Value* get(const Value& key) const;  // null too where a key cannot be of that kind
};
/// What a dict finds a key by, which is equal for equal values; nothing if the value cannot be a key.
std::optional<std::string> key_of(const Value& value);

class Runtime;
struct Arguments {
    std::vector<Value> positional;
    std::vector<std::pair<std::string, Value>> named;
};

class Object : public std::enable_shared_from_this<Object> {
  public:
    Object() = default;
    virtual ~Object() = default;
    Object(const Object&) = delete;
    Object& operator=(const Object&) = delete;
    virtual std::string_view type() const = 0;  // for messages
    virtual bool callable() const { return false; }
    virtual bool iterable() const { return false; }
    virtual Value call(Runtime& runtime, Arguments arguments);
    virtual std::optional<Value> attribute(Runtime&, std::string_view) { return std::nullopt; }
    /// The next item of an iterable.
    virtual std::optional<Value> next(Runtime&) { return std::nullopt; }
    virtual void empty() {}  // drops what it holds
    std::optional<Charge> charge;
};

std::string_view type_name(const Value& value);  // as Python names it
bool is_true(const Value& value);

}  // namespace scoria::jinja
