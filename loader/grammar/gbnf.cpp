// Reads GBNF. Line ends mean nothing: a rule ends where the next `name ::=` begins.
#include "fail.h"
#include "grammar.h"
#include "unicode_text.h"

#include <algorithm>
#include <map>
#include <optional>

namespace scoria::grammar {
namespace {

constexpr uint32_t most_stacked = 8;  // x+?* ...: each deepens the tree

bool is_name_byte(char byte) {
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') ||
           byte == '-' || byte == '_';
}

class Parser {
  public:
    explicit Parser(std::string_view text) : text_(text) {}
    Grammar run();

  private:
    template <class... Parts> [[noreturn]] void refuse(const Parts&... expected) const;
    char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
    bool take(char byte) {
        if (peek() != byte || at_ >= text_.size()) return false;
        ++at_;
        return true;
    }
    void skip_space();
    std::string_view name();
    /// Whether a rule's head stands here.
    bool at_head() const;
    uint32_t rule_of(std::string_view name);
    Expr alternatives(uint32_t depth);
    Expr alternative(uint32_t depth);
    std::optional<Expr> element(uint32_t depth);
    Expr repeated(Expr part);
    Expr literal();
    Expr char_class();
    char32_t character();
    char32_t hex(int digits);
    uint32_t number();

