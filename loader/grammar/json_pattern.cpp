// The regular expressions of JSON Schema's `pattern`, as far as they are regular.
#include "fail.h"
#include "json_text.h"
#include "unicode_text.h"

#include <algorithm>

namespace scoria::grammar {
namespace {

// Functions, since loading the library must run nothing.
CodeSet decimal() { return {{'0', '9'}}; }
CodeSet word() { return {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}; }
// ECMA 262's white space and line ends.
CodeSet space() {
    return {{0x09, 0x0D},     {0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
            {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
}
CodeSet line_ends() { return {{0x0A, 0x0A}, {0x0D, 0x0D}, {0x2028, 0x2029}}; }

class Pattern {
  public:
    Pattern(std::string_view text, const Expr& any) : text_(text), any_(any) {}
    Expr run() {
        std::vector<Expr> all;
        do {
            const bool from_start = take('^');
            Expr inside = alternative(0);
            const bool to_end = take('$');
            if (at_ < text_.size() && peek() != '|') refuse("the end or '|'");
            std::vector<Expr> parts;
            if (!from_start) parts.push_back(repeat(any_, 0, unbounded));
            parts.push_back(std::move(inside));
            if (!to_end) parts.push_back(repeat(any_, 0, unbounded));
            all.push_back(sequence(std::move(parts)));
        } while (take('|'));
        return choice(std::move(all));
    }

  private:
    [[noreturn]] void refuse(std::string_view expected) const {
        fail(Status::unsupported, "json schema", "pattern: expected ", expected, " at byte ", at_, ", got ",
             at_ < text_.size() ? cat("'", first_character(text_.substr(at_)), "'") : "the end", " in '",
             text_, "'");
    }
    char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
    bool take(char byte) {
        if (at_ >= text_.size() || text_[at_] != byte) return false;
        ++at_;
        return true;
    }

    Expr alternative(uint32_t depth) {
        std::vector<Expr> parts;
        while (at_ < text_.size() && peek() != '|' && peek() != ')' && !(peek() == '$'))
            parts.push_back(repeated(atom(depth)));
        return sequence(std::move(parts));
    }

    Expr group(uint32_t depth) {
        if (depth >= most_depth) refuse("groups nested less deep");
        if (take('?') && !take(':')) refuse("a plain group or (?:");
        std::vector<Expr> all;
        do all.push_back(alternative(depth + 1));
        while (take('|'));
        if (!take(')')) refuse("')'");
        return choice(std::move(all));
    }

    Expr atom(uint32_t depth) {
        switch (peek()) {
        case '(':
            ++at_;
            return group(depth);
        case '[':
            ++at_;
            return json_characters(char_class());
        case '.':
            ++at_;
            return json_characters(complement(line_ends()));
        case '*':
        case '+':
        case '?':
        case '{':
        case '^':
            refuse("something to match");
        case '\\': {
            const CodeSet set = escape(false);
            return json_characters(set);
        }
        default: {
            const char32_t code = character();
            return json_characters({{code, code}});
        }
        }
    }

    Expr repeated(Expr part) {
        uint32_t least = 0, most = unbounded;
        if (take('*')) {
        } else if (take('+')) {
            least = 1;
        } else if (take('?')) {
            most = 1;
        } else if (take('{')) {
            least = most = number();
            if (take(',')) most = peek() == '}' ? unbounded : number();
            if (most < least) refuse("bounds in rising order");
            if (!take('}')) refuse("'}'");
        } else {
            return part;
        }
        take('?');  // lazy: the same texts
        return repeat(std::move(part), least, most);
    }

    uint32_t number() {
        if (peek() < '0' || peek() > '9') refuse("a number");
        uint32_t value = 0;
        for (; peek() >= '0' && peek() <= '9'; ++at_) {
            value = value * 10 + uint32_t(peek() - '0');
            if (value > 1'000'000) refuse("a number up to 1000000");
        }
        return value;
    }

    char32_t character() {
        const auto step = at_ < text_.size() ? utf8_step(text_.substr(at_)) : std::nullopt;
        if (!step) refuse("a character");
        at_ += step->bytes;
        return step->code;
    }

    CodeSet escape(bool in_class) {
        ++at_;
        const char letter = peek();
        const auto hex = [&](int digits) -> CodeSet {
            char32_t code = 0;
            for (int i = 0; i < digits; ++i, ++at_) {
                const auto value = hex_digit(peek());
                if (!value) refuse("hexadecimal digits");
                code = code * 16 + *value;
            }
            if (code >= 0xD800 && code <= 0xDFFF) refuse("no surrogate before this");
            return {{code, code}};
        };
        const auto one = [&](char32_t code) -> CodeSet {
            ++at_;
            return {{code, code}};
        };
        const auto set = [&](const CodeSet& named, bool negated) {
            ++at_;
            return negated ? complement(named) : named;
        };
        switch (letter) {
        case 'd':
        case 'D':
            return set(decimal(), letter == 'D');
        case 'w':
        case 'W':
            return set(word(), letter == 'W');
        case 's':
        case 'S':
            return set(space(), letter == 'S');
        case 't':
            return one('\t');
        case 'n':
            return one('\n');
        case 'v':
            return one('\v');
        case 'f':
            return one('\f');
        case 'r':
            return one('\r');
        case 'x':
            ++at_;
            return hex(2);
        case 'u':
            ++at_;
            return hex(4);
        default:
            // Only what has a meaning of its own may be escaped: \b, \p, \1 and their kin are no characters.
            if (std::string_view("^$\\.*+?()[]{}|/").find(letter) == std::string_view::npos &&
                !(letter == '-' && in_class))
                refuse("a known escape");
            return one(char32_t(letter));
        }
    }

    CodeSet char_class() {
        const bool negated = take('^');
        CodeSet set;
        while (peek() != ']' || at_ >= text_.size()) {
            const bool escaped = peek() == '\\';
            const CodeSet first = escaped ? escape(true) : CodeSet{one_of()};
            const bool single = first.size() == 1 && first[0].first == first[0].last;
            if (peek() != '-' || peek(1) == ']') {
                set.insert(set.end(), first.begin(), first.end());
                continue;
            }
            ++at_;
            const CodeSet last = peek() == '\\' ? escape(true) : CodeSet{one_of()};
            if (!single || last.size() != 1 || last[0].first != last[0].last ||
                last[0].first < first[0].first)
                refuse("a range of characters in rising order before this");
            set.push_back({first[0].first, last[0].first});
        }
        ++at_;
        set = united(std::move(set));
        if (negated) set = complement(set);
        if (set.empty()) refuse("a class of at least one character");
        return set;
    }
    CodeRange one_of() {
        const char32_t code = character();
        return {code, code};
    }

    std::string_view text_;
    const Expr& any_;
    size_t at_ = 0;
};

}  // namespace

Expr json_pattern(std::string_view expression, const Expr& any) { return Pattern(expression, any).run(); }

}  // namespace scoria::grammar
