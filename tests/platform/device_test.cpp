// The platform on whatever device the environment offers (a CPU driver will do): buffers, pipelines,
// recording, validation. With the validation layer installed, every test runs under it.
#include "expect.h"
#include "file.h"
#include "on_system.h"
#include "recorder.h"
#include "reset_limit.h"
#include "scale_words.h"
#include "system.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <thread>

using namespace scoria;
using namespace scoria::vk;

namespace {

constexpr Access scale_bindings[] = {Access::read, Access::write};
constexpr uint32_t scale_constants[] = {constant_workgroup};
const ShaderModule scale{"scale", scale_words, scale_bindings, 8, scale_constants, ModuleNeeds::none};

struct ScalePush {
    uint32_t count;
    float a;
};

DeviceOptions with_validation(DeviceOptions options = {}) {
    options.validation = true;
    try {
        const Device probe(options);
    } catch (const Error& error) {
        if (error.status() != Status::unsupported) throw;
        MESSAGE("without validation: " << error.what());
        options.validation = false;
    }
    return options;
}

// A device on which the validation layer must have stayed silent.
struct TestDevice {
    Device device;
    Pipelines pipelines{device};
    explicit TestDevice(const DeviceOptions& options = {}) : device(with_validation(options)) {}
    ~TestDevice() {
        for (const std::string& message : device.validation_messages()) FAIL_CHECK(message);
    }
    const Pipeline& scale_pipeline(uint32_t workgroup = 32) {
        return pipelines.get(scale, {{constant_workgroup, workgroup}});
    }
    void run(Recorder& recorder) { run(recorder.finish()); }
    void run(const Commands& commands) {
        const VkCommandBuffer handle = commands.handle();
        device.wait(device.submit(std::span(&handle, 1)));
    }
};

template <class T> std::span<T> words(const Buffer& buffer) {
    return {reinterpret_cast<T*>(buffer.mapped().data()), size_t(buffer.size() / sizeof(T))};
}

}  // namespace

TEST_CASE("of resets no more than four begin within a minute") {
    using namespace std::chrono_literals;
    ResetLimit limit;
    const auto start = ResetLimit::Clock::now();
    for (int i = 0; i < 4; ++i) CHECK(limit.next(start + i * 5s) == start + i * 5s);
    CHECK(limit.next(start + 20s) == start + 61s);
    CHECK(limit.next(start + 62s) == start + 66s);
    CHECK(limit.next(start + 200s) == start + 200s);
}

TEST_CASE("devices are listed with one choice") {
    size_t chosen = 0;
    for (const ListedDevice& listed : list_devices()) {
        MESSAGE(cat(listed.caps.name, listed.chosen ? " (chosen) " : " ", listed.unusable));
        chosen += listed.chosen;
    }
    CHECK(chosen == 1);
}

TEST_CASE("without a driver the error says what to install") {
    const char* driver = std::getenv("VK_DRIVER_FILES");
    const std::string saved = driver ? driver : "";
    test::set_variable("VK_DRIVER_FILES", "/nonexistent.json");
    expect_error(Status::unsupported, "install", [] { list_devices(); });
    expect_error(Status::unsupported, "install", [] { Device device; });
    driver ? test::set_variable("VK_DRIVER_FILES", saved) : test::unset_variable("VK_DRIVER_FILES");
}

TEST_CASE("kernels, copies, fills and updates run in order behind derived barriers") {
    TestDevice on;
    constexpr uint32_t count = 1000;
    Buffer upload(on.device, 4 * count, MemoryUse::staging), a(on.device, 4 * count, MemoryUse::device),
        b(on.device, 4 * count, MemoryUse::device), result(on.device, 4 * count, MemoryUse::readback);
    std::iota(words<float>(upload).begin(), words<float>(upload).end(), 0.f);
    Recorder recorder(on.device, on.pipelines);
    recorder.copy(upload.view(), a.view());
    recorder.dispatch(on.scale_pipeline(), {a.view(), b.view()}, ScalePush{count, 2}, 32,
                      "b = 2a");  // barrier
    recorder.dispatch(on.scale_pipeline(64), {b.view(), a.view()}, ScalePush{count, 5}, 16,
                      "a = 5b");      // barrier
    recorder.fill(b.view(0, 40), 7);  // barrier
    const uint32_t nine[2] = {9, 9};
    recorder.update(b.view(40, 8), std::as_bytes(std::span(nine)));
    recorder.copy(a.view(40, 400), result.view(40, 400));
    recorder.copy(b.view(0, 40), result.view(0, 40));  // barrier
    recorder.make_host_visible();
    CHECK(recorder.stats().dispatches == 2);
    CHECK(recorder.stats().barriers == 4);
    on.run(recorder);
    CHECK(words<uint32_t>(result)[9] == 7);
    for (uint32_t i = 10; i < 110; ++i) REQUIRE(words<float>(result)[i] == float(i) * 10);
}

