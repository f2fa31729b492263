// Compiles a grammar: expressions to states, characters to the bytes of their UTF-8, copies for bounded
// repetitions.
#include "program.h"

#include "fail.h"
#include "unicode_text.h"

#include <algorithm>
#include <bitset>

namespace scoria::grammar {
namespace {

constexpr uint32_t most_states = 1 << 18;
constexpr uint32_t none = UINT32_MAX;

template <class Edge> struct From {
    uint32_t from;
    Edge edge;
};

/// Edges by state, and where each state's begin.
template <class Edge>
void by_state(std::vector<From<Edge>>& unsorted, uint32_t states, std::vector<Edge>& edges,
              std::vector<uint32_t>& first) {
    first.assign(states + 1, 0);
    for (const From<Edge>& each : unsorted) ++first[each.from + 1];
    for (uint32_t s = 0; s < states; ++s) first[s + 1] += first[s];
    edges.resize(unsorted.size());
    std::vector<uint32_t> next(first.begin(), first.end() - 1);
    for (const From<Edge>& each : unsorted) edges[next[each.from]++] = each.edge;
}

}  // namespace

class Compiler {
  public:
    explicit Compiler(const Grammar& grammar) : grammar_(grammar) {}
    Program run();

  private:
    using RuleCall = Program::Call;  // `start` is the rule until the end

    uint32_t new_state();
    void byte(uint32_t from, uint32_t first, uint32_t last, uint32_t to) {
        bytes_.push_back({from, {uint8_t(first), uint8_t(last), to}});
    }
    void jump(uint32_t from, uint32_t to) { jumps_.push_back({from, to}); }
    /// Adds what `expr` matches after `from`; the state that is reached then.
    uint32_t emit(const Expr& expr, uint32_t from);
    uint32_t emit_text(const std::string& text, uint32_t from);
    uint32_t emit_repeat(const Expr& expr, uint32_t from);
    uint32_t emit_call(uint32_t rule, uint32_t from);
    void emit_codes(char32_t first, char32_t last, uint32_t from, uint32_t to);
    bool is_small(const Expr& expr) const;
    void emit_rule(uint32_t rule, const Expr& body);
    /// Rules whose end is reachable, by jumps and calls of such rules and, unless `only_empty`, by bytes.
    std::vector<bool> ending(const Program& program, bool only_empty) const;
    void refuse_endless(const Program& program) const;
    void refuse_left_recursion(const Program& program) const;
    void link(Program& program) const;
    void classify(Program& program) const;
    std::string name(uint32_t rule) const {
        return rule < grammar_.rules.size() ? grammar_.rules[rule].name : "(a repeated part)";
    }

