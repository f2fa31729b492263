// Narrowing of capabilities by profiles, and the choice of a device.
#include "caps_query.h"
#include "expect.h"
#include "file.h"

#include <nlohmann/json.hpp>

using namespace scoria;
using namespace scoria::vk;

namespace {

Caps rich() {
    Caps caps;
    caps.name = "Test GPU";
    caps.max_storage_range = 4ull << 30;
    caps.max_allocation = caps.max_binding = 2ull << 30;
    caps.max_invocations = caps.max_workgroup_x = 1024;
    caps.shared_memory = 49152;
    caps.push_constants = 256;
    caps.storage_alignment = 16;
    caps.max_storage_buffers = 1000;
    caps.subgroup_size = caps.subgroup_min = caps.subgroup_max = 32;
    caps.subgroup_arithmetic = caps.float16 = caps.storage16 = caps.unified_memory = true;
    caps.timestamp_bits = 64;
    return caps;
}

std::string profile(const char* name) {
    return read_file(std::string(SCORIA_SOURCE_DIR "/tests/profiles/") + name);
}

}  // namespace

TEST_CASE("the floor profile narrows a rich device to the floor") {
    const Caps caps = narrowed(rich(), profile("floor.json"), "floor.json");
    CHECK(caps.max_storage_buffers == 8);
    CHECK(caps.max_invocations == 128);
    CHECK(caps.max_workgroup_x == 128);
    CHECK(caps.max_groups == 65535);
    CHECK(caps.shared_memory == 16384);
    CHECK(caps.push_constants == 128);
    CHECK(caps.storage_alignment == 256);
    CHECK(caps.max_binding == 128ull << 20);
    CHECK_FALSE(caps.native_subgroups());
    CHECK_FALSE(caps.float16);
    CHECK_FALSE(caps.unified_memory);
    CHECK(caps.name == "Test GPU");
}

TEST_CASE("small bindings keep subgroups and types") {
    const Caps caps = narrowed(rich(), profile("small_bindings.json"), "small_bindings.json");
    CHECK(caps.max_binding == 4ull << 20);
    CHECK(caps.native_subgroups());
    CHECK(caps.float16);
}

TEST_CASE("a profile never widens") {
    const Caps poor;  // the defaults are the floor
    const Caps caps =
        narrowed(poor, R"({"max_invocations": 4096, "float16": true, "storage_alignment": 4})", "wide");
    CHECK(to_json(caps) == to_json(poor));
}

TEST_CASE("a profile says what kernels are chosen for") {
    Caps cpu = rich();
    cpu.type = DeviceType::cpu;
    cpu.int_dot = true;
    const Caps gpu = narrowed(
        cpu, R"({"type": "discrete", "vendor_id": 32902, "cores": 40, "int_dot_fast": true})", "gpu");
    CHECK(gpu.cores == 40);
    CHECK_FALSE(gpu.is_cpu());
    CHECK(gpu.vendor_id == vendor_intel);
    CHECK(gpu.converts_bytes());
    CHECK_FALSE(cpu.converts_bytes());
    CHECK(gpu.int_dot_fast);
    CHECK_FALSE(narrowed(cpu, R"({"int_dot_fast": true, "int_dot": false})", "gpu").int_dot_fast);
    cpu.subgroup_arithmetic = cpu.vulkan_memory_model = cpu.cooperative_matrix = cpu.cooperative_matrix2 =
        cpu.matrix_reductions = true;
    CHECK(narrowed(cpu, "{}", "gpu").cooperative_matrix2);
    CHECK(narrowed(cpu, "{}", "gpu").matrix_reductions);
    CHECK_FALSE(narrowed(cpu, R"({"cooperative_matrix": false})", "gpu").cooperative_matrix2);
    CHECK_FALSE(narrowed(cpu, R"({"cooperative_matrix": false})", "gpu").matrix_reductions);
}

