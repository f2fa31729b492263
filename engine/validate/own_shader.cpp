// See own_shader.h: cases are filled in, run twice and compared.
#include "own_shader.h"

#include "cache_tools.h"
#include "fail.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace scoria::validate {
namespace {

using vk::NumberKind;

/// What the shader sees of one tensor: elements of `kind` and `bytes`.
struct Element {
    NumberKind kind = NumberKind::float_number;
    uint32_t bytes = 4;
};

/// One case, ready to run: a parameter may be named in every expression.
struct Prepared {
    Parameters parameters;
    TensorValues inputs;  // as the shader gets them: rounded to its types
    std::vector<double> expected;
    std::string shape;
};

constexpr uint32_t fence_bytes = 256;  // before and after every buffer: NaN, or the output's sentinels
constexpr uint32_t fence_word = 0x7FA5A5A5;

double rounded(double value, const Element& element) {
    if (element.kind != NumberKind::float_number) return std::round(value);
    return element.bytes == 2 ? double(float_of(half_of(float(value)))) : double(float(value));
}

std::vector<std::byte> packed(std::span<const double> values, const Element& element) {
    std::vector<std::byte> bytes(values.size() * element.bytes);
    for (size_t i = 0; i < values.size(); ++i) {
        uint64_t bits = 0;
        if (element.kind != NumberKind::float_number)
            bits = uint64_t(int64_t(values[i]));
        else if (element.bytes == 2)
            bits = half_of(float(values[i]));
        else if (element.bytes == 8)
            bits = std::bit_cast<uint64_t>(values[i]);
        else
            bits = std::bit_cast<uint32_t>(float(values[i]));
        std::memcpy(&bytes[i * element.bytes], &bits, element.bytes);
    }
    return bytes;
}

class ShaderRun {
  public:
    ShaderRun(CheckContext& context, const std::string& name, const vk::Reflection& shader,
              const ShaderOp& op, const ShaderManifest& manifest)
        : context_(context), name_(name), shader_(shader), module_(context_module(name, shader)), op_(op),
          manifest_(manifest), layout_(match_bindings(shader, op, manifest)) {
        // A shader that asks for the length of its arrays gets the true one; another may run past its end,
        // and meets NaN there, or sentinels.
        constexpr uint32_t op_array_length = 68;
        for (size_t at = 5; at < shader.words.size(); at += std::max(1u, shader.words[at] >> 16))
            exact_ranges_ = exact_ranges_ || (shader.words[at] & 0xFFFF) == op_array_length;
    }

    bool takes(const std::string& tensor) const {
        return std::ranges::find(layout_.tensors, tensor) != layout_.tensors.end();
    }
    Element element_of(const std::string& tensor) const;
    void run(const Prepared& prepared);
    const ShaderLayout& layout() const { return layout_; }

  private:
    /// Kept for the process's life, since pipelines refer to it.
    static const vk::ShaderModule& context_module(const std::string& name, const vk::Reflection& shader) {
        static std::vector<std::unique_ptr<vk::ShaderModule>> kept;
        kept.push_back(std::make_unique<vk::ShaderModule>(shader.module(name, false)));
        return *kept.back();
    }
    std::vector<vk::Constant> constants(const Parameters& parameters) const;
    std::vector<std::byte> push_constants(const Parameters& parameters) const;
    vk::Grid grid(const Parameters& parameters) const;
    void add_local_size(Parameters& parameters) const;
    uint32_t word_of(double value, NumberKind kind) const {
        return kind == NumberKind::float_number ? std::bit_cast<uint32_t>(float(value))
                                                : uint32_t(int64_t(std::llround(value)));
    }
    /// The parameter that a member or constant stands for, or its own expression.
    std::string expression_for(const std::map<std::string, std::string>& given, const std::string& name,
                               const Parameters& parameters) const;
    std::vector<float> once(const Prepared& prepared, std::string& error);