    std::string_view text_;
    size_t at_ = 0;
    Grammar grammar_;
    std::map<std::string, uint32_t, std::less<>> ids_;
    std::vector<bool> defined_;
};

template <class... Parts> void Parser::refuse(const Parts&... expected) const {
    const auto line = 1 + std::count(text_.begin(), text_.begin() + std::ptrdiff_t(at_), '\n');
    const std::string got =
        at_ < text_.size() ? cat("'", first_character(text_.substr(at_)), "'") : "the end";
    fail(Status::bad_argument, "grammar", "line ", line, ": expected ", expected..., ", got ", got);
}

void Parser::skip_space() {
    while (at_ < text_.size()) {
        const char byte = text_[at_];
        if (byte == '#') {
            while (at_ < text_.size() && text_[at_] != '\n' && text_[at_] != '\r') ++at_;
        } else if (byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r') {
            ++at_;
        } else {
            return;
        }
    }
}

std::string_view Parser::name() {
    const size_t first = at_;
    while (is_name_byte(peek())) ++at_;
    return text_.substr(first, at_ - first);
}

bool Parser::at_head() const {
    size_t i = at_;
    while (i < text_.size() && is_name_byte(text_[i])) ++i;
    if (i == at_) return false;
    while (i < text_.size() && (text_[i] == ' ' || text_[i] == '\t' || text_[i] == '\n' || text_[i] == '\r'))
        ++i;
    return text_.substr(i, 3) == "::=";
}

uint32_t Parser::rule_of(std::string_view name) {
    if (const auto found = ids_.find(name); found != ids_.end()) return found->second;
    const uint32_t id = uint32_t(grammar_.rules.size());
    ids_.emplace(name, id);
    grammar_.rules.push_back({std::string(name), {}});
    defined_.push_back(false);
    return id;
}

Expr Parser::alternatives(uint32_t depth) {
    if (depth > most_depth) refuse("groups nested at most ", most_depth, " deep");
    std::vector<Expr> all;
    do all.push_back(alternative(depth));
    while (take('|'));
    return all.size() == 1 ? std::move(all[0]) : choice(std::move(all));
}

Expr Parser::alternative(uint32_t depth) {
    std::vector<Expr> parts;
    while (true) {
        skip_space();
        std::optional<Expr> part = element(depth);
        if (!part) break;
        parts.push_back(repeated(std::move(*part)));
    }
    return parts.size() == 1 ? std::move(parts[0]) : sequence(std::move(parts));
}

std::optional<Expr> Parser::element(uint32_t depth) {
    if (at_ >= text_.size()) return std::nullopt;
    switch (peek()) {
    case '"':
        return literal();
    case '[':
        return char_class();
    case '.':
        ++at_;
        return characters({{0, last_code}});
    case '(': {
        ++at_;
        Expr group = alternatives(depth + 1);
        if (!take(')')) refuse("')'");
        return group;
    }
    default:
        if (!is_name_byte(peek()) || at_head()) return std::nullopt;
        return rule_reference(rule_of(name()));
    }
}

Expr Parser::repeated(Expr part) {
    for (uint32_t times = 0;; ++times) {
        skip_space();
        uint32_t least = 0, most = unbounded;
        if (take('*')) {
        } else if (take('+')) {
            least = 1;
        } else if (take('?')) {
            most = 1;
        } else if (take('{')) {
            skip_space();
            if (peek() != ',') most = least = number();
            skip_space();
            if (take(',')) {
                skip_space();
                most = peek() == '}' ? unbounded : number();
                skip_space();
            }
            if (most < least) refuse("bounds in rising order");
            if (!take('}')) refuse("'}'");
        } else {
            return part;
        }
        if (times == most_stacked) refuse("at most ", most_stacked, " repetitions of one thing");
        part = repeat(std::move(part), least, most);
    }
}

uint32_t Parser::number() {
    if (peek() < '0' || peek() > '9') refuse("a number");
    uint32_t value = 0;
    while (peek() >= '0' && peek() <= '9') {
        value = value * 10 + uint32_t(peek() - '0');
        if (value > 1'000'000) refuse("a number up to 1000000");
        ++at_;
    }
    return value;
}

Expr Parser::literal() {
    ++at_;
    std::string bytes;
    while (peek() != '"') append_utf8(bytes, character());
    ++at_;
    return text(std::move(bytes));
}

Expr Parser::char_class() {
    ++at_;
    const bool negated = take('^');
    CodeSet set;
    while (peek() != ']') {
        const char32_t first = character();
        char32_t last = first;
        if (peek() == '-' && peek(1) != ']') {
            ++at_;
            last = character();
        }
        if (last < first) refuse("a range in rising order");
        set.push_back({first, last});
    }
    ++at_;
    set = united(std::move(set));
    if (negated) set = complement(set);
    if (set.empty()) refuse("a class of at least one character");
    return characters(std::move(set));
}

char32_t Parser::character() {
    if (at_ >= text_.size()) refuse("a character");
    if (!take('\\')) {
        const auto step = utf8_step(text_.substr(at_));
        if (!step) refuse("UTF-8");
        at_ += step->bytes;
        return step->code;
    }
    const char escape = peek();
    ++at_;
    switch (escape) {
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    case '\\':
    case '"':
    case '[':
    case ']':
    case '-':
    case '^':
        return char32_t(escape);
    case 'x':
        return hex(2);
    case 'u':
        return hex(4);
    case 'U':
        return hex(8);
    default:
        at_ = std::min(at_ - 1, text_.size());
        refuse("an escape of n r t \\ \" [ ] - ^ x u U");
    }
}

char32_t Parser::hex(int digits) {
    uint64_t code = 0;
    for (int i = 0; i < digits; ++i) {
        const std::optional<uint32_t> digit = hex_digit(peek());
        if (!digit) refuse(digits, " hexadecimal digits");
        code = code * 16 + *digit;
        ++at_;
    }
    if (code > last_code || (code >= 0xD800 && code <= 0xDFFF))
        refuse("a character's code point before this");
    return char32_t(code);
}

Grammar Parser::run() {
    if (text_.size() > most_text)
        fail(Status::bad_argument, "grammar", "expected at most ", most_text, " bytes, got ", text_.size());
    for (skip_space(); at_ < text_.size(); skip_space()) {
        if (!at_head()) refuse("a rule (name ::= ...)");
        const std::string_view head = name();
        const uint32_t id = rule_of(head);
        if (defined_[id]) refuse("one rule named ", head, " before this");
        defined_[id] = true;
        skip_space();
        at_ += 3;
        grammar_.rules[id].body = alternatives(0);
    }
    const auto root = ids_.find("root");
    if (root == ids_.end()) fail(Status::bad_argument, "grammar", "expected a rule named root, got none");
    for (size_t id = 0; id < defined_.size(); ++id)
        if (!defined_[id])
            fail(Status::bad_argument, "grammar", "expected a rule named ", grammar_.rules[id].name,
                 ", got none");
    grammar_.root = root->second;
    return std::move(grammar_);
}

}  // namespace

Grammar parse_gbnf(std::string_view text) { return Parser(text).run(); }

}  // namespace scoria::grammar
