// Logits of a model whether ops are fused or not.
#pragma once

#include "compare.h"
#include "device.h"
#include "engine.h"
#include "golden.h"

#include <doctest/doctest.h>

#include <memory>
#include <vector>

namespace scoria::test {

/// That the strict path gives `expected`, the logits of every token of `ids`, with fusion and without.
inline void check_fused_and_not(const std::shared_ptr<const Model>& model, const std::vector<TokenId>& ids,
                                const std::vector<double>& expected) {
    for (const bool fusion : {true, false}) {
        CAPTURE(fusion);
        EngineOptions options = engine_options(Precision::strict);
        options.fusion = fusion;
        Engine engine(model, options);
        Session session(engine);
        CHECK(largest_error(expected, session.forward(ids, false).logits) <= strict_error);
        CHECK(engine.device().validation_errors() == 0);
    }
}

}  // namespace scoria::test
