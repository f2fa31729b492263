#include "jinja/lexer.h"

#include "fail.h"
#include "jinja/operators.h"
#include "jinja/unicode.h"
#include "tokenizer/utf8.h"

#include <algorithm>

namespace scoria::jinja {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_part(char32_t code) {
    return code == '_' || has(Property::alpha, code) || has(Property::numeric, code);
}

/// Line ends as \n, and without the last one.
std::string normalise(std::string_view source) {
    std::string out;
    for (size_t i = 0; i < source.size(); ++i) {
        const bool carriage = source[i] == '\r';
        if (carriage && i + 1 < source.size() && source[i + 1] == '\n') ++i;
        out += carriage ? '\n' : source[i];
    }
    if (out.ends_with('\n')) out.pop_back();
    return out;
}

class Lexer {
  public:
    explicit Lexer(std::string_view source) : source_(normalise(utf8::valid(source))) {}

    std::vector<Token> run() {
        while (at_ < source_.size()) read_data();
        add(TokenKind::end, "");
        return std::move(tokens_);
    }

  private:
    template <class... Parts> [[noreturn]] void fail(const Parts&... parts) const {
        scoria::fail(Status::bad_file, "template", "line ", line_, ": ", parts...);
    }
    std::string_view rest() const { return std::string_view(source_).substr(at_); }
    char peek(size_t ahead = 0) const { return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0'; }
    void add(TokenKind kind, std::string text) { tokens_.push_back({kind, line_, std::move(text)}); }
    void advance(size_t to) {
        line_ += static_cast<uint32_t>(std::count(source_.begin() + static_cast<ptrdiff_t>(at_),
                                                  source_.begin() + static_cast<ptrdiff_t>(to), '\n'));
        at_ = to;
    }
    void skip_space() {
        size_t to = at_;
        for (size_t next = to; next < source_.size() && is_space(next_code(source_, next));) to = next;
        advance(to);
    }

    /// Text up to a tag, cut as the tag's sign says, and the tag.
    void read_data() {
        size_t open = source_.find('{', at_);
        while (open != source_.npos &&
               (open + 1 == source_.size() ||
                std::string_view("{%#").find(source_[open + 1]) == std::string_view::npos))
            open = source_.find('{', open + 1);
        if (open == source_.npos) {
            add(TokenKind::data, source_.substr(at_));
            return advance(source_.size());
        }
        const char tag = source_[open + 1];
        const char sign = open + 2 < source_.size() ? source_[open + 2] : '\0';
        add_data(open, sign, tag != '{');
        advance(open + (sign == '-' || sign == '+' ? 3 : 2));
        if (tag == '#') return skip_comment();
        if (tag == '%' && read_raw()) return;
        add(tag == '%' ? TokenKind::block_begin : TokenKind::variable_begin, "");
        read_tag(tag == '%');
    }

    void add_data(size_t end, char sign, bool strips) {
        size_t keep = end;
        if (sign == '-' || (strips && sign != '+')) {
            for (size_t before = keep; before > at_;) {
                const char32_t code = previous_code(source_, before);
                if (!is_space(code) || (sign != '-' && code == '\n')) break;
                keep = before;
            }
            // Without a sign only a tag that is first on its line loses the space before it.
            const bool first = keep == at_ ? at_line_start_ : source_[keep - 1] == '\n';
            if (sign != '-' && !first) keep = end;
        }
        if (keep > at_) add(TokenKind::data, source_.substr(at_, keep - at_));
    }

    /// Past the end of a tag whose "%}" or the like begins at `at_`, after its sign.
    void end_tag(char sign, bool trims) {
        advance(at_ + 2);
        const size_t end = at_;
        if (sign == '-')
            skip_space();
        else if (sign != '+' && trims && peek() == '\n')
            advance(at_ + 1);
        at_line_start_ = at_ > end && source_[at_ - 1] == '\n';
    }

    void skip_comment() {
        const size_t close = source_.find("#}", at_);
        if (close == source_.npos) fail("expected the end of a comment, got the end of the template");
        const char sign = close > at_ ? source_[close - 1] : '\0';
        advance(close);
        end_tag(sign, true);
    }

    /// "raw %}...{% endraw %}" after "{%".
    bool read_raw() {
        const size_t begin = at_;
        const uint32_t line = line_;
        skip_space();
        if (!rest().starts_with("raw")) return back_to(begin, line);
        advance(at_ + 3);
        skip_space();
        const bool strips = peek() == '-';
        if (!rest().substr(strips).starts_with("%}")) return back_to(begin, line);
        advance(at_ + (strips ? 3 : 2));
        if (strips) skip_space();
        at_line_start_ = at_ > 0 && source_[at_ - 1] == '\n';
        for (size_t open = source_.find("{%", at_); open != source_.npos;
             open = source_.find("{%", open + 2)) {
            const char sign = open + 2 < source_.size() ? source_[open + 2] : '\0';
            size_t word = open + (sign == '-' || sign == '+' ? 3 : 2);
            while (word < source_.size() && is_space(static_cast<uint8_t>(source_[word]))) ++word;
            if (source_.compare(word, 6, "endraw") != 0) continue;
            word += 6;
            while (word < source_.size() && is_space(static_cast<uint8_t>(source_[word]))) ++word;
            const char end_sign = word < source_.size() ? source_[word] : '\0';
            if (end_sign == '-' || end_sign == '+') ++word;
            if (source_.compare(word, 2, "%}") != 0) continue;
            add_data(open, sign, true);
            advance(word);
            end_tag(end_sign, true);
            return true;
        }
        fail("expected {% endraw %}, got the end of the template");
    }
    bool back_to(size_t at, uint32_t line) {
        at_ = at;
        line_ = line;
        return false;
    }

    void read_tag(bool block) {
        const std::string_view close = block ? "%}" : "}}";
        std::string open;  // brackets
        while (true) {
            skip_space();
            if (at_ == source_.size()) fail("expected '", close, "', got the end of the template");
            const char sign = peek();
            const bool is_sign = sign == '-' || (sign == '+' && block);
            if (open.empty() && rest().substr(is_sign).starts_with(close)) {
                if (is_sign) advance(at_ + 1);
                add(block ? TokenKind::block_end : TokenKind::variable_end, "");
                return end_tag(is_sign ? sign : '\0', block);
            }
            read_token(open);
        }
    }

    void read_token(std::string& open) {
        const char c = peek();
        if (is_digit(c)) return read_number();
        if (c == '\'' || c == '"') return read_string(c);
        size_t end = at_;
        for (size_t next = at_; next < source_.size() && is_name_part(next_code(source_, next));) end = next;
        if (end > at_) {
            add(TokenKind::name, source_.substr(at_, end - at_));
            return advance(end);
        }
        static constexpr std::string_view operators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                         "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                         ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
        for (const std::string_view op : operators) {
            if (!rest().starts_with(op)) continue;
            balance(open, op[0]);
            add(TokenKind::op, std::string(op));
            return advance(at_ + op.size());
        }
        size_t next = at_;
        next_code(source_, next);
        fail("expected an expression, got '", source_.substr(at_, next - at_), "'");
    }

    void balance(std::string& open, char bracket) const {
        static constexpr std::string_view opening = "([{", closing = ")]}";
        if (const size_t kind = opening.find(bracket); kind != opening.npos) open += closing[kind];
        if (closing.find(bracket) == closing.npos) return;
        if (open.empty() || open.back() != bracket)
            fail("expected ", open.empty() ? "no bracket to close" : cat("'", open.back(), "'"), ", got '",
                 bracket, "'");
        open.pop_back();
    }

    void read_number() {
        const auto digits = [&](size_t from) {
            size_t to = from;
            while (to < source_.size() &&
                   (is_digit(source_[to]) || (source_[to] == '_' && to > from && to + 1 < source_.size() &&
                                              is_digit(source_[to + 1]))))
                ++to;
            return to;
        };
        const char letter = static_cast<char>(peek(1) | 0x20);
        size_t end = digits(at_);
        bool real = false;
        if (end == at_ + 1 && peek() == '0' && (letter == 'x' || letter == 'o' || letter == 'b')) {
            end = at_ + 2;
            while (end < source_.size() &&
                   (std::isxdigit(static_cast<uint8_t>(source_[end])) || source_[end] == '_'))
                ++end;
        } else if (at_ == 0 || source_[at_ - 1] != '.') {  // "a.0.1" indexes twice
            if (end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1])) {
                end = digits(end + 1);
                real = true;
            }
            if (end < source_.size() && (source_[end] | 0x20) == 'e') {
                const size_t sign =
                    end + 1 < source_.size() && (source_[end + 1] == '-' || source_[end + 1] == '+');
                const size_t exponent = digits(end + 1 + sign);
                if (exponent > end + 1 + sign) {
                    end = exponent;
                    real = true;
                }
            }
        }
        const std::string_view text = std::string_view(source_).substr(at_, end - at_);
        Token token{real ? TokenKind::real : TokenKind::integer, line_, std::string(text)};
        const std::optional<Integer> whole = real ? std::nullopt : parse_integer(text, 0);
        const std::optional<double> number = real ? parse_float(text) : std::nullopt;
        if (!whole && !number) fail("expected a number of at most 127 bits, got ", text.substr(0, 60));
        if (whole)
            token.number = *whole;
        else
            token.number = *number;
        tokens_.push_back(std::move(token));
        advance(end);
    }

