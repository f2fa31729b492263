// A Vulkan driver of the test's own, which thread sanitizers see through, as they do not through Mesa: no
// library and no loader. Memory is the process's; copies, fills and updates happen, on a thread that stands
// for the queue; a dispatch reads the ends of what is bound to it and computes nothing. Where Vulkan wants
// the caller to keep threads apart (command pools, descriptor pools, queues, whatever is destroyed), the stub
// writes to the object unguarded, so that two threads at once are a data race.
#pragma once

#include "scoria_vulkan.h"

#include <memory>

namespace scoria::test {

class StubVulkan {
  public:
    /// Every word on the device is this one until it is written.
    explicit StubVulkan(uint32_t word = 0);
    ~StubVulkan();
    StubVulkan(const StubVulkan&) = delete;

    /// For scoria_engine_options; valid while this lives.
    const scoria_vulkan* description() const { return &description_; }
    /// Objects and memory of all stubs that were made and not destroyed.
    static size_t objects();

  private:
    struct Device;
    std::unique_ptr<Device> device_;
    scoria_vulkan description_{};
};

}  // namespace scoria::test
