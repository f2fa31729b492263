// Expressions.
#include "jinja/evaluation.h"

#include <algorithm>

namespace scoria::jinja {

Scope::Scope(Evaluator& evaluator, Scope* parent)
    : evaluator_(evaluator), parent_(parent), serial_(++evaluator.scopes_made_),
      level_(evaluator.scopes_.size()) {
    evaluator_.scopes_.push_back(this);
}

Scope::~Scope() { evaluator_.scopes_.pop_back(); }

const Value* Scope::find(std::string_view name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent_) {
        evaluator_.spend(1);
        if (const auto found = scope->values_.find(name); found != scope->values_.end())
            return &found->second;
    }
    return nullptr;
}

Scope& Evaluator::resolve(const ScopeReference& reference) {
    if (reference.level >= scopes_.size() || scopes_[reference.level]->serial() != reference.serial)
        fail("expected a macro or loop whose block has not ended, got one that has");
    return *reference.scope;
}

Value Evaluator::evaluate(const Expression& expression, Scope& scope) {
    const Nesting nesting(*this, expression.line);
    return std::visit([&](const auto& node) { return value_of(node, scope); }, expression.node);
}

Value Evaluator::value_of(const Literal& node, Scope&) {
    return std::visit(
        [&](const auto& value) -> Value {
            if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>)
                return text(value);
            else
                return value;
        },
        node.value);
}

Value Evaluator::value_of(const Name& node, Scope& scope) {
    if (const Value* found = scope.find(node.name)) return *found;
    if (const Native* function = find(functions(), node.name)) return object<NativeCall>(*function, Value());
    return undefined("the undefined '", node.name, "'");
}

Value Evaluator::value_of(const ListDisplay& node, Scope& scope) {
    std::vector<Value> items;
    for (const ExpressionPtr& item : node.items) items.push_back(evaluate(*item, scope));
    return list(std::move(items), node.tuple ? ListKind::tuple : ListKind::list);
}

Value Evaluator::value_of(const DictDisplay& node, Scope& scope) {
    std::vector<std::pair<Value, Value>> items;
    for (const auto& [key, value] : node.items) {
        Value made = evaluate(*key, scope);
        items.emplace_back(std::move(made), evaluate(*value, scope));
    }
    return dict(std::move(items));
}

Value Evaluator::value_of(const Unary& node, Scope& scope) {
    Value value = evaluate(*node.operand, scope);
    if (node.op == '!') return !is_true(value);
    Value negative = negate(*this, value);  // refuses what is no number
    return node.op == '-' ? negative : negate(*this, negative);
}

Value Evaluator::value_of(const Binary& node, Scope& scope) {
    const Value left = evaluate(*node.left, scope);
    return arithmetic(*this, node.op, left, evaluate(*node.right, scope));
}

Value Evaluator::value_of(const Logic& node, Scope& scope) {
    Value left = evaluate(*node.left, scope);
    return is_true(left) == node.is_and ? evaluate(*node.right, scope) : left;
}

Value Evaluator::value_of(const Comparisons& node, Scope& scope) {
    Value left = evaluate(*node.first, scope);
    for (const auto& [op, expression] : node.rest) {
        Value right = evaluate(*expression, scope);
        if (!compare(*this, op, left, right)) return false;
        left = std::move(right);
    }
    return true;
}

Value Evaluator::value_of(const Concatenation& node, Scope& scope) {
    Writer out(*this);
    for (const ExpressionPtr& part : node.parts) write_str(out, *this, evaluate(*part, scope));
    return text(out.take());
}

Value Evaluator::value_of(const Conditional& node, Scope& scope) {
    if (is_true(evaluate(*node.test, scope))) return evaluate(*node.yes, scope);
    if (node.no) return evaluate(*node.no, scope);
    return undefined("an undefined value, since the 'if' has no 'else'");
}

Value Evaluator::value_of(const Attribute& node, Scope& scope) {
    return attribute(evaluate(*node.object, scope), node.name);
}

Value Evaluator::value_of(const Subscript& node, Scope& scope) {
    const Value object = evaluate(*node.object, scope);
    return subscript(object, evaluate(*node.index, scope));
}

Value Evaluator::value_of(const Slice& node, Scope& scope) {
    const Value object = evaluate(*node.object, scope);
    std::optional<Value> bounds[3];
    const ExpressionPtr* expressions[] = {&node.from, &node.to, &node.step};
    for (size_t i = 0; i < 3; ++i)
        if (*expressions[i]) bounds[i] = evaluate(**expressions[i], scope);
    const auto bound = [&](size_t i) { return bounds[i] ? &*bounds[i] : nullptr; };
    return slice(*this, object, bound(0), bound(1), bound(2));
}

Arguments Evaluator::arguments(const CallArguments& given, Scope& scope) {
    Arguments out;
    for (const ExpressionPtr& value : given.positional) out.positional.push_back(evaluate(*value, scope));
    if (given.list)
        each(evaluate(*given.list, scope), [&](const Value& item) {
            if (out.positional.size() == out.positional.capacity())
                reserve(2 * out.positional.size() * sizeof(Value));
            out.positional.push_back(item);
            return true;
        });
    for (const auto& [name, value] : given.named) out.named.emplace_back(name, evaluate(*value, scope));
    if (given.dict) {
        const Value more = evaluate(*given.dict, scope);
        if (!more.is(Kind::dict)) fail("expected a dict after '**', got ", type_name(more));
        reserve(more.dict().items.size() * 100);
        spend(more.dict().items.size());
        for (const auto& [key, value] : more.dict().items) {
            if (!key.is(Kind::string)) fail("expected names as keys of '**', got ", type_name(key));
            out.named.emplace_back(key.text().bytes(), value);
        }
    }
    return out;
}

Value Evaluator::value_of(const Call& node, Scope& scope) {
    const Value callee = evaluate(*node.callee, scope);
    return call(callee, arguments(node.arguments, scope));
}

Value Evaluator::value_of(const Filter& node, Scope& scope) {
    const Value value = node.operand ? evaluate(*node.operand, scope) : *block_value_;
    return apply_filter(*this, node.name, value, arguments(node.arguments, scope));
}

Value Evaluator::value_of(const Test& node, Scope& scope) {
    const Value value = evaluate(*node.operand, scope);
    return apply_test(*this, node.name, value, arguments(node.arguments, scope));
}

}  // namespace scoria::jinja
