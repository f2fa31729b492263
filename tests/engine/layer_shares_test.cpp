// Where a model is cut for several devices.
#include "layer_shares.h"

#include "architecture.h"
#include "fail.h"

#include <doctest/doctest.h>

using namespace scoria;

namespace {

std::vector<uint32_t> ends(const Architecture& architecture, std::vector<uint64_t> rooms, uint64_t embedding,
                           uint64_t head) {
    std::vector<uint64_t> bytes(architecture.layers.size() + 2, 10);
    bytes.front() = embedding;
    bytes.back() = head;
    std::vector<uint32_t> all;
    for (const LayerRange& range : share_layers(architecture, bytes, rooms)) all.push_back(range.end);
    return all;
}

}  // namespace

TEST_CASE("layers are shared by the room of each device") {
    Architecture architecture;
    architecture.layers.resize(12);
    struct Row {
        std::vector<uint64_t> rooms;
        uint64_t embedding, head;
        std::vector<uint32_t> ends;
    };
    for (const Row& row :
         {Row{{1, 1}, 0, 0, {6, 12}}, Row{{1, 2}, 0, 0, {4, 12}}, Row{{1, 1}, 40, 0, {4, 12}},
          Row{{1, 1}, 0, 40, {8, 12}}, Row{{0, 1}, 0, 0, {1, 12}}, Row{{1, 0}, 0, 0, {11, 12}},
          Row{{1, 1, 2}, 0, 0, {3, 6, 12}}, Row{{1}, 0, 0, {12}}})
        CHECK(ends(architecture, row.rooms, row.embedding, row.head) == row.ends);
    // Layers 5 to 8 read what layer 4 cached.
    for (size_t i = 5; i < 9; ++i) architecture.layers[i].attention.kv_layer = 4;
    CHECK(ends(architecture, {1, 1}, 0, 0) == std::vector<uint32_t>{4, 12});
    for (size_t i = 1; i < 12; ++i) architecture.layers[i].attention.kv_layer = 0;
    CHECK_THROWS_WITH_AS(ends(architecture, {1, 1}, 0, 0), doctest::Contains("share keys or values"), Error);
    CHECK_THROWS_WITH_AS(ends(architecture, std::vector<uint64_t>(13, 1), 0, 0),
                         doctest::Contains("expected at most 12 devices"), Error);
}
