// Numbers of 4 bits that are floats or stand for some: MXFP4, NVFP4, bitsandbytes (hf_joiner.h).
#include "hf_joiner.h"

#include "fail.h"
#include "families.h"
#include "tokenizer/json.h"

#include <cmath>

namespace scoria {
namespace {

TensorType float_type(const Settings& state) {
    const std::string type = state.text("dtype");
    if (type == "bfloat16") return TensorType::bf16;
    if (type == "float16") return TensorType::f16;
    if (type == "float32") return TensorType::f32;
    fail(Status::unsupported, state.where(), "dtype: expected bfloat16, float16 or float32, got ", type);
}

uint64_t elements_of(const StoredTensor& tensor) {
    uint64_t elements = 1;
    for (const uint64_t size : tensor.shape) elements *= size;
    return elements;
}

/// Of a matrix whose scales stay in the file until they are read.
Scales scales_in_file(const StoredTensor& stored, uint64_t rows, uint64_t cols) {
    Scales scales;
    scales.rows = rows;
    scales.cols = cols;
    scales.file = stored.file;
    scales.offset = stored.offset;
    return scales;
}

}  // namespace

void Joiner::join_blocks() {
    for (StoredTensor& tensor : tensors_) {
        const auto stem = stem_of(tensor, "_blocks");
        if (!stem || tensor.decode != Decode::u8) continue;
        const StoredTensor& stored = beside(tensor, *stem, {"_scales"});
        std::vector<uint64_t> shape = tensor.shape;
        const bool blocks = shape.size() >= 3 && shape.back() == 16;
        if (blocks) shape.pop_back();
        if (!blocks || stored.shape != shape || stored.decode != Decode::u8) misshapen(stored, tensor);
        shape.back() *= 32;
        tensor.shape = std::move(shape);
        tensor.decode = Decode::fp4;
        tensor.type = TensorType::mxfp4;
        const uint64_t cols = tensor.shape.back();
        give(tensor, scales_in_file(stored, cols == 0 ? 0 : elements_of(tensor) / cols, cols));
    }
}

void Joiner::join_mxfp4(const char* ending) {
    for (StoredTensor& tensor : tensors_) {
        const auto module = stem_of(tensor, ending);
        if (!module || tensor.decode != Decode::u8) continue;
        const StoredTensor& stored = beside(tensor, *module + ".weight", {"_scale"});
        if (tensor.shape.size() != 2 || tensor.shape[0] == 0 || tensor.shape[1] % 16 != 0 ||
            stored.decode != Decode::u8 || stored.shape != std::vector{tensor.shape[0], tensor.shape[1] / 16})
            misshapen(stored, tensor);
        tensor.shape[1] *= 2;
        tensor.name = *module + ".weight";
        tensor.decode = Decode::fp4;
        tensor.type = TensorType::mxfp4;
        give(tensor, scales_in_file(stored, tensor.shape[0], tensor.shape[1]));
    }
}

void Joiner::join_nvfp4(bool packed) {
    for (StoredTensor& tensor : tensors_) {
        const auto module = stem_of(tensor, packed ? ".weight_packed" : ".weight");
        if (!module || tensor.decode != Decode::u8) continue;
        const std::string stem = *module + ".weight";
        if (packed && find(stem + "_global_scale") == nullptr) continue;  // of MXFP4
        const StoredTensor &stored = beside(tensor, stem, {"_scale"}),
                           &global = beside(tensor, stem, {packed ? "_global_scale" : "_scale_2"});
        if (tensor.shape.size() != 2 || tensor.shape[0] == 0 || tensor.shape[1] % 8 != 0 ||
            stored.decode != Decode::f8_e4m3 ||
            stored.shape != std::vector{tensor.shape[0], tensor.shape[1] / 8})
            misshapen(stored, tensor);
        if (elements_of(global) != 1) misshapen(global, tensor);
        const float of_all = source_.floats(global).front();
        if (!std::isfinite(of_all) || of_all <= 0)
            fail(Status::bad_file, "safetensors", "tensor ", global.name,
                 ": expected a finite number above 0, got ", of_all);
        tensor.shape[1] *= 2;
        Scales scales = scales_in_file(stored, tensor.shape[0], tensor.shape[1]);
        scales.values = std::vector{packed ? 1 / of_all : of_all};
        scales.rows_each = scales.rows;
        scales.cols_each = scales.cols;
        tensor.blocks = scales.cols % 64 == 0;
        tensor.name = stem;
        tensor.decode = Decode::nvfp4;
        tensor.type = TensorType::bf16;
        give(tensor, std::move(scales));
    }
}

void Joiner::join_tables() {
    for (StoredTensor& tensor : tensors_) {
        if (!stem_of(tensor, ".weight")) continue;
        const std::string& name = tensor.name;
        const StoredTensor* described = nullptr;
        for (const char* type : {"nf4", "fp4"})
            if (described == nullptr) described = find(name + ".quant_state.bitsandbytes__" + type);
        if (described == nullptr) {
            if (tensor.decode == Decode::u8)
                fail(Status::bad_file, "safetensors", "tensor ", name, ": expected ", name,
                     ".quant_state.bitsandbytes__nf4 or __fp4, got none");
            continue;
        }
        std::string text;
        for (const float byte : source_.floats(*described)) text += static_cast<char>(byte);
        const Settings state(Settings::Format::hugging_face, described->name, "",
                             parse_json(text, described->name));
        const std::vector<double> shape = state.numbers("shape");
        if (shape.size() != 2 || !(shape[0] >= 1) || !(shape[1] >= 1) || shape[0] > double(most_size) ||
            shape[1] > double(most_size))
            state.wrong("shape", "two sizes");
        const uint64_t rows = uint64_t(shape[0]), cols = uint64_t(shape[1]), count = rows * cols;
        const uint32_t each = state.size("blocksize", most_size);
        if (stored_bytes(tensor.type, tensor.decode, elements_of(tensor)) != (count + 1) / 2)
            fail(Status::bad_file, "safetensors", "tensor ", name, ": expected ", (count + 1) / 2,
                 " bytes of two numbers, got ", shape_text(tensor.shape));
        const StoredTensor &stored = beside(tensor, name, {".absmax"}),
                           &table = beside(tensor, name, {".quant_map"});
        Scales scales;
        scales.rows = 1;
        scales.cols = count;
        scales.cols_each = each;
        scales.across = (count + each - 1) / each;
        if (elements_of(stored) != scales.across) misshapen(stored, tensor);
        if (elements_of(table) != 16) misshapen(table, tensor);
        scales.table = source_.floats(table);
        std::vector<float> factors = source_.floats(stored);
        if (state.has("nested_blocksize")) {  // scales are numbers of 8 bits, which have scales themselves
            const StoredTensor &outer = beside(tensor, name, {".nested_absmax"}),
                               &numbers = beside(tensor, name, {".nested_quant_map"});
            const uint64_t of_outer = state.size("nested_blocksize", most_size);
            const nlohmann::json* offset = state.find("nested_offset");
            if (offset == nullptr || !offset->is_number()) state.wrong("nested_offset", "a number");
            if (elements_of(outer) != (scales.across + of_outer - 1) / of_outer) misshapen(outer, tensor);
            if (elements_of(numbers) != 256 || stored.decode != Decode::u8) misshapen(numbers, tensor);
            const std::vector<float> of_groups = source_.floats(outer), values = source_.floats(numbers);
            for (uint64_t i = 0; i < scales.across; ++i)
                factors[i] = values[size_t(factors[i])] * of_groups[i / of_outer] + offset->get<float>();
        }
        scales.values = factors;
        tensor.shape = {rows, cols};
        tensor.decode = Decode::table;
        tensor.type = float_type(state);
        give(tensor, std::move(scales));
    }
}

}  // namespace scoria
