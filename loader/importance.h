// Importance matrices: per column of a weight, the mean square of the activation that met it on some text.
// Formats: llama.cpp's, the GGUF one (tensors NAME.in_sum2 [cols, matrices] and NAME.counts [1, matrices])
// and the older one (int32 entries; of each: length and name, calls, number of values, float32 sums).
#pragma once

#include <map>
#include <string>
#include <vector>

namespace scoria {

/// By the weight's name in a GGUF file; [matrices * cols] numbers, finite, 0 or more.
using ImportanceMatrix = std::map<std::string, std::vector<float>, std::less<>>;

/// Errors: bad_file, naming the tensor.
ImportanceMatrix read_importance(const std::string& path);

}  // namespace scoria
