#include "block_pool.h"

#include "ops/kv_layout.h"
#include "ops/op.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

namespace block_pool_test {
using namespace scoria;

/// Tokens of so many full blocks and a rest; they differ from the first one's from `from` on.
std::vector<TokenId> ids_of(size_t blocks, size_t rest = 0, size_t from = SIZE_MAX, TokenId seed = 0) {
    std::vector<TokenId> ids(blocks * kv_block_tokens + rest);
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = TokenId(i % 97) + (i >= from ? 1000 + seed : 0);
    return ids;
}

/// As BlockPool::publish, all of whose blocks are known then, where any can be.
size_t publish(BlockPool& pool, std::vector<uint32_t>& table, size_t known, const std::vector<TokenId>& ids) {
    const size_t changed = pool.publish(table, known, ids);
    CHECK(known == (pool.shares() ? ids.size() / kv_block_tokens : 0));
    return changed;
}

static_assert(kv_blocks_for(UINT32_MAX) == 1u << 27);
static_assert(KvRows{KvType::f16, 1 << 15, 1 << 12}.block_words() == 1ull << 32);

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
    TEST_CASE("who begins as another did has its blocks, and what nobody holds is known until it is wanted") {
        BlockPool pool(8, 4, {});
        std::vector<uint32_t> one, two;
        const std::vector<TokenId> ids = ids_of(3, 5);
        CHECK(pool.extend(one, 4));
        CHECK_FALSE(pool.adopt(two, 0, ids));
        CHECK(publish(pool, one, 0, ids) == 4);
        // Two of its blocks, since then other tokens come, and not the one that is not full.
        CHECK(pool.adopt(two, 0, ids_of(4, 0, 2 * kv_block_tokens + 3)));
        CHECK(two == std::vector(one.begin(), one.begin() + 2));
        CHECK(pool.free() == 4);
        pool.give_back(one);
        CHECK(pool.free() == 6);
        // It is still known, and one that has own blocks changes over to it.
        std::vector<uint32_t> three;
        CHECK(pool.extend(three, 3));
        CHECK(publish(pool, three, 0, ids) == 0);
        CHECK(three == std::vector(one.begin(), one.begin() + 3));
        CHECK(pool.free() == 5);
        pool.give_back(three);
        // Only what no table holds is given to others.
        std::vector<uint32_t> all;
        CHECK(pool.extend(all, 6));
        CHECK(pool.free() == 0);
        CHECK_FALSE(pool.extend(all, 7));
        CHECK(all.size() == 6);
        for (const uint32_t block : two) CHECK(std::ranges::find(all, block) == all.end());
        std::vector<uint32_t> four;
        CHECK(pool.adopt(four, 0, ids));
        CHECK(four == two);
    }
    TEST_CASE("the last of a sequence goes before its others, and the one least lately held first") {
        BlockPool pool(6, 4, {});
        std::vector<uint32_t> first, second, more;
        const std::vector<TokenId> ids = ids_of(3), others = ids_of(3, 0, 0);
        CHECK(pool.extend(first, 3));
        publish(pool, first, 0, ids);
        CHECK(pool.extend(second, 3));
        publish(pool, second, 0, others);
        pool.give_back(first);
        pool.give_back(second);
        CHECK(pool.extend(more, 2));
        CHECK(more == std::vector{first[2], first[1]});
        std::vector<uint32_t> table;
        CHECK(pool.adopt(table, 0, others));
        CHECK(table == second);
        pool.give_back(table);
        table.clear();
        CHECK(pool.adopt(table, 0, ids));
        CHECK(table == std::vector{first[0]});
    }
    TEST_CASE("a block is written by who has it alone") {
        BlockPool pool(4, 4, {});
        std::vector<uint32_t> one, two;
        const std::vector<TokenId> ids = ids_of(2);
        CHECK(pool.extend(one, 3));
        CHECK(pool.forget(one[0]));  // nobody knows it
        publish(pool, one, 0, ids);
        CHECK_FALSE(pool.forget(one[0]));  // what is known behind it needs it
        CHECK(pool.adopt(two, 0, ids));
        CHECK_FALSE(pool.forget(one[1]));  // two tables have it
        pool.give_back(two);
        CHECK(pool.forget(one[1]));
        CHECK(pool.forget(one[0]));
        two.clear();
        CHECK_FALSE(pool.adopt(two, 0, ids));
        pool.give_back(one);
        CHECK(pool.free() == 4);
    }
    TEST_CASE("where positions wrap nothing is known") {
        BlockPool pool(12, 3, {2});
        std::vector<uint32_t> one, two;
        CHECK(pool.extend(one, 3));
        CHECK(publish(pool, one, 0, ids_of(3)) == 3);
        CHECK_FALSE(pool.adopt(two, 0, ids_of(3)));
    }
    TEST_CASE("whatever comes and goes, a block is in tables that mean the same by it, and none is lost") {
        std::mt19937 random(1);
        BlockPool pool(24, 6, {});
        struct Sequence {
            std::vector<TokenId> ids;
            std::vector<uint32_t> table;
        };
        std::vector<Sequence> sequences(6);
        for (int round = 0; round < 3000; ++round) {
            Sequence& s = sequences[random() % 6];
            if (s.table.empty()) {
                s.ids = ids_of(1 + random() % 6, 0, random() % 200, TokenId(random() % 2));
                pool.adopt(s.table, 0, s.ids);
                const size_t known = s.table.size();
                if (pool.extend(s.table, s.ids.size() / kv_block_tokens))
                    publish(pool, s.table, known, s.ids);
                else
                    s.ids.resize(known * kv_block_tokens);
            } else {
                const size_t kept = random() % s.table.size();
                pool.give_back(std::span(s.table).subspan(kept));
                s.table.resize(kept);
                s.ids.resize(kept * kv_block_tokens);
                if (random() % 2) {
                    pool.give_back(s.table);
                    s.table.clear();
                }
            }
            std::map<uint32_t, std::vector<TokenId>> held;
            for (const Sequence& each : sequences)
                for (size_t entry = 0; entry < each.table.size(); ++entry) {
                    const std::vector<TokenId> before(
                        each.ids.begin(), each.ids.begin() + ptrdiff_t((entry + 1) * kv_block_tokens));
                    const auto [at, is_new] = held.try_emplace(each.table[entry], before);
                    REQUIRE((is_new || at->second == before));
                }
            REQUIRE(pool.free() + held.size() == 24);
        }
    }
}

}  // namespace block_pool_test
