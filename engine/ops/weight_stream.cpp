// See weight_stream.h.
#include "weight_stream.h"

#include <cassert>

namespace scoria {

void WeightStream::prefetch(vk::Recorder& recorder, const DeviceWeight::Shard& shard) {
    const uint64_t half = slots_.size / 2;
    assert(shard.view.size <= half);
    recorder.copy(shard.view, slots_.slice(next_ * half, shard.view.size));
    next_ = 1 - next_;
    coming_ = &shard;
}

vk::View WeightStream::fetch(vk::Recorder& recorder, const DeviceWeight::Shard& shard) {
    if (coming_ != &shard) prefetch(recorder, shard);
    coming_ = nullptr;
    return slots_.slice((1 - next_) * (slots_.size / 2), shard.view.size);
}

}  // namespace scoria
