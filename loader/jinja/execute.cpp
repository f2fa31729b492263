// Statements, macros and loops.
#include "jinja/evaluation.h"

#include <algorithm>
#include <deque>
#include <utility>

namespace scoria::jinja {
namespace {

class MacroObject final : public Object {
  public:
    MacroObject(Evaluator& evaluator, const Macro& macro, Scope& defined_in)
        : evaluator_(evaluator), macro_(macro), defined_in_(Evaluator::refer(defined_in)) {}
    std::string_view type() const override { return "macro"; }
    bool callable() const override { return true; }
    Value call(Runtime&, Arguments arguments) override {
        return evaluator_.call_macro(macro_, evaluator_.resolve(defined_in_), std::move(arguments));
    }
    std::optional<Value> attribute(Runtime& runtime, std::string_view name) override {
        if (name == "name") return runtime.text(macro_.name);
        return std::nullopt;
    }

  private:
    Evaluator& evaluator_;
    const Macro& macro_;
    ScopeReference defined_in_;
};

/// `loop` in the body of a for. Items are filtered when they are wanted, as the filter may look at what the
/// body changes.
class Loop final : public Object {
  public:
    Loop(Evaluator& evaluator, const For& node, Scope& scope, std::vector<Value> items, unsigned depth)
        : evaluator_(evaluator), node_(node), scope_(Evaluator::refer(scope)), items_(std::move(items)),
          depth_(depth) {}
    std::string_view type() const override { return "loop"; }
    bool callable() const override { return node_.recursive; }
    Value call(Runtime& runtime, Arguments arguments) override;
    std::optional<Value> attribute(Runtime& runtime, std::string_view name) override;

    /// To the next item; false after the last.
    bool advance() {
        if (!peek()) return false;
        before_ = std::exchange(current_, std::move(ready_.front()));
        ready_.pop_front();
        ++index_;
        return true;
    }
    const Value& current() const { return *current_; }
    void finish() {
        items_.clear();
        ready_.clear();
        seen_.reset();
        finished_ = true;
    }
    Value cycle(Runtime& runtime, Arguments arguments) {
        if (arguments.positional.empty()) runtime.fail("expected values to cycle through, got none");
        return arguments.positional[(index_ - 1) % arguments.positional.size()];
    }
    Value changed(Runtime& runtime, Arguments arguments) {
        Value values = runtime.tuple(std::move(arguments.positional));
        const bool same = seen_ && equal(runtime, *seen_, values);
        if (!finished_) seen_ = std::move(values);
        return !same;
    }

  private:
    std::shared_ptr<Loop> self() { return std::static_pointer_cast<Loop>(shared_from_this()); }
    const Value* peek() {
        while (ready_.empty() && next_ < items_.size()) pull();
        return ready_.empty() ? nullptr : &ready_.front();
    }
    void pull() {
        Value item = items_[next_++];
        evaluator_.spend(1);
        if (node_.filter) {
            Scope round(evaluator_, &evaluator_.resolve(scope_));
            evaluator_.assign(node_.target, item, round);
            if (!is_true(evaluator_.evaluate(*node_.filter, round))) return;
        }
        ready_.push_back(std::move(item));
    }
    size_t length() {
        while (next_ < items_.size()) pull();
        return index_ + ready_.size();
    }

    Evaluator& evaluator_;
    const For& node_;
    ScopeReference scope_;
    std::vector<Value> items_;
    std::deque<Value> ready_;  // passed the filter
    size_t next_ = 0, index_ = 0;
    unsigned depth_;
    bool finished_ = false;
    std::optional<Value> before_, current_, seen_;
};

class LoopMethod final : public Object {
  public:
    using Method = Value (Loop::*)(Runtime&, Arguments);
    LoopMethod(std::shared_ptr<Loop> loop, Method method) : loop_(std::move(loop)), method_(method) {}
    std::string_view type() const override { return "loop method"; }
    bool callable() const override { return true; }
    Value call(Runtime& runtime, Arguments arguments) override {
        return ((*loop_).*method_)(runtime, std::move(arguments));
    }

