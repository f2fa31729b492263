// Proof of kernels: each op has one table of cases, run over every variant the device supports and
// compared with the double-precision reference. The same tables serve tests/ops, `scoria validate`
// and the benchmark.
#pragma once

#include "ops/op.h"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace scoria::validate {

enum class Tier : uint8_t { quick, full };  // quick: seconds, on lavapipe too

/// Largest error allowed, relative to the scale of the expected values: NMSE over the whole output,
/// worst row (root of the row's NMSE) and worst element (|error| / root mean square of its row, with the
/// caller's floor under that scale). Each op derives them from length and type and says how.
struct Bounds {
    double nmse, worst_row, worst_element;
};

struct CheckResult {
    std::string op, variant, shape;  // "linear", "vec_sg q4_1 4x8", "rows 1536 cols 576 tokens 3"
    double nmse = 0, worst_row = 0, worst_element = 0;
    Bounds bounds{};
    bool passed = false;
    std::string detail;  // of a failure: first bad element, expected, actual; NaN; sentinel hit
};

/// Outputs start as this NaN: an element that holds it was never written.
inline constexpr uint32_t unwritten_word = 0x7FC0BEEF;

/// Compares, row by row of `cols`; a sentinel error fails the result as it stands.
CheckResult compare_values(std::string op, std::string variant, std::string shape,
                           std::span<const double> expected, std::span<const float> actual, uint32_t cols,
                           const Bounds& bounds, std::string sentinel_error = {});

/// What a check runs on. `upload` and `download` move float tensors; buffers made here carry sentinels
/// before and after the output, checked by `download`.
class CheckContext {
  public:
    CheckContext(vk::Device& device, vk::Pipelines& pipelines, Tier tier, uint64_t seed);
    vk::Device& device;
    vk::Pipelines& pipelines;
    const Tier tier;
    const uint64_t seed;

    const vk::Caps& caps() const { return device.caps(); }
    vk::Buffer buffer(std::span<const std::byte> contents);  // device memory with these bytes
    template <class T> vk::Buffer buffer_of(std::span<const T> values) {
        return buffer(std::as_bytes(values));
    }
    /// An output of `words` floats between sentinels; every word starts as a NaN pattern.
    struct Output {
        vk::Buffer buffer;
        uint32_t first = 0;  // word where the output starts
        uint32_t words = 0;
        Matrix matrix(uint32_t rows, uint32_t cols) const { return {buffer.view(), rows, cols, cols, first}; }
    };
    Output output(uint32_t words);
    /// Records with `record`, submits, waits.
    void run(const std::function<void(OpContext&)>& record);
    std::vector<std::byte> download(const vk::View& view);
    /// The output's floats. `sentinel_error` names the first overwritten sentinel, if any.
    std::vector<float> download(const Output& output, std::string& sentinel_error);

    /// Compares, row by row of `cols`, and appends to results().
    void compare(std::string op, std::string variant, std::string shape, std::span<const double> expected,
                 std::span<const float> actual, uint32_t cols, const Bounds& bounds,
                 std::string sentinel_error = {});
    std::vector<CheckResult>& results() { return results_; }

  private:
    std::vector<CheckResult> results_;
};

struct OpCheck {
    const char* op;
    void (*run)(CheckContext&);
};
/// Every op that has kernels. A new op adds its line in checks.cpp.
std::span<const OpCheck> op_checks();

/// Deterministic random values for inputs: normal(0, sigma), the same on every platform.
std::vector<float> random_floats(size_t count, uint64_t seed, float sigma = 1.0f);

}  // namespace scoria::validate
