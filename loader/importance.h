// Importance matrices: per column of a weight, the mean square of the activation that met it on some text.
// Formats: llama.cpp's, the GGUF one (tensors NAME.in_sum2 [cols, matrices] and NAME.counts [1, matrices])
// and the older one (int32 entries; of each: length and name, calls, number of values, float32 sums).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace scoria {

/// By the weight's name in a GGUF file; [matrices * cols] numbers, finite, 0 or more.
using ImportanceMatrix = std::map<std::string, std::vector<float>, std::less<>>;

/// Errors: bad_file, naming the tensor.
ImportanceMatrix read_importance(const std::string& path);

/// Of one weight, of `counts.size()` matrices that stand one after the other (experts): per column the sum of
/// squared activations, and how many rows of activations met each matrix.
struct ActivationSums {
    std::vector<double> squares;   // [matrices, cols]
    std::vector<uint64_t> counts;  // [matrices]
};
/// How much text the sums are of.
struct ImportanceText {
    std::string name;
    uint32_t windows = 0, window_tokens = 0;
};

/// Writes the GGUF format, atomically. Errors: failed.
void write_importance(const std::string& path, const std::map<std::string, ActivationSums>& sums,
                      const ImportanceText& text);

}  // namespace scoria
