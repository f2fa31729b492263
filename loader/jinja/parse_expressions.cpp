#include "jinja/parser.h"

#include <algorithm>
#include <array>
#include <utility>

namespace scoria::jinja {
namespace {

unsigned depth_of(const ExpressionPtr& expression) { return expression ? expression->depth : 0; }
unsigned depth_of(const std::vector<ExpressionPtr>& all) {
    unsigned most = 0;
    for (const ExpressionPtr& expression : all) most = std::max(most, expression->depth);
    return most;
}
unsigned depth_of(const CallArguments& arguments) {
    unsigned most =
        std::max({depth_of(arguments.positional), depth_of(arguments.list), depth_of(arguments.dict)});
    for (const auto& [name, value] : arguments.named) most = std::max(most, value->depth);
    return most;
}

template <class Meaning> using Spellings = std::span<const std::pair<std::string_view, Meaning>>;

template <class Meaning> const Meaning* meaning(Spellings<Meaning> spellings, const Token& token) {
    if (token.kind != TokenKind::op) return nullptr;
    const auto found = std::ranges::find(spellings, token.text, &std::pair<std::string_view, Meaning>::first);
    return found == spellings.end() ? nullptr : &found->second;
}

constexpr std::pair<std::string_view, Comparison> comparisons[] = {
    {"==", Comparison::equal},  {"!=", Comparison::not_equal},  {"<", Comparison::less},
    {">", Comparison::greater}, {"<=", Comparison::less_equal}, {">=", Comparison::greater_equal}};
constexpr std::pair<std::string_view, Operator> sums[] = {{"+", Operator::add}, {"-", Operator::subtract}};
constexpr std::pair<std::string_view, Operator> products[] = {{"*", Operator::multiply},
                                                              {"/", Operator::divide},
                                                              {"//", Operator::floor_divide},
                                                              {"%", Operator::modulo}};

}  // namespace

template <class Node> ExpressionPtr Parser::make(uint32_t line, unsigned below, Node node) {
    if (below >= max_depth) fail("expected at most ", max_depth, " nested operations, got more");
    return ExpressionPtr(new Expression{line, below + 1, std::move(node)});
}

ExpressionPtr Parser::expression() { return conditional(true); }

ExpressionPtr Parser::conditional(bool with_conditional) {
    const Nesting nesting(*this);
    ExpressionPtr value = disjunction();
    while (with_conditional && is_name("if")) {
        const uint32_t line = take().line;
        ExpressionPtr test = disjunction(), otherwise;
        if (skip_name("else")) otherwise = conditional(true);
        const unsigned depth = std::max({depth_of(value), depth_of(test), depth_of(otherwise)});
        value = make(line, depth, Conditional{std::move(test), std::move(value), std::move(otherwise)});
    }
    return value;
}

ExpressionPtr Parser::disjunction() {
    ExpressionPtr left = conjunction();
    while (is_name("or")) {
        const uint32_t line = take().line;
        ExpressionPtr right = conjunction();
        const unsigned depth = std::max(depth_of(left), depth_of(right));
        left = make(line, depth, Logic{false, std::move(left), std::move(right)});
    }
    return left;
}

ExpressionPtr Parser::conjunction() {
    ExpressionPtr left = negation();
    while (is_name("and")) {
        const uint32_t line = take().line;
        ExpressionPtr right = negation();
        const unsigned depth = std::max(depth_of(left), depth_of(right));
        left = make(line, depth, Logic{true, std::move(left), std::move(right)});
    }
    return left;
}

ExpressionPtr Parser::negation() {
    if (!is_name("not")) return comparison();
    const Nesting nesting(*this);
    const uint32_t line = take().line;
    ExpressionPtr operand = negation();
    const unsigned depth = depth_of(operand);
    return make(line, depth, Unary{'!', std::move(operand)});
}

ExpressionPtr Parser::comparison() {
    const uint32_t line = now().line;
    ExpressionPtr first = sum();
    std::vector<std::pair<Comparison, ExpressionPtr>> rest;
    unsigned depth = depth_of(first);
    while (true) {
        const Comparison* op = meaning<Comparison>(comparisons, now());
        const bool in = is_name("in"), not_in = is_name("not") && ahead().is(TokenKind::name, "in");
        if (op == nullptr && !in && !not_in) break;
        const Comparison wanted = op != nullptr ? *op : in ? Comparison::in : Comparison::not_in;
        take();
        if (not_in) take();
        rest.emplace_back(wanted, sum());
        depth = std::max(depth, depth_of(rest.back().second));
    }
    if (rest.empty()) return first;
    return make(line, depth, Comparisons{std::move(first), std::move(rest)});
}

ExpressionPtr Parser::sum() {
    ExpressionPtr left = concatenation();
    while (const Operator* op = meaning<Operator>(sums, now())) {
        const uint32_t line = take().line;
        ExpressionPtr right = concatenation();
        const unsigned depth = std::max(depth_of(left), depth_of(right));
        left = make(line, depth, Binary{*op, std::move(left), std::move(right)});
    }
    return left;
}

ExpressionPtr Parser::concatenation() {
    const uint32_t line = now().line;
    ExpressionPtr first = product();
    if (!is_op("~")) return first;
    std::vector<ExpressionPtr> parts;
    parts.push_back(std::move(first));
    while (skip_op("~")) parts.push_back(product());
    const unsigned depth = depth_of(parts);
    return make(line, depth, Concatenation{std::move(parts)});
}

ExpressionPtr Parser::product() {
    ExpressionPtr left = power();
    while (const Operator* op = meaning<Operator>(products, now())) {
        const uint32_t line = take().line;
        ExpressionPtr right = power();
        const unsigned depth = std::max(depth_of(left), depth_of(right));
        left = make(line, depth, Binary{*op, std::move(left), std::move(right)});
    }
    return left;
}

ExpressionPtr Parser::power() {
    ExpressionPtr left = unary(true);
    while (is_op("**")) {
        const uint32_t line = take().line;
        ExpressionPtr right = unary(true);
        const unsigned depth = std::max(depth_of(left), depth_of(right));
        left = make(line, depth, Binary{Operator::power, std::move(left), std::move(right)});
    }
    return left;
}

ExpressionPtr Parser::unary(bool with_filters) {
    ExpressionPtr value;
    if (is_op("-") || is_op("+")) {
        const Nesting nesting(*this);
        const Token op = take();
        ExpressionPtr operand = unary(false);
        const unsigned depth = depth_of(operand);
        value = make(op.line, depth, Unary{op.text[0], std::move(operand)});
    } else {
        value = primary();
    }
    value = postfix(std::move(value));
    return with_filters ? filters_and_tests(std::move(value)) : std::move(value);
}

ExpressionPtr Parser::primary() {
    static constexpr std::pair<std::string_view, std::variant<None, bool>> constants[] = {
        {"true", true},   {"True", true},   {"false", false},
        {"False", false}, {"none", None{}}, {"None", None{}}};
    const uint32_t line = now().line;
    switch (now().kind) {
    case TokenKind::name: {
        std::string name = take().text;
        for (const auto& [spelling, value] : constants) {
            if (spelling != name) continue;
            if (const bool* flag = std::get_if<bool>(&value)) return make(line, 0, Literal{*flag});
            return make(line, 0, Literal{None{}});
        }
        if (macro_ != nullptr) {
            macro_->takes_more |= name == "varargs";
            macro_->takes_named |= name == "kwargs";
            macro_->takes_caller |= name == "caller";
        }
        return make(line, 0, Name{std::move(name)});
    }
    case TokenKind::string: {
        std::string value = take().text;
        while (now().kind == TokenKind::string) value += take().text;
        return make(line, 0, Literal{std::move(value)});
    }
    case TokenKind::integer:
        return make(line, 0, Literal{std::get<Integer>(take().number)});
    case TokenKind::real:
        return make(line, 0, Literal{std::get<double>(take().number)});
    default:
        break;
    }
    if (is_op("[")) return list();
    if (is_op("{")) return dict();
    if (!skip_op("(")) fail_expected("an expression");
    ExpressionPtr inner = tuple(true, true);
    expect_op(")");
    return inner;
}

ExpressionPtr Parser::postfix(ExpressionPtr value) {
    while (true) {
        if (is_op(".") || is_op("["))
            value = subscript(std::move(value));
        else if (is_op("("))
            value = call(std::move(value));
        else
            return value;
    }
}

ExpressionPtr Parser::filters_and_tests(ExpressionPtr value) {
    while (true) {
        if (is_op("|"))
            value = filters(std::move(value));
        else if (is_name("is"))
            value = test(std::move(value));
        else if (is_op("("))
            value = call(std::move(value));
        else
            return value;
    }
}

ExpressionPtr Parser::filters(ExpressionPtr value) {
    while (skip_op("|")) value = filter(std::move(value));
    return value;
}

ExpressionPtr Parser::filter(ExpressionPtr value) {
    const uint32_t line = now().line;
    std::string name = expect_name("the name of a filter");
    while (skip_op(".")) name += "." + expect_name("the name of a filter");
    CallArguments given;
    if (is_op("(")) given = arguments();
    const unsigned depth = std::max(depth_of(value), depth_of(given));
    return make(line, depth, Filter{std::move(value), std::move(name), std::move(given)});
}

ExpressionPtr Parser::test(ExpressionPtr value) {
    const uint32_t line = take().line;
    const bool negated = skip_name("not");
    std::string name = expect_name("the name of a test");
    while (skip_op(".")) name += "." + expect_name("the name of a test");
    CallArguments given;
    const bool is_word =
        now().kind == TokenKind::name && !is_name("else") && !is_name("or") && !is_name("and");
    if (is_op("(")) {
        given = arguments();
    } else if (is_word || now().kind == TokenKind::string || now().kind == TokenKind::integer ||
               now().kind == TokenKind::real || is_op("[") || is_op("{")) {
        if (is_name("is")) fail_expected("one test after another joined by 'and'");
        given.positional.push_back(postfix(primary()));
    }
    const unsigned depth = std::max(depth_of(value), depth_of(given));
    ExpressionPtr result = make(line, depth, Test{std::move(value), std::move(name), std::move(given)});
    return negated ? make(line, depth + 1, Unary{'!', std::move(result)}) : std::move(result);
}

ExpressionPtr Parser::subscript(ExpressionPtr value) {
    const uint32_t line = now().line;
    // Arguments are evaluated in any order: depths are read before their nodes move.
    if (skip_op(".")) {
        const unsigned depth = depth_of(value);
        if (now().kind != TokenKind::integer)
            return make(line, depth, Attribute{std::move(value), expect_name("the name of an attribute")});
        ExpressionPtr index = make(line, 0, Literal{std::get<Integer>(take().number)});
        return make(line, depth, Subscript{std::move(value), std::move(index)});
    }
    const Nesting nesting(*this);
    expect_op("[");
    std::array<ExpressionPtr, 3> bounds;
    size_t colons = 0;
    while (!is_op("]")) {
        if (colons < 2 && skip_op(":"))
            ++colons;
        else if (bounds[colons])
            fail_expected("']'");
        else
            bounds[colons] = expression();
        if (colons == 0 && is_op(",")) fail_expected("']'");
    }
    expect_op("]");
    const unsigned depth =
        std::max({depth_of(value), depth_of(bounds[0]), depth_of(bounds[1]), depth_of(bounds[2])});
    if (colons > 0)
        return make(
            line, depth,
            Slice{std::move(value), std::move(bounds[0]), std::move(bounds[1]), std::move(bounds[2])});
    if (!bounds[0]) fail_expected("an index");
    return make(line, depth, Subscript{std::move(value), std::move(bounds[0])});
}

ExpressionPtr Parser::call(ExpressionPtr value) {
    const uint32_t line = now().line;
    CallArguments given = arguments();
    const unsigned depth = std::max(depth_of(value), depth_of(given));
    return make(line, depth, Call{std::move(value), std::move(given)});
}

CallArguments Parser::arguments() {
    CallArguments out;
    expect_op("(");
    for (bool first = true; !is_op(")"); first = false) {
        if (!first) {
            expect_op(",");
            if (is_op(")")) break;
        }
        if (skip_op("**")) {
            out.dict = expression();
        } else if (skip_op("*")) {
            out.list = expression();
        } else if (now().kind == TokenKind::name && ahead().is(TokenKind::op, "=")) {
            std::string name = take().text;
            take();
            out.named.emplace_back(std::move(name), expression());
        } else {
            if (!out.named.empty() || out.list || out.dict) fail_expected("a named argument");
            out.positional.push_back(expression());
        }
    }
    expect_op(")");
    return out;
}

bool Parser::ends_tuple() const {
    return now().kind == TokenKind::variable_end || now().kind == TokenKind::block_end || is_op(")");
}

ExpressionPtr Parser::tuple(bool with_conditional, bool explicit_parentheses) {
    const uint32_t line = now().line;
    std::vector<ExpressionPtr> items;
    bool is_tuple = false;
    while (!ends_tuple()) {
        items.push_back(conditional(with_conditional));
        if (!is_op(",")) break;
        take();
        is_tuple = true;
    }
    if (!is_tuple && !items.empty()) return std::move(items[0]);
    if (!is_tuple && !explicit_parentheses) fail_expected("an expression");
    const unsigned depth = depth_of(items);
    return make(line, depth, ListDisplay{std::move(items), true});
}

ExpressionPtr Parser::list() {
    const uint32_t line = take().line;
    std::vector<ExpressionPtr> items;
    while (!is_op("]")) {
        if (!items.empty()) expect_op(",");
        if (is_op("]")) break;
        items.push_back(expression());
    }
    expect_op("]");
    const unsigned depth = depth_of(items);
    return make(line, depth, ListDisplay{std::move(items), false});
}

ExpressionPtr Parser::dict() {
    const uint32_t line = take().line;
    std::vector<std::pair<ExpressionPtr, ExpressionPtr>> items;
    unsigned depth = 0;
    while (!is_op("}")) {
        if (!items.empty()) expect_op(",");
        if (is_op("}")) break;
        ExpressionPtr key = expression();
        expect_op(":");
        items.emplace_back(std::move(key), expression());
        depth = std::max({depth, depth_of(items.back().first), depth_of(items.back().second)});
    }
    expect_op("}");
    return make(line, depth, DictDisplay{std::move(items)});
}

}  // namespace scoria::jinja