  private:
    std::shared_ptr<Loop> loop_;
    Method method_;
};

Value Loop::call(Runtime& runtime, Arguments arguments) {
    if (!node_.recursive) runtime.fail("expected a loop marked 'recursive' to call, got another");
    if (arguments.positional.size() != 1 || !arguments.named.empty())
        runtime.fail("expected one argument of 'loop', got ",
                     arguments.positional.size() + arguments.named.size());
    Writer out(runtime);
    evaluator_.run_loop(node_, arguments.positional[0], evaluator_.resolve(scope_), out, depth_ + 1);
    return runtime.text(out.take());
}

std::optional<Value> Loop::attribute(Runtime& runtime, std::string_view name) {
    if (name == "index") return Integer(index_);
    if (name == "index0") return Integer(index_) - 1;
    if (name == "first") return index_ == 1;
    if (name == "last") return peek() == nullptr;
    if (name == "length") return Integer(length());
    if (name == "revindex") return Integer(length()) - Integer(index_) + 1;
    if (name == "revindex0") return Integer(length()) - Integer(index_);
    if (name == "depth") return Integer(depth_);
    if (name == "depth0") return Integer(depth_) - 1;
    if (name == "previtem")
        return before_ ? *before_ : runtime.undefined("the undefined item before the first");
    if (name == "nextitem") {
        const Value* next = peek();
        return next ? *next : runtime.undefined("the undefined item after the last");
    }
    if (name == "cycle") return runtime.object<LoopMethod>(self(), &Loop::cycle);
    if (name == "changed") return runtime.object<LoopMethod>(self(), &Loop::changed);
    return std::nullopt;
}

}  // namespace

Text Evaluator::render(const Body& body, const std::vector<std::pair<std::string, Value>>& variables) {
    Scope root(*this, nullptr);
    for (const auto& [name, value] : variables) root.set(name, value);
    Writer out(*this);
    execute(body, root, out);
    return out.take();
}

Evaluator::Flow Evaluator::execute(const Body& body, Scope& scope, Writer& out) {
    for (const Statement& statement : body) {
        const Nesting nesting(*this, statement.line);
        const Flow flow = std::visit([&](const auto& node) { return run(node, scope, out); }, statement.node);
        if (out.text().size() > limits().output)
            fail("expected at most ", limits().output, " bytes of output, got more");
        if (flow != Flow::on) return flow;
    }
    return Flow::on;
}

Text Evaluator::capture(const Body& body, Scope& scope) {
    Writer out(*this);
    Scope inner(*this, &scope);
    execute(body, inner, out);
    return out.take();
}

void Evaluator::assign(const Target& target, const Value& value, Scope& scope) {
    if (!target.parts.empty()) {
        const std::vector<Value> parts = items(value);
        if (parts.size() != target.parts.size())
            fail("expected ", target.parts.size(), " values to unpack, got ", parts.size());
        for (size_t i = 0; i < parts.size(); ++i) assign(target.parts[i], parts[i], scope);
        return;
    }
    if (target.attribute.empty()) return scope.set(target.name, value);
    const Value* held = scope.find(target.name);
    auto* space = held && held->is(Kind::object) ? dynamic_cast<Namespace*>(&held->object()) : nullptr;
    if (space == nullptr)
        fail("expected the namespace '", target.name, "' to assign to, got ",
             held ? type_name(*held) : "nothing of that name");
    space->set(*this, target.attribute, value);
}

Evaluator::Flow Evaluator::run(const Data& node, Scope&, Writer& out) {
    out.append(node.text);
    return Flow::on;
}

Evaluator::Flow Evaluator::run(const Output& node, Scope& scope, Writer& out) {
    write_str(out, *this, evaluate(*node.value, scope));
    return Flow::on;
}

Evaluator::Flow Evaluator::run(const If& node, Scope& scope, Writer& out) {
    for (const auto& [test, body] : node.branches)
        if (is_true(evaluate(*test, scope))) return execute(body, scope, out);
    return execute(node.otherwise, scope, out);
}

Evaluator::Flow Evaluator::run(const For& node, Scope& scope, Writer& out) {
    return run_loop(node, evaluate(*node.iterable, scope), scope, out, 1);
}

Evaluator::Flow Evaluator::run_loop(const For& node, const Value& value, Scope& scope, Writer& out,
                                    unsigned depth) {
    if (value.is(Kind::none)) fail("expected something to iterate over, got None");
    const Nesting nesting(*this, line());
    const auto loop = std::make_shared<Loop>(*this, node, scope, items(value), depth);
    struct Finish {
        Loop& loop;
        ~Finish() { loop.finish(); }
    } const finish{*loop};
    bool any = false;
    while (loop->advance()) {
        any = true;
        Scope round(*this, &scope);
        round.set("loop", std::shared_ptr<Object>(loop));
        assign(node.target, loop->current(), round);
        if (execute(node.body, round, out) == Flow::leave_loop) break;
    }
    if (any) return Flow::on;
    Scope otherwise(*this, &scope);
    return execute(node.otherwise, otherwise, out);
}

Evaluator::Flow Evaluator::run(const Set& node, Scope& scope, Writer&) {
    assign(node.target, evaluate(*node.value, scope), scope);
    return Flow::on;
}

Evaluator::Flow Evaluator::run(const SetBlock& node, Scope& scope, Writer&) {
    Value value = text(capture(node.body, scope));
    if (node.filter) {
        const Value* const outer = std::exchange(block_value_, &value);
        Value filtered = evaluate(*node.filter, scope);
        block_value_ = outer;
        value = std::move(filtered);
    }
    assign(node.target, value, scope);
    return Flow::on;
}

Evaluator::Flow Evaluator::run(const MacroBlock& node, Scope& scope, Writer&) {
    scope.set(node.macro->name, object<MacroObject>(*this, *node.macro, scope));
    return Flow::on;
}

Evaluator::Flow Evaluator::run(const CallBlock& node, Scope& scope, Writer& out) {
    const auto& wanted = std::get<Call>(node.call->node);
    const Value callee = evaluate(*wanted.callee, scope);
    Arguments given = arguments(wanted.arguments, scope);
    given.named.emplace_back("caller", object<MacroObject>(*this, *node.caller, scope));
    write_str(out, *this, call(callee, std::move(given)));
    return Flow::on;
}

Evaluator::Flow Evaluator::run(const FilterBlock& node, Scope& scope, Writer& out) {
    const Value body = text(capture(node.body, scope));
    const Value* const outer = std::exchange(block_value_, &body);
    write_str(out, *this, evaluate(*node.filter, scope));
    block_value_ = outer;
    return Flow::on;
}

Evaluator::Flow Evaluator::run(const With& node, Scope& scope, Writer& out) {
    Scope inner(*this, &scope);
    for (const auto& [target, value] : node.values) assign(target, evaluate(*value, scope), inner);
    return execute(node.body, inner, out);
}

Evaluator::Flow Evaluator::run(const Break&, Scope&, Writer&) { return Flow::leave_loop; }
Evaluator::Flow Evaluator::run(const Continue&, Scope&, Writer&) { return Flow::leave_round; }

Value Evaluator::call_macro(const Macro& macro, Scope& defined_in, Arguments given) {
    const size_t count = macro.parameters.size();
    if (given.positional.size() > count && !macro.takes_more)
        fail("expected at most ", count, " arguments of '", macro.name, "', got ", given.positional.size());
    std::vector<std::optional<Value>> values(count);
    for (size_t i = 0; i < std::min(count, given.positional.size()); ++i) values[i] = given.positional[i];
    std::vector<std::pair<Value, Value>> more_named;
    Value caller = undefined("the undefined 'caller'");
    for (auto& [name, value] : given.named) {
        spend(1 + count / 8);
        const auto place =
            static_cast<size_t>(std::ranges::find(macro.parameters, name) - macro.parameters.begin());
        if (place < count && !values[place])
            values[place] = std::move(value);
        else if (name == "caller" && macro.takes_caller)
            caller = std::move(value);
        else if (place == count && macro.takes_named)
            more_named.emplace_back(text(name), std::move(value));
        else
            fail("expected arguments that '", macro.name, "' takes, got ", place < count ? "twice '" : "'",
                 name, "'");
    }
    Scope scope(*this, &defined_in);
    const size_t undefaulted = count - macro.defaults.size();
    for (size_t i = 0; i < count; ++i) {
        const std::string& name = macro.parameters[i];
        if (!values[i] && i >= undefaulted) values[i] = evaluate(*macro.defaults[i - undefaulted], scope);
        scope.set(name,
                  values[i] ? std::move(*values[i]) : undefined("the undefined parameter '", name, "'"));
    }
    if (macro.takes_more) {
        const size_t used = std::min(count, given.positional.size());
        given.positional.erase(given.positional.begin(),
                               given.positional.begin() + static_cast<ptrdiff_t>(used));
        scope.set("varargs", tuple(std::move(given.positional)));
    }
    if (macro.takes_named) scope.set("kwargs", dict(std::move(more_named)));
    if (macro.takes_caller) scope.set("caller", std::move(caller));
    Writer out(*this);
    execute(macro.body, scope, out);
    return text(out.take());
}

}  // namespace scoria::jinja
