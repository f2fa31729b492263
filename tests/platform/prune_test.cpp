#include "pipelines.h"
#include "prune.h"

#include <doctest/doctest.h>

#include <iterator>
#include <map>
#include <sstream>

using namespace scoria::vk;

namespace {

using Words = std::vector<uint32_t>;

const std::map<std::string, uint32_t> opcodes = {
    {"entry", 15},        {"mode", 16},    {"capability", 17}, {"void", 19},    {"bool", 20},
    {"int", 21},          {"type", 33},    {"true", 41},       {"const", 43},   {"spec_true", 48},
    {"spec_false", 49},   {"spec", 50},    {"composite", 51},  {"spec_op", 52}, {"function", 54},
    {"parameter", 55},    {"end", 56},     {"call", 57},       {"store", 62},   {"decorate", 71},
    {"group", 73},        {"add", 128},    {"phi", 245},       {"loop", 246},   {"merge", 247},
    {"label", 248},       {"branch", 249}, {"if", 250},        {"switch", 251}, {"return", 253},
    {"unreachable", 255},
};

/// Instructions of opcodes and operands, one after the other, each ended by a semicolon.
Words assembled(const std::string& text) {
    Words words;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line, ';');) {
        std::istringstream fields(line);
        std::string name;
        if (!(fields >> name)) continue;
        Words operands(std::istream_iterator<uint32_t>(fields), {});
        words.push_back(uint32_t(operands.size() + 1) << 16 | opcodes.at(name));
        words.insert(words.end(), operands.begin(), operands.end());
    }
    return words;
}

std::string disassembled(const Words& words) {
    std::string text;
    for (size_t at = 5; at < words.size(); at += words[at] >> 16) {
        for (const auto& [name, code] : opcodes)
            if (code == (words[at] & 0xFFFF)) text += name;
        for (size_t i = 1; i < words[at] >> 16; ++i) text += " " + std::to_string(words[at + i]);
        text += "; ";
    }
    return text;
}

// %2 bool, %3 an integer; %5 is constant 2, by default 5; %8 whether it is 5, %9 whether its double is below
// 9, %11 its half; %90 is known only as a kernel runs, as is %91, of 64 bits.
const std::string globals =
    "entry 5 30; decorate 5 1 2; decorate 70 42; void 1; bool 2; int 3 32 0; int 80 64 0; type 4 1; "
    "spec 3 5 5; const 3 6 5; const 3 7 2; const 3 10 9; spec_op 2 8 170 5 6; "
    "spec_op 3 12 132 5 7; spec_op 2 9 176 12 10; composite 4 13 7 5; spec_op 3 14 81 13 1; "
    "spec_op 3 11 134 14 7; ";
const std::string main_head = "function 1 30 0 4; parameter 80 91; label 31; ";

Words module_of(const std::string& text) {
    Words words = {0x07230203, 0x00010500, 0, 100, 0};
    const Words body = assembled(text);
    words.insert(words.end(), body.begin(), body.end());
    return words;
}

std::string pruned(const std::string& body, const std::vector<Constant>& constants,
                   const std::string& before = globals) {
    return disassembled(prune(module_of(before + main_head + body), constants));
}

const std::string branches =
    "merge 34 0; if 8 32 33; label 32; add 3 70 6 6; branch 34; label 33; branch 34; ";

}  // namespace

