// Weights that stand in host memory, on their way through two slots of device memory: while a dispatch reads
// one slot, the next shard is copied to the other. All on one queue and in one order, so that recorded
// commands can be replayed; the recorder's barriers keep copies and dispatches apart.
#pragma once

#include "op.h"

namespace scoria {

class WeightStream {
  public:
    /// `slots`: two of half its size each, none smaller than a shard that comes this way.
    explicit WeightStream(vk::View slots) : slots_(slots) {}

    /// Where to read `shard` from; record its dispatch next.
    vk::View fetch(vk::Recorder& recorder, const DeviceWeight::Shard& shard);
    /// Begins to bring the shard that is fetched next. Call it behind the dispatch that reads the last one.
    void prefetch(vk::Recorder& recorder, const DeviceWeight::Shard& shard);

  private:
    vk::View slots_;
    uint32_t next_ = 0;                            // slot
    const DeviceWeight::Shard* coming_ = nullptr;  // in the other slot
};

}  // namespace scoria