TEST_CASE("grids over the limit are folded and reach every element once") {
    const std::string profile =
        (std::filesystem::temp_directory_path() / cat("scoria_groups_", process_id(), ".json")).string();
    write_file_atomic(profile, std::as_bytes(std::span(std::string_view(R"({"max_groups": 5})"))));
    DeviceOptions options;
    options.caps_profile = profile;
    TestDevice on(options);
    std::filesystem::remove(profile);
    constexpr uint32_t count = 97;  // 97 workgroups of one: 5 x 5 x 4
    Buffer x(on.device, 4 * count, MemoryUse::staging), y(on.device, 4 * count, MemoryUse::readback);
    for (float& value : words<float>(x)) value = 3;
    for (float& value : words<float>(y)) value = -1;
    Recorder recorder(on.device, on.pipelines);
    recorder.dispatch(on.scale_pipeline(1), {x.view(), y.view()}, ScalePush{count, 2}, count, "fold");
    recorder.dispatch(on.scale_pipeline(1), {x.view(), y.view()}, ScalePush{count, 2}, 0, "nothing");
    recorder.make_host_visible();
    CHECK(recorder.stats().dispatches == 1);
    on.run(recorder);
    for (const float value : words<float>(y)) REQUIRE(value == 6);
}

TEST_CASE("a shuffle moves independent work only") {
    for (const uint64_t seed : {1, 2, 3, 4}) {
        CAPTURE(seed);
        TestDevice on;
        Buffer a(on.device, 4096, MemoryUse::staging), b(on.device, 4096, MemoryUse::device),
            result(on.device, 4096, MemoryUse::readback);
        for (float& value : words<float>(a)) value = 1;
        RecorderOptions options;
        options.shuffle_seed = seed;
        Recorder recorder(on.device, on.pipelines, options);
        // Four independent quarters, each written in one group and read in the next.
        for (uint64_t part = 0; part < 4; ++part)
            recorder.dispatch(on.scale_pipeline(), {a.view(part * 1024, 1024), b.view(part * 1024, 1024)},
                              ScalePush{256, float(part + 1)}, 8, "first");
        for (uint64_t part = 0; part < 4; ++part)
            recorder.dispatch(on.scale_pipeline(),
                              {b.view(part * 1024, 1024), result.view(part * 1024, 1024)}, ScalePush{256, 10},
                              8, "second");
        recorder.make_host_visible();
        CHECK(recorder.stats().barriers == 1);
        on.run(recorder);
        for (size_t i = 0; i < 1024; ++i) REQUIRE(words<float>(result)[i] == 10 * float(i / 256 + 1));
    }
}

TEST_CASE("the validation layer speaks when barriers are left out") {
    DeviceOptions options = with_validation();
    if (!options.validation) return;
    Device device(options);
    Pipelines pipelines(device);
    Buffer a(device, 4096, MemoryUse::device), b(device, 4096, MemoryUse::device);
    const Pipeline& pipeline = pipelines.get(scale, {{constant_workgroup, 32}});
    for (const bool omit : {false, true}) {
        RecorderOptions recording;
        recording.omit_barriers = omit;
        Recorder recorder(device, pipelines, recording);
        recorder.fill(a.view(), 0);
        recorder.dispatch(pipeline, {a.view(), b.view()}, ScalePush{1024, 2}, 32, "one");
        recorder.dispatch(pipeline, {b.view(), a.view()}, ScalePush{1024, 2}, 32, "two");
        const Commands commands = recorder.finish();
        const VkCommandBuffer handle = commands.handle();
        device.wait(device.submit(std::span(&handle, 1)));
        CHECK((device.validation_errors() > 0) == omit);
    }
    bool named = false;
    for (const std::string& message : device.validation_messages())
        named |= message.find("SYNC-HAZARD") != std::string::npos;
    CHECK(named);
}