    CheckContext& context_;
    const std::string& name_;
    const vk::Reflection& shader_;
    const vk::ShaderModule& module_;
    const ShaderOp& op_;
    const ShaderManifest& manifest_;
    ShaderLayout layout_;
    bool exact_ranges_ = false;
};

Element ShaderRun::element_of(const std::string& tensor) const {
    const std::string& at = layout_.in_place && tensor == op_.output.name ? op_.inputs[0].name : tensor;
    const auto found = std::ranges::find(layout_.tensors, at);
    for (const vk::ReflectedBuffer& buffer : shader_.buffers)
        if (buffer.binding == uint32_t(found - layout_.tensors.begin()) && buffer.kind != NumberKind::none) {
            if (buffer.kind == NumberKind::float_number || buffer.bytes == 4)
                return {buffer.kind, buffer.bytes};
            fail(Status::bad_argument, tensor,
                 "expected elements of f16, f32, f64, int or uint, got integers of ", buffer.bytes, " bytes");
        }
    return {};
}

std::string ShaderRun::expression_for(const std::map<std::string, std::string>& given,
                                      const std::string& name, const Parameters& parameters) const {
    if (const auto found = given.find(name); found != given.end()) return found->second;
    // n_rows, numRows, nrows and the like; eps
    std::string plain;
    for (const char c : name)
        if (c != '_') plain += char(std::tolower(static_cast<unsigned char>(c)));
    for (const auto& [parameter, value] : parameters) {
        std::string wanted = parameter;
        std::erase(wanted, '_');
        for (const char* prefix : {"", "n", "num"})
            if (plain == prefix + wanted) return parameter;
        if (plain.size() >= 3 && plain.size() < wanted.size() && wanted.starts_with(plain)) return parameter;
    }
    return {};
}

std::vector<vk::Constant> ShaderRun::constants(const Parameters& parameters) const {
    std::vector<vk::Constant> made;
    for (const vk::ReflectedNumber& constant : shader_.constants) {
        const auto by_id = manifest_.constants.find(cat(constant.at));
        const std::string expression = by_id != manifest_.constants.end()
                                           ? by_id->second
                                           : expression_for(manifest_.constants, constant.name, parameters);
        if (expression.empty()) continue;  // keeps its default
        made.push_back({constant.at, word_of(evaluate(expression, parameters, "constants"), constant.kind)});
    }
    return made;
}

std::vector<std::byte> ShaderRun::push_constants(const Parameters& parameters) const {
    std::vector<std::byte> bytes(shader_.push_size);
    for (const vk::ReflectedNumber& member : shader_.push) {
        const std::string expression = expression_for(manifest_.push, member.name, parameters);
        if (expression.empty() || member.bytes != 4) {
            std::string names;
            for (const auto& [name, value] : parameters) names += cat(names.empty() ? "" : ", ", name);
            fail(Status::bad_argument, cat("push constant at byte ", member.at),
                 "expected a number of 4 bytes named as one of {", names,
                 "}, or \"push\" in a manifest, got '", member.name, "' of ", member.bytes, " bytes");
        }
        const uint32_t word = word_of(evaluate(expression, parameters, "push"), member.kind);
        std::memcpy(&bytes[member.at], &word, 4);
    }
    return bytes;
}

void ShaderRun::add_local_size(Parameters& parameters) const {
    double all = 1;
    for (size_t i = 0; i < 3; ++i) {
        double side = shader_.workgroup[i];
        for (const vk::Constant& constant : constants(parameters))
            if (shader_.workgroup_ids[i] == constant.id) side = constant.value;
        parameters[cat("local_size_", "xyz"[i])] = side;
        all *= side;
    }
    const vk::Caps& caps = context_.caps();
    if (all < 1 || all > caps.max_invocations || parameters["local_size_x"] > caps.max_workgroup_x)
        fail(Status::unsupported, name_, "expected a workgroup of 1 to ", caps.max_invocations, ", got ",
             all);
    parameters["local_size"] = all;
}

vk::Grid ShaderRun::grid(const Parameters& parameters) const {
    const std::vector<std::string>& sides = manifest_.groups.empty() ? op_.groups : manifest_.groups;
    if (sides.empty()) fail(Status::bad_argument, name_, "expected \"groups\" in a manifest");
    uint32_t counts[3] = {1, 1, 1};
    for (size_t i = 0; i < sides.size(); ++i) {
        const double count = std::ceil(evaluate(sides[i], parameters, "groups"));
        if (count < 1 || count > context_.caps().max_groups)
            fail(Status::bad_argument, "groups", "expected 1 to ", context_.caps().max_groups,
                 " workgroups in each direction, got ", count, " for '", sides[i], "'");
        counts[i] = uint32_t(count);
    }
    return {counts[0], counts[1], counts[2]};
}

std::vector<float> ShaderRun::once(const Prepared& prepared, std::string& error) {
    const Element out = element_of(op_.output.name);
    std::vector<vk::Buffer> buffers;
    std::vector<vk::View> views;
    size_t output_at = 0, output_bytes = 0;
    for (const std::string& tensor : layout_.tensors) {
        const bool is_output =
            tensor == op_.output.name || (layout_.in_place && tensor == op_.inputs[0].name);
        std::vector<std::byte> values;
        if (tensor == op_.output.name)
            values.resize(prepared.expected.size() * out.bytes);
        else
            values = packed(prepared.inputs.at(tensor), element_of(tensor));
        const size_t bytes = (values.size() + 3) / 4 * 4;
        std::vector<uint32_t> words((2 * fence_bytes + bytes) / 4, fence_word);
        if (tensor == op_.output.name)
            std::fill_n(words.begin() + fence_bytes / 4, bytes / 4, unwritten_word);
        else
            std::memcpy(&words[fence_bytes / 4], values.data(), values.size());
        if (is_output) {
            output_at = buffers.size();
            output_bytes = values.size();
        }
        buffers.push_back(context_.buffer_of<uint32_t>(words));
        views.push_back(buffers.back().view(fence_bytes, bytes + (exact_ranges_ ? 0 : fence_bytes)));
    }
    const vk::Pipeline& pipeline = context_.pipelines.get(module_, constants(prepared.parameters));
    const std::vector<std::byte> push = push_constants(prepared.parameters);
    context_.run([&](OpContext& ops) {
        ops.recorder.dispatch(pipeline, views, push, grid(prepared.parameters), "shader");
    });

    const std::vector<std::byte> bytes = context_.download(buffers[output_at].view());
    for (size_t at = 0; at + 4 <= bytes.size() && error.empty(); at += 4) {
        uint32_t word = 0;
        std::memcpy(&word, &bytes[at], 4);
        const bool outside = at < fence_bytes || at >= fence_bytes + (output_bytes + 3) / 4 * 4;
        if (outside && word != fence_word)
            error = cat("element ", (int64_t(at) - fence_bytes) / out.bytes, " of an output of ",
                        output_bytes / out.bytes, " was overwritten");
    }
    std::vector<float> values(output_bytes / out.bytes);
    for (size_t i = 0; i < values.size(); ++i) {
        uint64_t bits = 0;
        std::memcpy(&bits, &bytes[fence_bytes + i * out.bytes], out.bytes);
        values[i] = out.kind == NumberKind::signed_integer     ? float(int32_t(bits))
                    : out.kind == NumberKind::unsigned_integer ? float(uint32_t(bits))
                    : out.bytes == 2                           ? float_of(uint16_t(bits))
                    : out.bytes == 8                           ? float(std::bit_cast<double>(bits))
                                                               : std::bit_cast<float>(uint32_t(bits));
    }
    return values;
}

void ShaderRun::run(const Prepared& given) {
    Prepared prepared = given;
    add_local_size(prepared.parameters);
    std::string error;
    const std::vector<float> first = once(prepared, error);
    if (error.empty()) {
        const std::vector<float> second = once(prepared, error);
        for (size_t i = 0; i < first.size() && error.empty(); ++i)
            if (std::bit_cast<uint32_t>(first[i]) != std::bit_cast<uint32_t>(second[i]))
                error = cat("a second run differs: element ", i, " was ", first[i], ", now ", second[i]);
    }
    const double units = op_.units ? op_.units(prepared.parameters) : 64;
    Bounds bounds = bounds_of(units * manifest_.tolerance);
    if (element_of(op_.output.name).bytes == 2) bounds = bounds_of(manifest_.tolerance, half_unit_roundoff);
    bounds.floor = 1e-35;  // what is smaller may be flushed to zero
    // Rows are those of the first dimension, or the whole where there is only one.
    ShaderTensor row = op_.output;
    if (row.shape.size() > 1) row.shape.erase(row.shape.begin());
    const auto cols = uint32_t(count_of(row, prepared.parameters));
    context_.compare(op_.name, name_, prepared.shape, prepared.expected, first, cols, bounds, error);
}

std::string shape_text(const Parameters& parameters) {
    std::string text;
    for (const auto& [name, value] : parameters) text += cat(text.empty() ? "" : " ", name, " ", value);
    return text;
}

Prepared prepare_case(const CheckContext& context, const ShaderRun& run, const ShaderOp& op,
                      const ShaderCase& one, const ShaderManifest& manifest) {
    Prepared prepared{one.parameters, {}, {}, {}};
    for (const auto& [name, value] : manifest.values) prepared.parameters[name] = value;
    prepared.shape = cat(shape_text(prepared.parameters), " ", pattern_name(one.pattern));
    uint64_t seed = context.seed;
    for (const ShaderTensor& tensor : op.inputs) {
        const size_t count = count_of(tensor, prepared.parameters);
        // The pattern is the first input's; others are random, or what they have to be.
        const Pattern pattern = &tensor == &op.inputs[0] ? one.pattern : Pattern::normal;
        const std::vector<float> random = pattern_floats(pattern, count, seed++);
        if (!run.takes(tensor.name)) continue;
        std::vector<double>& values = prepared.inputs[tensor.name];
        const Element element = run.element_of(tensor.name);
        for (size_t i = 0; i < count; ++i)
            values.push_back(
                rounded(tensor.value ? tensor.value(prepared.parameters, i) : double(random[i]), element));
    }
    prepared.expected.resize(count_of(op.output, prepared.parameters));
    op.reference(prepared.parameters, prepared.inputs, prepared.expected);
    return prepared;
}

/// Sizes from an array's shape; those that are known must agree.
void take_sizes(const ShaderTensor& tensor, const OwnData::Array& array, Parameters& parameters) {
    bool fits = array.shape.size() == tensor.shape.size();
    for (size_t i = 0; i < tensor.shape.size() && fits; ++i) {
        if (tensor.shape[i].find_first_of("*/") != std::string::npos) {
            fits = evaluate(tensor.shape[i], parameters, tensor.name) == double(array.shape[i]);
            continue;
        }
        const auto [known, fresh] = parameters.try_emplace(tensor.shape[i], double(array.shape[i]));
        fits = fresh || known->second == double(array.shape[i]);
    }
    if (fits) return;
    std::string wanted, got;
    for (const std::string& size : tensor.shape)
        wanted += cat(wanted.empty() ? "" : ", ", size,
                      parameters.contains(size) ? cat(" = ", parameters.at(size)) : "");
    for (const size_t size : array.shape) got += cat(got.empty() ? "" : ", ", size);
    fail(Status::bad_argument, tensor.name, "expected the shape [", wanted, "], got [", got, "]");
}

Prepared prepare_own(const ShaderRun& run, const ShaderOp& op, const OwnData& data,
                     const ShaderManifest& manifest) {
    Prepared prepared{manifest.values, {}, {}, {}};
    // What sizes do not tell (an epsilon) is as in the op's first case.
    for (const auto& [name, array] : data.inputs)
        if (std::ranges::find(op.inputs, name, &ShaderTensor::name) == op.inputs.end())
            fail(Status::bad_argument, "--input", "expected an input of ", op.name, ", got '", name, "'");
    for (const ShaderTensor& tensor : op.inputs) {
        if (!run.takes(tensor.name)) continue;
        const auto found = data.inputs.find(tensor.name);
        if (found == data.inputs.end())
            fail(Status::bad_argument, "--input", "expected ", tensor.name, "=FILE.npy, got none");
        take_sizes(tensor, found->second, prepared.parameters);
        for (const double value : found->second.values)
            prepared.inputs[tensor.name].push_back(rounded(value, run.element_of(tensor.name)));
    }
    if (data.expected) take_sizes(op.output, *data.expected, prepared.parameters);
    if (!op.cases.empty())
        for (const auto& [name, value] : op.cases[0].parameters) prepared.parameters.try_emplace(name, value);
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

}  // namespace

void check_shader(CheckContext& context, const std::string& name, const vk::Reflection& shader,
                  const ShaderOp& op, const ShaderManifest& manifest, const OwnData& data) {
    ShaderRun run(context, name, shader, op, manifest);
    if (!data.inputs.empty() || data.expected) return run.run(prepare_own(run, op, data, manifest));
    if (!op.reference) fail(Status::bad_argument, "--as custom", "expected --input and --reference");
    std::vector<ShaderCase> cases = op.cases;
    if (!manifest.cases.empty()) cases.clear();
    for (const Parameters& sizes : manifest.cases) {
        ShaderCase one{op.cases[0].parameters, Pattern::normal};
        for (const auto& [size, value] : sizes) one.parameters[size] = value;
        cases.push_back(one);
    }
    for (const ShaderCase& one : cases) run.run(prepare_case(context, run, op, one, manifest));
}

}  // namespace scoria::validate
