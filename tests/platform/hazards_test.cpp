// Barriers and grids, without a device.
#include "expect.h"
#include "hazards.h"

#include <algorithm>
#include <array>

using namespace scoria;
using namespace scoria::vk;

TEST_CASE("a barrier is needed exactly where two accesses overlap and one writes") {
    struct Case {
        const char* name;
        RangeAccess first, second;
        bool conflict;
    };
    const Case cases[] = {
        {"read after write", {1, 0, 64, Access::write}, {1, 0, 64, Access::read}, true},
        {"write after read", {1, 0, 64, Access::read}, {1, 0, 64, Access::write}, true},
        {"write after write", {1, 0, 64, Access::write}, {1, 0, 64, Access::write}, true},
        {"read after read", {1, 0, 64, Access::read}, {1, 0, 64, Access::read}, false},
        {"one byte shared", {1, 0, 64, Access::write}, {1, 63, 100, Access::read}, true},
        {"touching", {1, 0, 64, Access::write}, {1, 64, 100, Access::read}, false},
        {"touching, the other way", {1, 64, 100, Access::write}, {1, 0, 64, Access::read}, false},
        {"inside", {1, 0, 1000, Access::read_write}, {1, 500, 501, Access::read}, true},
        {"around", {1, 500, 501, Access::read}, {1, 0, 1000, Access::read_write}, true},
        {"another buffer", {1, 0, 64, Access::write}, {2, 0, 64, Access::read}, false},
        {"bound but unused", {1, 0, 64, Access::write}, {1, 0, 64, Access::none}, false},
        {"unused before", {1, 0, 64, Access::none}, {1, 0, 64, Access::write}, false},
    };
    for (const Case& each : cases) {
        CAPTURE(each.name);
        HazardTracker tracker;
        tracker.add(std::array{each.first});
        CHECK(tracker.conflicts(std::array{each.second}) == each.conflict);
        tracker.clear();
        CHECK_FALSE(tracker.conflicts(std::array{each.second}));
    }
}

TEST_CASE("every access of the group counts, and aliases inside one operation do not") {
    HazardTracker tracker;
    tracker.add(std::array{RangeAccess{1, 0, 64, Access::read}, RangeAccess{1, 0, 64, Access::write}});
    tracker.add(std::array{RangeAccess{2, 0, 64, Access::write}});
    CHECK(tracker.conflicts(
        std::array{RangeAccess{3, 0, 4, Access::read}, RangeAccess{2, 60, 64, Access::read}}));
    CHECK(tracker.conflicts(std::array{RangeAccess{1, 0, 4, Access::read}}));
    CHECK_FALSE(tracker.conflicts(std::array{RangeAccess{2, 64, 128, Access::read}}));
}

TEST_CASE("folded grids hold every workgroup, respect the limit and waste little") {
    for (const uint32_t limit : {1u, 2u, 7u, 128u, 65535u}) {
        for (const uint64_t count : {1ull, 2ull, 6ull, 7ull, 8ull, 49ull, 50ull, 65535ull, 65536ull,
                                     151936ull, 1000003ull, 65535ull * 65535, 65535ull * 65535 + 1}) {
            CAPTURE(limit);
            CAPTURE(count);
            if (count > uint64_t(limit) * limit * limit) {
                expect_error(Status::unsupported, "workgroups", [&] { fold_grid(count, limit); });
                continue;
            }
            const Grid grid = fold_grid(count, limit);
            const uint64_t held = uint64_t(grid.x) * grid.y * grid.z;
            CHECK(held >= count);
            CHECK(held - count < uint64_t(grid.y) * grid.z);  // less than one idle workgroup per row
            CHECK(std::max({grid.x, grid.y, grid.z}) <= limit);
            if (count <= limit) CHECK(grid == Grid{uint32_t(count), 1, 1});
        }
    }
}
