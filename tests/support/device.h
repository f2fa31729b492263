// The device that tests run on, as the environment says: SCORIA_DEVICE,
// SCORIA_CAPS, SCORIA_VALIDATION=1.
#pragma once

#include "session.h"
#include "test_env.h"

namespace scoria::test {

inline EngineOptions engine_options(Precision precision) {
    EngineOptions options;
    options.device.select = variable("SCORIA_DEVICE");
    options.device.caps_profile = caps_profile();
    options.device.validation = variable("SCORIA_VALIDATION") == "1";
    options.precision = precision;
    return options;
}

/// What gives the same bits however sequences are computed: `sequences` share a cache.
inline EngineOptions deterministic(uint32_t sequences) {
    EngineOptions options = engine_options(Precision::strict);
    options.deterministic = true;
    options.device.poison = true;  // else a cache begins with what the session before it left there
    options.device.poison_word = 0x7FC0DEADu;
    options.sequences = sequences;
    return options;
}

/// The likeliest tokens, whatever ends an answer.
inline GenerateOptions greedy(size_t tokens) {
    return {.sampling = {}, .max_tokens = uint32_t(tokens), .ignore_end = true, .on_token = {}};
}

}  // namespace scoria::test
