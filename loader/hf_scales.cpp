// See hf_scales.h.
#include "hf_scales.h"

#include "fail.h"
#include "hf_families.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

namespace scoria {
namespace {

constexpr const char* field = "quantization_config";

/// Whether a half holds 256 times the scale of 8-bit floats as a normal number.
bool fits_half(float scale) {
    constexpr float least = 0x1p-22f, most = 255;
    return scale == 0 || (std::abs(scale) >= least && std::abs(scale) <= most);
}

class Joiner {
  public:
    Joiner(const Settings& config, std::vector<StoredTensor>& tensors, const GatheredTensors& source)
        : config_(config), tensors_(tensors), source_(source) {
        for (const StoredTensor& tensor : tensors) by_name_.emplace(tensor.name, &tensor);
    }

    std::vector<Scales> join() {
        const std::string method = config_.text("quant_method");
        if (method == "compressed-tensors") {
            const std::string format = config_.text("format");
            if (format == "float-quantized")
                scale_floats({128, 128});
            else if (format == "int-quantized" || format == "pack-quantized")
                scale_integers(format == "pack-quantized");
            else
                config_.wrong("format", "float-quantized, int-quantized or pack-quantized");
        } else if (method == "fp8") {
            std::vector<double> block = config_.numbers("weight_block_size");
            if (block.empty()) block = {128, 128};
            if (block.size() != 2 || !(block[0] >= 1) || !(block[1] >= 1) || block[0] > most_size ||
                block[1] > most_size)
                config_.wrong("weight_block_size", "two sizes");
            scale_floats({uint64_t(block[0]), uint64_t(block[1])});
        } else if (method == "gptq" || method == "awq") {
            const char* bits = config_.has("w_bit") ? "w_bit" : "bits";
            if (config_.size(bits, 32) != 4) config_.wrong(bits, "4");
            const std::string version = config_.text("version", "gemm");
            if (method == "awq" && version != "gemm" && version != "GEMM") config_.wrong("version", "gemm");
            join_columns(method == "awq", config_.text("checkpoint_format", "gptq") == "gptq_v2");
        } else if (method == "mxfp4") {
            join_blocks();
        } else if (method == "bitnet") {
            expect_text(config_, "quantization_mode", "offline");
            expect_flag(config_, "use_rms_norm", false, false);
            unpack_ternary(config_.text("linear_class", "bitlinear") == "autobitlinear");
        } else {
            config_.wrong("quant_method", "fp8, compressed-tensors, gptq, awq, mxfp4 or bitnet");
        }
        std::erase_if(tensors_, [&](const StoredTensor& each) {
            return joined_.contains(each.name) || each.name.ends_with(".input_scale") ||
                   each.name.ends_with(".activation_scale");
        });
        return std::move(scales_);
    }

  private:
    /// The name without `ending`; nothing, if it has another.
    static std::optional<std::string> stem_of(const StoredTensor& tensor, std::string_view ending) {
        if (!tensor.name.ends_with(ending)) return std::nullopt;
        return tensor.name.substr(0, tensor.name.size() - ending.size());
    }

    /// The first there is of X with each of these endings. Errors: bad_file.
    const StoredTensor& beside(const StoredTensor& tensor, const std::string& stem,
                               std::initializer_list<const char*> endings) {
        for (const char* ending : endings) {
            const auto found = by_name_.find(stem + ending);
            if (found == by_name_.end()) continue;
            joined_.insert(found->first);
            return *found->second;
        }
        fail(Status::bad_file, "safetensors", "tensor ", tensor.name, ": expected its scales, ", stem,
             *endings.begin(), ", got none");
    }
    [[noreturn]] void misshapen(const StoredTensor& scales, const StoredTensor& of) {
        fail(Status::bad_file, "safetensors", "tensor ", scales.name, ": expected scales of ", of.name, ", ",
             shape_text(of.shape), ", got ", shape_text(scales.shape));
    }
    void give(StoredTensor& tensor, Scales scales) {
        tensor.scales = static_cast<int32_t>(scales_.size());
        scales_.push_back(std::move(scales));
    }

    struct Block {
        uint64_t rows, cols;
    };

