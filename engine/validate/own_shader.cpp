// See own_shader.h: cases are filled in, run twice and compared.
#include "own_shader.h"

#include "check_tools.h"
#include "fail.h"
#include "file.h"
#include "npy.h"
#include "own_cases.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <utility>

namespace scoria::validate {
namespace {

using vk::NumberKind;

/// A tensor's buffer and what it held before the shader ran.
struct Bound {
    std::vector<uint32_t> words;  // between fences
    size_t bytes = 0;             // without them
    vk::Buffer buffer;
};

constexpr uint32_t fence_bytes = 65536;  // before and after every buffer: NaN
constexpr uint32_t fence_word = 0x7FA5A5A5;

std::string keys_of(const auto& map) {
    std::string keys;
    for (const auto& each : map) keys += cat(keys.empty() ? "" : ", ", each.first);
    return keys;
}

std::string lower(const std::string& name) {
    std::string plain;
    for (const char c : name)
        if (c != '_') plain += char(std::tolower(static_cast<unsigned char>(c)));
    return plain;
}

/// Errors: bad_argument: integers of a shader get no other.
uint32_t word_of(double value, NumberKind kind, const std::string& name) {
    if (kind == NumberKind::float_number) return std::bit_cast<uint32_t>(float(value));
    if (value < INT32_MIN || value > UINT32_MAX || value != std::round(value))
        fail(Status::bad_argument, name, "expected a whole number of 32 bits, got ", value);
    return uint32_t(int64_t(value));
}

class ShaderRun {
  public:
    ShaderRun(CheckContext& context, const std::string& name, const vk::Reflection& shader,
              const ShaderOp& op, const ShaderManifest& manifest, const std::string& dump)
        : context_(context), dump_(dump), name_(name), shader_(shader), module_(context_module(name, shader)),
          op_(op), manifest_(manifest), layout_(match_bindings(shader, op, manifest)) {
        check_names();
        // A shader that asks for the length of its arrays gets the true one; another may run past its end,
        // and meets NaN there.
        constexpr uint32_t op_array_length = 68;
        for (size_t at = 5; at < shader.words.size(); at += std::max(1u, shader.words[at] >> 16))
            exact_ranges_ = exact_ranges_ || (shader.words[at] & 0xFFFF) == op_array_length;
    }

    TakenTensors taken() const {
        TakenTensors all;
        for (const std::string& tensor : layout_.tensors) all[tensor] = element_of(tensor);
        return all;
    }
    /// Whether a push constant or a specialization constant depends on it.
    bool asks_for(const std::string& number, const Parameters& parameters) const;
    void run(Prepared prepared);

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
    /// The parameter that a member or constant stands for, or its own expression.
    std::string expression_for(const std::map<std::string, std::string>& given, const std::string& name,
                               const Parameters& parameters) const;
    /// The same of one that may go by where it is, its id or byte offset, since an .spv may lack names.
    std::string expression_for(const std::map<std::string, std::string>& given,
                               const vk::ReflectedNumber& number, const Parameters& parameters) const;
    void check_names() const;
    void check_value_names() const;
    Element element_of(const std::string& tensor) const;
    bool is_output(const std::string& tensor) const {
        return tensor == op_.output.name || (layout_.in_place && tensor == op_.inputs[0].name);
    }
    Bound bind(const std::string& tensor, const Prepared& prepared);
    std::string overwritten(const std::string& tensor, const Bound& bound,
                            std::span<const std::byte> now) const;
    Bounds bounds(const Prepared& prepared) const;
    std::vector<std::byte> once(const Prepared& prepared, std::string& error);
    void dump(const Prepared& prepared, std::span<const std::byte> actual);

