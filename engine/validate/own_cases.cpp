// See own_cases.h.
#include "own_cases.h"

#include "fail.h"
#include "quantise/quantise.h"
#include "reference/dequantise.h"
#include "weight_check.h"

#include <algorithm>
#include <cmath>

namespace scoria::validate {
namespace {

std::string shape_text(const Parameters& parameters) {
    std::string text;
    for (const auto& [name, value] : parameters) text += cat(text.empty() ? "" : " ", name, " ", value);
    return text;
}

/// Errors: bad_argument, for sizes that the reference and the shader cannot have.
void check_sizes(const ShaderOp& op, const Parameters& parameters, const char* where) {
    constexpr double most = 1 << 26;  // elements: half a GiB on the host
    const auto check = [&](const ShaderTensor& tensor) {
        double count = 1;
        for (const std::string& size : tensor.shape) {
            const double value = evaluate(size, parameters, tensor.name);
            if (value < 1 || value > most || value != std::round(value))
                fail(Status::bad_argument, where, size, ": expected a whole number from 1 to ", most,
                     ", got ", value);
            count *= value;
        }
        if (count > most)
            fail(Status::bad_argument, where, tensor.name, ": expected at most ", most, " elements, got ",
                 count);
    };
    std::ranges::for_each(op.inputs, check);
    check(op.output);
    if (const char* wanted = op.misfit ? op.misfit(parameters) : nullptr)
        fail(Status::bad_argument, where, "expected ", wanted, ", got ", shape_text(parameters));
}

[[noreturn]] void fail_shape(const ShaderTensor& tensor, const OwnData::Array& array,
                             const Parameters& parameters) {
    std::string wanted, got;
    for (const std::string& size : tensor.shape)
        wanted += cat(wanted.empty() ? "" : ", ", size,
                      parameters.contains(size) ? cat(" = ", parameters.at(size)) : "");
    for (const size_t size : array.shape) got += cat(got.empty() ? "" : ", ", size);
    fail(Status::bad_argument, tensor.name, "expected the shape [", wanted, "], got [", got, "]");
}

/// Sizes that go by a name alone, from an array's shape.
void take_sizes(const ShaderTensor& tensor, const OwnData::Array& array, Parameters& parameters) {
    if (array.shape.size() != tensor.shape.size()) fail_shape(tensor, array, parameters);
    for (size_t i = 0; i < tensor.shape.size(); ++i)
        if (names_in(tensor.shape[i]) == std::vector{tensor.shape[i]})
            parameters.try_emplace(tensor.shape[i], double(array.shape[i]));
}

void check_shape(const ShaderTensor& tensor, const OwnData::Array& array, const Parameters& parameters) {
    for (size_t i = 0; i < tensor.shape.size(); ++i)
        if (evaluate(tensor.shape[i], parameters, tensor.name) != double(array.shape[i]))
            fail_shape(tensor, array, parameters);
}

/// Rows of a tensor that is blocks of some type, and what they stand for: random ones, or of `given` values.
void take_blocks(const ShaderTensor& tensor, const TensorTypeInfo& info, std::span<const double> given,
                 uint64_t seed, Prepared& prepared) {
    const auto cols = size_t(evaluate(tensor.shape.back(), prepared.parameters, tensor.name));
    if (cols % info.block != 0)
        fail(Status::bad_argument, tensor.name, "expected rows of a multiple of ", info.block, " for ",
             info.name, ", got ", cols);
    const size_t count = count_of(tensor, prepared.parameters);
    std::vector<std::byte>& blocks = prepared.blocks[tensor.name];
    std::vector<float> values(given.begin(), given.end());
    if (given.empty()) {
        blocks = random_blocks(info.type, uint32_t(count / cols), uint32_t(cols), seed);
        values.resize(count);
    } else {
        const float most = can_quantise(info.type) ? largest_value(info.type) : 0;
        for (const float value : values)
            if (!(std::abs(value) <= most))
                fail(Status::bad_argument, tensor.name, "expected values that Scoria can write as ",
                     info.name, ", got ", value);
        const size_t row_bytes = cols / info.block * info.block_bytes;
        blocks.resize(count / cols * row_bytes);
        for (size_t row = 0; row < count / cols; ++row)
            quantise_row(info.type, std::span(values).subspan(row * cols, cols), {},
                         std::span(blocks).subspan(row * row_bytes, row_bytes));
    }
    reference::dequantise(info.type, blocks, values);
    prepared.inputs[tensor.name].assign(values.begin(), values.end());
}

/// Our own sizes, so that rows of blocks are whole.
void round_up(const ShaderOp& op, const TakenTensors& taken, Parameters& parameters) {
    for (const ShaderTensor& tensor : op.inputs) {
        const auto found = taken.find(tensor.name);
        const auto size = parameters.find(tensor.shape.back());
        if (found == taken.end() || !found->second.blocks || size == parameters.end()) continue;
        const double block = found->second.blocks->block;
        size->second = std::ceil(size->second / block) * block;
    }
}

/// Errors: bad_argument, for what the shader's integers cannot hold.
void check_values(const std::string& name, const OwnData::Array& array, const Element& element) {
    if (element.kind == vk::NumberKind::float_number) return;
    const auto [least, most] = range_of(element);
    for (const double value : array.values)
        if (!(value >= least && value <= most && value == std::round(value)))
            fail(Status::bad_argument, name, "expected whole numbers from ", int64_t(least), " to ",
                 int64_t(most), ", got ", value);
}

/// Inputs and sizes. What sizes do not tell (an epsilon) is as in the op's first case.
Prepared own_inputs(const ShaderOp& op, const OwnData& data, const ShaderManifest& manifest,
                    const TakenTensors& taken) {
    Prepared prepared{manifest.values, {}, {}, {}, {}};
    for (const auto& [name, array] : data.inputs)
        if (std::ranges::find(op.inputs, name, &ShaderTensor::name) == op.inputs.end() ||
            !taken.contains(name))
            fail(Status::bad_argument, "--input", "expected an input of ", op.name,
                 " that the shader takes, got '", name, "'");
    for (const ShaderTensor& tensor : op.inputs) {
        if (!taken.contains(tensor.name)) continue;
        if (!data.inputs.contains(tensor.name))
            fail(Status::bad_argument, "--input", "expected ", tensor.name, "=FILE.npy, got none");
        take_sizes(tensor, data.inputs.at(tensor.name), prepared.parameters);
    }
    if (data.expected) take_sizes(op.output, *data.expected, prepared.parameters);
    if (!op.cases.empty())
        for (const auto& [name, value] : op.cases[0].parameters) prepared.parameters.try_emplace(name, value);
    for (const ShaderTensor& tensor : op.inputs) {
        if (!taken.contains(tensor.name)) continue;
        const OwnData::Array& array = data.inputs.at(tensor.name);
        check_shape(tensor, array, prepared.parameters);
        const Element& element = taken.at(tensor.name);
        if (element.blocks) {
            take_blocks(tensor, *element.blocks, array.values, 0, prepared);
            continue;
        }
        check_values(tensor.name, array, element);
        for (const double value : array.values)
            prepared.inputs[tensor.name].push_back(rounded(value, element));
    }
    if (data.expected) {
        check_shape(op.output, *data.expected, prepared.parameters);
        const auto output = taken.find(op.output.name);  // absent where the first input is the output
        check_values(op.output.name, *data.expected,
                     output != taken.end() ? output->second : taken.at(op.inputs[0].name));
    }
    if (op.derive) op.derive(prepared.parameters);
    check_sizes(op, prepared.parameters, "--input");
    return prepared;
}

}  // namespace

Prepared prepare_case(const ShaderOp& op, const ShaderCase& one, const ShaderManifest& manifest,
                      const TakenTensors& taken, uint64_t seed) {
    Prepared prepared{one.parameters, {}, {}, {}, {}};
    if (manifest.cases.empty()) round_up(op, taken, prepared.parameters);
    for (const auto& [name, value] : manifest.values) prepared.parameters[name] = value;
    if (op.derive) op.derive(prepared.parameters);
    check_sizes(op, prepared.parameters, "manifest");
    prepared.shape = cat(shape_text(prepared.parameters), " ", pattern_name(one.pattern));
    for (const ShaderTensor& tensor : op.inputs) {
        const size_t count = count_of(tensor, prepared.parameters);
        // The pattern is the first input's; others are random, or what they have to be.
        const Pattern pattern = &tensor == &op.inputs[0] ? one.pattern : Pattern::normal;
        const std::vector<float> random = pattern_floats(pattern, count, seed++);
        if (!taken.contains(tensor.name)) continue;
        const Element element = taken.at(tensor.name);
        if (element.blocks) {
            take_blocks(tensor, *element.blocks, {}, seed, prepared);
            continue;
        }
        std::vector<double>& values = prepared.inputs[tensor.name];
        const auto [least, most] = range_of(element);
        for (size_t i = 0; i < count; ++i) {
            const double value = tensor.value ? tensor.value(prepared.parameters, i) : double(random[i]);
            values.push_back(rounded(std::isinf(value) ? value : std::clamp(value, least, most), element));
        }
    }
    prepared.expected.resize(count_of(op.output, prepared.parameters));
    op.reference(prepared.parameters, prepared.inputs, prepared.expected);
    return prepared;
}

Prepared prepare_own(const ShaderOp& op, const OwnData& data, const ShaderManifest& manifest,
                     const TakenTensors& taken) {
    Prepared prepared = own_inputs(op, data, manifest, taken);
    prepared.shape = shape_text(prepared.parameters) + " own data";
    if (data.expected) {
        prepared.expected = data.expected->values;
    } else if (op.reference) {
        prepared.expected.resize(count_of(op.output, prepared.parameters));
        op.reference(prepared.parameters, prepared.inputs, prepared.expected);
    } else {
        fail(Status::bad_argument, "--as custom", "expected --reference FILE.npy");
    }
    return prepared;
}

}  // namespace scoria::validate
