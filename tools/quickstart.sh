#!/usr/bin/env bash
# From a bare machine to an answer:   tools/quickstart.sh "Why is the sky blue?"
# Sets up, builds, fetches the default model and streams its answer, on the GPU or on a CPU driver.
set -euo pipefail
cd "$(dirname "$0")/.."
question=${1:-Why is the sky blue?}

tools/setup.sh --run-only
{
    # Without tests, and with whatever variants this machine's compiler can compile.
    cmake --preset release -DSCORIA_BUILD_TESTS=OFF -DSCORIA_REQUIRE_ALL_SHADERS=OFF -DCMAKE_UNITY_BUILD=ON
    cmake --build --preset release --target scoria
} >&2
build/release/scoria pull smollm2 >&2
exec build/release/scoria run -m smollm2 -p "$question"
