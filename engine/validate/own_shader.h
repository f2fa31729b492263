// Somebody's own shader against our reference, or against data of theirs: `scoria validate --shader`.
// Its interface is reflected from the SPIR-V and matched by name; a manifest says what names cannot
// (tools/validate.md).
#pragma once

#include "check.h"
#include "reflect.h"
#include "shader_ops.h"
#include "tensors.h"

#include <nlohmann/json.hpp>

#include <optional>

namespace scoria::validate {

/// What a manifest says; everything may be left to names and defaults.
struct ShaderManifest {
    std::map<std::string, uint32_t> bindings;            // tensor -> binding
    std::map<std::string, const TensorTypeInfo*> types;  // tensor -> what its buffer holds
    std::map<std::string, std::string> push;             // name or byte offset of a member -> expression
    std::map<std::string, std::string> constants;  // name or id of a specialization constant -> expression
    std::vector<std::string> groups;               // 1 to 3 expressions
    std::vector<Parameters> cases;                 // instead of the op's own
    Parameters values;                             // over every case's
    std::vector<ShaderTensor> tensors;             // of `--as custom`: inputs, the output last
    double tolerance = 4;  // times the bounds of our own kernels: another order of summation is no error
};
/// Errors: bad_file, naming what is unknown, of the wrong type or out of range.
ShaderManifest parse_manifest(const std::string& text, const std::string& where);

/// Numbers and parameters joined by * and /, from left to right; / rounds up. Errors: bad_argument.
double evaluate(const std::string& expression, const Parameters& parameters, const std::string& where);
/// The names in it.
std::vector<std::string> names_in(const std::string& expression);

/// People's own data: values by tensor. With these there is one case, whose sizes come from the shapes.
struct OwnData {
    struct Array {
        std::vector<size_t> shape;
        std::vector<double> values;
    };
    std::map<std::string, Array> inputs;
    std::optional<Array> expected;
    std::string dump;  // a folder for the arrays of the first case that fails; empty: none
};

/// Which tensor stands at which binding.
struct ShaderLayout {
    std::vector<std::string> tensors;  // by binding
    bool in_place = false;             // the output overwrites the first input
};
/// Errors: bad_argument, naming the binding and the tensors that are left, or a layout that is no plain
/// array.
ShaderLayout match_bindings(const vk::Reflection& shader, const ShaderOp& op, const ShaderManifest& manifest);

/// The op of that name, or the manifest's own for "custom". Errors: bad_argument.
ShaderOp find_shader_op(const std::string& name, const ShaderManifest& manifest);

/// Runs the shader on every case and appends to the context's results; where the device is lost or takes too
/// long, that is the last of them. `name` and `shader` must outlive the context's pipelines.
/// Errors: bad_argument (also for what the manifest says of nothing), unsupported (what the device lacks).
void check_shader(CheckContext& context, const std::string& name, const vk::Reflection& shader,
                  const ShaderOp& op, const ShaderManifest& manifest, const OwnData& data);

}  // namespace scoria::validate
