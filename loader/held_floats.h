// Many floats that few bits tell: scales and zeros of quantised weights, which stay as long as a model does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace scoria {

/// Floats in the fewest bytes that hold every one of them exactly: whole numbers up to 255, F16, BF16 or F32.
class HeldFloats {
  public:
    HeldFloats() = default;
    HeldFloats(const std::vector<float>& values);
    bool empty() const { return bytes_.empty(); }
    size_t held_bytes() const { return bytes_.size(); }
    float operator[](size_t i) const;

  private:
    uint32_t form_ = 0;  // of the source's table
    std::vector<std::byte> bytes_;
};

}  // namespace scoria
