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

}  // namespace scoria::test