TEST_CASE("bad profiles are refused by key") {
    struct Case {
        const char *text, *part;
    };
    const Case cases[] = {
        {"", "JSON object"},
        {"[1]", "JSON object"},
        {"{\"max_invocations\": 128", "JSON object"},
        {R"({"max_invocation": 128})", "\"max_invocation\""},
        {R"({"name": "x"})", "\"name\""},
        {R"({"subgroup_size": 8})", "\"subgroup_size\""},
        {R"({"max_invocations": "128"})", "max_invocations] expected a positive whole number, got \"128\""},
        {R"({"max_invocations": -1})", "got -1"},
        {R"({"max_invocations": 0})", "got 0"},
        {R"({"max_invocations": 1.5})", "got 1.5"},
        {R"({"max_invocations": 127})", "expected max_invocations of at least 128, got 127"},
        {R"({"max_workgroup_x": 1})", "expected max_workgroup_x of at least 128, got 1"},
        {R"({"max_storage_buffers": 7})", "expected max_storage_buffers of at least 8, got 7"},
        {R"({"shared_memory": 1})", "expected shared_memory of at least 16384, got 1"},
        {R"({"push_constants": 64})", "expected push_constants of at least 128, got 64"},
        {R"({"float16": 0})", "float16] expected true or false, got 0"},
        {R"({"storage_alignment": 48})", "power of two"},
        {R"({"type": "toaster"})", "type of device, got \"toaster\""},
        {R"({"type": 2})", "type of device, got 2"},
        {R"({"vendor_id": "Intel"})", "vendor_id] expected a number"},
        {R"({"cores": -1})", "cores] expected a number"},
        {R"({"int_dot_fast": 1})", "int_dot_fast] expected true or false"},
    };
    for (const Case& each : cases) {
        CAPTURE(each.text);
        expect_error(Status::bad_file, each.part, [&] { narrowed(rich(), each.text, "bad.json"); });
    }
}

TEST_CASE("every member that can be narrowed is reported") {
    const auto report = nlohmann::json::parse(to_json(rich()));
    const auto floor = nlohmann::json::parse(profile("floor.json"));
    for (const auto& each : floor.items()) {
        CAPTURE(each.key());
        if (each.key() != "_") CHECK(report.contains(each.key()));
    }
    CHECK(report["max_binding"] == 2ull << 30);
    CHECK(report["device_uuid"] == std::string(32, '0'));
}

TEST_CASE("devices are chosen by type, index and name") {
    const auto device = [](const char* name, DeviceType type, const char* unusable = "", uint8_t uuid = 0) {
        ListedDevice listed;
        listed.caps.name = name;
        listed.caps.type = type;
        listed.caps.device_uuid[3] = uuid;
        listed.unusable = unusable;
        return listed;
    };
    std::vector<ListedDevice> devices = {device("llvmpipe", DeviceType::cpu),
                                         device("Old Radeon", DeviceType::discrete, "it is too old", 7),
                                         device("Intel Iris", DeviceType::integrated, "", 7),
                                         device("GeForce (A)", DeviceType::discrete, "", 9),
                                         device("GeForce (B)", DeviceType::discrete, "", 9)};
    CHECK(choose_device(devices, "") == 3);
    CHECK(choose_device(devices, "0") == 0);
    CHECK(choose_device(devices, "LLVM") == 0);
    CHECK(choose_device(devices, "iris") == 2);
    CHECK(choose_device(devices, "geforce (b)") == 4);
    devices[3].caps.driver_id = driver_dozen;
    CHECK(choose_device(devices, "") == 4);
    CHECK(choose_device(devices, "geforce (a)") == 3);
    expect_error(Status::bad_argument, "below 5, got 5", [&] { choose_device(devices, "5"); });
    expect_error(Status::bad_argument, "got \"mali\"; there are: 0 \"llvmpipe\"",
                 [&] { choose_device(devices, "mali"); });
    expect_error(Status::unsupported, "too old", [&] { choose_device(devices, "1"); });
    expect_error(Status::unsupported, "too old", [&] { choose_device(devices, "Radeon"); });
    expect_error(Status::unsupported, "no device", [] { choose_device({}, ""); });

    mark_duplicates(devices);
    CHECK(devices[4].same_as == 3);
    CHECK_FALSE(devices[2].same_as);  // the entry it equals cannot be used
    CHECK_FALSE(devices[0].same_as);
    devices.resize(2);
    devices.erase(devices.begin());
    expect_error(Status::unsupported, "too old", [&] { choose_device(devices, ""); });
}
