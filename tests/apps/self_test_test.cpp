// A driver that crashes while a kernel is compiled ends two starts; the third one knows and answers. Whoever
// ends the program once, at the same place, costs no kernel.
#include "program.h"
#include "test_env.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <csignal>
#include <filesystem>
#include <set>

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
    const auto crash = [&] {
        CHECK(start("always", "vkCreateComputePipelines:2:SIGKILL").code == 128 + SIGKILL);
    };
    crash();
    const Outcome careful = start("never", "");  // nothing is tested: the next variant meanwhile
    CHECK(careful.out == healthy.out);
    contains(careful.err, "it is tested once more");
    contains(devices({}).out, "0 variants left out");
    contains(devices({}).out, "once more, and it is left out");
    CHECK(start("always", "").out == healthy.out);
    CHECK(devices({}).out.find("once more") == std::string::npos);  // acquitted

    // Nor does a device that is lost once, by whomever.
    const Outcome lost = start("always", "vkQueueSubmit:9!:VK_ERROR_DEVICE_LOST");
    CHECK_MESSAGE(lost.out == healthy.out, lost.err);
    contains(devices({}).out, "0 variants left out");

    crash();
    crash();
    const Outcome third = start("never", "");
    CHECK(third.code == 0);
    CHECK(third.out == healthy.out);
    contains(third.err, "[self-test] norm/");
    contains(third.err, "the process ended while it was tested at two earlier starts");

    contains(devices({}).out, "1 variants left out");
    const auto listed = nlohmann::json::parse(devices({"--json"}).out);
    bool found = false;
    for (const auto& device : listed)
        found =
            found || (!device.at("self_tests").is_null() && device["self_tests"]["quarantined"].size() == 1);
    CHECK(found);
    CHECK(devices({"--forget"}).code == 0);
    CHECK(start("never", "").err.find("self-test") == std::string::npos);

    // A cache of pipelines on which the driver crashes lies aside at the next start.
    const auto caches = [&] {
        std::set<std::string> extensions;
        for (const auto& entry : std::filesystem::recursive_directory_iterator(cache.path()))
            if (entry.path().filename().string().starts_with("pipelines-"))
                extensions.insert(entry.path().extension().string());
        return extensions;
    };
    using Extensions = std::set<std::string>;
    if (caches() != Extensions{".bin"}) return;  // the newest lavapipe gives none out
    CHECK(start("never", "vkCreatePipelineCache:1:SIGKILL").code == 128 + SIGKILL);
    CHECK(caches() == Extensions{".tried"});
    CHECK(start("never", "").out == healthy.out);
    CHECK(caches() == Extensions{".bin", ".tried"});
    const Outcome refused = start("never", "vkCreatePipelineCache:1:VK_ERROR_UNKNOWN");
    CHECK(refused.out == healthy.out);
    contains(refused.err, "is given up: vkCreatePipelineCache returned VK_ERROR_UNKNOWN");
}
