// Walks the syntax tree: expressions to values, statements to text.
#pragma once

#include "jinja/native.h"
#include "jinja/syntax.h"

#include <map>

namespace scoria::jinja {

/// Names and their values; those of a loop's body end with each round. Lives on the stack of C++.
class Scope {
  public:
    Scope(class Evaluator& evaluator, Scope* parent);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    void set(std::string_view name, Value value) {
        values_.insert_or_assign(std::string(name), std::move(value));
    }
    const Value* find(std::string_view name) const;
    uint64_t serial() const { return serial_; }
    size_t level() const { return level_; }

  private:
    Evaluator& evaluator_;
    Scope* parent_;
    uint64_t serial_;  // of all scopes ever
    size_t level_;     // among those alive
    std::map<std::string, Value, std::less<>> values_;
};

/// How a scope is kept by what may outlive it.
struct ScopeReference {
    Scope* scope;
    uint64_t serial;
    size_t level;
};

class Evaluator final : public Runtime {
  public:
    Evaluator(const Limits& limits, CivilSeconds now) : Runtime(limits, now) {}

    Text render(const Body& body, const std::vector<std::pair<std::string, Value>>& variables);

    Value evaluate(const Expression& expression, Scope& scope);
    enum class Flow : uint8_t { on, leave_round, leave_loop };
    Flow execute(const Body& body, Scope& scope, Writer& out);
    Flow run_loop(const For& loop, const Value& items, Scope& scope, Writer& out, unsigned depth);
    /// What a body writes, in a scope of its own.
    Text capture(const Body& body, Scope& scope);
    Value call_macro(const Macro& macro, Scope& defined_in, Arguments arguments);
    void assign(const Target& target, const Value& value, Scope& scope);

    /// The scope, if it still lives; fails otherwise.
    Scope& resolve(const ScopeReference& reference);
    static ScopeReference refer(Scope& scope) { return {&scope, scope.serial(), scope.level()}; }

    // An expression's kinds.
    Value value_of(const Literal& node, Scope& scope);
    Value value_of(const Name& node, Scope& scope);
    Value value_of(const ListDisplay& node, Scope& scope);
    Value value_of(const DictDisplay& node, Scope& scope);
    Value value_of(const Unary& node, Scope& scope);
    Value value_of(const Binary& node, Scope& scope);
    Value value_of(const Logic& node, Scope& scope);
    Value value_of(const Comparisons& node, Scope& scope);
    Value value_of(const Concatenation& node, Scope& scope);
    Value value_of(const Conditional& node, Scope& scope);
    Value value_of(const Attribute& node, Scope& scope);
    Value value_of(const Subscript& node, Scope& scope);
    Value value_of(const Slice& node, Scope& scope);
    Value value_of(const Call& node, Scope& scope);
    Value value_of(const Filter& node, Scope& scope);
    Value value_of(const Test& node, Scope& scope);

    // A statement's kinds.
    Flow run(const Data& node, Scope& scope, Writer& out);
    Flow run(const Output& node, Scope& scope, Writer& out);
    Flow run(const If& node, Scope& scope, Writer& out);
    Flow run(const For& node, Scope& scope, Writer& out);
    Flow run(const Set& node, Scope& scope, Writer& out);
    Flow run(const SetBlock& node, Scope& scope, Writer& out);
    Flow run(const MacroBlock& node, Scope& scope, Writer& out);
    Flow run(const CallBlock& node, Scope& scope, Writer& out);
    Flow run(const FilterBlock& node, Scope& scope, Writer& out);
    Flow run(const With& node, Scope& scope, Writer& out);
    Flow run(const Break& node, Scope& scope, Writer& out);
    Flow run(const Continue& node, Scope& scope, Writer& out);

  private:
    friend class Scope;
    class Nesting;

    Arguments arguments(const CallArguments& given, Scope& scope);

    unsigned depth_ = 0;
    uint64_t scopes_made_ = 0;
    std::vector<Scope*> scopes_;          // alive, outermost first
    const Value* block_value_ = nullptr;  // what the innermost filter without operand filters
};

}  // namespace scoria::jinja
