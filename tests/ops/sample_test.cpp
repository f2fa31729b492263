// The choice of sampling kernels.
#include "ops/sample.h"

#include <doctest/doctest.h>

using namespace scoria;

TEST_SUITE("sample") {
    TEST_CASE("one subgroup a workgroup is for CPU drivers") {
        vk::Caps caps;
        caps.type = vk::DeviceType::discrete;
        caps.subgroup_size = caps.subgroup_min = caps.subgroup_max = 128;
        caps.subgroup_arithmetic = true;
        caps.max_invocations = caps.max_workgroup_x = 256;
        CHECK(sample_variants(caps).front().shader == Shader::sample_scan_sg);
        caps.max_invocations = 128;
        CHECK(sample_variants(caps).front().shader == Shader::sample_scan);
        caps.type = vk::DeviceType::cpu;
        CHECK(sample_variants(caps).front().shader == Shader::sample_scan_sg);
    }
}
