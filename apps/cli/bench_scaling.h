// `bench --scaling`: how time grows with the size of a model, the depth of its cache and the batch.
#pragma once

#include "common.h"

namespace scoria::cli {

struct ScalingOptions {
    std::vector<std::string> sizes;  // of synthetic models, smallest first
    TensorType type;
    std::vector<uint32_t> depths;  // of the first size
    uint32_t repetitions = 3;
    std::string format, plots;  // a folder for scaling.png; empty: none
};

int bench_scaling(const ScalingOptions& options, const Common& common);

}  // namespace scoria::cli
