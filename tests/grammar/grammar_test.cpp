// GBNF and the matcher: against tables, and random grammars against a matcher that tries everything.
#include "grammar/constraint.h"
#include "grammar/unicode_text.h"

#include "fail.h"

#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <random>
#include <set>

using namespace scoria;
using namespace scoria::grammar;

namespace {

std::shared_ptr<const Program> compiled(const Grammar& grammar) {
    return std::make_shared<const Program>(grammar);
}

enum class Verdict : uint8_t { no, prefix, yes };

Verdict verdict(Matcher& matcher, std::string_view text) {
    Matcher::State state = matcher.start();
    for (const char byte : text) state = matcher.next(state, static_cast<uint8_t>(byte));
    return matcher.accepts(state) ? Verdict::yes : state != Matcher::dead ? Verdict::prefix : Verdict::no;
}

std::string refusal(const std::function<void()>& call) {
    try {
        call();
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

/// Everything a text can be read as; without left recursion every question comes before its answer.
class Reader {
  public:
    Reader(const Grammar& grammar, std::string_view text) : grammar_(grammar), text_(text) {}
    bool matches() { return ends(grammar_.rules[grammar_.root].body, 0).contains(text_.size()); }

  private:
    /// Where a match of `expr` from `at` may end.
    const std::set<size_t>& ends(const Expr& expr, size_t at) {
        const auto key = std::pair(&expr, at);
        if (const auto known = known_.find(key); known != known_.end()) return known->second;
        return known_[key] = find(expr, at);
    }
    std::set<size_t> after(const std::set<size_t>& starts, const Expr& expr) {
        std::set<size_t> all;
        for (const size_t from : starts) all.insert(ends(expr, from).begin(), ends(expr, from).end());
        return all;
    }
    std::set<size_t> find(const Expr& expr, size_t at) {
        const std::string_view rest = text_.substr(at);
        std::set<size_t> now{at}, all;
        switch (expr.kind) {
        case Expr::Kind::text:
            return rest.starts_with(expr.text) ? std::set{at + expr.text.size()} : all;
        case Expr::Kind::characters: {
            const auto step = rest.empty() ? std::nullopt : utf8_step(rest);
            if (!step || intersection(expr.set, {{step->code, step->code}}).empty()) return all;
            return {at + step->bytes};
        }
        case Expr::Kind::sequence:
            for (const Expr& part : expr.parts) now = after(now, part);
            return now;
        case Expr::Kind::choice:
            for (const Expr& part : expr.parts) all.merge(after(now, part));
            return all;
        case Expr::Kind::repeat: {
            const uint32_t rounds = std::min<uint32_t>(expr.most, expr.least + uint32_t(text_.size()) + 1);
            for (uint32_t i = 0; i <= rounds && !now.empty(); ++i) {
                if (i >= expr.least) all.insert(now.begin(), now.end());
                if (i < rounds) now = after(now, expr.parts[0]);
            }
            return all;
        }
        case Expr::Kind::rule:
            return ends(grammar_.rules[expr.rule].body, at);
        }
        return all;
    }

    const Grammar& grammar_;
    std::string_view text_;
    std::map<std::pair<const Expr*, size_t>, std::set<size_t>> known_;
};

class RandomGrammar {
  public:
    explicit RandomGrammar(uint32_t seed) : random_(seed) {}
    Grammar make() {
        Grammar grammar;
        for (uint32_t i = 0; i < 3; ++i) grammar.rules.push_back({cat("r", i), {}});
        // Each calls only later ones freely; earlier ones, itself too, after a character.
        for (uint32_t i = 0; i < 3; ++i) grammar.rules[i].body = expr(i, 3);
        return grammar;
    }

  private:
    uint32_t below(uint32_t n) { return uint32_t(random_()) % n; }
    Expr expr(uint32_t rule, int depth) {
        const char* letters[] = {"a", "b", "é", "ab", ""};
        if (depth == 0) return text(letters[below(5)]);
        switch (below(6)) {
        case 0:
            return characters(below(2) ? CodeSet{{'a', 'a'}, {0xE9, 0xE9}} : complement({{'a', 'b'}}));
        case 1:
            return sequence({expr(rule, depth - 1), expr(rule, depth - 1)});
        case 2:
            return choice({expr(rule, depth - 1), expr(rule, depth - 1)});
        case 3: {
            const uint32_t least = below(3);
            return repeat(expr(rule, depth - 1), least, below(2) ? unbounded : least + below(3));
        }
        case 4:
            if (rule + 1 < 3) return rule_reference(rule + 1 + below(2 - rule));
            return text("b");
        default:
            return optional(
                sequence({text(letters[below(2)]), rule_reference(below(3)), text(letters[below(3)])}));
        }
    }
    std::mt19937 random_;
};

void each_text(size_t longest, const std::function<void(const std::string&)>& visit) {
    std::vector<std::string> now{""};
    for (size_t length = 0; length <= longest; ++length) {
        std::vector<std::string> next;
        for (const std::string& text : now) {
            visit(text);
            for (const char* letter : {"a", "b", "é"}) next.push_back(text + letter);
        }
        now = std::move(next);
    }
}

}  // namespace

TEST_CASE("GBNF says what it should") {
    struct Row {
        const char* grammar;
        std::vector<std::string> yes, prefix, no;
    };
    const Row rows[] = {
        {R"x(root ::= "yes" | "no")x", {"yes", "no"}, {"", "y"}, {"x", "yess", "yesno"}},
        {"# lists\nroot ::= item (\", \" item)*\nitem ::= [a-c]+ # letters\n",
         {"a", "ab, c"},
         {"", "a,", "a, "},
         {"d", ",", "a,b"}},
        {"root ::=\n  \"a\"\n  | b\nb ::= \"b\"", {"a", "b"}, {""}, {"ab"}},
        {R"x(root ::= [^"\\\x00-\x1F]{2,3})x",
         {"ab", "éé", "日本語", "😀a"},
         {"", "a", "\xC3", "ab\xF0\x9F"},
         {"\"", "abcd", "a\n", "\x80", "\xED\xA0\x80"}},
        {R"x(root ::= "\u00e9\x41\n\"\\" [\u3041-\u3093]?)x",
         {"éA\n\"\\", "éA\n\"\\あ"},
         {"", "é"},
         {"e", "éA\n\"\\ア"}},
        {R"x(root ::= . .)x", {"\n😀"}, {"a"}, {"abc"}},
        {R"x(root ::= "(" root ")" | "")x", {"", "()", "((()))"}, {"(", "(()"}, {")", "())"}},
        {R"x(root ::= "x" root | "x")x", {"x", "xxxxxxxx"}, {""}, {"y"}},
        {R"x(root ::= ("a"{2})+ "b"? ("c" | ){,2})x",
         {"aa", "aaaab", "aacc"},
         {"a", "aaa"},
         {"b", "aabb", "aaccc"}},
        {R"x(root ::= "a"{0})x", {""}, {}, {"a"}},
        {R"x(root ::= ("a"? "b"?)* "c")x", {"c", "abbac"}, {"", "ab"}, {"cc"}},
        {R"x(root ::= [-a] [b-] [\]\-])x", {"-b]", "a--"}, {"-"}, {"b"}},
        {R"x(root ::= [\U0001F600-\U0001F64F])x", {"😀"}, {"\xF0\x9F"}, {"\xF0\x9F\x9A\x80"}},
    };
    for (const Row& row : rows) {
        CAPTURE(row.grammar);
        Matcher matcher(compiled(parse_gbnf(row.grammar)));
        const auto all = [&](const std::vector<std::string>& texts, Verdict expected) {
            for (const std::string& text : texts) {
                CAPTURE(text);
                CHECK(int(verdict(matcher, text)) == int(expected));
            }
        };
        all(row.yes, Verdict::yes);
        all(row.prefix, Verdict::prefix);
        all(row.no, Verdict::no);
    }
}

