// Which weights stand in device memory, and which in host memory because the device has no room for them:
// such cross the bus in every step, if there is one (Caps::has_bus). Pure functions, testable without a GPU.
#pragma once

#include "ops/op.h"
#include "plan.h"

namespace scoria {

struct WeightPlaces {
    struct Place {
        bool on_host = false;
        uint64_t shard_limit = 0;  // bytes
    };
    std::vector<Place> groups;  // of the plan
    uint64_t device_bytes = 0, host_bytes = 0;
    uint64_t slots_bytes = 0;  // device memory that linears' weights on the host pass through; 0: none does
};

/// All on the device, or, if they take more than `room` bytes of it, the slots included, enough of them on
/// the host: first tables of which a step reads few rows, then experts, then matrices spread evenly over the
/// layers, so that copies run beside other work. More than `room` is taken only if even all on the host needs
/// more, or if only tables may go.
WeightPlaces place_weights(const Plan& plan, const vk::Caps& caps, uint64_t room, bool tables_alone = false);

/// Rows of a group in shards whose layout takes at most `limit` bytes each. Their views are empty.
std::vector<DeviceWeight::Shard> shards_of(const WeightGroup& group, uint64_t limit);

}  // namespace scoria
