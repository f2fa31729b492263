// The families that a Hugging Face folder may be of to become a GGUF, one row each. What both sides compute
// and how their tensors are called is in hf_families.h and gguf_families.h; here is what neither says. For
// conversion_folder.cpp.
#pragma once

#include "gguf_writer.h"
#include "rope_scaling.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace scoria::conversion {

/// A model, and the rotations of its folder: of full layers, then of windowed ones where they differ.
struct Described {
    const Architecture& architecture;
    const std::vector<RopeSettings>& ropes;
    uint32_t feed_forward;  // columns of a dense one, which config.json may say even where there is none
    uint32_t buckets = 0;   // rows of T5's table of positions
};

/// Sets keys of one architecture.
class Keys {
  public:
    Keys(std::string architecture, GgufWriter& out) : prefix_(std::move(architecture) + "."), out_(out) {}
    void set(std::string_view name, uint32_t value) { out_.set(prefix_ + std::string(name), value); }
    void set(std::string_view name, bool value) { out_.set(prefix_ + std::string(name), value); }
    void set(std::string_view name, const char* value) { out_.set(prefix_ + std::string(name), value); }
    void set(std::string_view name, const std::vector<bool>& value) {
        out_.set(prefix_ + std::string(name), value);
    }
    void set(std::string_view name, const std::vector<uint32_t>& values) {
        const std::vector<int32_t> numbers(values.begin(), values.end());
        out_.set(prefix_ + std::string(name), std::span(numbers));
    }
    void set(std::string_view name, const std::vector<float>& values) {
        out_.set(prefix_ + std::string(name), std::span(values));
    }
    /// Without the architecture's name before it.
    void set_global(std::string_view name, const std::vector<float>& values) {
        out_.set(name, std::span(values));
    }
    void set(std::string_view name, double value) {
        out_.set(prefix_ + std::string(name), static_cast<float>(value));
    }

  private:
    std::string prefix_;
    GgufWriter& out_;
};

struct ConversionFamily {
    const char *model_type, *architecture;
    bool (*fits)(const Architecture& architecture) = nullptr;    // else a later row of the type may
    bool fused_qkv = false;                                      // as its own converter writes it
    bool tiles_heads = false;                                    // Recurrence::tiled in the GGUF
    bool embeds = false;                                         // GGUF's holds no head
    bool dense = false;                                          // but what stands behind pooling
    void (*keys)(const Described& model, Keys& keys) = nullptr;  // that no other architecture has
    /// Whether a name of the GGUF family's table is one that such a model has not.
    bool (*lacks)(const Architecture& architecture, std::string_view name) = nullptr;
};
std::span<const ConversionFamily> conversion_families();
/// The row that such a folder is written by, or null.
const ConversionFamily* conversion_family(const Architecture& folder);

/// Where, of a weight of a family that `tiles_heads`, the heads of values lie otherwise in the GGUF: from the
/// row, or column, `first` on, `size` of them to a head.
struct TiledHeads {
    uint64_t first = 0, size = 1;
    bool columns = false;
    /// The folder's row, or column, for the GGUF's, and the other way round.
    uint64_t in_folder(uint64_t place, const Recurrence& shape) const;
    uint64_t in_gguf(uint64_t place, const Recurrence& shape) const;
};
std::optional<TiledHeads> tiled_heads(Role role, const Recurrence& shape);

/// The keys that architectures share. Errors: unsupported, for a scaling of rotations that GGUF has no name
/// for.
void set_shared_keys(const Described& model, Keys& keys);

}  // namespace scoria::conversion