TEST_CASE("bad grammars are refused with the line") {
    struct Row {
        std::string grammar, named;
    };
    const Row rows[] = {
        {"", "root"},
        {"x ::= \"a\"", "root"},
        {"root ::= a", "named a"},
        {"root ::= \"a", "line 1"},
        {"root ::= \"a\"\nroot ::= \"b\"", "line 2: expected one rule named root"},
        {"root := \"a\"", "a rule"},
        {"root ::= \"a\"\n\n)", "line 3"},
        {"root ::= (\"a\"", "')'"},
        {"root ::= [b-a]", "rising"},
        {"root ::= []", "class"},
        {"root ::= [a", "character"},
        {"root ::= \"\\q\"", "escape"},
        {"root ::= \"\\uD800\"", "code point"},
        {"root ::= \"\\U00110000\"", "code point"},
        {"root ::= \"\\xZ\"", "hexadecimal"},
        {"root ::= \"\xFF\"", "UTF-8"},
        {"root ::= \"a\"{3,2}", "rising"},
        {"root ::= \"a\"{9999999}", "1000000"},
        {"root ::= \"a\"{x}", "number"},
        {"root ::= <token>", "a rule"},
        {"root ::= root \"a\" | \"b\"", "left recursion"},
        {"root ::= a\na ::= b? c\nb ::= \"x\"\nc ::= a \"y\" | \"z\"", "left recursion"},
        {"root ::= \"a\" root", "can end"},
        {"root ::= \"abc\"{500000}", "states"},
        {"root ::= " + std::string(200, '(') + "\"a\"" + std::string(200, ')'), "nested"},
        {"root ::= \"a\"" + std::string(50, '+'), "repetitions"},
        {"root ::= \"" + std::string(2 << 20, 'a') + "\"", "bytes"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.named);
        CAPTURE(row.grammar.substr(0, 80));
        const std::string text = refusal([&] { Program program(parse_gbnf(row.grammar)); });
        CAPTURE(text);
        CHECK(text.find("[grammar] ") == 0);
        CHECK(text.find(row.named) != std::string::npos);
    }
}