    void read_string(char quote) {
        size_t end = at_ + 1;
        while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
        if (end >= source_.size()) fail("expected the end of a string, got the end of the template");
        std::string value;
        for (size_t i = at_ + 1; i < end;) {
            if (source_[i] == '\\')
                i = read_escape(value, i + 1, end);
            else
                value += source_[i++];
        }
        add(TokenKind::string, std::move(value));
        advance(end + 1);
    }

    /// An escape of Python's after its backslash; returns where it ends.
    size_t read_escape(std::string& value, size_t i, size_t end) const {
        static constexpr std::string_view letters = "\n\\'\"abfnrtv", meant = "\0\\'\"\a\b\f\n\r\t\v";
        const char c = source_[i];
        if (c == '\n') return i + 1;
        if (const size_t known = letters.find(c); known != letters.npos) {
            value += std::string_view(meant.data(), letters.size())[known];
            return i + 1;
        }
        const size_t hex = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
        const bool octal = c >= '0' && c <= '7';
        if (hex == 0 && !octal) {
            value += '\\';
            return i;
        }
        size_t stop = octal ? i : i + 1;
        const size_t limit = std::min(end, octal ? i + 3 : i + 1 + hex);
        uint32_t code = 0;
        for (; stop < limit; ++stop) {
            const std::optional<Integer> digit = parse_integer(source_.substr(stop, 1), octal ? 8 : 16);
            if (!digit) break;
            code = code * (octal ? 8 : 16) + static_cast<uint32_t>(*digit);
        }
        const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
        if ((hex != 0 && stop != i + 1 + hex) || code > 0x10FFFF || surrogate)
            fail("expected an escape that is a character, got '\\", source_.substr(i, stop - i), "'");
        utf8::append(value, code);
        return stop;
    }

    std::string source_;
    size_t at_ = 0;
    uint32_t line_ = 1;
    bool at_line_start_ = true;  // what precedes `at_` ends with a line end
    std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace scoria::jinja