    /// A scale for all, for each row, or for each block, of every matrix of a tensor.
    void scale_floats(Block block) {
        for (StoredTensor& tensor : tensors_) {
            if (tensor.decode != Decode::f8_e4m3 && tensor.decode != Decode::f8_e5m2) continue;
            if (tensor.shape.size() < 2) continue;
            const StoredTensor& stored = beside(tensor, tensor.name, {"_scale_inv", "_scale"});
            std::vector<uint64_t> shape = stored.shape;
            const size_t n = tensor.shape.size();
            if (shape.size() == 1 && shape[0] != 1)
                shape.resize(n == 3 && shape[0] == tensor.shape[0] ? 3 : 2, 1);
            while (shape.size() < n) shape.insert(shape.begin(), 1);
            const uint64_t rows = tensor.shape[n - 2], cols = tensor.shape[n - 1];
            uint64_t matrices = 1, of_scales = 1;
            for (size_t i = 0; i + 2 < n; ++i) matrices *= tensor.shape[i];
            for (size_t i = 0; i + 2 < shape.size(); ++i) of_scales *= shape[i];
            const auto each = [&](uint64_t size, uint64_t count, uint64_t of_block) -> uint64_t {
                if (count == 1) return size;
                if (count == size) return 1;
                return (size + of_block - 1) / of_block == count ? of_block : 0;
            };
            if (shape.size() != n || rows == 0 || cols == 0) misshapen(stored, tensor);
            Scales scales{matrices * rows,
                          cols,
                          {},
                          each(rows, shape[n - 2], block.rows),
                          each(cols, shape[n - 1], block.cols),
                          shape[n - 1]};
            if (of_scales == 1 && matrices > 1 && shape[n - 2] == 1) scales.rows_each = scales.rows;
            const bool split = matrices > 1 && of_scales > 1;  // no block may reach into the next matrix
            if (scales.rows_each == 0 || scales.cols_each == 0 ||
                (of_scales != matrices && scales.rows_each != scales.rows) ||
                (split && rows % scales.rows_each != 0))
                misshapen(stored, tensor);
            scales.values = source_.floats(stored);
            tensor.blocks = tensor.decode == Decode::f8_e4m3 && cols % 32 == 0 && scales.cols_each % 32 == 0;
            give(tensor, std::move(scales));
        }
        // All or none: what is bound together has one type.
        const auto fits = [](const Scales& scales) { return std::ranges::all_of(scales.values, fits_half); };
        if (!std::ranges::all_of(scales_, fits))
            for (StoredTensor& tensor : tensors_) tensor.blocks = false;
    }

    void join_blocks() {
        for (StoredTensor& tensor : tensors_) {
            const auto stem = stem_of(tensor, "_blocks");
            if (!stem || tensor.decode != Decode::u8) continue;
            const StoredTensor& stored = beside(tensor, *stem, {"_scales"});
            std::vector<uint64_t> shape = tensor.shape;
            const bool blocks = shape.size() >= 3 && shape.back() == 16;
            if (blocks) shape.pop_back();
            if (!blocks || stored.shape != shape || stored.decode != Decode::u8) misshapen(stored, tensor);
            shape.back() *= 32;
            Scales scales;
            scales.rows = shape.front();
            for (size_t i = 1; i + 1 < shape.size(); ++i) scales.rows *= shape[i];
            scales.cols = shape.back();
            scales.file = stored.file;
            scales.offset = stored.offset;
            tensor.shape = std::move(shape);
            tensor.decode = Decode::fp4;
            tensor.type = TensorType::mxfp4;
            give(tensor, std::move(scales));
        }
    }

    /// Of 8 bits, or packed, of 8 or 4, into words: a scale for each row or for groups of a row's columns.
    void scale_integers(bool packed) {
        for (StoredTensor& tensor : tensors_) {
            const auto module = stem_of(tensor, packed ? ".weight_packed" : ".weight");
            if (!module || tensor.decode != (packed ? Decode::i32 : Decode::i8)) continue;
            const std::string stem = *module + ".weight";
            for (const char* other : {"_zero_point", "_g_idx"})
                if (by_name_.contains(stem + other))
                    fail(Status::unsupported, "safetensors", "tensor ", stem, other,
                         ": expected symmetric weights in groups of neighbours");
            const StoredTensor& stored = beside(tensor, stem, {"_scale"});
            std::vector<uint64_t> shape = tensor.shape;
            tensor.decode = Decode::int8;
            if (packed) {
                const StoredTensor& sizes = beside(tensor, stem, {"_shape"});
                if (sizes.shape != std::vector<uint64_t>{2}) misshapen(sizes, tensor);
                const std::vector<float> size = source_.floats(sizes);
                if (shape.size() != 2 || size[0] != float(shape[0])) misshapen(sizes, tensor);
                const bool four = size[1] == float(shape[1] * 8);
                if (!four && size[1] != float(shape[1] * 4)) misshapen(sizes, tensor);
                tensor.decode = four ? Decode::int4 : Decode::uint8;
                shape[1] *= four ? 8 : 4;
            }
            const uint64_t groups = stored.shape.size() == 2 ? stored.shape[1] : 0;
            if (shape.size() != 2 || shape[0] == 0 || groups == 0 || stored.shape[0] != shape[0] ||
                shape[1] % groups != 0 || shape[1] / groups % 32 != 0)
                misshapen(stored, tensor);
            tensor.name = stem;
            tensor.shape = shape;
            tensor.type = tensor.decode == Decode::int4 ? TensorType::q4_0 : TensorType::q8_0;
            give(tensor, {shape[0], shape[1], source_.floats(stored), 1, shape[1] / groups, groups});
        }
    }

