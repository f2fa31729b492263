// Whole models of quantised weights: the layout of every type through loading, sharding, concatenation of
// q, k, v, interleaving of gate and up, and embedding look-up, against the reference.
#include "support/device.h"
#include "support/quantised_llama.h"
#include "validate/model_check.h"

#include "fail.h"

#include <doctest/doctest.h>

using namespace scoria;
using namespace scoria::test;

namespace {

void check(const GgufFile& file) {
    const TemporaryFile on_disk(file.bytes());
    const auto model = std::make_shared<const Model>(open_model(on_disk.path()));
    Engine engine(model, engine_options(Precision::strict));
    const std::vector<TokenId> ids{3, 50, 7, 99, 9};
    const validate::ModelCheck result = validate::check_model(engine, ids);
    CHECK(result.passed());
    if (result.first_diverging) {
        const validate::CheckResult& first = result.ops[*result.first_diverging];
        MESSAGE(first.op << " -> " << first.variant << ": NMSE " << first.nmse << ", " << first.detail);
    }
    CHECK(engine.device().validation_errors() == 0);
}

}  // namespace

TEST_CASE("vulkan: models of quantised weights agree with the reference" * doctest::skip(floor_tier())) {
    using enum TensorType;
    SUBCASE("mixes as files have them") { check(mixed_llama()); }
    SUBCASE("a layer of every type") {
        if (!deep()) return;  // 28 pipelines
        std::vector<Mix> mixes;
        for (const TensorTypeInfo& info : tensor_types()) mixes.push_back(all_of(info.type));
        check(quantised_llama(mixes, mxfp4, iq4_xs));
    }
}
