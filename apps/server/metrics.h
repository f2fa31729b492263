// What a server has done since it began, as Prometheus reads it (text format 0.0.4).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace scoria::server {

/// What became of a request. cancelled: its client left, or the server ended.
enum class Outcome : uint8_t { answered, refused, busy, failed, cancelled };

/// Thread-safe, each by itself.
struct Metrics {
    std::array<std::atomic<uint64_t>, 5> requests{};  // by Outcome; of other paths only those refused
    std::atomic<uint64_t> prompt_tokens = 0, reused_tokens = 0, generated_tokens = 0;
    std::atomic<uint64_t> guessed_tokens = 0, accepted_tokens = 0;
    /// Of each answer that has ended, from its begin to its first token and from there to its end; those of
    /// answers that are computed together count each.
    std::atomic<double> prompt_seconds = 0, generation_seconds = 0;

    void count(Outcome outcome) { ++requests[size_t(outcome)]; }
};

std::string metrics_text(const Metrics& metrics, size_t running, size_t waiting);

}  // namespace scoria::server
