// Integers and their scales in tensors of their own: compressed-tensors, GPTQ, AWQ, bitsandbytes
// (hf_joiner.h).
#include "hf_joiner.h"

#include "fail.h"
#include "families.h"
#include "half.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace scoria {
namespace {

/// The words of 32 bits of a matrix, whose floats would round them.
std::vector<uint32_t> words_of(const GatheredTensors& source, StoredTensor matrix) {
    matrix.decode = Decode::u8;
    matrix.shape[1] *= 4;
    const std::vector<float> bytes = source.floats(matrix);
    std::vector<uint32_t> words(bytes.size() / 4);
    for (size_t i = 0; i < bytes.size(); ++i)
        words[i / 4] |= static_cast<uint32_t>(bytes[i]) << (8 * (i % 4));
    return words;
}

/// Number i of those that follow each other in words, `bits` wide. The words of a number are `stride` apart.
uint32_t number_of(std::span<const uint32_t> words, uint64_t first, uint64_t stride, uint64_t i,
                   uint32_t bits) {
    const uint64_t at = i * bits, low = at / 32, high = (at + bits - 1) / 32;
    uint64_t pair = words[first + low * stride];
    if (high != low) pair |= uint64_t{words[first + high * stride]} << 32;
    return static_cast<uint32_t>(pair >> at % 32) & ((1u << bits) - 1);
}

/// Whether halves hold the scales as well as the largest of them.
bool fits_halves(std::span<const float> scales) {
    float largest = 0;
    for (const float scale : scales) largest = std::max(largest, std::abs(scale));
    return largest == 0 || (largest >= 0x1p-14f && largest <= 65504);
}

/// Blocks that hold all numbers from `least` to `most`; or floats.
TensorType block_of(float least, float most, TensorType floats) {
    if (least >= -8 && most <= 7) return TensorType::q4_0;
    if (least >= -16 && most <= 15) return TensorType::q5_0;
    return least >= -128 && most <= 127 ? TensorType::q8_0 : floats;
}

/// Whether all of config_groups say of their weights that `name` is one of these.
bool all_say(const Settings& config, const char* name, std::initializer_list<nlohmann::json> values) {
    const Settings groups = config.section("config_groups");
    const nlohmann::json* all = config.find("config_groups");
    if (all == nullptr || all->empty()) return false;
    for (const auto& [group, scheme] : all->items()) {
        const Settings weights = groups.section(group).section("weights");
        const nlohmann::json* said = weights.find(name);
        if (said == nullptr || std::ranges::find(values, *said) == values.end()) return false;
    }
    return true;
}

TensorType floats_like(const StoredTensor& scales) {
    return scales.decode == Decode::none ? scales.type : TensorType::f32;
}

}  // namespace

/// Columns of a group: neighbours, or as `order` says.
struct Joiner::Groups {
    uint64_t each;
    std::vector<uint32_t> order;
};

/// Whether some modules of GPTQ have bits and groups of their own.
bool Joiner::has_dynamic() const { return config_.has("dynamic") && !config_.find("dynamic")->empty(); }

/// `index`: of a tensor that may tell the group of each column, or must (`ordered`). Errors: bad_file.
Joiner::Groups Joiner::groups_of(const StoredTensor& of, const std::string& index, uint64_t cols,
                                 uint64_t count, bool ordered) {
    uint64_t each = count != 0 && cols % count == 0 ? cols / count : 0;
    const nlohmann::json* size = config_.find("group_size");
    if (size != nullptr && size->is_number_unsigned() && size->get<uint64_t>() > 0 &&
        size->get<uint64_t>() <= cols && !has_dynamic()) {
        each = size->get<uint64_t>();
        if ((cols + each - 1) / each != count) each = 0;
    }
    const StoredTensor* stored = find(index);
    if (each == 0)
        fail(Status::bad_file, "safetensors", "tensor ", of.name, ": expected ", cols,
             " columns in groups of one size, got ", count, " groups");
    if (stored == nullptr && ordered && count > 1)
        fail(Status::bad_file, "safetensors", "tensor ", of.name, ": expected ", index, ", got none");
    if (stored == nullptr) return {each, {}};
    if (stored->shape != std::vector<uint64_t>{cols})
        fail(Status::bad_file, "safetensors", "tensor ", index, ": expected ", shape_text(std::array{cols}),
             ", got ", shape_text(stored->shape));
    const std::vector<float> groups = source_.floats(*stored);
    if (std::ranges::all_of(groups, [](float group) { return group == -1; })) return {each, {}};
    Groups made{each, std::vector<uint32_t>(cols)};
    bool neighbours = true;
    for (uint64_t c = 0; c < cols; ++c) {
        if (!(groups[c] >= 0) || groups[c] >= float(count))
            fail(Status::bad_file, "safetensors", "tensor ", index, ": expected groups below ", count,
                 ", got ", groups[c]);
        made.order[c] = static_cast<uint32_t>(groups[c]);
        neighbours = neighbours && made.order[c] == c / each;
    }
    if (neighbours) made.order.clear();
    return made;
}

