// Whether the first-run self-test runs; it itself is Engine::Impl::self_test.
#pragma once

#include "session.h"

namespace scoria {

/// A host's device never computes what the host did not ask for; CPU drivers do only when told to.
bool self_test_wanted(const EngineOptions& options, const vk::Caps& caps);

}  // namespace scoria
