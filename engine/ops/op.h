// What every op shares: tensors and weights on the device, and the context an op records into.
// An op is one pair of files: `<op>_variants(caps, shape)` lists the valid variants, the safe default
// first (pure, testable without a GPU); `record_<op>(context, args, variant)` records one of them.
#pragma once

#include "architecture.h"
#include "recorder.h"

#include <optional>
#include <vector>

namespace scoria {

/// Precision classes (DESIGN.md "Numbers"): what operands of matrix products are rounded to.
enum class Precision : uint8_t {
    strict,    // f32 only; KV cache f32
    balanced,  // f16 operands, or whole numbers of two bytes, f16 KV cache, f32 accumulators
    fast,      // also 8-bit activations, f16 accumulation over short runs
};

/// A float32 tensor on the device: element (r, c) is word `first + r * stride + c` of `view`.
/// `view` is aligned for binding; `first` need not be.
struct Matrix {
    vk::View view;
    uint32_t rows = 0, cols = 0;
    uint32_t stride = 0;  // words between rows
    uint32_t first = 0;   // words before element (0, 0)
    Matrix columns(uint32_t from, uint32_t count) const { return {view, rows, count, stride, first + from}; }
    Matrix row_range(uint32_t from, uint32_t count) const {
        return {view, count, cols, stride, first + from * stride};
    }
};

/// A weight matrix on the device, sharded by rows so that no binding exceeds caps.max_binding. The bytes
/// of a shard are laid out by weight_layout.h.
struct DeviceWeight {
    struct Shard {
        vk::View view;
        uint32_t first_row = 0, rows = 0;
    };
    TensorType type = TensorType::f32;
    uint32_t rows = 0, cols = 0;
    std::vector<Shard> shards;
    /// Its shards stand in host memory, which the device reads over a bus: linears have each copied to the
    /// device first (weight_stream.h); ops that read few of the rows read them where they are.
    bool over_bus = false;
};

/// Quantised ones: int8 or 4 bits, and a half of a scale for every 32 dims of a head (kv_layout.h).
enum class KvType : uint8_t { f32, f16, bf16, q8_0, q4_0 };
inline constexpr const char* kv_type_names[] = {"f32", "f16", "bf16", "q8_0", "q4_0"};

/// The paged cache of one layer, [blocks] of kv_block_tokens positions; layout in kv_layout.h.
/// A physical block id of a block table lies in the shard whose range holds it.
inline constexpr uint32_t kv_block_tokens = 32;
struct DeviceKv {
    struct Shard {
        vk::View view;
        uint32_t first_block = 0, blocks = 0;
    };
    KvType type = KvType::f16;
    uint32_t kv_heads = 0, head_dim = 0;
    std::vector<Shard> shards;
    /// Entry p / kv_block_tokens % ring of a block table is the block of position p: a layer with a window
    /// keeps no more positions than are seen (kv_cache.h). UINT32_MAX: all of them.
    uint32_t ring = UINT32_MAX;
    uint32_t planes = 2;  // 1: K alone, which is the values too
};

struct OpContext {
    vk::Recorder& recorder;
    const vk::Caps& caps;
};

}  // namespace scoria
