// The pipeline cache file: nothing that is damaged or of another device reaches the driver.
#include "expect.h"
#include "pipeline_cache.h"

#include <cstring>
#include <functional>

using namespace scoria;
using namespace scoria::vk;

namespace {

Caps some_caps() {
    Caps caps;
    caps.vendor_id = 0x10DE;
    caps.device_id = 0x2684;
    caps.driver_version = 42;
    caps.driver_info = "550.1";
    for (uint8_t i = 0; i < 16; ++i) caps.pipeline_cache_uuid[i] = uint8_t(i * 7);
    return caps;
}

// A blob with the header that the specification demands, and some bytes of the driver's.
std::vector<std::byte> blob_of(const Caps& caps) {
    std::vector<std::byte> blob(100, std::byte{0x5A});
    const uint32_t numbers[] = {32, 1, caps.vendor_id, caps.device_id};
    std::memcpy(blob.data(), numbers, sizeof numbers);
    std::memcpy(blob.data() + 16, caps.pipeline_cache_uuid.data(), 16);
    return blob;
}

}  // namespace

TEST_CASE("a cache survives the way to disk and back") {
    const Caps caps = some_caps();
    const auto blob = blob_of(caps);
    std::string why;
    CHECK(unwrap_pipeline_cache(caps, wrap_pipeline_cache(caps, blob), why) == blob);
    CHECK(why.empty());
}

TEST_CASE("every flipped byte and every shorter file is refused") {
    const Caps caps = some_caps();
    const auto file = wrap_pipeline_cache(caps, blob_of(caps));
    for (size_t i = 0; i < file.size(); ++i) {
        CAPTURE(i);
        auto damaged = file;
        damaged[i] ^= std::byte{0x10};
        std::string why;
        CHECK(unwrap_pipeline_cache(caps, damaged, why).empty());
        CHECK_FALSE(why.empty());
        why.clear();
        CHECK(unwrap_pipeline_cache(caps, std::span(file).first(i), why).empty());
        CHECK_FALSE(why.empty());
    }
    auto longer = file;
    longer.push_back(std::byte{0});
    std::string why;
    CHECK(unwrap_pipeline_cache(caps, longer, why).empty());
}

TEST_CASE("a cache of another device, driver or version is refused and has another name") {
    struct Case {
        const char* name;
        std::function<void(Caps&)> change;
    };
    const Case cases[] = {
        {"device", [](Caps& c) { c.device_id++; }},
        {"vendor", [](Caps& c) { c.vendor_id++; }},
        {"driver version", [](Caps& c) { c.driver_version++; }},
        {"driver build", [](Caps& c) { c.driver_info = "550.2"; }},
        {"driver uuid", [](Caps& c) { c.driver_uuid[5] = 1; }},
        {"cache uuid", [](Caps& c) { c.pipeline_cache_uuid[0] = 99; }},
    };
    const Caps caps = some_caps();
    for (const Case& each : cases) {
        CAPTURE(each.name);
        Caps other = caps;
        each.change(other);
        std::string why;
        CHECK(unwrap_pipeline_cache(other, wrap_pipeline_cache(caps, blob_of(caps)), why).empty());
        CHECK(why.find("another device") != std::string::npos);
        CHECK(pipeline_cache_name(other) != pipeline_cache_name(caps));
    }
}

TEST_CASE("a blob whose own header lies is refused though the file is whole") {
    const Caps caps = some_caps();
    for (const size_t word : {0u, 1u, 2u, 3u, 4u}) {
        CAPTURE(word);
        auto blob = blob_of(caps);
        const uint32_t lie = 0xFFFFFFFF;
        std::memcpy(blob.data() + 4 * word, &lie, 4);
        std::string why;
        CHECK(unwrap_pipeline_cache(caps, wrap_pipeline_cache(caps, blob), why).empty());
        CHECK(why.find("driver's header") != std::string::npos);
    }
}