TEST_CASE("random grammars match what trying everything matches") {
    int compared = 0;
    for (uint32_t seed = 0; seed < 400; ++seed) {
        CAPTURE(seed);
        const Grammar grammar = RandomGrammar(seed).make();
        std::shared_ptr<const Program> program;
        try {
            program = compiled(grammar);
        } catch (const Error&) {
            continue;  // left-recursive or endless
        }
        ++compared;
        Matcher matcher(program);
        each_text(4, [&](const std::string& text) {
            const bool expected = Reader(grammar, text).matches();
            const Verdict found = verdict(matcher, text);
            if (expected != (found == Verdict::yes))
                FAIL_CHECK("text '" << text << "' expected " << expected);
            for (size_t cut = 0; expected && cut < text.size(); ++cut)
                CHECK(verdict(matcher, std::string_view(text).substr(0, cut)) != Verdict::no);
        });
    }
    CHECK(compared > 200);
}

TEST_CASE("the mask allows a token exactly if all its bytes can follow") {
    std::mt19937 random(7);
    std::vector<std::string> pieces;
    const std::vector<std::string> letters{"a", "b", "(", ")", "\xC3", "\xA9", "é", ",", "\""};
    for (int i = 0; i < 500; ++i) {
        std::string piece;
        for (size_t n = random() % 5; n > 0; --n) piece += letters[random() % letters.size()];
        pieces.push_back(piece);
    }
    const auto trie = std::make_shared<const TokenTrie>(pieces);
    const uint32_t end = 3;
    const auto program =
        compiled(parse_gbnf(R"x(root ::= "(" (root ("," root)*)? ")" | ["] [^"]{0,4} ["] | [ab]+)x"));
    for (int round = 0; round < 30; ++round) {
        Constraint constraint(program, trie, {end});
        Matcher matcher(program);
        std::string text;
        std::vector<int32_t> walk;
        std::vector<std::vector<uint32_t>> masks;  // before each step
        for (int step = 0; step < 12 && !constraint.complete(); ++step) {
            const std::vector<uint32_t>& mask = constraint.mask();
            masks.push_back(mask);
            std::vector<uint32_t> allowed;
            for (uint32_t token = 0; token < pieces.size(); ++token) {
                const bool set = mask[token / 32] >> token % 32 & 1;
                const bool expected =
                    token == end
                        ? verdict(matcher, text) == Verdict::yes
                        : !pieces[token].empty() && verdict(matcher, text + pieces[token]) != Verdict::no;
                if (set != expected) FAIL_CHECK("after '" << text << "' token '" << pieces[token] << "'");
                if (set && token != end) allowed.push_back(token);
            }
            if (allowed.empty()) break;
            const uint32_t token = allowed[random() % allowed.size()];
            constraint.accept(token);
            text += pieces[token];
            walk.push_back(int32_t(token));
        }
        if (!constraint.complete() && masks.size() == walk.size()) masks.push_back(constraint.mask());

        Constraint ahead(program, trie, {end});
        CHECK(ahead.masks_after(walk) == std::vector(masks.begin() + 1, masks.end()));
        walk.insert(walk.begin(), int32_t(end));
        CHECK(ahead.masks_after(walk).empty());
        CHECK(ahead.mask() == masks[0]);  // it stands where it stood
    }
    Constraint constraint(program, trie, {end});
    CHECK(refusal([&] { constraint.accept(end); }) != "");
    const auto nothing = std::make_shared<const TokenTrie>(std::vector<std::string>{"x", "y"});
    Constraint lost(program, nothing, {});
    CHECK(refusal([&] { lost.mask(); }).find("vocabulary") != std::string::npos);
}