    /// qweight, qzeros and scales, groups of columns being rows of the latter two. Zeros of the first version
    /// of GPTQ are stored less one.
    void join_columns(bool awq, bool second_version) {
        for (StoredTensor& tensor : tensors_) {
            const auto module = stem_of(tensor, ".qweight");
            if (!module || tensor.decode != Decode::i32) continue;
            const StoredTensor &stored = beside(tensor, *module, {".scales"}),
                               &zeros = beside(tensor, *module, {".qzeros"});
            if (tensor.shape.size() != 2 || stored.shape.size() != 2) misshapen(stored, tensor);
            const uint64_t rows = tensor.shape[1] * (awq ? 8 : 1), cols = tensor.shape[0] * (awq ? 1 : 8),
                           groups = stored.shape[0];
            const std::vector<uint64_t> of_zeros = {groups, rows / 8};
            if (groups == 0 || rows % 8 != 0 || stored.shape[1] != rows || cols % groups != 0 ||
                cols / groups % 32 != 0)
                misshapen(stored, tensor);
            if (zeros.shape != of_zeros || zeros.decode != Decode::i32) misshapen(zeros, tensor);
            check_order(*module, cols, cols / groups);
            Scales scales{rows,          cols,   std::vector<float>(rows * groups), 1,
                          cols / groups, groups, std::vector<float>(rows * groups)};
            StoredTensor as_bytes = zeros;
            as_bytes.decode = Decode::u8;
            as_bytes.shape[1] *= 4;
            const std::vector<float> values = source_.floats(stored), bytes = source_.floats(as_bytes);
            for (uint64_t g = 0; g < groups; ++g)
                for (uint64_t r = 0; r < rows; ++r) {
                    const uint64_t place = awq ? awq_places[r % 8] : r % 8;
                    const auto pair = static_cast<uint32_t>(bytes[(g * rows + r / 8 * 8 + place) / 2]);
                    const uint32_t zero = (pair >> (4 * (place % 2))) + (awq || second_version ? 0 : 1);
                    scales.values[r * groups + g] = values[g * rows + r];
                    scales.zeros[r * groups + g] = float(zero & 15);
                }
            tensor.name = *module + ".weight";
            tensor.shape = {rows, cols};
            tensor.decode = awq ? Decode::awq : Decode::gptq;
            const bool symmetric = std::ranges::all_of(scales.zeros, [](float zero) { return zero == 8; });
            tensor.type = symmetric ? TensorType::q4_0 : TensorType::q5_0;
            give(tensor, std::move(scales));
        }
    }

    /// Errors: unsupported, where groups are not of neighbours (desc_act).
    void check_order(const std::string& stem, uint64_t cols, uint64_t group) {
        const auto found = by_name_.find(stem + ".g_idx");
        if (found == by_name_.end()) return;
        joined_.insert(found->first);
        const std::vector<float> groups = source_.floats(*found->second);
        bool fits = groups.size() == cols;
        for (uint64_t c = 0; fits && c < cols; ++c) fits = groups[c] == float(c / group);
        if (!fits)
            fail(Status::unsupported, "safetensors", "tensor ", found->first,
                 ": expected groups of neighbours");
    }

    /// `multiplies`: or else a scale divides.
    void unpack_ternary(bool multiplies) {
        for (StoredTensor& tensor : tensors_) {
            if (tensor.decode != Decode::u8 || tensor.shape.size() != 2) continue;
            const StoredTensor& stored = beside(tensor, tensor.name, {"_scale"});
            if (std::ranges::any_of(stored.shape, [](uint64_t size) { return size != 1; }))
                misshapen(stored, tensor);
            const float scale = source_.floats(stored).front();
            tensor.shape[0] *= 4;
            tensor.decode = Decode::ternary;
            tensor.type = tensor.shape[1] % 256 == 0 ? TensorType::tq2_0 : TensorType::bf16;
            give(tensor, {tensor.shape[0], tensor.shape[1], {multiplies ? scale : 1 / scale}});
        }
    }

    const Settings& config_;
    std::vector<StoredTensor>& tensors_;
    const GatheredTensors& source_;
    std::map<std::string, const StoredTensor*> by_name_;
    std::set<std::string> joined_;
    std::vector<Scales> scales_;
};

}  // namespace

std::vector<Scales> join_scales(const Settings& config, std::vector<StoredTensor>& tensors,
                                const GatheredTensors& source) {
    if (!config.has(field) || config.find(field)->empty()) return {};
    return Joiner(config.section(field), tensors, source).join();
}

}  // namespace scoria
