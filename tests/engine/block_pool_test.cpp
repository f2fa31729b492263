#include "block_pool.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace scoria;

TEST_SUITE("block pool") {
    TEST_CASE("alone, a sequence has all blocks in order") {
        BlockPool pool(10, 1, {3, 5});
        std::vector<uint32_t> table;
        for (const size_t entries : {1, 4, 10}) CHECK(pool.extend(table, entries));
        for (uint32_t i = 0; i < 10; ++i) CHECK(table[i] == i);
        CHECK(pool.free() == 0);
    }
    TEST_CASE("entries before a ring's end are blocks that the ring has, whoever takes them in what order") {
        constexpr uint32_t sequences = 5, total = 60, rings[] = {2, 7};
        BlockPool pool(total, sequences, {7, 2});
        std::vector<std::vector<uint32_t>> tables(sequences);
        for (int round = 0; round < 3; ++round) {
            for (size_t entries = 1; entries <= 12; ++entries)
                for (size_t s = 0; s < sequences; ++s)
                    CHECK(pool.extend(tables[(s * 3 + entries) % sequences], entries));
            std::vector<uint32_t> all;
            for (const std::vector<uint32_t>& table : tables) {
                for (const uint32_t ring : rings)
                    for (size_t e = 0; e < ring; ++e) CHECK(table[e] < ring * sequences);
                all.insert(all.end(), table.begin(), table.end());
            }
            std::ranges::sort(all);
            CHECK(std::ranges::adjacent_find(all) == all.end());
            CHECK(all.back() == total - 1);
            CHECK(pool.free() == 0);
            // Others come and go.
            for (size_t s = 0; s < sequences; s += 2) {
                const size_t kept = (s + round) % 6;
                pool.give_back(std::span(tables[s]).subspan(kept));
                tables[s].resize(kept);
            }
        }
    }
    TEST_CASE("a table gets all that it asks for, or nothing") {
        BlockPool pool(4, 3, {2});
        std::vector<uint32_t> one, other;
        CHECK(pool.extend(one, 3));
        CHECK_FALSE(pool.extend(other, 2));
        CHECK(other.empty());
        CHECK(pool.free() == 1);
        CHECK(pool.extend(other, 1));
        CHECK_FALSE(pool.extend(one, 4));
        CHECK(one.size() == 3);
        pool.give_back(other);
        CHECK(pool.extend(one, 4));
    }
}