    CheckContext& context_;
    std::string dump_;  // OwnData::dump until it is done
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
    if (const auto given = manifest_.types.find(at); given != manifest_.types.end()) {
        const TensorTypeInfo& type = *given->second;
        if (type.type == TensorType::f32 || type.type == TensorType::f16)
            return {NumberKind::float_number, type.block_bytes};
        if (is_output(at))
            fail(Status::bad_argument, "manifest", "types: expected an output of f32 or f16, got ",
                 type.name);
        return {NumberKind::float_number, 1, &type};
    }
    const auto found = std::ranges::find(layout_.tensors, at);
    const vk::ReflectedBuffer* view = nullptr;  // of several, one of floats: the others are bits of those
    for (const vk::ReflectedBuffer& buffer : shader_.buffers)
        if (buffer.binding == uint32_t(found - layout_.tensors.begin()) &&
            (!view || buffer.kind == NumberKind::float_number))
            view = &buffer;
    if (!view) return {};
    if (view->kind != NumberKind::float_number && view->bytes != 4)
        fail(Status::bad_argument, tensor,
             "expected elements of f16, f32, int or uint, or \"types\" in a manifest, got integers of ",
             view->bytes, " bytes");
    return {view->kind, view->bytes};
}

std::string ShaderRun::expression_for(const std::map<std::string, std::string>& given,
                                      const std::string& name, const Parameters& parameters) const {
    if (const auto found = given.find(name); found != given.end()) return found->second;
    if (parameters.contains(name)) return name;
    // n_rows, numRows, nrows and the like; eps
    const std::string plain = lower(name);
    for (const char* prefix : {"", "n", "num"})
        for (const auto& [parameter, value] : parameters)
            if (plain == prefix + lower(parameter)) return parameter;
    return plain == "eps" && parameters.contains("epsilon") ? "epsilon" : "";
}

std::string ShaderRun::expression_for(const std::map<std::string, std::string>& given,
                                      const vk::ReflectedNumber& number, const Parameters& parameters) const {
    const auto by_place = given.find(cat(number.at));
    return by_place != given.end() ? by_place->second : expression_for(given, number.name, parameters);
}

bool ShaderRun::asks_for(const std::string& number, const Parameters& parameters) const {
    const auto has = [&](const std::string& expression) {
        const std::vector<std::string> names = names_in(expression);
        return std::ranges::find(names, number) != names.end();
    };
    return std::ranges::any_of(
               shader_.push,
               [&](const auto& member) { return has(expression_for(manifest_.push, member, parameters)); }) ||
           std::ranges::any_of(shader_.constants, [&](const auto& constant) {
               return has(expression_for(manifest_.constants, constant, parameters));
           });
}

void ShaderRun::check_names() const {
    const auto known = [](const std::vector<vk::ReflectedNumber>& numbers, const std::string& name) {
        return std::ranges::any_of(numbers, [&](const vk::ReflectedNumber& number) {
            return number.name == name || cat(number.at) == name;
        });
    };
    const auto names = [](const std::vector<vk::ReflectedNumber>& numbers) {
        std::string all;
        for (const vk::ReflectedNumber& number : numbers) all += cat(all.empty() ? "" : ", ", number.name);
        return all;
    };
    for (const auto& [name, expression] : manifest_.push)
        if (!known(shader_.push, name))
            fail(Status::bad_argument, "manifest", "push: expected byte offsets, or members of {",
                 names(shader_.push), "}, got '", name, "'");
    for (const auto& [name, expression] : manifest_.constants)
        if (!known(shader_.constants, name))
            fail(Status::bad_argument, "manifest", "constants: expected ids, or names of {",
                 names(shader_.constants), "}, got '", name, "'");
    check_value_names();
}

// A number that nothing asks for is a name misspelt.
void ShaderRun::check_value_names() const {
    Parameters known;
    if (!op_.cases.empty()) known = op_.cases[0].parameters;
    if (op_.derive) op_.derive(known);
    const auto add = [&](const std::string& expression) {
        for (const std::string& name : names_in(expression)) known[name] = 0;
    };
    for (const ShaderTensor& tensor : op_.inputs) std::ranges::for_each(tensor.shape, add);
    std::ranges::for_each(op_.output.shape, add);
    std::ranges::for_each(manifest_.groups, add);
    for (const auto* expressions : {&manifest_.push, &manifest_.constants})
        for (const auto& [name, expression] : *expressions) add(expression);
    std::erase_if(known, [](const auto& each) {
        return each.first.starts_with("local_size") || each.first == "subgroup_size";
    });
    const auto check = [&](const char* where, const Parameters& given) {
        for (const auto& [name, value] : given)
            if (!known.contains(name) && !asks_for(name, {{name, value}}))
                fail(Status::bad_argument, "manifest", where, ": expected names of {", keys_of(known),
                     "}, got '", name, "'");
    };
    check("values", manifest_.values);
    for (const Parameters& one : manifest_.cases) check("cases", one);
}

std::vector<vk::Constant> ShaderRun::constants(const Parameters& parameters) const {
    std::vector<vk::Constant> made;
    for (const vk::ReflectedNumber& constant : shader_.constants) {
        const std::string expression = expression_for(manifest_.constants, constant, parameters);
        if (expression.empty()) continue;  // keeps its default
        if (constant.kind == NumberKind::none || constant.bytes != 4)
            fail(Status::bad_argument, cat("specialization constant ", constant.at),
                 "expected a number of 4 bytes, got '", constant.name, "' of ", constant.bytes, " bytes");
        made.push_back({constant.at, word_of(evaluate(expression, parameters, "constants"), constant.kind,
                                             cat("specialization constant ", constant.at))});
    }
    return made;
}

std::vector<std::byte> ShaderRun::push_constants(const Parameters& parameters) const {
    std::vector<std::byte> bytes(shader_.push_size);
    for (const vk::ReflectedNumber& member : shader_.push) {
        const std::string where = cat("push constant at byte ", member.at);
        const std::string expression = expression_for(manifest_.push, member, parameters);
        if (expression.empty() || member.kind == NumberKind::none || member.bytes != 4)
            fail(Status::bad_argument, where, "expected a number of 4 bytes named as one of {",
                 keys_of(parameters), "}, or \"push\" in a manifest, got '", member.name, "' of ",
                 member.bytes, " bytes");
        const uint32_t word = word_of(evaluate(expression, parameters, "push"), member.kind, where);
        std::memcpy(&bytes[member.at], &word, 4);
    }
    return bytes;
}

void ShaderRun::add_local_size(Parameters& parameters) const {
    const vk::Caps& caps = context_.caps();
    parameters["subgroup_size"] = caps.subgroup_size;
    const uint32_t most[] = {caps.max_workgroup_x, caps.max_workgroup_x, 64};  // 64: what Vulkan grants
    double all = 1;
    for (size_t i = 0; i < 3; ++i) {
        double side = shader_.workgroup[i];
        for (const vk::Constant& constant : constants(parameters))
            if (shader_.workgroup_ids[i] == constant.id) side = constant.value;
        parameters[cat("local_size_", "xyz"[i])] = side;
        all *= side;
        if (side > most[i])
            fail(Status::unsupported, name_, "expected a workgroup of at most ", most[i], " along ", "xyz"[i],
                 ", got ", side);
    }
    if (all < 1 || all > caps.max_invocations)
        fail(Status::unsupported, name_, "expected a workgroup of 1 to ", caps.max_invocations, ", got ",
             all);
    parameters["local_size"] = all;
    if (const uint64_t shared = shader_.shared_bytes(constants(parameters)); shared > caps.shared_memory)
        fail(Status::unsupported, name_, "expected at most ", caps.shared_memory,
             " bytes of shared memory, got ", shared);
}

vk::Grid ShaderRun::grid(const Parameters& parameters) const {
    const std::vector<std::string>& sides = manifest_.groups.empty() ? op_.groups : manifest_.groups;
    if (sides.empty()) fail(Status::bad_argument, name_, "expected \"groups\" in a manifest");
    uint32_t counts[3] = {1, 1, 1};
    for (size_t i = 0; i < sides.size(); ++i) {
        const double count = std::ceil(evaluate(sides[i], parameters, "groups"));
        if (count < 1 || count > context_.caps().max_groups)
            fail(Status::bad_argument, "groups", "expected 1 to ", context_.caps().max_groups,
                 " workgroups in each direction, got ", count, " for '", sides[i].substr(0, 80), "'");
        counts[i] = uint32_t(count);
    }
    return {counts[0], counts[1], counts[2]};
}

Bound ShaderRun::bind(const std::string& tensor, const Prepared& prepared) {
    const Element element = element_of(tensor);
    std::vector<std::byte> values;
    if (tensor == op_.output.name) {
        values.resize(prepared.expected.size() * element.bytes);
        const uint64_t bits = unwritten_bits(element);
        for (size_t at = 0; at < values.size(); at += element.bytes)
            std::memcpy(&values[at], &bits, element.bytes);
    } else {
        values = element.blocks ? prepared.blocks.at(tensor) : packed(prepared.inputs.at(tensor), element);
    }
    std::vector<uint32_t> words((2 * fence_bytes + (values.size() + 3) / 4 * 4) / 4, fence_word);
    std::memcpy(&words[fence_bytes / 4], values.data(), values.size());
    vk::Buffer buffer = context_.buffer_of<uint32_t>(words);
    return {std::move(words), values.size(), std::move(buffer)};
}

/// What the shader changed beside its output's elements: says where, if it did.
std::string ShaderRun::overwritten(const std::string& tensor, const Bound& bound,
                                   std::span<const std::byte> now) const {
    const uint32_t size = element_of(tensor).bytes;
    const std::span<const std::byte> before = std::as_bytes(std::span(bound.words));
    // Halves in words end with a whole one.
    const size_t end =
        fence_bytes + (manifest_.types.contains(tensor) ? (bound.bytes + 3) / 4 * 4 : bound.bytes);
    for (size_t at = 0; at < now.size(); ++at) {
        const bool may_change = is_output(tensor) && at >= fence_bytes && at < end;
        if (!may_change && now[at] != before[at])
            return cat("element ", (int64_t(at / size * size) - fence_bytes) / size, " of ", tensor, ", ",
                       is_output(tensor) ? "an output of " : "an input of ", bound.bytes / size,
                       ", was overwritten");
    }
    return {};
}

std::vector<std::byte> ShaderRun::once(const Prepared& prepared, std::string& error) {
    std::vector<Bound> bound;
    std::vector<vk::View> views;
    for (const std::string& tensor : layout_.tensors) {
        bound.push_back(bind(tensor, prepared));
        const size_t bytes = (bound.back().bytes + 3) / 4 * 4;
        views.push_back(bound.back().buffer.view(fence_bytes, bytes + (exact_ranges_ ? 0 : fence_bytes)));
    }
    const vk::Pipeline& pipeline = context_.pipelines.get(module_, constants(prepared.parameters));
    const std::vector<std::byte> push = push_constants(prepared.parameters);
    context_.run([&](OpContext& ops) {
        ops.recorder.dispatch(pipeline, views, push, grid(prepared.parameters), "shader");
    });

    std::vector<std::byte> output;
    for (size_t i = 0; i < bound.size(); ++i) {
        if ((uint8_t(shader_.bindings[i]) & uint8_t(vk::Access::write)) == 0) continue;
        const std::vector<std::byte> now = context_.download(bound[i].buffer.view());
        if (error.empty()) error = overwritten(layout_.tensors[i], bound[i], now);
        if (is_output(layout_.tensors[i]))
            output.assign(now.begin() + fence_bytes, now.begin() + fence_bytes + ptrdiff_t(bound[i].bytes));
    }
    return output;
}

Bounds ShaderRun::bounds(const Prepared& prepared) const {
    const Element out = element_of(op_.output.name);
    if (out.kind != NumberKind::float_number) return {};
    const double units = op_.units ? op_.units(prepared.parameters, prepared.inputs) : 64;
    Bounds bounds = out.bytes == 2 ? bounds_of(manifest_.tolerance, half_unit_roundoff)
                                   : bounds_of(units * manifest_.tolerance);
    // What is smaller may be flushed to zero; halves below 2^-14 have fewer digits.
    bounds.floor = out.bytes == 2 ? 0x1p-14 : 1e-35;
    return bounds;
}

void ShaderRun::run(Prepared prepared) {
    add_local_size(prepared.parameters);
    const Element out = element_of(op_.output.name);
    std::string error;
    const std::vector<std::byte> first = once(prepared, error);
    if (error.empty()) {
        const std::vector<std::byte> second = once(prepared, error);
        const auto differs = std::ranges::mismatch(first, second).in1;
        if (error.empty() && differs != first.end()) {
            const size_t i = size_t(differs - first.begin()) / out.bytes;
            error = cat("a second run differs: element ", i, " was ", value_at(first, i, out), ", now ",
                        value_at(second, i, out));
        }
    }
    if (out.kind != NumberKind::float_number) {
        if (error.empty()) error = integer_error(prepared.expected, first, out);
        for (double& value : prepared.expected) value = double(float(value));
    }
    // Rows are those of the first dimension, or the whole where there is only one.
    ShaderTensor row = op_.output;
    if (row.shape.size() > 1) row.shape.erase(row.shape.begin());
    const auto cols = uint32_t(count_of(row, prepared.parameters));
    context_.compare(op_.name, name_, prepared.shape, prepared.expected, floats_of(first, out), cols,
                     bounds(prepared), error);
    if (!dump_.empty() && !context_.results().back().passed) dump(prepared, first);
}

void ShaderRun::dump(const Prepared& prepared, std::span<const std::byte> actual) {
    const std::filesystem::path folder = path_of(std::exchange(dump_, {}));
    const auto write = [&](const ShaderTensor& tensor, const char* suffix,
                           const std::vector<double>& values) {
        NpyArray array{{}, values};
        for (const std::string& size : tensor.shape)
            array.shape.push_back(size_t(evaluate(size, prepared.parameters, tensor.name)));
        std::string name = tensor.name;  // of a manifest: no way out of the folder
        std::ranges::replace_if(
            name, [](unsigned char c) { return !std::isalnum(c); }, '_');
        write_npy((folder / path_of(name + suffix + ".npy")).string(), array);
    };
    for (const ShaderTensor& tensor : op_.inputs)
        if (const auto values = prepared.inputs.find(tensor.name); values != prepared.inputs.end())
            write(tensor, "", values->second);
    write(op_.output, ".expected", prepared.expected);
    std::vector<double> found(prepared.expected.size());
    for (size_t i = 0; i < found.size(); ++i) found[i] = value_at(actual, i, element_of(op_.output.name));
    write(op_.output, ".actual", found);
}

}  // namespace

void check_shader(CheckContext& context, const std::string& name, const vk::Reflection& shader,
                  const ShaderOp& op, const ShaderManifest& manifest, const OwnData& data) {
    ShaderRun run(context, name, shader, op, manifest, data.dump);
    /// False when nothing more can run: the case is the last result.
    const auto run_case = [&](Prepared prepared) {
        const std::string shape = prepared.shape;
        try {
            run.run(std::move(prepared));
            return true;
        } catch (const Error& error) {
            if (error.status() != Status::device_lost && error.status() != Status::timeout) throw;
            context.add({.op = op.name, .variant = name, .shape = shape, .detail = error.what()});
            return false;
        }
    };
    if (!data.inputs.empty() || data.expected) {
        run_case(prepare_own(op, data, manifest, run.taken()));
        return;
    }
    if (!op.reference) fail(Status::bad_argument, "--as custom", "expected --input and --reference");
    std::vector<ShaderCase> cases = op.cases;
    const Parameters& usual = op.cases[0].parameters;
    if (!op.built_in.empty() && !run.asks_for(op.built_in, usual))
        for (ShaderCase& one : cases) one.parameters[op.built_in] = usual.at(op.built_in);
    if (!manifest.cases.empty()) cases.clear();
    for (const Parameters& sizes : manifest.cases) {
        ShaderCase one{usual, Pattern::normal};
        for (const auto& [size, value] : sizes) one.parameters[size] = value;
        cases.push_back(one);
    }
    for (const ShaderCase& one : cases) {
        // Other devices need not know infinity.
        if (one.pattern == Pattern::masked && !context.caps().inf_nan_preserve_f32) continue;
        if (!run_case(prepare_case(op, one, manifest, run.taken(), context.seed))) return;
    }
}

}  // namespace scoria::validate
