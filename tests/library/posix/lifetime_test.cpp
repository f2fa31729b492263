// What is left of engines, and of the library itself, when they are gone: by the books of Linux.
#define VK_NO_PROTOTYPES
#include "library.h"
#include "vulkan_host.h"

#include <algorithm>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <malloc.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace scoria::test;

namespace {

size_t open_files() {
    size_t count = 0;
    for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
    return count;
}

bool mapped(const char* file) {
    std::ifstream maps("/proc/self/maps");
    return std::string(std::istreambuf_iterator<char>(maps), {}).find(file) != std::string::npos;
}

/// Anonymous memory of the process, bytes, without what the C library keeps for later.
size_t resident() {
    ::malloc_trim(0);
    std::ifstream in("/proc/self/status");
    for (std::string word; in >> word;)
        if (word == "RssAnon:") {
            size_t kib = 0;
            in >> kib;
            return kib * 1024;
        }
    return 0;
}

/// What this program has allocated and not freed, bytes; unlike resident(), it has no steps.
size_t allocated() {
    const struct mallinfo2 info = ::mallinfo2();
    return info.uordblks + info.hblkhd;
}

}  // namespace

/// Bytes that stay per cycle, after a quarter of them; no file may stay open.
struct Growth {
    double heap = 0, process = 0;
};
template <class Cycle> Growth growth(int cycles, Cycle cycle) {
    const int settled = cycles / 4;
    size_t files = 0, bytes = 0, pages = 0;
    for (int i = 0; i < cycles; ++i) {
        if (i == settled) files = open_files(), bytes = allocated(), pages = resident();
        cycle();
    }
    CHECK(open_files() == files);
    const auto per_cycle = [&](size_t now, size_t before) {
        return (double(now) - double(before)) / (cycles - settled);
    };
    return {per_cycle(allocated(), bytes), per_cycle(resident(), pages)};
}

TEST_CASE("loading, using and unloading again and again leaves nothing" * needs_fixtures()) {
    const int cycles = deep() ? 1000 : 8;
    const Growth driver = growth(cycles, [] { const VulkanHost empty({.validation = false}); });
    const Growth ours = growth(cycles, [] {
        const Loaded loaded;
        (void)generated(loaded.session, some_prompt, 2);
    });
    for (const Growth& each : {driver, ours})
        MESSAGE(each.heap << " bytes of the heap and " << each.process << " of the process per cycle");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which keep what was freed
    CHECK(ours.heap <
          driver.heap + 64 * 1024);  // an engine is more; drivers keep some for their first cycles
    // A page per cycle and more is what the driver's allocator scatters.
    if (deep()) CHECK(ours.process < std::max(0.0, driver.process) + 16 * 1024);
#endif
}

TEST_CASE("a child of fork() is refused, and does not wait for threads that it has not" * needs_fixtures()) {
    const Loaded loaded;
    (void)generated(loaded.session, some_prompt, 2);
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(20);
        const scoria_status statuses[] = {
            scoria_session_append(loaded.session, some_prompt.data(), some_prompt.size()),
            scoria_session_destroy(loaded.session), scoria_engine_destroy(loaded.engine)};
        ::_exit(std::ranges::count(statuses, SCORIA_BAD_ARGUMENT) == 3 ? 0 : 1);
    }
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    (void)generated(loaded.session, some_prompt, 2);  // the parent's go on
}

TEST_CASE("the library itself comes and goes" * needs_fixtures()) {
    const Scratch scratch;  // a copy is a library of its own, whatever this program links
    const std::string path = (scratch.path / "libscoria_copy.so").string();
    std::filesystem::copy_file(SCORIA_LIBRARY, path);
    size_t files = 0;
    for (int cycle = 0; cycle < 3; ++cycle) {
        void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        REQUIRE_MESSAGE(library, ::dlerror());
        const auto create =
            reinterpret_cast<decltype(&scoria_engine_create)>(::dlsym(library, "scoria_engine_create"));
        const auto destroy =
            reinterpret_cast<decltype(&scoria_engine_destroy)>(::dlsym(library, "scoria_engine_destroy"));
        const scoria_engine_options options = engine_options(tiny_model());
        scoria_engine* engine = nullptr;
        std::jthread([&] { CHECK(create(&options, &engine) == SCORIA_OK); }).join();
        CHECK(destroy(engine) == SCORIA_OK);
        REQUIRE(mapped("libscoria_copy.so"));
        REQUIRE(::dlclose(library) == 0);
        CHECK(!mapped("libscoria_copy.so"));
        if (cycle == 0) files = open_files();
    }
    CHECK(open_files() == files);
}
