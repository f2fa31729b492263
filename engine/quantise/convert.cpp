// See convert.h.
#include "quantise/convert.h"

#include "quantise/quantise.h"
#include "reference/dequantise.h"

#include "fail.h"
#include "file.h"
#include "side_by_side.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <filesystem>
#include <mutex>
#include <thread>

namespace scoria {
namespace {

constexpr uint64_t chunk_weights = 1 << 18;
constexpr uint32_t quantisation_version = 2;  // of GGUF's blocks

/// Of one tensor.
struct Measured {
    const float* importance;  // [matrices * cols], or null
    uint64_t rows_per_matrix;
};

/// Rows [first, first + count) of one tensor.
struct Chunk {
    size_t tensor;
    uint64_t first, count;
};

bool is_quantised(TensorType type) { return tensor_type_info(type).block > 1; }

/// The columns' importance for a tensor, or null. Errors: bad_file, where its shape is another.
const float* importance_of(const ConversionSource::Tensor& tensor, const ImportanceMatrix* importance) {
    if (importance == nullptr) return nullptr;
    const auto found = importance->find(tensor.name);
    if (found == importance->end()) return nullptr;
    const uint64_t matrices = tensor.dimensions.size() > 2 ? tensor.rows() / tensor.dimensions[1] : 1;
    if (found->second.size() != tensor.cols() * matrices)
        fail(Status::bad_file, "importance", tensor.name, ": expected ", tensor.cols() * matrices,
             " numbers, got ", found->second.size());
    return found->second.data();
}

class Conversion {
  public:
    Conversion(const ConversionSource& source, const std::string& path, const ConvertOptions& options);
    ConvertReport run();

  private:
    void plan();
    void work();
    void convert_chunk(const Chunk& chunk);
    void requantise(const Chunk& chunk, std::span<const std::byte> read, std::span<std::byte> out);
    void check_values(const Chunk& chunk, std::span<const float> values, TensorType type) const;
    void advance(uint64_t bytes);

    const ConversionSource& source_;
    const ConvertOptions& options_;
    const std::string path_;
    const std::vector<TensorType> types_;
    GgufWriter header_;
    std::vector<Measured> measured_;
    std::vector<Chunk> chunks_;
    ConvertReport report_;
    std::unique_ptr<NewFile> file_;

    std::atomic<size_t> next_{0};
    std::atomic<bool> stop_{false};
    std::mutex mutex_;  // of what follows
    std::exception_ptr error_;
    uint64_t done_ = 0, total_ = 0;  // bytes of the source
};

Conversion::Conversion(const ConversionSource& source, const std::string& path, const ConvertOptions& options)
    : source_(source), options_(options), path_(path),
      types_(choose_types(source, *options.recipe, options.pure, options.importance != nullptr)) {
    for (const std::string& input : source.paths()) {
        std::error_code ignored;
        if (std::filesystem::equivalent(path_of(input), path_of(path), ignored))
            fail(Status::bad_argument, "quantize", "expected another file than ", input, " to write to");
    }
    plan();
}

void Conversion::plan() {
    source_.metadata(header_);
    header_.set("general.file_type", options_.recipe->file_type);
    header_.set("general.quantization_version", quantisation_version);
    if (options_.recipe->int8) header_.set("scoria.quantization.scales", "row");
    const std::vector<ConversionSource::Tensor>& tensors = source_.tensors();
    for (size_t i = 0; i < tensors.size(); ++i) {
        const ConversionSource::Tensor& tensor = tensors[i];
        const float* importance = importance_of(tensor, options_.importance);
        header_.add(tensor.name, tensor.dimensions, types_[i]);
        measured_.push_back({importance, tensor.dimensions.size() > 1 ? tensor.dimensions[1] : 1});
        const uint64_t rows = std::clamp<uint64_t>(chunk_weights / tensor.cols(), 1, tensor.rows());
        for (uint64_t first = 0; first < tensor.rows(); first += rows)
            chunks_.push_back({i, first, std::min(rows, tensor.rows() - first)});
        const TensorTypeInfo &from = tensor_type_info(tensor.type), &to = tensor_type_info(types_[i]);
        total_ += tensor.cols() / from.block * from.block_bytes * tensor.rows();
        report_.weights += tensor.cols() * tensor.rows();
        report_.weight_bytes += tensor.cols() / to.block * to.block_bytes * tensor.rows();
        ++report_.tensors_of_type[to.name];
        const bool changes = tensor.type != types_[i];
        report_.requantised += changes && is_quantised(tensor.type) && is_quantised(types_[i]);
        report_.unmeasured += changes && is_quantised(types_[i]) && options_.importance && !importance;
        report_.fallbacks += changes && tensor.cols() % tensor_type_info(options_.recipe->type).block != 0;
    }
}

ConvertReport Conversion::run() {
    const std::vector<std::byte> header = header_.header(source_.facts().alignment);
    report_.file_bytes = header_.file_bytes();
    file_ = std::make_unique<NewFile>(path_, header_.file_bytes());
    file_->write(0, header);
    const uint32_t wanted = options_.threads != 0 ? options_.threads : std::thread::hardware_concurrency();
    side_by_side(std::min<size_t>(wanted, chunks_.size()), [this] { work(); });
    if (error_) std::rethrow_exception(error_);
    file_->commit();
    return report_;
}

void Conversion::work() {
    try {
        while (!stop_) {
            const size_t i = next_++;
            if (i >= chunks_.size()) return;
            convert_chunk(chunks_[i]);
        }
    } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!error_) error_ = std::current_exception();
        stop_ = true;
    }
}

