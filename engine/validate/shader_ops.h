// Ops that somebody's own shader can be held against: tensors and sizes by name, cases, and the reference.
// tools/validate.md lists them for users.
#pragma once

#include "patterns.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace scoria::validate {

/// Sizes and numbers of a case by name: "rows", "cols", "epsilon".
using Parameters = std::map<std::string, double>;
/// Values of the inputs by tensor; those that the shader does not take are left out.
using TensorValues = std::map<std::string, std::vector<double>>;

struct ShaderTensor {
    std::string name;
    std::vector<std::string> shape;    // parameters or expressions (own_shader.h), outermost first
    std::vector<std::string> aliases;  // names that people give it
    bool optional = false;
    double (*value)(const Parameters&, size_t index) = nullptr;  // what element `index` is; null: the pattern
};

struct ShaderCase {
    Parameters parameters;
    Pattern pattern = Pattern::normal;
};

struct ShaderOp {
    std::string name;
    std::vector<ShaderTensor> inputs;
    ShaderTensor output;
    std::vector<std::string> groups;  // default grid: expressions (own_shader.h)
    std::vector<ShaderCase> cases;
    std::function<void(const Parameters&, const TensorValues&, std::vector<double>& out)> reference;
    /// Unit roundoffs of a typical error (check_tools.h).
    double (*units)(const Parameters&, const TensorValues&) = nullptr;
    std::string built_in{};  // a number that shaders may not ask for: then it is the first case's in each
    void (*derive)(Parameters&) = nullptr;  // adds what follows from sizes where nothing else is said
    /// What has to hold beside every size being whole: null, or a text that follows "expected".
    const char* (*misfit)(const Parameters&) = nullptr;
};

const std::vector<ShaderOp>& shader_ops();

/// Product of the sizes of its shape.
size_t count_of(const ShaderTensor& tensor, const Parameters& parameters);

}  // namespace scoria::validate
