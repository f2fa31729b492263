// How near each op comes to what the device's memory and arithmetic allow: every op of the engine alone, at
// the sizes of a model, beside a roofline measured in the same run (Williams et al. 2009).
#pragma once

#include "ops/op.h"
#include "pipelines.h"

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace scoria {

/// One op at one size. Bytes: each operand once, as it lies in memory. FLOPs: products and sums of the
/// formula, a transcendental function counting as one; unpacking of weights does not count.
struct OpRate {
    std::string op, variant, shape;
    double microseconds = 0;  // the best of a few runs
    uint64_t bytes = 0, flops = 0;
    double gigabytes_per_second() const { return double(bytes) / microseconds / 1e3; }
    double gigaflops() const { return double(flops) / microseconds / 1e3; }
};

struct Roofline {
    double gigabytes_per_second = 0;  // of a kernel that only reads, or a linear, past all caches
    double gigaflops = 0;    // of the fastest linear: of any variant, on CPU drivers of the default one
    std::string fastest;     // its variant
    double dispatch_us = 0;  // an empty dispatch beside others
    double barrier_us = 0;   // an empty dispatch behind a barrier

    double of_bandwidth(const OpRate& rate) const {
        return rate.gigabytes_per_second() / gigabytes_per_second;
    }
    double of_peak(const OpRate& rate) const { return rate.gigaflops() / gigaflops; }
    /// Of the roof above the op: 1 is as fast as this device can.
    double share(const OpRate& rate) const { return std::max(of_bandwidth(rate), of_peak(rate)); }
};

struct OpBenchReport {
    Roofline roof;
    std::vector<OpRate> rates;
    bool timestamps = false;  // else times are the host's, of many dispatches
};

struct OpBenchOptions {
    Precision precision = Precision::balanced;  // of linears
    std::string only;                           // one op's name; empty: all
};

/// `on_rate` is called after each. Errors: bad_argument, for an unknown op.
OpBenchReport bench_ops(vk::Device& device, vk::Pipelines& pipelines, const OpBenchOptions& options,
                        const std::function<void(const OpRate&)>& on_rate);

}  // namespace scoria
