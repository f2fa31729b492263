// See weight_places.h.
#include "weight_places.h"

#include "ops/weight_layout.h"

#include <algorithm>
#include <numeric>

namespace scoria {
namespace {

/// How much of a weight on the host crosses the bus in a step of one token, least first.
enum class Reading : uint8_t {
    few_rows,
    chosen_experts,
    in_place,  // nothing: there is no bus
    streamed,  // whole, by a linear, through the slots
    repeated,  // again and again in one dispatch: it is never put on the host
};

Reading reading_of(const kernel::Linear&) { return Reading::streamed; }
Reading reading_of(const kernel::ExpertLinear& k) {
    return k.routes ? Reading::chosen_experts : Reading::repeated;
}

std::vector<Reading> readings(const Plan& plan, const vk::Caps& caps) {
    std::vector<Reading> readings(plan.weight_groups.size());
    for (const PlannedKernel& planned : plan.kernels)
        std::visit(
            [&](const auto& k) {
                if constexpr (requires { reading_of(k); })
                    readings[k.weight] = std::max(readings[k.weight], reading_of(k));
            },
            planned.kernel);
    if (!caps.has_bus())
        for (Reading& reading : readings) reading = std::min(reading, Reading::in_place);
    return readings;
}

uint64_t bytes_of(const WeightGroup& group, uint64_t limit) {
    uint64_t bytes = 0;
    for (const DeviceWeight::Shard& shard : shards_of(group, limit))
        bytes += layout_bytes(group.type, shard.rows, group.cols);
    return bytes;
}

/// Shards short enough that two slots are a small part of the memory, long enough for a bus, and so few that
/// `total` bytes of weights are no more pieces than drivers promise to allocate (4,096, of which a host keeps
/// half).
uint64_t shard_limit(const vk::Caps& caps, uint64_t room, uint64_t total) {
    const uint64_t longest = std::max<uint64_t>(32ull << 20, total / 1024);
    return std::min(caps.max_binding, std::clamp<uint64_t>(room / 16, 64ull << 10, longest));
}

/// Puts groups of one reading on the host, `wanted` bytes of them or all there are, evenly spread; returns
/// how many bytes went.
uint64_t spread(WeightPlaces& places, std::span<const uint64_t> bytes, std::span<const size_t> groups,
                uint64_t wanted) {
    const auto sum = [&](uint64_t total, size_t group) { return total + bytes[group]; };
    const uint64_t all = std::accumulate(groups.begin(), groups.end(), uint64_t{0}, sum);
    const double share = all == 0 ? 0 : std::min(1.0, double(wanted) / double(all));
    double due = 0;
    uint64_t gone = 0;
    for (const size_t group : groups) {
        due += share * double(bytes[group]);
        if (gone >= wanted || due < double(gone) + 0.5 * double(bytes[group])) continue;
        places.groups[group].on_host = true;
        gone += bytes[group];
    }
    for (size_t i = groups.size(); i-- > 0 && gone < wanted;)  // what rounding left
        if (!places.groups[groups[i]].on_host) {
            places.groups[groups[i]].on_host = true;
            gone += bytes[groups[i]];
        }
    return gone;
}

}  // namespace

std::vector<DeviceWeight::Shard> shards_of(const WeightGroup& group, uint64_t limit) {
    std::vector<DeviceWeight::Shard> shards;
    const uint32_t most = rows_within(group.type, group.rows, group.cols, limit);
    for (uint32_t first = 0; first < group.rows; first += most)
        shards.push_back({{}, first, std::min(most, group.rows - first)});
    return shards;
}

WeightPlaces place_weights(const Plan& plan, const vk::Caps& caps, uint64_t room, bool tables_alone) {
    WeightPlaces places;
    places.groups.assign(plan.weight_groups.size(), {false, caps.max_binding});
    const std::vector<Reading> reads = readings(plan, caps);
    std::vector<uint64_t> bytes;
    for (const WeightGroup& group : plan.weight_groups) bytes.push_back(bytes_of(group, caps.max_binding));
    const uint64_t total = std::accumulate(bytes.begin(), bytes.end(), uint64_t{0}),
                   short_shard = shard_limit(caps, room, total);
    uint64_t slot = 0;
    for (size_t i = 0; i < plan.weight_groups.size(); ++i) {
        const WeightGroup& group = plan.weight_groups[i];
        const uint32_t rows = rows_within(group.type, group.rows, group.cols, short_shard);
        if (reads[i] == Reading::streamed) slot = std::max(slot, layout_bytes(group.type, rows, group.cols));
    }
    slot = caps.aligned(slot);
    if (total > room) {
        uint64_t excess = total - room;
        for (const Reading reading :
             {Reading::few_rows, Reading::chosen_experts, Reading::in_place, Reading::streamed}) {
            if (tables_alone && reading != Reading::few_rows) break;
            std::vector<size_t> groups;
            for (size_t i = 0; i < reads.size(); ++i)
                if (reads[i] == reading) groups.push_back(i);
            if (reading == Reading::streamed && excess > 0) excess += places.slots_bytes = 2 * slot;
            excess -= std::min(excess, spread(places, bytes, groups, excess));
        }
    }
    for (size_t i = 0; i < bytes.size(); ++i) {
        WeightPlaces::Place& place = places.groups[i];
        if (place.on_host && reads[i] == Reading::streamed) {
            place.shard_limit = short_shard;
            bytes[i] = bytes_of(plan.weight_groups[i], short_shard);
        }
        (place.on_host ? places.host_bytes : places.device_bytes) += bytes[i];
    }
    return places;
}

}  // namespace scoria