    const Grammar& grammar_;
    uint32_t states_ = 0;
    std::vector<uint32_t> starts_, ends_;  // per rule
    std::vector<From<Program::ByteEdge>> bytes_;
    std::vector<From<RuleCall>> calls_;
    std::vector<From<uint32_t>> jumps_;
    std::vector<const Expr*> lifted_;  // repeated parts that became rules; they follow the grammar's own
    std::array<uint32_t, 4>
        continuations_{};  // of the class at work: the state that wants so many more bytes
};

uint32_t Compiler::new_state() {
    if (states_ == most_states)
        fail(Status::bad_argument, "grammar", "expected at most ", most_states,
             " states once repetitions are unrolled, got more");
    return states_++;
}

uint32_t Compiler::emit_text(const std::string& text, uint32_t from) {
    for (const char each : text) {
        const uint32_t to = new_state(), value = static_cast<uint8_t>(each);
        byte(from, value, value, to);
        from = to;
    }
    return from;
}

/// Cuts [first, last] until it is a product of byte ranges, as usual for UTF-8 automata.
void Compiler::emit_codes(char32_t first, char32_t last, uint32_t from, uint32_t to) {
    if (first > last) return;
    const auto cut = [&](char32_t end) {  // the first part ends there
        emit_codes(first, end, from, to);
        emit_codes(end + 1, last, from, to);
    };
    if (first < 0xD800 && last >= 0xD800) return cut(0xD7FF);
    if (first <= 0xDFFF && first >= 0xD800) return emit_codes(0xE000, last, from, to);
    for (const char32_t longest : {0x7Fu, 0x7FFu, 0xFFFFu})
        if (first <= longest && last > longest) return cut(longest);
    std::string low, high;
    append_utf8(low, first);
    append_utf8(high, last);
    for (size_t i = 1; i < low.size(); ++i) {
        const char32_t below = (char32_t(1) << 6 * i) - 1;  // the last i bytes
        if ((first & ~below) == (last & ~below)) continue;
        if ((first & below) != 0) return cut(first | below);
        if ((last & below) != below) return cut((last & ~below) - 1);
    }
    for (size_t i = 0; i < low.size(); ++i) {
        const size_t left = low.size() - 1 - i;
        uint32_t next = to;
        if (left > 0) {
            // What follows is often any continuation bytes: one chain of states serves all of these.
            const auto is = [&](const std::string& bytes, char wanted) {
                return bytes.find_first_not_of(wanted, i + 1) == std::string::npos;
            };
            const bool any = is(low, '\x80') && is(high, '\xBF');
            next = any ? continuations_[left] : new_state();
        }
        byte(from, static_cast<uint8_t>(low[i]), static_cast<uint8_t>(high[i]), next);
        if (left > 0 && next == continuations_[left]) return;
        from = next;
    }
}

uint32_t Compiler::emit_call(uint32_t rule, uint32_t from) {
    const uint32_t to = new_state();
    calls_.push_back({from, {rule, to, false}});
    return to;
}

bool Compiler::is_small(const Expr& expr) const {
    return expr.kind == Expr::Kind::rule || (expr.kind == Expr::Kind::text && expr.text.size() <= 2) ||
           (expr.kind == Expr::Kind::characters && !expr.set.empty() && expr.set.back().last < 0x80);
}

uint32_t Compiler::emit_repeat(const Expr& expr, uint32_t from) {
    const Expr& part = expr.parts[0];
    const uint32_t copies = expr.most == unbounded ? expr.least : expr.most;
    uint32_t rule = none;
    if (copies > 1 && !is_small(part)) {
        rule = uint32_t(grammar_.rules.size() + lifted_.size());
        lifted_.push_back(&part);
    }
    const auto one = [&](uint32_t at) { return rule == none ? emit(part, at) : emit_call(rule, at); };
    uint32_t at = from;
    const uint32_t plain = expr.most == unbounded && expr.least > 0 ? expr.least - 1 : expr.least;
    for (uint32_t i = 0; i < plain; ++i) at = one(at);
    if (expr.most == unbounded) {
        // A state of its own: what else begins at `at` must not follow a round.
        const uint32_t loop = new_state();
        jump(at, loop);
        const uint32_t after = one(loop);
        jump(after, loop);
        return expr.least > 0 ? after : loop;
    }
    const uint32_t end = new_state();
    for (uint32_t i = expr.least; i < expr.most; ++i) {
        jump(at, end);
        at = one(at);
    }
    jump(at, end);
    return end;
}

uint32_t Compiler::emit(const Expr& expr, uint32_t from) {
    switch (expr.kind) {
    case Expr::Kind::text:
        return emit_text(expr.text, from);
    case Expr::Kind::characters: {
        const uint32_t to = new_state();
        if (!expr.set.empty() && expr.set.back().last >= 0x80) {
            continuations_ = {to, new_state(), new_state(), new_state()};
            for (size_t i = 1; i < 4; ++i) byte(continuations_[i], 0x80, 0xBF, continuations_[i - 1]);
        }
        for (const CodeRange& range : expr.set) emit_codes(range.first, range.last, from, to);
        return to;
    }
    case Expr::Kind::sequence:
        for (const Expr& part : expr.parts) from = emit(part, from);
        return from;
    case Expr::Kind::choice: {
        const uint32_t to = new_state();
        for (const Expr& part : expr.parts) jump(emit(part, from), to);
        return to;
    }
    case Expr::Kind::repeat:
        return emit_repeat(expr, from);
    case Expr::Kind::rule:
        return emit_call(expr.rule, from);
    }
    return from;
}

void Compiler::emit_rule(uint32_t rule, const Expr& body) {
    starts_.resize(std::max<size_t>(starts_.size(), rule + 1));
    ends_.resize(starts_.size());
    starts_[rule] = new_state();
    ends_[rule] = new_state();
    jump(emit(body, starts_[rule]), ends_[rule]);
}

std::vector<bool> Compiler::ending(const Program& program, bool only_empty) const {
    std::vector<bool> ending(starts_.size()), reached(states_);
    std::vector<uint32_t> rule_of_start(states_, none);
    for (uint32_t rule = 0; rule < starts_.size(); ++rule) rule_of_start[starts_[rule]] = rule;
    struct At {
        uint32_t rule, state;
    };
    std::vector<std::vector<At>> waiting(starts_.size());  // for a rule to be known as ending
    std::vector<At> todo;
    const auto reach = [&](uint32_t rule, uint32_t state) {
        if (reached[state]) return;
        reached[state] = true;
        todo.push_back({rule, state});
    };
    for (uint32_t rule = 0; rule < starts_.size(); ++rule) reach(rule, starts_[rule]);
    while (!todo.empty()) {
        const At at = todo.back();
        todo.pop_back();
        const Program::State state = program.state(at.state);
        for (const uint32_t to : state.jumps) reach(at.rule, to);
        if (!only_empty)
            for (const Program::ByteEdge& edge : state.bytes) reach(at.rule, edge.to);
        for (const Program::Call& call : state.calls) {
            const uint32_t rule = rule_of_start[call.start];
            if (ending[rule])
                reach(at.rule, call.to);
            else
                waiting[rule].push_back({at.rule, call.to});
        }
        if (!state.ends || ending[at.rule]) continue;
        ending[at.rule] = true;
        for (const At& each : waiting[at.rule]) reach(each.rule, each.state);
    }
    return ending;
}

void Compiler::refuse_endless(const Program& program) const {
    const std::vector<bool> ends = ending(program, false);
    for (uint32_t rule = 0; rule < ends.size(); ++rule)
        if (!ends[rule])
            fail(Status::bad_argument, "grammar", "expected rules that can end, got ", name(rule),
                 ", which needs itself or another endless one");
}

void Compiler::refuse_left_recursion(const Program& program) const {
    const std::vector<bool> empty = ending(program, true);
    std::vector<uint32_t> rule_of_start(states_, none);
    for (uint32_t rule = 0; rule < starts_.size(); ++rule) rule_of_start[starts_[rule]] = rule;
    // What a rule calls before any byte; each state belongs to one rule.
    std::vector<std::vector<uint32_t>> first_calls(starts_.size());
    std::vector<bool> reached(states_);
    for (uint32_t rule = 0; rule < starts_.size(); ++rule) {
        std::vector<uint32_t> todo{starts_[rule]};
        while (!todo.empty()) {
            const uint32_t id = todo.back();
            todo.pop_back();
            if (reached[id]) continue;
            reached[id] = true;
            const Program::State state = program.state(id);
            todo.insert(todo.end(), state.jumps.begin(), state.jumps.end());
            for (const Program::Call& call : state.calls) {
                const uint32_t called = rule_of_start[call.start];
                first_calls[rule].push_back(called);
                if (empty[called]) todo.push_back(call.to);
            }
        }
    }
    // Depth first; an edge back into the path is a cycle.
    std::vector<uint8_t> mark(starts_.size());  // 1: on the path, 2: done
    std::vector<std::pair<uint32_t, size_t>> path;
    for (uint32_t root = 0; root < starts_.size(); ++root) {
        if (mark[root] != 0) continue;
        path.assign(1, {root, 0});
        mark[root] = 1;
        while (!path.empty()) {
            auto& [rule, next] = path.back();
            if (next == first_calls[rule].size()) {
                mark[rule] = 2;
                path.pop_back();
                continue;
            }
            const uint32_t called = first_calls[rule][next++];
            if (mark[called] == 1)
                fail(Status::bad_argument, "grammar", "expected no left recursion, got it in rule ",
                     name(called));
            if (mark[called] == 2) continue;
            mark[called] = 1;
            path.push_back({called, 0});
        }
    }
}

/// Calls get the states they go to; a call whose return state only leads to the end is a tail call.
void Compiler::link(Program& program) const {
    for (Program::Call& call : program.calls_) {
        call.start = starts_[call.start];
        uint32_t at = call.to;
        for (int steps = 0; steps < 8; ++steps) {
            const Program::State state = program.state(at);
            if (!state.bytes.empty() || !state.calls.empty()) break;
            if (state.ends && state.jumps.empty()) call.tail = true;
            if (state.ends || state.jumps.size() != 1) break;
            at = state.jumps[0];
        }
    }
}

void Compiler::classify(Program& program) const {
    std::bitset<257> border;
    border.set(0);
    for (const Program::ByteEdge& edge : program.bytes_) {
        border.set(edge.first);
        border.set(edge.last + 1u);
    }
    for (uint32_t byte_value = 0; byte_value < 256; ++byte_value) {
        if (border[byte_value]) program.class_byte_.push_back(uint8_t(byte_value));
        program.class_of_[byte_value] = uint8_t(program.class_byte_.size() - 1);
    }
}

Program Compiler::run() {
    starts_.resize(grammar_.rules.size());
    ends_.resize(grammar_.rules.size());
    for (uint32_t rule = 0; rule < grammar_.rules.size(); ++rule) emit_rule(rule, grammar_.rules[rule].body);
    for (size_t i = 0; i < lifted_.size(); ++i) emit_rule(uint32_t(grammar_.rules.size() + i), *lifted_[i]);
    Program program;
    by_state(bytes_, states_, program.bytes_, program.first_byte_);
    by_state(calls_, states_, program.calls_, program.first_call_);
    by_state(jumps_, states_, program.jumps_, program.first_jump_);
    program.ends_.resize(states_);
    for (const uint32_t end : ends_) program.ends_[end] = true;
    program.start_ = starts_[grammar_.root];
    link(program);
    classify(program);
    refuse_endless(program);
    refuse_left_recursion(program);
    return program;
}

Program::Program(const Grammar& grammar) : Program(Compiler(grammar).run()) {}

Program::State Program::state(uint32_t id) const {
    const auto of = [id](const auto& edges, const std::vector<uint32_t>& first) {
        return std::span(edges).subspan(first[id], first[id + 1] - first[id]);
    };
    return {of(bytes_, first_byte_), of(calls_, first_call_), of(jumps_, first_jump_), ends_[id]};
}

}  // namespace scoria::grammar
