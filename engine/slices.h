// What a session submits of a prompt or a step: as much as the pacer lets run at a time.
#pragma once

#include "recorder.h"
#include "scheduler.h"

#include <chrono>
#include <vector>

namespace scoria {

/// A submission of a prompt's or a step's part.
struct Slice {
    vk::Commands owned{};
    const vk::Commands* replayed = nullptr;  // instead; stands until the slice has landed
    double cost = 0;
    bool first_run = false;  // of pipelines
    Pacer* pacer = nullptr;
    vk::Device::Ticket ticket{};
    std::chrono::steady_clock::time_point submitted{};
    const vk::Commands& commands() const { return replayed ? *replayed : owned; }
};

/// A step of so many tokens, cut where the pacer says, to be replayed.
struct Step {
    std::vector<vk::Commands> slices;
    std::vector<double> costs, kernel_costs;  // of each slice, of each kernel
    std::vector<int32_t> layers;              // of each dispatch; -1: of none
    bool first_run = false;                   // of pipelines
};

}  // namespace scoria
