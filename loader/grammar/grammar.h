// A grammar over characters as a tree per rule, and how it is read from text. Knows neither models nor
// devices.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace scoria::grammar {

/// Both included; Unicode code points.
struct CodeRange {
    char32_t first, last;
    bool operator==(const CodeRange&) const = default;
};
using CodeSet = std::vector<CodeRange>;  // sorted, with gaps between

inline constexpr char32_t last_code = 0x10FFFF;
CodeSet united(CodeSet ranges);  // any order and overlap
CodeSet complement(const CodeSet& set);
CodeSet intersection(const CodeSet& a, const CodeSet& b);

inline constexpr uint32_t unbounded = UINT32_MAX;

struct Expr {
    enum class Kind : uint8_t { text, characters, sequence, choice, repeat, rule };
    Kind kind = Kind::text;
    std::string text{};  // UTF-8
    CodeSet set{};
    std::vector<Expr> parts{};     // of a repeat: one
    uint32_t least = 0, most = 0;  // of a repeat
    uint32_t rule = 0;
};

inline Expr text(std::string bytes) { return {.kind = Expr::Kind::text, .text = std::move(bytes)}; }
inline Expr characters(CodeSet set) { return {.kind = Expr::Kind::characters, .set = std::move(set)}; }
inline Expr sequence(std::vector<Expr> parts) {
    return {.kind = Expr::Kind::sequence, .parts = std::move(parts)};
}
inline Expr choice(std::vector<Expr> parts) {
    return {.kind = Expr::Kind::choice, .parts = std::move(parts)};
}
inline Expr repeat(Expr part, uint32_t least, uint32_t most) {
    Expr expr{.kind = Expr::Kind::repeat, .least = least, .most = most};
    expr.parts.push_back(std::move(part));
    return expr;
}
inline Expr optional(Expr part) { return repeat(std::move(part), 0, 1); }
inline Expr rule_reference(uint32_t rule) { return {.kind = Expr::Kind::rule, .rule = rule}; }

struct Grammar {
    struct Rule {
        std::string name;
        Expr body;
    };
    std::vector<Rule> rules;
    uint32_t root = 0;
};

inline constexpr size_t most_text = 1 << 20;  // bytes of a grammar or a schema
inline constexpr uint32_t most_depth = 100;   // of groups in groups, schemas in schemas

/// GBNF: `name ::= alternatives`, "literals", [classes], `.`, (groups), `|`, `*` `+` `?` `{n,m}`, # comments;
/// a rule `root`. Escapes: \n \r \t \\ \" \[ \] \xHH \uHHHH \UHHHHHHHH (code points).
/// Errors: bad_argument with the line, where it is no grammar.
Grammar parse_gbnf(std::string_view text);

}  // namespace scoria::grammar
