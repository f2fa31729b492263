// Proof of kernels: each op has one table of cases, run over every variant the device supports and
// compared with the double-precision reference. The same tables serve tests/ops, `scoria validate`
// and the benchmark.
#pragma once

#include "error_map.h"
#include "ops/kernel_variant.h"
#include "ops/op.h"

#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
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
    double floor = 0;  // least scale of a row: for sums that cancel, or underflow
};
/// Of two roundings that know nothing of each other.
constexpr Bounds operator+(const Bounds& a, const Bounds& b) {
    return {a.nmse + b.nmse, a.worst_row + b.worst_row, a.worst_element + b.worst_element,
            a.floor > b.floor ? a.floor : b.floor};
}

/// How far elements lie from the float nearest to what was expected, in units of its last place: [0] counts
/// equal ones, [k] those at most 2^(k-1) away, the last one those further.
using UlpHistogram = std::array<uint32_t, 26>;

struct CheckResult {
    std::string op, variant, shape;  // "linear", "vec_sg q4_1 4x8", "rows 1536 cols 576 tokens 3"
    double nmse = 0, worst_row = 0, worst_element = 0;
    Bounds bounds{};
    bool passed = false;
    size_t worst_row_at = 0;                      // the row of worst_row
    size_t row_at = 0, col_at = 0;                // of worst_element, or of the first that cannot be compared
    double expected_there = 0, actual_there = 0;  // what was wanted and found at [row_at, col_at]
    UlpHistogram ulps{};
    uint32_t incomparable = 0;  // elements finite on one side only, or never written
    std::shared_ptr<const ErrorMap>
        map;             // of failures and of the worst case per op, if the context keeps them
    std::string detail;  // of a failure: first bad element, expected, actual; sentinel hit

    /// The largest part of a bound that is used: above 1 in failures, infinite where an error has no measure.
    double share() const;
};

/// Outputs start as this NaN: an element that holds it was never written.
inline constexpr uint32_t unwritten_word = 0x7FC0BEEF;

/// Compares, row by row of `cols`; a sentinel error fails the result as it stands.
CheckResult compare_values(std::string op, std::string variant, std::string shape,
                           std::span<const double> expected, std::span<const float> actual, uint32_t cols,
                           const Bounds& bounds, std::string sentinel_error = {});
/// Where the errors lie, for a picture of them.
ErrorMap error_map(std::span<const double> expected, std::span<const float> actual, uint32_t cols,
                   const Bounds& bounds);

/// What a check runs on. `upload` and `download` move float tensors; buffers made here carry sentinels
/// before and after the output, checked by `download`.
class CheckContext {
  public:
    CheckContext(vk::Device& device, vk::Pipelines& pipelines, Tier tier, uint64_t seed);
    vk::Device& device;
    vk::Pipelines& pipelines;
    const Tier tier;
    const uint64_t seed;
    std::string only_op, only_variant;  // what alone runs, in self-tests; empty: all
    bool only_subgroups = false;        // leaves out what does not see their width
    uint32_t part = 0, parts = 1;       // of the cases those that are theirs in turn
    std::chrono::nanoseconds patience = std::chrono::minutes(10);  // CPU drivers compile at the first use
    bool keep_maps = false;                                        // of errors, for reports with pictures
    std::function<void(const CheckResult&)> on_result;  // called after each, if set; may throw to stop

    const vk::Caps& caps() const { return device.caps(); }
    /// Asked once for each case of a variant: the parts take them in turn.
    template <class Variant> bool leaves_out(std::string_view op, const Variant& variant) {
        return never_runs(op, variant) || turn_++ % parts != part;
    }
    template <class Variant> bool never_runs(std::string_view op, const Variant& variant) const {
        return (!only_op.empty() && (op != only_op || variant.name != only_variant)) ||
               (only_subgroups &&
                !vk::has(shader_module(variant.shader).needs, vk::ModuleNeeds::subgroup_basic)) ||
               (device.options().races && !followed(variant.shader, variant.workgroup == variant.subgroup));
    }
    /// By the layer that looks for data races: not subgroups that meet at barriers of their own (its issue
    /// 12813), nor what leaves those out on CPU drivers, which keep a subgroup's lanes in step.
    static bool followed(Shader shader, bool one_subgroup);
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
    /// What `record` writes into an output of `words`. It runs twice, each time into a fresh output: `error`
    /// also says where the second run differs in a bit.
    std::vector<float> run_twice(uint32_t words, const std::function<void(OpContext&, const Output&)>& record,
                                 std::string& error);

    /// Compares, row by row of `cols`, and appends to results(). What validation layers said since the last
    /// result fails this one.
    void compare(std::string op, std::string_view variant, std::string shape,
                 std::span<const double> expected, std::span<const float> actual, uint32_t cols,
                 const Bounds& bounds, std::string sentinel_error = {});
    /// Appends to results() and tells on_result.
    void add(CheckResult result);
    std::vector<CheckResult>& results() { return results_; }

  private:
    void keep_map(CheckResult& result, std::span<const double> expected, std::span<const float> actual,
                  uint32_t cols);
    uint64_t turn_ = 0;  // of what no other reason leaves out
    std::vector<CheckResult> results_;
    std::map<std::string, size_t> worst_of_op_;  // the passed result that holds the op's map
    size_t failed_maps_ = 0;
    uint64_t layer_errors_ = 0;  // seen so far
};

struct OpCheck {
    const char* op;
    void (*run)(CheckContext&);
};
/// Every op that has kernels. A new op adds its line in checks.cpp.
std::span<const OpCheck> op_checks();
/// Runs all cases of an op. What it throws (a driver that cannot compile a kernel, say) is a failure like any
/// other; false when the device is lost, and with it all that would follow. Errors: what on_result throws.
bool run_check(CheckContext& context, const OpCheck& check);

/// Deterministic random values for inputs: normal(0, sigma), the same on every platform.
std::vector<float> random_floats(size_t count, uint64_t seed, float sigma = 1.0f);

}  // namespace scoria::validate
