// See op_bench.h and op_timer.h.
#include "instruments/op_bench.h"

#include "fail.h"
#include "instruments/op_timer.h"
#include "read_words.push.h"
#include "step.h"
#include "validate/cache_tools.h"

#include <array>
#include <chrono>
#include <cmath>
#include <numeric>

namespace scoria {
namespace {

using BenchClock = std::chrono::steady_clock;

constexpr OpSizes gpu_sizes{512, 4096, 14336, 128256, 32, 8, 128, 8192, 4096},
    small_sizes{64, 1024, 3584, 32768, 16, 4, 64, 1024, 4096};

/// The large ones take up to 2 GB, small ones 0.2.
const OpSizes& sizes_for(const vk::Device& device) {
    uint64_t room = 0;
    for (const vk::HeapState& heap : device.heaps())
        if (heap.device_local && heap.budget > heap.usage) room = std::max(room, heap.budget - heap.usage);
    return device.caps().is_cpu() || room < 4ull << 30 ? small_sizes : gpu_sizes;
}

/// Records of one run, each of `us`: as many as make the clock's grain and the submission not count.
uint32_t count_for(double us) {
    constexpr double enough = 2e4, most = 1024;  // us of a run; records
    return uint32_t(std::clamp(enough / std::max(us, 1.0), 1.0, most));
}

}  // namespace

OpTimer::OpTimer(vk::Device& device, vk::Pipelines& pipelines, Precision precision,
                 std::function<void(const OpRate&)> on_rate)
    : context_(device, pipelines, validate::Tier::quick, 1), sizes_(sizes_for(device)), precision_(precision),
      on_rate_(std::move(on_rate)) {}

Matrix OpTimer::matrix(uint32_t rows, uint32_t cols) {
    return {floats(validate::repeated_floats(size_t{rows} * cols, buffers_.size() + 1)), rows, cols, cols, 0};
}

vk::View OpTimer::room(uint64_t bytes) {
    const vk::View view =
        keep(vk::Buffer(context_.device, std::max<uint64_t>(4, bytes), vk::MemoryUse::device));
    context_.run([&](OpContext& ops) { ops.recorder.fill(view, 0); });
    return view;
}

const DeviceWeight& OpTimer::weight(TensorType type, uint32_t rows, uint32_t cols) {
    weights_.reserve(4);
    weights_.push_back(validate::check_weight(
        context_, type, rows, cols,
        validate::random_blocks(type, std::min(rows, validate::weight_period), cols, 1), 0));
    return weights_.back().device;
}

const DeviceKv& OpTimer::cache(uint32_t positions, const KvRows& rows) {
    const uint32_t blocks = kv_blocks_for(positions);
    cache_ = {.type = rows.type, .kv_heads = rows.kv_heads, .head_dim = rows.head_dim, .planes = rows.planes};
    const uint32_t most = kv_blocks_within(caps().max_binding, rows);
    for (uint32_t first = 0; first < blocks; first += most) {
        const uint32_t count = std::min(most, blocks - first);
        cache_.shards.push_back({room(count * rows.block_bytes()), first, count});
    }
    return cache_;
}

vk::View OpTimer::step(uint32_t first, uint32_t tokens, uint32_t& outputs_word, Pieces* pieces) {
    validate::CheckSequence sequence{first, tokens, {}};
    sequence.table.resize(kv_blocks_for(first + tokens));
    std::iota(sequence.table.begin(), sequence.table.end(), 0u);
    std::vector<uint32_t> all = validate::step_words(std::span(&sequence, 1));
    for (uint32_t t = 0; t < tokens; ++t)
        all[STEP_TOKENS + t * STEP_TOKEN_WORDS + STEP_TOKEN_ID] = t * 7919 % sizes_.vocab;
    all[STEP_OUTPUT_COUNT] = tokens;
    outputs_word = uint32_t(all.size());
    for (uint32_t t = 0; t < tokens; ++t) all.push_back(t);
    if (pieces) {
        const std::array whole{0u, tokens, 0u, 0u};
        *pieces = validate::add_pieces(all, std::span(&whole, 1));
    }
    return words(all);
}

double OpTimer::run(const Record& record, uint32_t count, std::vector<vk::DispatchTime>& times) {
    vk::Recorder recorder(context_.device, context_.pipelines, {.timestamps = true});
    OpContext ops{recorder, caps()};
    for (uint32_t i = 0; i < count; ++i) record(ops);
    const vk::Commands commands = recorder.finish();
    const auto start = BenchClock::now();
    context_.device.wait(context_.device.submit(std::array{commands.handle()}), context_.patience);
    const double seconds = std::chrono::duration<double>(BenchClock::now() - start).count();
    times = commands.times();
    return seconds;
}

/// GPUs slow their clock down where they have little to do, as while the next kernel is compiled, and want
/// some work before they raise it again (an H200: from 345 MHz to 1980; tools/bench/RESULTS.md).
void OpTimer::warm_up(const std::function<void()>& work) {
    constexpr double long_enough = 0.15;  // seconds
    const auto start = BenchClock::now();
    while (!caps().is_cpu() && std::chrono::duration<double>(BenchClock::now() - start).count() < long_enough)
        work();
}

double OpTimer::measured(const Record& record, uint32_t count) {
    std::vector<vk::DispatchTime> times;
    const double seconds = run(record, count, times);
    const double us =
        times.empty() ? 1e6 * seconds
                      : std::accumulate(times.begin(), times.end(), 0.0,
                                        [](double sum, const auto& next) { return sum + next.microseconds; });
    return std::max(us / count, 1e-3);  // a clock too coarse says 0
}

double OpTimer::time(const Record& record) {
    constexpr double plenty = 2e5;  // us of one run: the second is it
    constexpr uint32_t rounds = 3;
    measured(record, 1);  // makes the pipelines
    const double once = measured(record, 1);
    if (once > plenty) return once;
    const uint32_t count = count_for(once);
    warm_up([&] { measured(record, count); });
    double best = INFINITY;
    for (uint32_t round = 0; round < rounds; ++round) best = std::min(best, measured(record, count));
    return best;  // what disturbs only adds
}

double OpTimer::ratio(const Record& record, const Record& other, double hopeless) {
    constexpr uint32_t rounds = 3;
    measured(record, 1);  // makes the pipelines
    measured(other, 1);
    const double once = measured(record, 1), once_other = measured(other, 1);
    if (once > hopeless * once_other) return once / once_other;
    std::array<double, rounds> ratios;
    for (double& each : ratios) {
        const double us = measured(record, count_for(once));
        each = us / measured(other, count_for(once_other));
    }
    std::ranges::sort(ratios);
    return ratios[rounds / 2];
}

void OpTimer::rate(const char* op, std::string_view variant, const std::string& shape, uint64_t bytes,
                   uint64_t flops, const Record& record) {
    rates_.push_back({op, std::string(variant), shape, time(record), bytes, flops});
    if (on_rate_) on_rate_(rates_.back());
    forget();
}

uint64_t OpTimer::uncached_bytes() const {
    return std::min<uint64_t>(caps().is_cpu() ? 64ull << 20 : 512ull << 20, caps().max_binding / 16 * 16);
}

double OpTimer::read_bandwidth() {
    const uint64_t bytes = uncached_bytes();
    const vk::View x = room(bytes), out = room(4);
    const uint32_t lanes = plain_variants(caps(), Shader::read_words, 256).front().workgroup;
    const ReadWordsPush push{uint32_t(bytes / 16), uint32_t(std::max<uint64_t>(1, bytes / 16 / lanes / 64))};
    const vk::Pipeline& pipeline =
        context_.pipelines.get(shader_module(Shader::read_words), {{vk::constant_workgroup, lanes}});
    const double us = time([&](OpContext& ops) {
        ops.recorder.dispatch(pipeline, {x, out}, push, push.groups, "read");
    });
    buffers_.clear();
    return double(bytes) / us / 1e3;
}

void OpTimer::fastest_linear(Roofline& roof) {
    const OpSizes& s = sizes_;
    for (const TensorType type : {TensorType::f32, TensorType::f16, TensorType::q8_0, TensorType::q4_k}) {
        const DeviceWeight& w = weight(type, s.feed_forward, s.hidden);
        const Matrix x = matrix(s.tokens, s.hidden), out = matrix(s.tokens, s.feed_forward);
        std::vector<LinearVariant> variants =
            linear_variants(caps(), {s.tokens, w.rows, w.cols, type, precision_});
        if (caps().is_cpu())
            variants.resize(1);  // it compiles others for seconds
        else
            std::erase_if(variants, [](const LinearVariant& each) { return each.lane_pairs != 0; });
        for (const LinearVariant& each : variants) {
            const vk::View scratch = room(linear_scratch_bytes(each, s.tokens, w.rows, w.cols));
            const double us = time([&](OpContext& ops) {
                record_linear(ops, {.x = x, .out = out, .weight = w, .scratch = scratch}, each);
            });
            const double gigaflops = 2.0 * s.tokens * w.rows * w.cols / us / 1e3;
            if (gigaflops <= roof.gigaflops) continue;
            roof.gigaflops = gigaflops;
            roof.fastest = cat(each.name, ", ", tensor_type_info(type).name);
        }
        buffers_.clear();
        weights_.clear();
    }
}

/// From the host's clock, since timestamps between dispatches would keep them apart.
void OpTimer::empty_dispatches(Roofline& roof) {
    constexpr uint32_t count = 1024, rounds = 5;
    const uint32_t lanes = plain_variants(caps(), Shader::read_words, 64).front().workgroup;
    const vk::Pipeline& pipeline =
        context_.pipelines.get(shader_module(Shader::read_words), {{vk::constant_workgroup, lanes}});
    const uint64_t step = std::max<uint64_t>(256, caps().storage_alignment);
    const vk::View x = room(step), out = room(count * step);
    const auto seconds = [&](uint32_t dispatches, bool chained) {
        std::vector<double> all;
        for (uint32_t round = 0; round < rounds; ++round) {
            vk::Recorder recorder(context_.device, context_.pipelines);
            for (uint32_t i = 0; i < dispatches; ++i)
                recorder.dispatch(pipeline, {x, out.slice(chained ? 0 : i * step, 16)}, ReadWordsPush{0, 1},
                                  1, "empty");
            const vk::Commands commands = recorder.finish();
            const auto start = BenchClock::now();
            context_.device.wait(context_.device.submit(std::array{commands.handle()}), context_.patience);
            all.push_back(std::chrono::duration<double>(BenchClock::now() - start).count());
        }
        return *std::ranges::min_element(all);
    };
    warm_up([&] { seconds(count, true); });
    const double nothing = seconds(1, false);
    roof.dispatch_us = std::max(0.0, 1e6 * (seconds(count, false) - nothing) / (count - 1));
    roof.barrier_us = std::max(0.0, 1e6 * (seconds(count, true) - nothing) / (count - 1));
    buffers_.clear();
}

Roofline OpTimer::roofline() {
    Roofline roof;
    roof.gigabytes_per_second = read_bandwidth();
    fastest_linear(roof);
    empty_dispatches(roof);
    return roof;
}

OpBenchReport bench_ops(vk::Device& device, vk::Pipelines& pipelines, const OpBenchOptions& options,
                        const std::function<void(const OpRate&)>& on_rate) {
    const std::string& only = options.only;
    std::string names;
    bool known = only.empty();
    for (const OpCase& each : op_cases()) {
        names += cat(names.empty() ? "" : ", ", each.op);
        known = known || only == each.op;
    }
    if (!known)
        fail(Status::bad_argument, "bench", "expected --op to be one of {", names, "}, got '", only, "'");
    OpTimer timer(device, pipelines, options.precision, on_rate);
    OpBenchReport report{timer.roofline(), {}, device.caps().timestamp_bits > 0};
    Roofline& roof = report.roof;
    for (const OpCase& each : op_cases()) {
        if (!only.empty() && only != each.op) continue;
        each.time(timer);
        // Again, since a machine may be busy at one time and not at another.
        roof.gigabytes_per_second = std::max(roof.gigabytes_per_second, timer.read_bandwidth());
    }
    report.rates = std::move(timer.rates());
    for (const OpRate& rate : report.rates) {
        if (rate.op != std::string_view("linear")) continue;
        if (rate.bytes >= timer.uncached_bytes())
            roof.gigabytes_per_second = std::max(roof.gigabytes_per_second, rate.gigabytes_per_second());
        if (rate.gigaflops() <= roof.gigaflops) continue;
        roof.gigaflops = rate.gigaflops();
        roof.fastest = cat(rate.variant, ", ", rate.shape.substr(0, rate.shape.find(' ')));
    }
    return report;
}

}  // namespace scoria
