// Multi-head attention to grouped-query attention: each new key/value head is the mean of the heads it
// replaces (Ainslie et al. 2023, section 2.1).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

namespace scoria {

/// Writes the Hugging Face folder `in` as the folder `out` with `kv_heads` heads of keys and values; all else
/// is copied. `out` appears when it is whole; until then out.partial grows beside it. `progress` sees bytes
/// written; false stops with Status::cancelled. Errors: bad_argument (`out` exists, out.partial holds what is
/// none of this, kv_heads is no divisor of what the model has); unsupported (keys fused with others in one
/// tensor, norms over several heads, latent attention, layers whose heads differ, families whose heads are as
/// many as those of queries, no folder); bad_file; failed.
void pool_heads(const std::filesystem::path& in, const std::filesystem::path& out, uint32_t kv_heads,
                const std::function<bool(uint64_t done, uint64_t total)>& progress = {});

}  // namespace scoria
