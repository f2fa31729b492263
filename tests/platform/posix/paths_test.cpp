// Where POSIX systems keep a user's caches.
#include "on_system.h"
#include "paths.h"
#include "test_env.h"

using namespace scoria;
using namespace scoria::test;

TEST_CASE("the cache folder follows XDG and ignores relative values") {
    const char* const names[] = {"XDG_CACHE_HOME", "HOME"};
    const std::string saved[] = {variable(names[0]), variable(names[1])};
    struct Case {
        const char *xdg, *home, *expected;
    };
    const Case cases[] = {{"/c", "/h", "/c/scoria"},
                          {"", "/h", "/h/.cache/scoria"},
                          {"rel", "/h", "/h/.cache/scoria"},
                          {"", "", ""}};
    for (const Case& each : cases) {
        set_variable(names[0], each.xdg);
        set_variable(names[1], each.home);
        CHECK(cache_folder() == each.expected);
    }
    for (int i = 0; i < 2; ++i)
        saved[i].empty() ? unset_variable(names[i]) : set_variable(names[i], saved[i]);
}
