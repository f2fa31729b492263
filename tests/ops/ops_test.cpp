// Every op's table of cases on this device: one test case per op, all variants, all bounds.
// $SCORIA_DEVICE, $SCORIA_CAPS, $SCORIA_VALIDATION=1, $SCORIA_DEEP=1.
#include "fail.h"
#include "shaders.h"
#include "test_env.h"
#include "validate/check.h"

#include <doctest/doctest.h>

using namespace scoria;

namespace {

vk::DeviceOptions options() {
    vk::DeviceOptions o;
    o.select = test::variable("SCORIA_DEVICE");
    o.caps_profile = test::caps_profile();
    o.validation = !test::variable("SCORIA_VALIDATION").empty();
    o.poison = true;
    return o;
}

/// One device for all cases: pipelines are compiled once.
struct Machine {
    vk::Device device{options()};
    vk::Pipelines pipelines{device};
};
Machine& machine() {
    static Machine one;
    return one;
}

void run(const char* op, void (*check)(validate::CheckContext&)) {
    CAPTURE(op);
    validate::CheckContext context(machine().device, machine().pipelines,
                                   test::deep() ? validate::Tier::full : validate::Tier::quick, 1);
    // What has no subgroup operations does not see their width.
    context.only_subgroups = test::few_models() && test::caps_profile().empty();
    check(context);
    CHECK((context.only_subgroups || !context.results().empty()));
    for (const validate::CheckResult& r : context.results())
        CHECK_MESSAGE(r.passed,
                      cat(r.op, " ", r.variant, ", ", r.shape, ": nmse ", r.nmse, " (", r.bounds.nmse,
                          "), worst row ", r.worst_row, " (", r.bounds.worst_row, "), worst element ",
                          r.worst_element, " (", r.bounds.worst_element, "): ", r.detail));
    for (const std::string& message : machine().device.validation_messages()) FAIL_CHECK(message);
    CHECK(machine().device.validation_errors() == 0);
}

}  // namespace

TEST_SUITE("ops") {
    TEST_CASE("modules unpack to the words that were compiled") {
        uint64_t digest = 0xCBF29CE484222325ull;  // as tools/embed_shaders makes it of the files
        for (uint16_t i = 0; i < uint16_t(Shader::count); ++i)
            for (const uint32_t word : shader_module(Shader(i)).words)
                digest = (digest ^ word) * 0x100000001B3ull;
        CHECK(digest == shaders_digest());
    }
    TEST_CASE("every op agrees with its reference") {
        for (const validate::OpCheck& check : validate::op_checks()) {
            SUBCASE(check.op) { run(check.op, check.run); }
        }
    }
}
