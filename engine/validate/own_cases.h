// Cases for somebody's shader: with inputs that are made here, or people's own.
#pragma once

#include "own_shader.h"
#include "shader_elements.h"

#include <map>
#include <string>
#include <vector>

namespace scoria::validate {

/// One case, ready to run: a parameter may be named in every expression.
struct Prepared {
    Parameters parameters;
    TensorValues inputs;  // as the shader gets them: rounded to its types
    std::map<std::string, std::vector<std::byte>>
        blocks;  // of those inputs that are blocks: what they are made of
    std::vector<double> expected;
    std::string shape;
};

/// The tensors that the shader takes, as it sees them.
using TakenTensors = std::map<std::string, Element>;

/// Errors: bad_argument, for sizes that the reference or the shader cannot have.
Prepared prepare_case(const ShaderOp& op, const ShaderCase& one, const ShaderManifest& manifest,
                      const TakenTensors& taken, uint64_t seed);
/// The same, also where shapes do not fit each other or the op, or an input is missing or of no use.
Prepared prepare_own(const ShaderOp& op, const OwnData& data, const ShaderManifest& manifest,
                     const TakenTensors& taken);

}  // namespace scoria::validate
