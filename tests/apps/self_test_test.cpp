// A driver that crashes while a kernel is compiled ends the first start; the second one knows and answers.
#include "program.h"
#include "test_env.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <csignal>

using namespace scoria::test;

TEST_CASE("a crash in a self-test is survived by the next start" * needs_fixtures()) {
    const ScratchFolder cache;
    const std::string model = fixtures() + "/gguf/llama3.gguf";
    const auto start = [&](const std::string& self_test, const std::string& fail) {
        return run_scoria({"forward", "-m", model, "--ids", "3,50,7", "--precision", "strict", "--greedy",
                           "4", "--json", "-o", cache.path("out.safetensors"), "--self-test", self_test},
                          {.environment = {{"XDG_CACHE_HOME", cache.path()},
                                           {"VK_LAYER_PATH", SCORIA_LAYER_FOLDER},
                                           {"VK_INSTANCE_LAYERS", "VK_LAYER_SCORIA_test"},
                                           {"SCORIA_LAYER_FAIL", fail}}});
    };
    const auto devices = [&](std::vector<std::string> more) {
        more.insert(more.begin(), "devices");
        return run_scoria(more, {.environment = {{"XDG_CACHE_HOME", cache.path()}}});
    };
    const auto contains = [](const std::string& text, const std::string& part) {
        CAPTURE(text);
        CHECK(text.find(part) != std::string::npos);
    };
    const Outcome healthy = start("never", "");
    REQUIRE(healthy.code == 0);

    // The first pipeline is embed's, which has one variant; the second is norm's.
    const Outcome crashed = start("always", "vkCreateComputePipelines:2:SIGKILL");
    CHECK(crashed.code == 128 + SIGKILL);

    const Outcome second = start("never", "");
    CHECK(second.code == 0);
    CHECK(second.out == healthy.out);
    contains(second.err, "[self-test] norm/");
    contains(second.err, "the process ended while it was tested");

    contains(devices({}).out, "1 variants left out");
    const auto listed = nlohmann::json::parse(devices({"--json"}).out);
    bool found = false;
    for (const auto& device : listed)
        found =
            found || (!device.at("self_tests").is_null() && device["self_tests"]["quarantined"].size() == 1);
    CHECK(found);
    CHECK(devices({"--forget"}).code == 0);
    CHECK(start("never", "").err.find("self-test") == std::string::npos);
}
