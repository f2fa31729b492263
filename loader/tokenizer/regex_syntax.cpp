#include "tokenizer/regex_syntax.h"

#include "fail.h"
#include "tokenizer/utf8.h"

#include <vector>

namespace scoria {
namespace {

// White_Space of Unicode. PCRE2's own \s also takes U+180E, which Unicode removed and the tokenizers never
// had.
constexpr std::string_view space =
    R"(\x09-\x0d\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view not_space =
    R"(\x00-\x08\x0e-\x1f\x21-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027})"
    R"(\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{d7ff}\x{e000}-\x{10ffff})";
// As Oniguruma has it: the fractions and raised digits of Latin-1 too, but not inside a class.
constexpr std::string_view word = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})";
constexpr std::string_view word_in_class = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Nl}\p{Pc})";

// The whole of an expression that would look at a long run again from each of its characters, and its equal.
constexpr std::pair<std::string_view, std::string_view> linear_equals[] = {{R"(\s+$)", R"((?<!\s)\s+$)"}};

constexpr int most_nesting = 50;

class Translator {
  public:
    Translator(std::string_view pattern, const EachMember& each_member)
        : rest_(pattern), pattern_(pattern), each_member_(each_member) {}

    std::string translate() {
        std::string out;
        while (!rest_.empty()) {
            if (rest_.front() == '\\')
                out += escape(false);
            else if (rest_.front() == '[')
                out += character_class().text();
            else
                out += take(1);
        }
        return out;
    }

  private:
    struct Class {
        std::string items;
        bool negated = false;
        std::string text() const { return cat(negated ? "[^" : "[", items, "]"); }
    };

    std::string take(size_t bytes) {
        if (bytes > rest_.size()) refuse("an end in the middle");
        std::string taken(rest_.substr(0, bytes));
        rest_.remove_prefix(bytes);
        return taken;
    }

    [[noreturn]] void refuse(std::string_view what) const {
        fail(Status::unsupported, "regular expression", "this build does not support ", what, " in \"",
             pattern_.substr(0, 200), '"');
    }

    /// Whether the property "{Han}" is a script, which PCRE2 would extend by the punctuation that its texts
    /// share with others.
    bool is_script(std::string_view braced) const {
        try {
            each_member_(cat("\\p{sc:", braced.substr(1)), "", [](size_t) {});
            return true;
        } catch (const Error&) {
            return false;
        }
    }

    /// A backslash and what it escapes; inside a class the items alone.
    std::string escape(bool in_class) {
        const std::string taken = take(2);
        const auto one_of = [&](std::string_view items) {
            return in_class ? std::string(items) : cat("[", items, "]");
        };
        const auto none_of = [&](std::string_view items) {
            if (in_class) refuse(cat(taken, " inside a class"));
            return cat("[^", items, "]");
        };
        switch (taken[1]) {
        case 's':
            return one_of(space);
        case 'S':
            return one_of(not_space);
        case 'w':
            return one_of(in_class ? word_in_class : word);
        case 'W':
            return none_of(word);
        case 'h':
            return one_of("0-9a-fA-F");
        case 'H':
            return none_of("0-9a-fA-F");
        case 'u':
            return cat("\\x{", take(4), "}");
        case 'p':
        case 'P':
        case 'x': {
            if (!rest_.starts_with('{')) return taken;
            const size_t end = rest_.find('}');
            if (end == rest_.npos) refuse("a name without an end");
            const std::string name = take(end + 1);
            return taken + (taken[1] != 'x' && is_script(name) ? "{sc:" + name.substr(1) : name);
        }
        default:
            return taken;
        }
    }

    Class character_class() {
        if (++depth_ > most_nesting) refuse("classes nested that deep");
        take(1);
        std::vector<Class> operands(1);
        const bool negated = rest_.starts_with('^');
        if (negated) take(1);
        for (bool first = true; first || !rest_.starts_with(']'); first = false) {
            Class& operand = operands.back();
            if (rest_.starts_with("[:")) {
                operand.items += take(std::min(rest_.find(":]"), rest_.size()) + 2);
            } else if (rest_.starts_with('[')) {
                const Class inner = character_class();
                const bool alone =
                    operand.items.empty() && (rest_.starts_with("&&") || rest_.starts_with(']'));
                if (inner.negated && !alone) refuse("a negated class among the items of another");
                operand.items += inner.items;
                operand.negated = inner.negated;
            } else if (rest_.starts_with("&&")) {
                take(2);
                operands.emplace_back();
            } else if (rest_.starts_with('\\')) {
                operand.items += escape(true);
            } else if (rest_.starts_with(']')) {  // the first item: itself
                operand.items += "\\" + take(1);
            } else {
                operand.items += take(1);
            }
        }
        take(1);
        --depth_;
        if (operands.size() > 1) return {intersection(operands), negated};
        return {operands[0].items, negated != operands[0].negated};
    }

    /// The characters in all of `operands`, as ranges.
    std::string intersection(const std::vector<Class>& operands) const {
        static const std::string every = [] {
            std::string text;
            for (char32_t code = 0; code < 0x110000; ++code)
                if (code < 0xD800 || code >= 0xE000) utf8::append(text, code);
            return text;
        }();
        std::string expression;
        for (size_t i = 1; i < operands.size(); ++i) expression += cat("(?=", operands[i].text(), ")");
        expression += operands[0].text();
        std::vector<std::pair<char32_t, char32_t>> ranges;
        each_member_(expression, every, [&](size_t at) {
            const char32_t code = utf8::step(std::string_view(every).substr(at)).code;
            if (!ranges.empty() && ranges.back().second + 1 == code)
                ranges.back().second = code;
            else
                ranges.push_back({code, code});
        });
        if (ranges.empty()) refuse("a class without members");
        const auto hex = [](char32_t code) {
            char digits[16];
            return cat("\\x{",
                       std::string_view(digits, std::to_chars(digits, digits + 16, uint32_t{code}, 16).ptr),
                       "}");
        };
        std::string items;
        for (const auto& [first, last] : ranges) items += cat(hex(first), "-", hex(last));
        return items;
    }

    std::string_view rest_, pattern_;
    const EachMember& each_member_;
    int depth_ = 0;
};

}  // namespace

std::string pcre2_pattern(std::string_view pattern, const EachMember& each_member) {
    for (const auto& [written, equal] : linear_equals) {
        if (pattern == written) return Translator(equal, each_member).translate();
    }
    return Translator(pattern, each_member).translate();
}

}  // namespace scoria