TEST_CASE("barriers of dispatches and of transfers make a chain") {
    TestDevice on;
    Buffer a(on.device, 4096, MemoryUse::device), b(on.device, 4096, MemoryUse::device),
        c(on.device, 4096, MemoryUse::device), late(on.device, 4096, MemoryUse::readback),
        last(on.device, 4096, MemoryUse::readback);
    Recorder recorder(on.device, on.pipelines);
    const auto scaled = [&](const Buffer& from, const Buffer& to) {
        recorder.dispatch(on.scale_pipeline(), {from.view(), to.view()}, ScalePush{1024, 2}, 32, "scale");
    };
    recorder.fill(a.view(), std::bit_cast<uint32_t>(1.0F));
    scaled(a, b);
    scaled(b, c);
    recorder.copy(c.view(), b.view());
    recorder.copy(a.view(), late.view());  // of the first transfer, with nothing but dispatches between
    scaled(b, c);
    scaled(a, b);
    recorder.copy(c.view(), last.view());
    recorder.make_host_visible();
    CHECK(recorder.stats().barriers == 5);
    on.run(recorder);
    CHECK(on.device.validation_errors() == 0);
    CHECK(words<float>(late)[1023] == 1);
    CHECK(words<float>(last)[1023] == 8);
}

TEST_CASE("recorded commands are replayed, also while in flight") {
    TestDevice on;
    Buffer x(on.device, 4096, MemoryUse::staging), y(on.device, 4096, MemoryUse::device);
    for (float& value : words<float>(x)) value = 1;
    RecorderOptions options;
    options.simultaneous_use = true;
    Recorder recorder(on.device, on.pipelines, options);
    recorder.dispatch(on.scale_pipeline(), {x.view(), y.view()}, ScalePush{1024, 2}, 32, "replayed");
    const Commands commands = recorder.finish();
    const VkCommandBuffer handle = commands.handle();
    Device::Ticket last;
    for (int i = 0; i < 8; ++i) {
        const Device::Ticket ticket = on.device.submit(std::span(&handle, 1));
        CHECK(ticket.value > last.value);
        last = ticket;
    }
    on.device.wait(last);
    CHECK(on.device.done(last));
}

TEST_CASE("timestamps name every dispatch and pass the end of a query pool") {
    TestDevice on;
    Buffer x(on.device, 4096, MemoryUse::device), y(on.device, 4096, MemoryUse::device);
    RecorderOptions options;
    options.timestamps = true;
    Recorder recorder(on.device, on.pipelines, options);
    constexpr size_t dispatches = 300;  // more than two query pools and four descriptor pools
    for (size_t i = 0; i < dispatches; ++i)
        recorder.dispatch(on.scale_pipeline(), {x.view(), y.view()}, ScalePush{1024, 2}, 32,
                          i % 2 ? "odd" : "even");
    const Commands commands = recorder.finish();
    on.run(commands);
    const auto times = commands.times();
    if (on.device.caps().timestamp_bits == 0) {
        CHECK(times.empty());
        return;
    }
    REQUIRE(times.size() == dispatches);
    for (size_t i = 0; i < dispatches; ++i) {
        CHECK(times[i].label == (i % 2 ? "odd" : "even"));
        CHECK(times[i].microseconds >= 0);
        CHECK(times[i].microseconds < 60e6);
    }
}

