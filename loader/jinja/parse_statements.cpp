#include "jinja/parser.h"

#include <algorithm>
#include <utility>

namespace scoria::jinja {

const Token& Parser::take() {
    const Token& token = tokens_[at_];
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
}

bool Parser::skip_op(std::string_view op) {
    if (!is_op(op)) return false;
    take();
    return true;
}

bool Parser::skip_name(std::string_view name) {
    if (!is_name(name)) return false;
    take();
    return true;
}

void Parser::fail_expected(std::string_view what) const {
    const auto got = [&]() -> std::string {
        switch (now().kind) {
        case TokenKind::variable_end:
            return "'}}'";
        case TokenKind::block_end:
            return "'%}'";
        case TokenKind::end:
            return "the end of the template";
        default:
            return cat("'", now().text.substr(0, 60), "'");
        }
    };
    fail("expected ", what, ", got ", got());
}

void Parser::expect_op(std::string_view op) {
    if (!skip_op(op)) fail_expected(cat("'", op, "'"));
}

std::string Parser::expect_name(std::string_view what) {
    if (now().kind != TokenKind::name) fail_expected(what);
    return take().text;
}

void Parser::expect_block_end() {
    if (now().kind != TokenKind::block_end) fail_expected("'%}'");
    take();
}

Body Parser::parse_template() {
    Body out = body({});
    if (now().kind != TokenKind::end) fail_expected("a statement");
    return out;
}

Body Parser::body(std::initializer_list<std::string_view> ends) {
    const Nesting nesting(*this);
    Body out;
    while (now().kind != TokenKind::end) {
        const Token& token = take();
        if (token.kind == TokenKind::data) {
            out.push_back({token.line, Data{token.text}});
        } else if (token.kind == TokenKind::variable_begin) {
            out.push_back({token.line, Output{tuple(true)}});
            if (now().kind != TokenKind::variable_end) fail_expected("'}}'");
            take();
        } else {
            if (std::ranges::any_of(ends, [&](std::string_view end) { return is_name(end); })) return out;
            statement(out);
        }
    }
    if (ends.size() > 0) fail_expected(cat("{% ", *(ends.end() - 1), " %}"));
    return out;
}

Body Parser::body_to(std::string_view end) {
    Body out = body({end});
    take();
    expect_block_end();
    return out;
}

void Parser::statement(Body& out) {
    static constexpr std::pair<std::string_view, Statement (Parser::*)()> blocks[] = {
        {"if", &Parser::if_block},      {"for", &Parser::for_block},   {"set", &Parser::set_block},
        {"with", &Parser::with_block},  {"call", &Parser::call_block}, {"filter", &Parser::filter_block},
        {"block", &Parser::named_block}};
    const uint32_t line = now().line;
    const std::string name = expect_name("the name of a statement");
    for (const auto& [spelling, read] : blocks)
        if (spelling == name) {
            out.push_back((this->*read)());
            out.back().line = line;
            return;
        }
    if (name == "macro") {
        std::string called = expect_name("the name of a macro");
        out.push_back({line, MacroBlock{macro_rest(std::move(called), "endmacro")}});
    } else if (name == "generation") {  // marks what the assistant wrote; its text is rendered as it is
        expect_block_end();
        out.push_back({line, With{{}, body_to("endgeneration")}});
    } else if (name == "print") {
        out.push_back({line, Output{tuple(true)}});
        expect_block_end();
    } else if (name == "break" || name == "continue") {
        if (loops_ == 0) fail("expected '", name, "' inside a loop, got it outside");
        expect_block_end();
        if (name == "break")
            out.push_back({line, Break{}});
        else
            out.push_back({line, Continue{}});
    } else if (name == "include" || name == "import" || name == "from" || name == "extends" ||
               name == "autoescape") {
        scoria::fail(Status::unsupported, "template", "line ", line,
                     ": expected a template in one file, got '", name, "'");
    } else {
        fail("expected a known statement, got '", name, "'");
    }
}

Statement Parser::if_block() {
    If node;
    while (true) {
        ExpressionPtr test = tuple(false);
        expect_block_end();
        node.branches.emplace_back(std::move(test), body({"elif", "else", "endif"}));
        if (skip_name("elif")) continue;
        if (skip_name("else")) {
            expect_block_end();
            node.otherwise = body({"endif"});
        }
        take();
        expect_block_end();
        return {0, std::move(node)};
    }
}

Statement Parser::for_block() {
    For node;
    node.target = target();
    if (!skip_name("in")) fail_expected("'in'");
    node.iterable = tuple(false);
    if (skip_name("if")) node.filter = expression();
    node.recursive = skip_name("recursive");
    expect_block_end();
    ++loops_;
    node.body = body({"else", "endfor"});
    --loops_;
    if (skip_name("else")) {
        expect_block_end();
        node.otherwise = body({"endfor"});
    }
    take();
    expect_block_end();
    return {0, std::move(node)};
}

Target Parser::simple_target() {
    const Nesting nesting(*this);
    Target out;
    if (skip_op("(")) {
        out = target();
        expect_op(")");
        return out;
    }
    out.name = expect_name("a name to assign to");
    if (skip_op(".")) out.attribute = expect_name("the name of an attribute");
    return out;
}

Target Parser::target() {
    Target first = simple_target();
    if (!is_op(",")) return first;
    Target out;
    out.parts.push_back(std::move(first));
    while (skip_op(",")) {
        if (is_name("in") || is_op("=") || is_op(")")) break;
        out.parts.push_back(simple_target());
    }
    return out;
}

Statement Parser::set_block() {
    Target to = target();
    if (skip_op("=")) {
        ExpressionPtr value = tuple(true);
        expect_block_end();
        return {0, Set{std::move(to), std::move(value)}};
    }
    ExpressionPtr filter = filters(nullptr);
    expect_block_end();
    return {0, SetBlock{std::move(to), std::move(filter), body_to("endset")}};
}

Statement Parser::with_block() {
    With node;
    while (now().kind != TokenKind::block_end) {
        if (!node.values.empty()) expect_op(",");
        Target to = simple_target();
        expect_op("=");
        node.values.emplace_back(std::move(to), expression());
    }
    expect_block_end();
    node.body = body_to("endwith");
    return {0, std::move(node)};
}

Statement Parser::call_block() {
    auto caller = std::make_unique<Macro>();
    if (is_op("(")) parameters(*caller);
    ExpressionPtr call = unary(true);
    if (!std::holds_alternative<Call>(call->node)) fail_expected("a call");
    expect_block_end();
    // The block's body is a macro of its own, but break and continue do not leave it.
    const unsigned loops = std::exchange(loops_, 0);
    caller->name = "caller";
    caller->body = body_to("endcall");
    loops_ = loops;
    return {0, CallBlock{std::move(caller), std::move(call)}};
}

Statement Parser::filter_block() {
    ExpressionPtr first = filter(nullptr);
    ExpressionPtr all = filters(std::move(first));
    expect_block_end();
    return {0, FilterBlock{std::move(all), body_to("endfilter")}};
}

Statement Parser::named_block() {
    expect_name("the name of a block");
    while (skip_name("scoped") || skip_name("required")) {
    }
    expect_block_end();
    Body inner = body({"endblock"});
    take();
    if (now().kind == TokenKind::name) take();
    expect_block_end();
    return {0, With{{}, std::move(inner)}};
}

void Parser::parameters(Macro& macro) {
    expect_op("(");
    while (!is_op(")")) {
        if (!macro.parameters.empty()) expect_op(",");
        if (is_op(")")) break;
        macro.parameters.push_back(expect_name("the name of a parameter"));
        if (skip_op("="))
            macro.defaults.push_back(expression());
        else if (!macro.defaults.empty())
            fail_expected("a default value");
    }
    expect_op(")");
}

std::unique_ptr<Macro> Parser::macro_rest(std::string name, std::string_view end) {
    auto macro = std::make_unique<Macro>();
    macro->name = std::move(name);
    parameters(*macro);
    expect_block_end();
    Macro* const outer = std::exchange(macro_, macro.get());
    const unsigned loops = std::exchange(loops_, 0);
    macro->body = body_to(end);
    loops_ = loops;
    macro_ = outer;
    return macro;
}

Body parse(std::string_view source) {
    constexpr size_t most = 1 << 20;
    if (source.size() > most)
        fail(Status::bad_file, "template", "expected at most ", most, " bytes, got ", source.size());
    return Parser(tokenize(source)).parse_template();
}

}  // namespace scoria::jinja
