// Queues of two families (our layer adds one to the driver's): one uploads weights while the other computes.
#include "library.h"
#include "support/layers.h"

using namespace scoria::test;

TEST_CASE("weights that a queue of another family uploads give the same bits" * needs_fixtures()) {
    const auto logits = [] {
        const Loaded loaded(deterministic());
        REQUIRE_OK(scoria_session_append(loaded.session, some_prompt.data(), some_prompt.size()));
        std::vector<float> first = logits_of(loaded.session);
        REQUIRE_OK(scoria_engine_evict(loaded.engine));
        REQUIRE_OK(scoria_engine_restore(loaded.engine, nullptr, nullptr));
        CHECK(logits_of(loaded.session) == first);
        return first;
    };
    const std::vector<float> expected = logits();
    const Layers layers("", "", false, "transfer");
    CHECK(logits() == expected);
}
