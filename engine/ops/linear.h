// out = scale act(x W^T (+ bias)) (+ residual), or act(gate) * up where the rows of W interleave gate and up.
#pragma once

#include "op.h"
#include "shaders.h"

#include <string>

namespace scoria {

struct LinearArgs {
    Matrix x, out;  // [tokens, cols], [tokens, rows] (GLU: [tokens, rows / 2])
    const DeviceWeight& weight;
    const vk::View* bias = nullptr;    // [rows] float32
    const Matrix* residual = nullptr;  // shape of out, added last; may be out itself
    bool glu = false;                  // shards start at even rows then
    bool activate = false;
    /// Better the model's one also where it is not applied: all its linears share pipelines then.
    Activation activation = Activation::silu;
    float scale = 1;
};

struct LinearShape {
    uint32_t tokens, rows, cols;
    TensorType type;
};

struct LinearVariant {
    Shader shader;
    uint32_t workgroup;     // invocations
    uint32_t tokens, rows;  // computed by one workgroup
    // linear_vec alone: lanes of a logical subgroup, tokens and row pairs of a lane, subgroups sharing the
    // columns
    uint32_t subgroup = 0, lane_tokens = 0, lane_pairs = 0, parts = 0;
    std::string name;  // for reports
};

/// The variants valid on a device for a shape, default first. Pure. All compute in float32, so all are
/// valid in every precision class.
std::vector<LinearVariant> linear_variants(const vk::Caps& caps, const LinearShape& shape);

/// Records one dispatch per shard.
void record_linear(OpContext& context, const LinearArgs& args, const LinearVariant& variant);

}  // namespace scoria