TEST_CASE("threads that want the same pipelines get the same ones, each made once") {
    TestDevice on;
    ShaderModule unusable = scale;
    unusable.needs = ModuleNeeds::unknown;
    constexpr uint32_t sizes[] = {8, 16, 32, 64};
    constexpr size_t threads = 8;
    std::array<std::array<const Pipeline*, std::size(sizes)>, threads> got{};
    std::atomic<size_t> refused = 0, unmade = 0;
    {
        std::vector<std::jthread> all;
        for (size_t t = 0; t < threads; ++t)
            all.emplace_back([&, t] {
                for (size_t i = 0; i < std::size(sizes); ++i) {
                    const size_t which = t % 2 ? i : std::size(sizes) - 1 - i;
                    got[t][which] = &on.scale_pipeline(sizes[which]);
                    unmade += got[t][which]->handle == VK_NULL_HANDLE;
                    try {
                        on.pipelines.get(unusable, {});
                    } catch (const Error&) {
                        ++refused;
                    }
                }
            });
    }
    for (const auto& each : got) CHECK(each == got.front());
    CHECK(refused == threads * std::size(sizes));
    CHECK(unmade == 0);
    CHECK(on.pipelines.created() == std::size(sizes));
}

TEST_CASE("a rehearsal writes nothing, and runs each pipeline at its first use alone") {
    TestDevice on;
    Buffer x(on.device, 4096, MemoryUse::device), y(on.device, 4096, MemoryUse::device),
        range(on.device, rehearsal_bytes, MemoryUse::device), back(on.device, 4096, MemoryUse::readback);
    const Buffer prop(on.device, 4096, MemoryUse::none);
    CHECK(prop.size() == 4096);
    CHECK(prop.mapped().empty());
    const Pipeline &pipeline = on.scale_pipeline(), &other = on.scale_pipeline(64);
    Recorder real(on.device, on.pipelines);
    real.fill(x.view(), 0x40000000);
    real.fill(y.view(), 0x12345678);
    on.run(real);

    const auto rehearse = [&](const View& bound) {
        Recorder recorder(on.device, on.pipelines, {.rehearsal = bound});
        recorder.dispatch(pipeline, {prop.view(), prop.view()}, ScalePush{1024, 2}, 32, "props");
        recorder.dispatch(other, {x.view(), y.view()}, ScalePush{1024, 2}, 16, "buffers");
        recorder.fill(y.view(), 0);
        recorder.update(y.view(0, 4), std::as_bytes(std::span("abc")));
        recorder.copy(x.view(), y.view());
        CHECK(recorder.stats().dispatches == 0);
        const uint32_t uses = recorder.stats().first_uses;
        on.run(recorder);
        return uses;
    };
    CHECK(rehearse({}) == 0);
    CHECK(rehearse(range.view()) == 2);
    CHECK(rehearse(range.view()) == 0);

    Recorder read(on.device, on.pipelines);
    read.copy(y.view(), back.view());
    read.make_host_visible();
    CHECK(read.stats().first_uses == 0);
    on.run(read);
    CHECK(back.mapped()[0] == std::byte{0x78});
    CHECK(std::ranges::equal(back.mapped().first(4092), back.mapped().subspan(4)));
}