/// Blocks where 32 neighbours have one scale, and the numbers fit; or floats of the type that the scales
/// have, as the libraries that write such files compute them.
void Joiner::give_integers(StoredTensor& tensor, Scales scales, const std::vector<float>& values,
                           std::vector<float> zeros, TensorType floats) {
    float least = scales.zero, most = scales.zero;  // of what stands for 0
    if (!zeros.empty()) {
        least = *std::ranges::min_element(zeros);
        most = *std::ranges::max_element(zeros);
    }
    if (least == most) scales.zero = least, zeros.clear();
    scales.values = values;
    scales.zeros = zeros;
    const bool blocks = scales.groups.empty() && scales.cols % 32 == 0 && scales.cols_each % 32 == 0 &&
                        (floats == TensorType::f16 || fits_halves(values));
    tensor.shape = {scales.rows, scales.cols};
    tensor.type = blocks ? block_of(-most, float((1u << scales.bits) - 1) - least, floats) : floats;
    give(tensor, std::move(scales));
}

void Joiner::scale_integers(bool packed) {
    const bool asymmetric = all_say(config_, "symmetric", {false}),
               ordered = all_say(config_, "actorder", {true, "group", "dynamic"});
    for (StoredTensor& tensor : tensors_) {
        const auto module = stem_of(tensor, packed ? ".weight_packed" : ".weight");
        if (!module || tensor.decode != (packed ? Decode::i32 : Decode::i8)) continue;
        const std::string stem = *module + ".weight";
        const StoredTensor& stored = beside(tensor, stem, {"_scale"});
        Scales scales;
        if (tensor.shape.size() != 2) misshapen(stored, tensor);
        scales.rows = tensor.shape[0];
        scales.cols = tensor.shape[1];
        scales.bits = 8;
        if (packed) {
            const StoredTensor& sizes = beside(tensor, stem, {"_shape"});
            if (sizes.shape != std::vector<uint64_t>{2}) misshapen(sizes, tensor);
            const std::vector<float> size = source_.floats(sizes);
            if (size[0] != float(scales.rows) || !(size[1] >= 1) || size[1] > float(most_size))
                misshapen(sizes, tensor);
            scales.cols = uint64_t(size[1]);
            uint32_t fitting = 0;  // short rows fill as many words with other bits
            for (uint32_t bits = 2; bits <= 8; ++bits)
                if ((scales.cols * bits + 31) / 32 == tensor.shape[1]) scales.bits = bits, ++fitting;
            if (fitting != 1) misshapen(sizes, tensor);
        }
        // A scale for all, for each row, or for each group of its columns.
        std::vector<uint64_t> shape = stored.shape;
        if (shape.size() < 2) shape.resize(2, 1);
        const uint64_t groups = shape[1];
        if (shape.size() != 2 || scales.rows == 0 || scales.cols == 0 ||
            (shape[0] != scales.rows && (shape[0] != 1 || groups != 1)))
            misshapen(stored, tensor);
        Groups columns = groups_of(stored, stem + "_g_idx", scales.cols, groups, ordered);
        scales.rows_each = scales.rows / shape[0];
        scales.cols_each = columns.each;
        scales.across = groups;
        scales.groups = std::move(columns.order);
        std::vector<float> zeros;
        const float middle = float(1u << (scales.bits - 1));
        scales.zero = middle;
        if (const StoredTensor* points = find(stem + "_zero_point")) {
            const std::vector<uint64_t> below = {(shape[0] * scales.bits + 31) / 32, groups};
            if (points->decode == Decode::i32 && points->shape == below) {
                const std::vector<uint32_t> words = words_of(source_, *points);
                for (uint64_t r = 0; r < shape[0]; ++r)
                    for (uint64_t g = 0; g < groups; ++g)
                        zeros.push_back(float(number_of(words, g, groups, r, scales.bits)));
            } else if (points->decode == Decode::i8 && points->shape == stored.shape) {
                zeros = source_.floats(*points);
                for (float& zero : zeros) zero += middle;
            } else {
                misshapen(*points, tensor);
            }
        } else if (asymmetric) {
            fail(Status::bad_file, "safetensors", "tensor ", tensor.name, ": expected ", stem,
                 "_zero_point, got none");
        }
        tensor.name = stem;
        tensor.decode = packed ? Decode::words : Decode::int8;
        give_integers(tensor, std::move(scales), source_.floats(stored), std::move(zeros),
                      floats_like(stored));
    }
}

