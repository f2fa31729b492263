// The syntax tree of a template. Immutable after parsing, so that renderings may share it.
#pragma once

#include "jinja/operators.h"

#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace scoria::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;
struct CallArguments {
    std::vector<ExpressionPtr> positional;
    std::vector<std::pair<std::string, ExpressionPtr>> named;
    ExpressionPtr list, dict;  // *list, **dict; or null
};

struct Literal {
    std::variant<None, bool, Integer, double, std::string> value;
};
struct Name {
    std::string name;
};
struct ListDisplay {
    std::vector<ExpressionPtr> items;
    bool tuple;
};
struct DictDisplay {
    std::vector<std::pair<ExpressionPtr, ExpressionPtr>> items;
};
struct Unary {
    char op;  // '-', '+', '!'
    ExpressionPtr operand;
};
struct Binary {
    Operator op;
    ExpressionPtr left, right;
};
struct Logic {
    bool is_and;
    ExpressionPtr left, right;
};
struct Comparisons {  // a < b < c
    ExpressionPtr first;
    std::vector<std::pair<Comparison, ExpressionPtr>> rest;
};
struct Concatenation {
    std::vector<ExpressionPtr> parts;
};
struct Conditional {
    ExpressionPtr test, yes, no;  // no: may be null
};
struct Attribute {
    ExpressionPtr object;
    std::string name;
};
struct Subscript {
    ExpressionPtr object, index;
};
struct Slice {
    ExpressionPtr object, from, to, step;  // bounds may be null
};
struct Call {
    ExpressionPtr callee;
    CallArguments arguments;
};
struct Filter {
    ExpressionPtr operand;  // null: the body of a block
    std::string name;
    CallArguments arguments;
};
struct Test {
    ExpressionPtr operand;
    std::string name;
    CallArguments arguments;
};

struct Expression {
    uint32_t line;
    unsigned depth;  // of the tree
    std::variant<Literal, Name, ListDisplay, DictDisplay, Unary, Binary, Logic, Comparisons, Concatenation,
                 Conditional, Attribute, Subscript, Slice, Call, Filter, Test>
        node;
};

struct Statement;
using Body = std::vector<Statement>;

/// What is assigned to: a name, an attribute of a namespace, or several of them.
struct Target {
    std::string name, attribute;  // attribute: of the namespace `name`, or empty
    std::vector<Target> parts;    // not empty: takes a sequence apart
};
struct Macro {
    std::string name;
    std::vector<std::string> parameters;
    std::vector<ExpressionPtr> defaults;  // of the last parameters
    Body body;
    bool takes_more = false, takes_named = false, takes_caller = false;  // varargs, kwargs, caller are read
};

struct Data {
    std::string text;
};
struct Output {
    ExpressionPtr value;
};
struct If {
    std::vector<std::pair<ExpressionPtr, Body>> branches;
    Body otherwise;
};
struct For {
    Target target;
    ExpressionPtr iterable, filter;  // filter: may be null
    Body body, otherwise;
    bool recursive = false;
};
struct Set {
    Target target;
    ExpressionPtr value;
};
struct SetBlock {
    Target target;
    ExpressionPtr filter;  // or null
    Body body;
};
struct MacroBlock {
    std::unique_ptr<const Macro> macro;
};
struct CallBlock {
    std::unique_ptr<const Macro> caller;
    ExpressionPtr call;
};
struct FilterBlock {
    ExpressionPtr filter;
    Body body;
};
struct With {  // without values: a scope alone
    std::vector<std::pair<Target, ExpressionPtr>> values;
    Body body;
};
struct Break {};
struct Continue {};

struct Statement {
    uint32_t line;
    std::variant<Data, Output, If, For, Set, SetBlock, MacroBlock, CallBlock, FilterBlock, With, Break,
                 Continue>
        node;
};

/// Errors: bad_file for what is no template; unsupported for templates that need other files.
Body parse(std::string_view source);

}  // namespace scoria::jinja