TEST_CASE("uses that break a limit or an interface are refused") {
    TestDevice on;
    const Caps& caps = on.device.caps();
    Buffer x(on.device, 4096, MemoryUse::device), y(on.device, 4096, MemoryUse::device);
    const Pipeline& good = on.scale_pipeline();
    CHECK(&on.scale_pipeline() == &good);
    CHECK(on.pipelines.created() == 1);

    const auto get = [&](ShaderModule module, std::initializer_list<Constant> constants) {
        return [&on, module, constants] {
            on.pipelines.get(module, std::span(constants.begin(), constants.size()));
        };
    };
    expect_error(Status::unsupported, "got id 7", get(scale, {{7, 1}}));
    expect_error(Status::unsupported, "expected a workgroup of 1 to",
                 get(scale, {{constant_workgroup, 1u << 20}}));
    expect_error(Status::unsupported, "got 0", get(scale, {{constant_workgroup, 0}}));
    ShaderModule module = scale;
    module.needs = ModuleNeeds::unknown;
    expect_error(Status::unsupported, "shader scale", get(module, {}));
    module = scale;
    module.push_size = caps.push_constants + 4;
    expect_error(Status::unsupported, "push constants", get(module, {}));
    const std::vector<Access> many(std::min(caps.max_storage_buffers, 100'000'000u) + 1);
    module = scale;
    module.bindings = many;
    expect_error(Status::unsupported, "bindings", get(module, {}));

    Recorder recorder(on.device, on.pipelines);
    const ScalePush push{1024, 2};
    const auto dispatch = [&](std::vector<View> views, size_t push_bytes = 8) {
        return [&recorder, &good, &push, views, push_bytes] {
            recorder.dispatch(good, views, std::as_bytes(std::span(&push, 1)).first(push_bytes), 1, "bad");
        };
    };
    expect_error(Status::bad_argument, "expected 2 bindings, got 1", dispatch({x.view()}));
    expect_error(Status::bad_argument, "expected 8 bytes of push constants, got 4",
                 dispatch({x.view(), y.view()}, 4));
    expect_error(Status::bad_argument, "binding 1 is empty", dispatch({x.view(), View{}}));
    expect_error(Status::bad_argument, "binding 0: expected an offset", dispatch({x.view(4, 64), y.view()}));
    expect_error(Status::bad_argument, "binding 1: expected 1 to",
                 dispatch({x.view(), View{y.view().buffer, 0, caps.max_storage_range + 1}}));
    expect_error(Status::bad_argument, "equal sizes", [&] { recorder.copy(x.view(0, 4), y.view(0, 8)); });
    expect_error(Status::bad_argument, "4-byte words", [&] { recorder.fill(x.view(2, 4), 0); });
    expect_error(Status::bad_argument, "update",
                 [&] { recorder.update(x.view(0, 8), std::as_bytes(std::span("abc"))); });
    expect_error(Status::unsupported, "expected a buffer of 1 to",
                 [&] { Buffer(on.device, caps.max_allocation + 1, MemoryUse::device); });
    expect_error(Status::unsupported, "got 0", [&] { Buffer(on.device, 0, MemoryUse::device); });
    expect_error(Status::timeout, "has not finished after 1 ms", [&] {
        on.device.wait({QueueKind::compute, 1000}, std::chrono::milliseconds(1));
    });
}