TEST_CASE("prune: what constants decide is a jump, and what nobody reaches is gone") {
    struct Case {
        const char* name;
        std::vector<Constant> constants;
        std::string before, after;
    };
    const Case cases[] = {
        {"a branch taken by default",
         {},
         branches + "label 34; return; end; ",
         "branch 32; label 32; add 3 70 6 6; branch 34; label 34; return; end; "},
        {"one not taken, and the decoration of a number in it",
         {{2, 4}},
         branches + "label 34; return; end; ",
         "branch 33; label 33; branch 34; label 34; return; end; "},
        {"a number that comes from several blocks",
         {{2, 4}},
         branches + "label 34; phi 3 71 70 32 6 33; return; end; ",
         "branch 33; label 33; branch 34; label 34; phi 3 71 6 33; return; end; "},
        {"products, quotients and elements of vectors of constants",
         {{2, 4}},
         "merge 33 0; if 9 32 33; label 32; merge 36 0; switch 11 36 2 35; label 35; branch 36; label 36; "
         "branch 33; "
         "label 33; return; end; ",
         "branch 32; label 32; branch 35; label 35; branch 36; label 36; branch 33; "
         "label 33; return; end; "},
        {"a switch without the case: its default",
         {},
         "merge 34 0; switch 11 33 7 32; label 32; branch 34; label 33; branch 34; label 34; return; end; ",
         "branch 33; label 33; branch 34; label 34; return; end; "},
        {"a switch on 64 bits, whose literals are two words",
         {},
         "merge 36 0; switch 91 32 7 0 36; label 32; merge 34 0; if 8 33 34; label 33; branch 34; label 34; "
         "branch 36; label 36; return; end; ",
         "merge 36 0; switch 91 32 7 0 36; label 32; branch 33; label 33; branch 34; label 34; branch 36; "
         "label 36; return; end; "},
        {"what is known only later",
         {},
         "merge 34 0; if 90 32 33; label 32; return; label 33; return; label 34; unreachable; end; ",
         "merge 34 0; if 90 32 33; label 32; return; label 33; return; label 34; unreachable; end; "},
        {"an end that another head promises",
         {},
         "merge 36 0; if 90 32 36; label 32; merge 34 0; if 8 33 34; label 33; return; label 34; add 3 70 6 "
         "6; branch 35; "
         "label 35; branch 36; label 36; return; end; ",
         "merge 36 0; if 90 32 36; label 32; branch 33; label 33; return; label 36; return; end; "},
        {"the ends of a loop and of a branch that always return",
         {},
         "branch 32; label 32; loop 36 35 0; branch 33; label 33; merge 34 0; if 8 37 34; label 37; merge 39 "
         "0; if 90 38 40; "
         "label 38; return; label 40; return; label 39; branch 34; label 34; branch 35; label 35; add 3 70 6 "
         "6; branch 32; "
         "label 36; return; end; ",
         "branch 32; label 32; loop 36 35 0; branch 33; label 33; branch 37; label 37; merge 39 0; "
         "if 90 38 40; label 38; return; label 40; return; label 39; unreachable; label 35; branch 32; "
         "label 36; unreachable; "
         "end; "},
        {"functions that nobody calls any more",
         {{2, 4}},
         "merge 33 0; if 8 32 33; label 32; call 1 70 40; branch 33; label 33; call 1 71 50; return; end; "
         "function 1 40 0 4; label 41; call 1 72 60; return; end; function 1 50 0 4; label 51; return; end; "
         "function 1 60 0 4; parameter 3 73; label 61; return; end; ",
         "branch 33; label 33; call 1 71 50; return; end; function 1 50 0 4; label 51; return; end; "},
    };
    for (const Case& c : cases) {
        CAPTURE(c.name);
        const std::string text = pruned(c.before, c.constants);
        CHECK(text.substr(text.find("label")) == "label 31; " + c.after);
        const auto has_number = [](const std::string& body) { return body.find(" 70 ") != body.npos; };
        CHECK((text.find("decorate 70") == text.npos) == (has_number(c.before) && !has_number(c.after)));
    }
}

TEST_CASE("prune: what constants are set to becomes their default") {
    const std::string flags = "decorate 15 1 3; decorate 16 1 4; decorate 17 1 5; ";
    const std::string before = flags + globals + "spec_false 2 15; spec_true 2 16; spec_true 2 17; ";
    const std::string text = pruned("return; end; ", {{2, 4}, {3, 1}, {4, 0}}, before);
    for (const char* each : {"spec 3 5 4; ", "spec_true 2 15; ", "spec_false 2 16; ", "spec_true 2 17; "})
        CHECK_MESSAGE(text.find(each) != text.npos, text);
    CHECK(pruned("return; end; ", {}, before).find("spec 3 5 5; ") != text.npos);
}

TEST_CASE("subnormal halves are kept by a capability and a mode of the entry point") {
    const Words module = module_of("capability 1; entry 5 30 7; mode 30 38 5; void 1; ");
    CHECK(disassembled(with_halves_kept(module, false)) ==
          "capability 4464; capability 1; entry 5 30 7; mode 30 4459 16; mode 30 38 5; void 1; ");
    CHECK(disassembled(with_halves_kept(module, true)) ==
          "capability 4464; capability 1; entry 5 30 7; mode 30 4459 16; mode 30 4459 64; mode 30 38 5; void "
          "1; ");
}

TEST_CASE("prune: where it cannot be sure a module stays as it was") {
    struct Case {
        const char* name;
        std::string before, body;
    };
    const std::string grouped = globals + "group 81; ";
    const Case cases[] = {
        {"a break out of a switch from a branch within", globals,
         "merge 34 0; switch 5 34 5 32; label 32; merge 36 0; if 90 35 36; label 35; branch 34; label 36; "
         "branch 34; label 34; "
         "add 3 70 6 6; return; end; "},
        {"from the head of one", globals,
         "merge 34 0; switch 5 34 5 32; label 32; merge 36 0; if 90 34 36; label 36; branch 34; label 34; "
         "add 3 70 6 6; return; "
         "end; "},
        {"a number that would come around a loop that is none", globals,
         "branch 32; label 32; phi 3 70 6 31 7 35; loop 36 35 0; branch 33; label 33; merge 34 0; if 8 37 "
         "34; label 37; return; "
         "label 34; branch 35; label 35; branch 32; label 36; return; end; "},
        {"decorations by groups", grouped, branches + "label 34; return; end; "},
        {"a block that is nowhere", globals, "merge 34 0; if 8 32 34; label 34; return; end; "},
        {"a block without an end", globals, "label 32; return; end; "},
    };
    for (const Case& c : cases) {
        CAPTURE(c.name);
        CHECK(pruned(c.body, {}, c.before) == disassembled(module_of(c.before + main_head + c.body)));
    }
    const Words cut = {0x07230203, 0x00010500, 0, 100, 0, 3u << 16 | 71, 5}, empty = {5, 0, 0, 0, 0, 0};
    CHECK(prune(cut, {}) == cut);
    CHECK(prune(empty, {}) == empty);
    CHECK(prune(Words{1, 2}, {}) == Words{1, 2});
}
