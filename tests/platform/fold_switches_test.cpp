#include "fold_switches.h"
#include "pipelines.h"

#include <doctest/doctest.h>

using namespace scoria::vk;

namespace {

using Words = std::vector<uint32_t>;

// A header, then the instructions that fold_switches reads: %7 is constant 2 with default 5, %8 an ordinary
// value.
Words module_of(std::initializer_list<Words> instructions) {
    Words words = {0x07230203, 0x00010500, 0, 100, 0, 4u << 16 | 71, 7, 1, 2, 4u << 16 | 50, 6, 7, 5};
    for (const Words& one : instructions) words.insert(words.end(), one.begin(), one.end());
    return words;
}

const Words switch_on(uint32_t selector) { return {7u << 16 | 251, selector, 20, 5, 21, 9, 22}; }
Words only(uint32_t target) { return {3u << 16 | 251, 7, target}; }
const Words after = {2u << 16 | 249, 20};  // a branch, left alone

}  // namespace

TEST_CASE("fold switches: the target that a specialization constant takes") {
    struct Case {
        const char* name;
        std::vector<Constant> constants;
        Words before, expected;
    };
    const Case cases[] = {
        {"a listed value", {{2, 9}}, switch_on(7), only(22)},
        {"the first of the cases", {{1, 9}, {2, 5}}, switch_on(7), only(21)},
        {"no case: the default target", {{2, 6}}, switch_on(7), only(20)},
        {"not set: the constant's default", {{1, 9}}, switch_on(7), only(21)},
        {"an ordinary value", {{2, 9}}, switch_on(8), switch_on(8)},
    };
    for (const Case& c : cases) {
        CAPTURE(c.name);
        CHECK(fold_switches(module_of({c.before, after}), c.constants) == module_of({c.expected, after}));
    }
}

TEST_CASE("fold switches: words that are no whole instructions stay") {
    for (const Words& broken : {Words{0, 1, 2}, Words{9u << 16 | 251, 7, 20}})
        CHECK(fold_switches(module_of({broken}), {}) == module_of({broken}));
    CHECK(fold_switches(Words{1, 2}, {}) == Words{1, 2});
}
