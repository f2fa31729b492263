// See check.h.
#include "check.h"

#include "fail.h"
#include "ops/linear.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numbers>

namespace scoria::validate {
namespace {

constexpr uint32_t sentinel = 0x7FA5A5A5;  // a NaN that no kernel makes
constexpr uint32_t fence = 64;             // sentinels before and after an output, words

/// splitmix64 (Steele et al. 2014): the standard library's distributions differ between platforms.
uint64_t next(uint64_t& state) {
    uint64_t z = state += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
}
double uniform(uint64_t& state) { return (double(next(state) >> 11) + 0.5) * 0x1p-53; }

}  // namespace

std::vector<float> random_floats(size_t count, uint64_t seed, float sigma) {
    std::vector<float> values(count);
    uint64_t state = seed;
    for (float& value : values) {  // Box & Muller 1958
        const double radius = std::sqrt(-2 * std::log(uniform(state)));
        value = float(double(sigma) * radius * std::cos(2 * std::numbers::pi * uniform(state)));
    }
    return values;
}

CheckContext::CheckContext(vk::Device& device_, vk::Pipelines& pipelines_, Tier tier_, uint64_t seed_)
    : device(device_), pipelines(pipelines_), tier(tier_), seed(seed_),
      layer_errors_(device_.validation_errors()) {}

bool CheckContext::followed(Shader shader, bool one_subgroup) {
    const bool in_step = is_linear_group(shader) || (shader == Shader::attention_vec_sg && !one_subgroup) ||
                         (shader == Shader::sample_scan_sg && one_subgroup);
    return shader != Shader::linear_coop && !in_step;
}

vk::Buffer CheckContext::buffer(std::span<const std::byte> contents) {
    // Kernels read words: an odd tail is padded, an empty buffer holds one.
    const uint64_t bytes = std::max<uint64_t>(4, (contents.size() + 3) / 4 * 4);
    vk::Buffer result(device, bytes, vk::MemoryUse::device);
    vk::Buffer staging(device, bytes, vk::MemoryUse::staging);
    std::ranges::copy(contents, staging.mapped().begin());
    vk::Recorder recorder(device, pipelines);
    recorder.copy(staging.view(), result.view());
    const vk::Commands commands = recorder.finish();
    device.wait(device.submit(std::array{commands.handle()}), patience);
    return result;
}

CheckContext::Output CheckContext::output(uint32_t words) {
    std::vector<uint32_t> contents(words + 2 * fence, sentinel);
    std::fill_n(contents.begin() + fence, words, unwritten_word);
    return {buffer_of<uint32_t>(contents), fence, words};
}

void CheckContext::run(const std::function<void(OpContext&)>& record) {
    vk::Recorder recorder(device, pipelines);
    OpContext context{recorder, caps()};
    record(context);
    const vk::Commands commands = recorder.finish();
    device.wait(device.submit(std::array{commands.handle()}), patience);
}

std::vector<std::byte> CheckContext::download(const vk::View& view) {
    const vk::Buffer readback(device, view.size, vk::MemoryUse::readback);
    vk::Recorder recorder(device, pipelines);
    recorder.copy(view, readback.view());
    recorder.make_host_visible();
    const vk::Commands commands = recorder.finish();
    device.wait(device.submit(std::array{commands.handle()}), patience);
    const auto mapped = readback.mapped().first(view.size);
    return {mapped.begin(), mapped.end()};
}

std::vector<float> CheckContext::download(const Output& output, std::string& sentinel_error) {
    const std::vector<std::byte> bytes = download(output.buffer.view());
    std::vector<uint32_t> words(bytes.size() / 4);
    std::memcpy(words.data(), bytes.data(), words.size() * 4);
    for (size_t i = 0; i < words.size(); ++i) {
        const bool outside = i < output.first || i >= output.first + output.words;
        if (outside && words[i] != sentinel) {
            sentinel_error = cat("word ", int64_t(i) - output.first, " of an output of ", output.words,
                                 " was overwritten");
            break;
        }
    }
    std::vector<float> values(output.words);
    std::memcpy(values.data(), words.data() + output.first, 4ull * output.words);
    return values;
}

std::vector<float> CheckContext::run_twice(uint32_t words,
                                           const std::function<void(OpContext&, const Output&)>& record,
                                           std::string& error) {
    const auto once = [&](std::string& sentinel_error) {
        const Output made = output(words);
        run([&](OpContext& ops) { record(ops, made); });
        return download(made, sentinel_error);
    };
    const std::vector<float> first = once(error);
    if (!error.empty()) return first;
    const std::vector<float> second = once(error);
    for (size_t i = 0; i < first.size() && error.empty(); ++i)
        if (std::bit_cast<uint32_t>(first[i]) != std::bit_cast<uint32_t>(second[i]))
            error = cat("a second run differs: word ", i, " was ", first[i], ", now ", second[i]);
    return first;
}

void CheckContext::keep_map(CheckResult& result, std::span<const double> expected,
                            std::span<const float> actual, uint32_t cols) {
    constexpr size_t most_failed_maps = 200;  // of 64 KiB
    if (!keep_maps || expected.size() != actual.size()) return;
    if (result.passed) {
        const auto [worst, first] = worst_of_op_.try_emplace(result.op, results_.size());
        if (!first) {
            CheckResult& before = results_[worst->second];
            if (before.share() >= result.share()) return;
            before.map = nullptr;
            worst->second = results_.size();
        }
    } else if (++failed_maps_ > most_failed_maps) {
        return;
    }
    result.map = std::make_shared<const ErrorMap>(error_map(expected, actual, cols, result.bounds));
}

void CheckContext::compare(std::string op, std::string_view variant, std::string shape,
                           std::span<const double> expected, std::span<const float> actual, uint32_t cols,
                           const Bounds& bounds, std::string sentinel_error) {
    CheckResult result = compare_values(std::move(op), std::string(variant), std::move(shape), expected,
                                        actual, cols, bounds, std::move(sentinel_error));
    if (const uint64_t errors = device.validation_errors(); errors > layer_errors_) {
        const std::vector<std::string> messages = device.validation_messages();
        result.passed = false;
        result.detail = cat("the validation layer objects ", errors - layer_errors_, " times",
                            layer_errors_ < messages.size() ? ": " + messages[layer_errors_] : std::string(),
                            result.detail.empty() ? "" : "; ", result.detail);
        layer_errors_ = errors;
    }
    keep_map(result, expected, actual, cols);
    add(std::move(result));
}

void CheckContext::add(CheckResult result) {
    results_.push_back(std::move(result));
    if (on_result) on_result(results_.back());
}

bool run_check(CheckContext& context, const OpCheck& check) {
    try {
        check.run(context);
        return true;
    } catch (const Error& error) {
        if (error.status() == Status::cancelled) throw;  // by on_result
        context.add({.op = check.op, .variant = "-", .shape = "", .detail = error.what()});
        return error.status() != Status::device_lost;
    }
}

}  // namespace scoria::validate
