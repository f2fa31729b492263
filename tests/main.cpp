// The main of every test program: doctest's own, compiled once.
#define DOCTEST_CONFIG_IMPLEMENT
#include "test_env.h"

#include <cstdio>

int main(int argc, char** argv) {
    if (!scoria::test::have_fixtures())
        std::printf("[fixtures] %s is not there: tests against goldens are skipped\n",
                    scoria::test::fixtures().c_str());
    if (scoria::test::floor_tier())
        std::printf("[floor] SCORIA_FLOOR is set: tests that compile many pipelines are skipped\n");
    return doctest::Context(argc, argv).run();
}
