// Where Windows keeps a user's caches.
#include "on_system.h"
#include "paths.h"
#include "test_env.h"

using namespace scoria;
using namespace scoria::test;

TEST_CASE("the cache folder is that of local data, and ignores relative values") {
    const std::string saved = variable("LOCALAPPDATA");
    struct Case {
        const char *local, *expected;
    };
    const Case cases[] = {
        {"C:\\Users\\z\u00fc", "C:\\Users\\z\u00fc\\scoria"}, {"rel", ""}, {"\\rel", ""}, {"", ""}};
    for (const Case& each : cases) {
        set_variable("LOCALAPPDATA", each.local);
        CHECK(cache_folder() == each.expected);
    }
    set_variable("LOCALAPPDATA", saved);
}