TEST_CASE("a grammar may hold behind a token alone") {
    const std::vector<std::string> pieces{"", "", "</s>", "a", "b"};
    constexpr uint32_t behind = 0, control = 1, end = 2, a = 3, b = 4;
    const auto mask_of = [](std::initializer_list<uint32_t> tokens) {
        std::vector<uint32_t> mask(1);
        for (const uint32_t token : tokens) mask[0] |= 1u << token;
        return mask;
    };
    Constraint constraint(compiled(parse_gbnf("root ::= \"ab\"")), std::make_shared<const TokenTrie>(pieces),
                          {end}, int32_t(behind));
    const std::vector<uint32_t> free = mask_of({behind, a, b});
    CHECK(constraint.mask() == free);
    constraint.accept(b);
    for (const uint32_t refused : {control, end}) CHECK(refusal([&] { constraint.accept(refused); }) != "");
    const std::vector<int32_t> guess{b, behind, a, b};
    CHECK(constraint.masks_after(guess) == std::vector{free, mask_of({a}), mask_of({b})});
    CHECK(constraint.mask() == free);
    constraint.accept(behind);
    CHECK(constraint.mask() == mask_of({a}));
    constraint.accept(a);
    CHECK(!constraint.complete());
    constraint.accept(b);
    CHECK(constraint.complete());
}

TEST_CASE("deep nesting, ambiguity and long answers stay bounded") {
    Matcher nested(compiled(parse_gbnf(R"x(root ::= "[" root "]" | "x")x")));
    CHECK(verdict(nested, std::string(5000, '[')) == Verdict::prefix);
    CHECK(verdict(nested, std::string(5000, '[') + "x" + std::string(5000, ']')) == Verdict::yes);
    CHECK(verdict(nested, std::string(20000, '[')) == Verdict::no);

    Matcher ambiguous(compiled(parse_gbnf(R"x(root ::= "x" root "y" | "x" root "z" | "x")x")));
    CHECK(refusal([&] { verdict(ambiguous, std::string(64, 'x')); }).find("ambiguous") != std::string::npos);

    // Many classes of bytes make states large, so that they are forgotten on the way.
    std::string odd;
    for (char byte = 1; byte < 0x5B; byte += 2)
        odd += cat("\\x", "0123456789"[byte / 16], "0123456789ABCDEF"[byte % 16]);
    const std::vector<std::string> pieces{"[", "]", "a", "[[", "a]"};
    Constraint deep(compiled(parse_gbnf("root ::= (\"[\" root \"]\" | \"a\" | [" + odd + "])+")),
                    std::make_shared<const TokenTrie>(pieces), {});
    constexpr int depth = 9000;
    for (int i = 0; i < depth; ++i) {
        CHECK(deep.mask()[0] == (i == 0 ? 0b01101u : 0b11101u));
        deep.accept(2);
        deep.accept(0);
    }
    deep.accept(2);
    for (int i = 0; i < depth; ++i) {
        CHECK(deep.mask()[0] == 0b11111u);
        deep.accept(1);
    }
    CHECK(deep.mask()[0] == 0b01101u);
}
