// Reads about a megabyte of rows at a time: a positioned read per row would dominate short rows.
#include "weights.h"

#include "dequantise.h"

#include <algorithm>
#include <memory>

namespace scoria::reference {
namespace {

constexpr uint64_t read_bytes = 1 << 20;

class RowReader {
  public:
    RowReader(const TensorSource& source, const TensorView& tensor)
        : source_(source), tensor_(tensor), floats_(tensor.cols),
          capacity_(
              static_cast<uint32_t>(std::clamp<uint64_t>(read_bytes / tensor.row_bytes(), 1, tensor.rows))) {}

    void read(uint32_t row, std::span<double> out) {
        const uint64_t row_bytes = tensor_.row_bytes();
        if (row < first_ || row >= first_ + held_) {
            first_ = row;
            // A jump is a look-up in an embedding table; only a run of rows is worth reading ahead.
            held_ = row == next_ ? std::min(capacity_, tensor_.rows - row) : 1;
            bytes_.resize(held_ * row_bytes);
            source_.read(tensor_, first_ * row_bytes, bytes_);
        }
        next_ = row + 1;
        dequantise(tensor_.type, std::span(bytes_).subspan((row - first_) * row_bytes, row_bytes), floats_);
        std::copy(floats_.begin(), floats_.end(), out.begin());
    }

  private:
    const TensorSource& source_;
    const TensorView tensor_;
    std::vector<float> floats_;
    std::vector<std::byte> bytes_;
    uint32_t capacity_, first_ = 0, held_ = 0, next_ = 0;
};

}  // namespace

Rows rows_of(const TensorSource& source, const TensorView& tensor) {
    const auto reader = std::make_shared<RowReader>(source, tensor);
    return {tensor.rows, tensor.cols,
            [reader](uint32_t row, std::span<double> out) { reader->read(row, out); }};
}

std::vector<double> values_of(const TensorSource& source, const TensorView& tensor) {
    const Rows rows = rows_of(source, tensor);
    std::vector<double> values(static_cast<size_t>(rows.rows) * rows.cols);
    for (uint32_t row = 0; row < rows.rows; ++row)
        rows.row(row, std::span(values).subspan(static_cast<size_t>(row) * rows.cols, rows.cols));
    return values;
}

}  // namespace scoria::reference
