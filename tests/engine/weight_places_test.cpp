// Where weights go when the device has no room for all.
#include "weight_places.h"

#include <doctest/doctest.h>

#include <numeric>

using namespace scoria;

namespace {

constexpr uint64_t mib = 1ull << 20;

/// A table that is only looked up in, experts, `layers` matrices of 4 MiB, and one of 64 MiB.
struct Sample {
    Plan plan;
    vk::Caps caps;
    GroupId table, experts, output;
    std::vector<GroupId> layers;

    explicit Sample(uint32_t count) {
        table = add(16384);
        plan.kernels.push_back({kernel::Embed{.table = table}, "embed"});
        experts = add(16384);
        plan.kernels.push_back(
            {kernel::ExpertLinear{.routes = TensorId{}, .weight = experts}, "expert linear"});
        for (uint32_t i = 0; i < count; ++i) layers.push_back(linear(1024));
        output = linear(16384);
    }
    GroupId add(uint32_t rows) {
        plan.weight_groups.push_back({.parts = {}, .type = TensorType::f32, .rows = rows, .cols = 1024});
        return GroupId(plan.weight_groups.size() - 1);
    }
    GroupId linear(uint32_t rows) {
        const GroupId id = add(rows);
        plan.kernels.push_back({kernel::Linear{.weight = id}, "linear"});
        return id;
    }
    WeightPlaces place(uint64_t room) const { return place_weights(plan, caps, room); }
};

}  // namespace

TEST_CASE("weights leave the device in the order of what that costs") {
    const Sample sample(16);
    const uint64_t all = (3 * 64 + 16 * 4) * mib;
    const auto on_host = [&](const WeightPlaces& places, GroupId id) { return places.groups[id].on_host; };

    const WeightPlaces plenty = sample.place(all);
    CHECK(plenty.device_bytes == all);
    CHECK(plenty.host_bytes == 0);
    CHECK(plenty.slots_bytes == 0);

    const WeightPlaces table = sample.place(all - 1);
    CHECK(on_host(table, sample.table));
    CHECK(table.device_bytes == all - 64 * mib);
    CHECK(table.slots_bytes == 0);  // it is read where it is
    CHECK(shards_of(sample.plan.weight_groups[sample.table], table.groups[sample.table].shard_limit).size() ==
          1);

    const WeightPlaces experts = sample.place(all - 65 * mib);
    CHECK(on_host(experts, sample.experts));
    CHECK_FALSE(on_host(experts, sample.output));
    CHECK(experts.slots_bytes == 0);

    const WeightPlaces alone = place_weights(sample.plan, sample.caps, 0, true);
    CHECK(on_host(alone, sample.table));
    CHECK(alone.device_bytes == all - 64 * mib);
    CHECK(alone.slots_bytes == 0);

    for (uint64_t room = 3 * mib; room < all; room += 5 * mib) {
        CAPTURE(room);
        const WeightPlaces places = sample.place(room);
        CHECK(places.device_bytes + places.slots_bytes <= room);
        CHECK(places.device_bytes + places.host_bytes == all);
        for (const DeviceWeight::Shard& shard :
             shards_of(sample.plan.weight_groups[sample.output], places.groups[sample.output].shard_limit))
            if (on_host(places, sample.output)) CHECK(shard.rows * 4096ull <= places.slots_bytes / 2);
    }
}

TEST_CASE("matrices that leave the device are spread over the layers") {
    const Sample sample(16);
    const WeightPlaces places = sample.place((64 + 16 * 4 - 48) * mib);
    size_t longest = 0, run = 0, left = 0;
    for (const GroupId id : sample.layers) {
        run = places.groups[id].on_host ? 0 : run + 1;
        left += places.groups[id].on_host ? 0 : 1;
        longest = std::max(longest, run);
    }
    CHECK(left > 4);
    CHECK(left < 16);
    CHECK(longest <= (left + 15 - left) / (16 - left) + 1);
}

TEST_CASE("a model of hundreds of gigabytes is no more pieces than drivers promise to allocate") {
    Sample sample(0);
    sample.caps.max_binding = 2048 * mib;
    for (int i = 0; i < 500; ++i) sample.layers.push_back(sample.linear(131072));  // 512 MiB each
    const WeightPlaces places = sample.place(24 * 1024 * mib);
    size_t pieces = 0;
    for (size_t i = 0; i < places.groups.size(); ++i)
        pieces += shards_of(sample.plan.weight_groups[i], places.groups[i].shard_limit).size();
    CHECK(pieces < 4096 / 2);
    CHECK(places.slots_bytes < 1024 * mib);
}

TEST_CASE("an integrated GPU reads matrices on the host where they are, whole") {
    Sample sample(16);
    sample.caps.type = vk::DeviceType::integrated;
    const uint64_t all = (3 * 64 + 16 * 4) * mib;
    for (uint64_t room = 0; room < all; room += 17 * mib) {
        CAPTURE(room);
        const WeightPlaces places = sample.place(room);
        CHECK(places.slots_bytes == 0);
        CHECK(places.device_bytes <= room);
        CHECK(places.device_bytes + places.host_bytes == all);
        for (const WeightPlaces::Place& place : places.groups)
            CHECK(place.shard_limit == sample.caps.max_binding);
    }
}

TEST_CASE("what one dispatch reads again and again stays") {
    Sample sample(2);
    const GroupId heads = sample.add(1024);
    sample.plan.kernels.push_back({kernel::ExpertLinear{.weight = heads}, "head linear"});
    const WeightPlaces places = sample.place(0);
    CHECK_FALSE(places.groups[heads].on_host);
    CHECK(places.device_bytes == 4 * mib);
    for (const GroupId id : sample.layers) CHECK(places.groups[id].on_host);

    sample.caps.type = vk::DeviceType::integrated;
    CHECK(sample.place(0).groups[heads].on_host);
}