TEST_CASE("a shuffled group keeps its dispatches and changes their order") {
    TestDevice on;
    if (on.device.caps().timestamp_bits == 0) return;
    constexpr std::string_view labels[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    Buffer x(on.device, 4096, MemoryUse::device), y(on.device, 4096, MemoryUse::device);
    size_t moved = 0;
    for (const uint64_t seed : {0, 1, 2}) {
        RecorderOptions options;
        options.timestamps = true;
        options.shuffle_seed = seed;
        Recorder recorder(on.device, on.pipelines, options);
        for (uint64_t i = 0; i < 8; ++i)
            recorder.dispatch(on.scale_pipeline(), {x.view(), y.view(i * 256, 256)}, ScalePush{64, 2}, 2,
                              labels[i]);
        const Commands commands = recorder.finish();
        on.run(commands);
        std::string order;
        for (const DispatchTime& time : commands.times()) order += time.label;
        if (seed == 0) CHECK(order == "abcdefgh");
        moved += order != "abcdefgh";
        std::ranges::sort(order);
        CHECK(order == "abcdefgh");
    }
    CHECK(moved == 2);
}

TEST_CASE("many dispatches of eight bindings fit, pool after pool") {
    TestDevice on;
    constexpr Access bindings[8] = {Access::read, Access::write};  // the shader uses two of them
    ShaderModule wide = scale;
    wide.bindings = bindings;
    Buffer x(on.device, 4096, MemoryUse::device), y(on.device, 4096, MemoryUse::device);
    Recorder recorder(on.device, on.pipelines);
    const Pipeline& pipeline = on.pipelines.get(wide, {{constant_workgroup, 32}});
    for (int i = 0; i < 100; ++i)
        recorder.dispatch(pipeline,
                          {x.view(), y.view(), x.view(), x.view(), x.view(), x.view(), x.view(), x.view()},
                          ScalePush{1024, 2}, 32, "wide");
    on.run(recorder);
}

TEST_CASE("new buffers hold the poison to the last byte, and heaps say what is ours") {
    DeviceOptions options;
    options.poison = true;
    options.poison_word = 0xDEADBEEF;
    SUBCASE("mapped where memory is unified") {}
    SUBCASE("filled by the device") { options.caps_profile = SCORIA_SOURCE_DIR "/tests/profiles/floor.json"; }
    TestDevice on(options);
    Buffer device(on.device, 1030, MemoryUse::device), readback(on.device, 1030, MemoryUse::readback);
    CHECK(words<uint32_t>(readback)[256] == 0xDEADBEEF);
    std::memset(readback.mapped().data(), 0, 1030);
    Recorder recorder(on.device, on.pipelines);
    recorder.copy(device.view(), readback.view());
    recorder.make_host_visible();
    on.run(recorder);
    for (size_t i = 0; i < 1030; ++i)
        REQUIRE(readback.mapped()[i] == std::byte((0xDEADBEEF >> (8 * (i % 4))) & 0xFF));
    uint64_t ours = 0;
    for (const HeapState& heap : on.device.heaps()) {
        CHECK(heap.budget <= heap.size);
        CHECK(heap.usage >= heap.ours);
        ours += heap.ours;
    }
    CHECK(ours >= 2060);
}

TEST_CASE("narrowed features are not enabled, and the staged path works on unified memory") {
    for (const char* name : {"floor.json", "small_bindings.json"}) {
        CAPTURE(name);
        DeviceOptions options;
        options.caps_profile = std::string(SCORIA_SOURCE_DIR "/tests/profiles/") + name;
        TestDevice on(options);
        const Buffer buffer(on.device, on.device.caps().max_binding, MemoryUse::device);
        CHECK(buffer.mapped().empty());
        CHECK_FALSE(on.device.caps().unified_memory);
    }
    DeviceOptions options;
    options.caps_profile = "/nonexistent.json";
    expect_error(Status::bad_file, "/nonexistent.json", [&] { Device device(options); });
}

/// Whether the driver hands out at least the header that the specification puts before its pipelines.
bool gives_pipelines(const Device& device) {
    VkPipelineCacheCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO;
    VkPipelineCache cache = VK_NULL_HANDLE;
    check(device.fn().vkCreatePipelineCache(device.handle(), &info, device.callbacks(), &cache), "create");
    size_t bytes = 0;
    check(device.fn().vkGetPipelineCacheData(device.handle(), cache, &bytes, nullptr), "get");
    device.fn().vkDestroyPipelineCache(device.handle(), cache, device.callbacks());
    return bytes >= sizeof(VkPipelineCacheHeaderVersionOne);
}

TEST_CASE("pipelines are kept on disk; damage and a folder that cannot be written do no harm") {
    const std::string folder =
        (std::filesystem::temp_directory_path() / cat("scoria_cache_", process_id())).string();
    DeviceOptions options;
    options.cache_folder = folder + "/made";
    for (int run = 0; run < 3; ++run) {
        TestDevice on(options);
        on.scale_pipeline();
        on.pipelines.save_cache();
        CHECK(on.pipelines.seconds_compiling() >= 0);
        size_t files = 0;
        std::error_code none;
        for (const auto& entry : std::filesystem::directory_iterator(options.cache_folder, none)) {
            ++files;
            if (run == 1) std::filesystem::resize_file(entry.path(), entry.file_size() / 2);
        }
        CHECK(files == size_t(gives_pipelines(on.device)));
    }
    std::filesystem::remove_all(folder);
    options.cache_folder = test::impossible_folder;
    TestDevice on(options);
    on.scale_pipeline();
    on.pipelines.save_cache();
}

TEST_CASE("threads share pipelines and the queue") {
    TestDevice on;
    Buffer x(on.device, 4096, MemoryUse::device);
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread)
        threads.emplace_back([&] {
            Buffer y(on.device, 4096, MemoryUse::device);
            for (uint32_t i = 0; i < 8; ++i) {
                Recorder recorder(on.device, on.pipelines);
                recorder.dispatch(on.scale_pipeline(1u << (i % 4)), {x.view(), y.view()}, ScalePush{8, 2}, 8,
                                  "shared");
                on.run(recorder);
            }
        });
    for (std::thread& thread : threads) thread.join();
    CHECK(on.pipelines.created() == 4);
}
