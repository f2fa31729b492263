// What the cases of the op benchmark are written with: operands, and the clock.
#pragma once

#include "fail.h"
#include "instruments/op_bench.h"
#include "ops/choices.h"
#include "ops/kv_layout.h"
#include "ops/recurrence.h"
#include "validate/weight_check.h"

#include <cmath>

namespace scoria {

/// Sizes of a model that fills the device for a while: Llama 3 8B, or on CPU drivers and where memory is
/// short a quarter of its width.
struct OpSizes {
    uint32_t tokens, hidden, feed_forward, vocab, heads, kv_heads, head_dim, positions;
    uint32_t rows;  // of ops on elements: more than caches hold
};

class OpTimer {
  public:
    OpTimer(vk::Device& device, vk::Pipelines& pipelines, Precision precision,
            std::function<void(const OpRate&)> on_rate);

    const vk::Caps& caps() const { return context_.caps(); }
    const OpSizes& sizes() const { return sizes_; }
    Precision precision() const { return precision_; }

    // Operands, which live until the next case.
    Matrix matrix(uint32_t rows, uint32_t cols);
    vk::View vector(uint32_t size) { return matrix(1, size).view; }
    vk::View words(std::span<const uint32_t> contents) {
        return keep(context_.buffer_of<uint32_t>(contents));
    }
    vk::View floats(std::span<const float> contents) { return keep(context_.buffer_of<float>(contents)); }
    vk::View room(uint64_t bytes);  // zeros
    const DeviceWeight& weight(TensorType type, uint32_t rows, uint32_t cols);
    const DeviceKv& cache(uint32_t positions, const KvRows& rows);  // of zeros; blocks in order
    const DeviceKv& cache(uint32_t positions) {
        return cache(positions, {KvType::f16, sizes_.kv_heads, sizes_.head_dim});
    }
    /// The step buffer of `tokens` tokens from position `first` on, all of them outputs.
    vk::View step(uint32_t first, uint32_t tokens, uint32_t& outputs_word, Pieces* pieces = nullptr);

    using Record = std::function<void(OpContext&)>;
    /// Microseconds of one `record`.
    double time(const Record& record);
    /// How many times as long as `other` it takes, by turns; roughly, where that is more than `hopeless`.
    double ratio(const Record& record, const Record& other, double hopeless);
    void run(const Record& record) { context_.run(record); }
    /// Operands go.
    void forget() {
        buffers_.clear();
        weights_.clear();
    }
    /// Times `record` and reports it; then operands go.
    void rate(const char* op, std::string_view variant, const std::string& shape, uint64_t bytes,
              uint64_t flops, const Record& record);
    /// The same of the default variant.
    template <class Call>
    void rate(SimpleOp op, const std::string& shape, uint64_t bytes, uint64_t flops, const Call& record) {
        const KernelVariant variant = simple_variants(caps(), op).front();
        rate(op_name(op), variant.name, shape, bytes, flops, [&](OpContext& ops) { record(ops, variant); });
    }
    double read_bandwidth();          // GB/s, of uncached_bytes()
    uint64_t uncached_bytes() const;  // more than caches hold
    Roofline roofline();
    std::vector<OpRate>& rates() { return rates_; }

  private:
    vk::View keep(vk::Buffer buffer) { return buffers_.emplace_back(std::move(buffer)).view(); }
    void fastest_linear(Roofline& roof);
    void empty_dispatches(Roofline& roof);
    void warm_up(const std::function<void()>& work);
    /// Microseconds of one of `count`.
    double measured(const Record& record, uint32_t count);
    /// Seconds on the host of a submission of `count`.
    double run(const Record& record, uint32_t count, std::vector<vk::DispatchTime>& times);

    validate::CheckContext context_;
    OpSizes sizes_;
    Precision precision_;
    std::function<void(const OpRate&)> on_rate_;
    std::vector<vk::Buffer> buffers_;
    std::vector<validate::CheckWeight> weights_;
    DeviceKv cache_;
    std::vector<OpRate> rates_;
};

struct OpCase {
    const char* op;
    void (*time)(OpTimer& timer);
};
std::span<const OpCase> op_cases();

// op_cases_sequence.cpp
void time_rope_cache(OpTimer& timer);
void time_attention(OpTimer& timer);
void time_compress(OpTimer& timer);
void time_hash(OpTimer& timer);
void time_sort(OpTimer& timer);
void time_choose(OpTimer& timer);
void time_chunk_attention(OpTimer& timer);
void time_convolve(OpTimer& timer);
void time_shift(OpTimer& timer);
void time_scan(OpTimer& timer);
void time_wkv(OpTimer& timer);

inline uint64_t floats_of(const Matrix& m) { return uint64_t{m.rows} * m.cols; }
inline std::string sizes_of(const Matrix& m) { return cat(m.rows, " x ", m.cols); }

}  // namespace scoria
