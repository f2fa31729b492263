// The main of every test program: doctest's own, compiled once.
#define DOCTEST_CONFIG_IMPLEMENT
#include "test_env.h"

#include <cstdio>

int main(int argc, char** argv) {
    if (!scoria::test::have_fixtures())
        std::printf("[fixtures] %s is not there: tests against goldens are skipped\n",
                    scoria::test::fixtures().c_str());
    if (scoria::test::slow_driver())
        std::printf("[floor] SCORIA_FLOOR is set: %s are skipped\n",
                    scoria::test::deep()
                        ? "variants one by one, most models at each length, and most of SmolLM2"
                        : "tests that compile many pipelines");
    return doctest::Context(argc, argv).run();
}
