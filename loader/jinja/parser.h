// Recursive descent over the tokens. Depth is bounded here, so that whoever walks the tree may recurse.
#pragma once

#include "jinja/lexer.h"
#include "jinja/syntax.h"

#include "fail.h"

#include <initializer_list>
#include <span>

namespace scoria::jinja {

class Parser {
  public:
    explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}
    Body parse_template();

  private:
    static constexpr unsigned max_depth = 120;

    // Tokens.
    const Token& now() const { return tokens_[at_]; }
    const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
    const Token& take();
    bool is_op(std::string_view op) const { return now().is(TokenKind::op, op); }
    bool is_name(std::string_view name) const { return now().is(TokenKind::name, name); }
    bool skip_op(std::string_view op);
    bool skip_name(std::string_view name);
    void expect_op(std::string_view op);
    std::string expect_name(std::string_view what);
    void expect_block_end();
    template <class... Parts> [[noreturn]] void fail(const Parts&... parts) const {
        scoria::fail(Status::bad_file, "template", "line ", now().line, ": ", parts...);
    }
    [[noreturn]] void fail_expected(std::string_view what) const;

    /// A node above others, whose depth is bounded.
    template <class Node> ExpressionPtr make(uint32_t line, unsigned below, Node node);
    /// Counts the levels of the recursion while it lives.
    class Nesting {
      public:
        explicit Nesting(Parser& parser) : parser_(parser) {
            if (++parser_.nesting_ > max_depth)
                parser_.fail("expected at most ", max_depth, " nested levels, got more");
        }
        ~Nesting() { --parser_.nesting_; }
        Nesting(const Nesting&) = delete;
        Nesting& operator=(const Nesting&) = delete;

      private:
        Parser& parser_;
    };

    // Expressions, by precedence.
    ExpressionPtr expression();
    ExpressionPtr conditional(bool with_conditional);
    ExpressionPtr disjunction();
    ExpressionPtr conjunction();
    ExpressionPtr negation();
    ExpressionPtr comparison();
    ExpressionPtr sum();
    ExpressionPtr concatenation();
    ExpressionPtr product();
    ExpressionPtr power();
    ExpressionPtr unary(bool with_filters);
    ExpressionPtr primary();
    ExpressionPtr postfix(ExpressionPtr value);
    ExpressionPtr filters_and_tests(ExpressionPtr value);
    ExpressionPtr filters(ExpressionPtr value);
    ExpressionPtr filter(ExpressionPtr value);
    ExpressionPtr test(ExpressionPtr value);
    ExpressionPtr subscript(ExpressionPtr value);
    ExpressionPtr call(ExpressionPtr value);
    CallArguments arguments();
    ExpressionPtr tuple(bool with_conditional, bool explicit_parentheses = false);
    bool ends_tuple() const;
    ExpressionPtr list();
    ExpressionPtr dict();

    // Statements.
    Body body(std::initializer_list<std::string_view> ends);  // stops after "{%" at a name of `ends`
    Body body_to(std::string_view end);                       // past "{% end %}"
    void statement(Body& out);
    Statement if_block();
    Statement for_block();
    Statement set_block();
    Statement with_block();
    Statement call_block();
    Statement filter_block();
    Statement named_block();
    std::unique_ptr<Macro> macro_rest(std::string name, std::string_view end);
    void parameters(Macro& macro);
    Target target();
    Target simple_target();

    std::vector<Token> tokens_;
    size_t at_ = 0;
    unsigned nesting_ = 0, loops_ = 0;
    Macro* macro_ = nullptr;  // that is being read
};

}  // namespace scoria::jinja
