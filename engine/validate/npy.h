// Arrays of NumPy's .npy files (format versions 1 to 3): people's own inputs and references.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace scoria::validate {

struct NpyArray {
    std::vector<size_t> shape;
    std::vector<double> values;  // row-major
};

/// Numbers of 1 to 8 bytes (f2, f4, f8, i1 to i8, u1 to u8, b1), little-endian, in C order, one at least.
/// Errors: bad_file.
NpyArray read_npy(const std::string& path);
/// As doubles. Errors: failed.
void write_npy(const std::string& path, const NpyArray& array);

}  // namespace scoria::validate