void Joiner::join_columns(bool awq) {
    const char* name = config_.has("w_bit") ? "w_bit" : "bits";
    const uint32_t told = config_.size(name, 32);
    if (told != 4 && (awq || (told != 8 && told != 3 && told != 2))) other(name, awq ? "4" : "2, 3, 4 or 8");
    // Zeros of the first version of GPTQ are stored less one, each, and borrow as whole words do.
    const bool less_one = !awq && config_.text("checkpoint_format", config_.text("format", "gptq")) == "gptq";
    const bool ordered = config_.flag("desc_act", false) && !has_dynamic();
    for (StoredTensor& tensor : tensors_) {
        const auto module = stem_of(tensor, ".qweight");
        if (!module || tensor.decode != Decode::i32) continue;
        const StoredTensor &stored = beside(tensor, *module, {".scales"}),
                           &zeros = beside(tensor, *module, {".qzeros"});
        if (tensor.shape.size() != 2 || stored.shape.size() != 2) misshapen(stored, tensor);
        if (zeros.shape.size() != 2 || zeros.decode != Decode::i32) misshapen(zeros, tensor);
        Scales scales;
        const uint64_t groups = stored.shape[0];
        scales.rows = stored.shape[1];
        if (scales.rows == 0 || groups == 0) misshapen(stored, tensor);
        scales.bits = told;
        if (has_dynamic())
            for (const uint32_t bits : {2u, 3u, 4u, 8u})
                if (zeros.shape[1] * 32 == scales.rows * bits) scales.bits = bits;
        scales.cols = awq ? tensor.shape[0] : tensor.shape[0] * 32 / scales.bits;
        const std::vector<uint64_t> of_zeros = {groups, scales.rows * scales.bits / 32},
                                    of_words = awq ? std::vector{scales.cols, scales.rows / 8}
                                                   : std::vector{scales.cols * scales.bits / 32, scales.rows};
        if (scales.rows * scales.bits % 32 != 0 || scales.cols == 0 || scales.cols * scales.bits % 32 != 0 ||
            tensor.shape != of_words)
            misshapen(stored, tensor);
        if (zeros.shape != of_zeros) misshapen(zeros, tensor);
        Groups columns = groups_of(stored, *module + ".g_idx", scales.cols, groups, ordered);
        scales.cols_each = columns.each;
        scales.across = groups;
        scales.groups = std::move(columns.order);
        const std::vector<float> columns_of = source_.floats(stored);
        std::vector<float> values(scales.rows * groups), points(values.size());
        std::vector<uint32_t> words = words_of(source_, zeros);
        if (less_one && scales.bits != 3)
            for (uint32_t& word : words)
                word += scales.bits == 2 ? 0x55555555 : scales.bits == 4 ? 0x11111111 : 0x01010101;
        for (uint64_t g = 0; g < groups; ++g) {
            for (uint64_t r = 0; r < scales.rows; ++r) {
                const uint64_t place = awq ? r / 8 * 8 + awq_places[r % 8] : r;
                uint32_t zero = number_of(words, g * of_zeros[1], 1, place, scales.bits);
                if (less_one && scales.bits == 3) zero = (zero + 1) & 7;
                values[r * groups + g] = columns_of[g * scales.rows + r];
                points[r * groups + g] = float(zero);
            }
        }
        tensor.name = *module + ".weight";
        tensor.decode = awq ? Decode::awq : Decode::gptq;
        give_integers(tensor, std::move(scales), values, std::move(points), floats_like(stored));
    }
}

void Joiner::join_vectorwise() {
    for (StoredTensor& tensor : tensors_) {
        const auto module = stem_of(tensor, ".weight");
        if (!module || tensor.decode != Decode::i8) continue;
        const StoredTensor& stored = beside(tensor, *module, {".SCB"});
        if (tensor.shape.size() != 2 || stored.shape != std::vector<uint64_t>{tensor.shape[0]} ||
            tensor.shape[1] == 0)
            misshapen(stored, tensor);
        if (const StoredTensor* format = find(*module + ".weight_format")) {
            const std::vector<float> numbers = source_.floats(*format);
            if (numbers.size() != 1 || numbers[0] != 0)
                fail(Status::unsupported, "safetensors", "tensor ", format->name,
                     ": expected rows as they are, 0, got another order");
        }
        Scales scales;
        scales.rows = tensor.shape[0];
        scales.cols = scales.cols_each = tensor.shape[1];
        scales.bits = 8;
        scales.zero = 128;
        std::vector<float> values = source_.floats(stored);
        for (float& value : values) value /= 127;
        tensor.decode = Decode::int8;
        give_integers(tensor, std::move(scales), values, {}, TensorType::f32);
    }
}

}  // namespace scoria