void Conversion::convert_chunk(const Chunk& chunk) {
    const ConversionSource::Tensor& tensor = source_.tensors()[chunk.tensor];
    const TensorTypeInfo &from = tensor_type_info(tensor.type), &to = tensor_type_info(types_[chunk.tensor]);
    const uint64_t in_row = tensor.cols() / from.block * from.block_bytes;
    const uint64_t out_row = tensor.cols() / to.block * to.block_bytes;
    std::vector<std::byte> read(static_cast<size_t>(in_row * chunk.count));
    source_.read_rows(chunk.tensor, chunk.first, read);
    const uint64_t offset = header_.tensors()[chunk.tensor].offset + chunk.first * out_row;
    if (from.type == to.type && !(options_.recipe->int8 && is_quantised(to.type))) {
        file_->write(offset, read);
    } else {
        std::vector<std::byte> out(static_cast<size_t>(out_row * chunk.count));
        requantise(chunk, read, out);
        file_->write(offset, out);
    }
    advance(read.size());
}

void Conversion::requantise(const Chunk& chunk, std::span<const std::byte> read, std::span<std::byte> out) {
    const ConversionSource::Tensor& tensor = source_.tensors()[chunk.tensor];
    const Measured& measured = measured_[chunk.tensor];
    const size_t cols = static_cast<size_t>(tensor.cols());
    const size_t in_row = read.size() / static_cast<size_t>(chunk.count);
    const size_t out_row = out.size() / static_cast<size_t>(chunk.count);
    std::vector<float> row(cols);
    for (size_t i = 0; i < chunk.count; ++i) {
        const uint64_t at = chunk.first + i;
        reference::dequantise(tensor.type, read.subspan(i * in_row, in_row), row);
        check_values({chunk.tensor, at, 1}, row, types_[chunk.tensor]);
        const std::span<std::byte> to = out.subspan(i * out_row, out_row);
        std::span<const float> importance;
        if (measured.importance != nullptr)
            importance = {measured.importance + at / measured.rows_per_matrix * cols, cols};
        if (options_.recipe->int8 && types_[chunk.tensor] == TensorType::q8_0)
            quantise_row_int8(row, to);
        else
            quantise_row(types_[chunk.tensor], row, importance, to);
    }
}

void Conversion::check_values(const Chunk& chunk, std::span<const float> values, TensorType type) const {
    const float most = largest_value(type);
    for (size_t i = 0; i < values.size(); ++i)
        if (!(std::abs(values[i]) <= most))
            fail(Status::bad_file, "quantize", "tensor ", source_.tensors()[chunk.tensor].name, ", row ",
                 chunk.first, ", column ", i, ": expected a number of magnitude up to ", most, " for ",
                 tensor_type_info(type).name, ", got ", values[i]);
}

void Conversion::advance(uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    done_ += bytes;
    if (options_.progress && !options_.progress(done_, total_) && !stop_)
        fail(Status::cancelled, "quantize", "interrupted");
}

}  // namespace

ConvertReport convert(const ConversionSource& source, const std::string& path,
                      const ConvertOptions& options) {
    return Conversion(source, path, options).run();
}

}  // namespace scoria
