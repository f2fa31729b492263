// A model file rewritten in other types: rows are read, dequantised, quantised and written a few at a time by
// several threads, each to its place in a file whose layout is known before the first byte. Memory is bounded
// by about 2 MB of rows (at least one row) per thread, whatever the size of the model, and the bytes do not
// depend on the number of threads.
#pragma once

#include "conversion_source.h"
#include "importance.h"
#include "quantise/recipe.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace scoria {

struct ConvertOptions {
    const Recipe* recipe = nullptr;
    bool pure = false;                             // no rules: the recipe's type wherever it fits
    const ImportanceMatrix* importance = nullptr;  // or none
    uint32_t threads = 0;                          // 0: one per processor
    /// Called by any thread, one at a time, with bytes of the source; false stops with Status::cancelled.
    std::function<bool(uint64_t done, uint64_t total)> progress;
};

struct ConvertReport {
    uint64_t file_bytes = 0, weights = 0, weight_bytes = 0;
    std::map<std::string, uint32_t> tensors_of_type;  // "Q6_K" -> 21
    uint32_t fallbacks = 0;                           // tensors whose rows the recipe's types do not fill
    uint32_t requantised = 0;                         // tensors that were quantised before: the errors add up
    uint32_t unmeasured = 0;  // quantised tensors that the importance matrix does not name
};

/// Writes `path` as GGUF v3, atomically: it appears whole or not at all, and an old file stays until then.
/// Errors: bad_argument, if `path` is a file of the source; bad_file, for values that are not finite or
/// exceed what the type can hold, naming the tensor and the place; unsupported; failed (disk full).
ConvertReport convert(const ConversionSource& source, const std::string& path, const ConvertOptions& options);

}  // namespace scoria
