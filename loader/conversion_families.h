// The families that a Hugging Face folder may be of to become a GGUF, one row each. What both sides compute
// and how their tensors are called is in hf_families.h and gguf_families.h; here is what neither says. For
// conversion_folder.cpp.
#pragma once

#include "conversion_keys.h"

#include <optional>
#include <span>
#include <string_view>

namespace scoria::conversion {

struct ConversionFamily {
    const char *model_type, *architecture;
    bool (*fits)(const Architecture& architecture) = nullptr;  // else a later row of the type may
    bool fused_qkv = false;                                    // as its own converter writes it
    bool tiles_heads = false;                                  // Recurrence::tiled in the GGUF
    bool embeds = false;                                       // GGUF's holds no head
    bool dense = false;                                        // but what stands behind pooling
    bool made_norms = false;  // of q and k, each of one number, which folders do not hold
    bool ahead = false;  // may have a layer that guesses ahead: no key is a list with a value for each layer
    void (*keys)(const Described& model, Keys& keys) = nullptr;  // that no other architecture has
    /// Whether a name of the GGUF family's table is one that such a model has not.
    bool (*lacks)(const Architecture& architecture, std::string_view name) = nullptr;
};
std::span<const ConversionFamily> conversion_families();
// Its parts.
std::span<const ConversionFamily> decoder_conversions();
std::span<const ConversionFamily> expert_conversions();
std::span<const ConversionFamily> recurrent_conversions();
std::span<const ConversionFamily> encoder_conversions();
inline bool has_experts(const Architecture& architecture) { return architecture.routing().experts != 0; }
inline bool lacks_q_rank(const Architecture& architecture, std::string_view name) {
    return architecture.attention().latent.q_rank == 0 && name == "blk.#.attn_q_b.weight";
}

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

}  // namespace scoria::conversion
