// See shader_ops.h. Sizes are odd, one, and past a workgroup; patterns are what naive formulas fail on.
#include "own_shader.h"

#include "reference/attention.h"
#include "reference/elementwise.h"
#include "reference/linear.h"
#include "reference/norm.h"
#include "reference/rope.h"

#include <cmath>

namespace scoria::validate {
namespace {

using P = Parameters;
using T = TensorValues;
using Values = std::vector<double>;

size_t size_of(const P& p, const char* name) { return size_t(p.at(name)); }
const Values& optional_values(const T& in, const char* name) {
    static const Values none;
    const auto found = in.find(name);
    return found == in.end() ? none : found->second;
}

ShaderTensor input_x(std::vector<std::string> shape) {
    return {"x", std::move(shape), {"input", "inputs", "in", "src", "src0", "a", "hidden"}};
}
ShaderTensor output_out(std::vector<std::string> shape) {
    return {"out", std::move(shape), {"output", "outputs", "y", "dst", "result", "c"}};
}
ShaderTensor norm_weight(bool optional) {
    return {"weight", {"cols"}, {"weights", "w", "gamma", "scale", "g"}, optional};
}
ShaderTensor norm_bias() { return {"bias", {"cols"}, {"b", "beta"}, true}; }

std::vector<ShaderCase> norm_cases() {
    const auto sized = [](double rows, double cols, Pattern pattern = Pattern::normal) {
        return ShaderCase{{{"rows", rows}, {"cols", cols}, {"epsilon", 1e-5}}, pattern};
    };
    return {sized(1, 576),
            sized(3, 64),
            sized(4, 1),
            sized(7, 37),
            sized(2, 257),
            sized(5, 1000, Pattern::spikes),
            sized(2, 4096),
            sized(3, 300, Pattern::tiny),
            sized(2, 96, Pattern::zeros),
            sized(3, 129, Pattern::huge)};
}

ShaderOp rms_norm_op() {
    return {"rms_norm",
            {input_x({"rows", "cols"}), norm_weight(true)},
            output_out({"rows", "cols"}),
            {"rows"},
            norm_cases(),
            [](const P& p, const T& in, Values& out) {
                reference::norm(in.at("x"), NormKind::rms, size_of(p, "cols"), optional_values(in, "weight"),
                                {}, p.at("epsilon"), out);
            },
            [](const P& p) { return 4 + 2 * std::sqrt(p.at("cols")); }};
}

ShaderOp layer_norm_op() {
    ShaderOp op = rms_norm_op();
    op.name = "layer_norm";
    op.inputs.push_back(norm_bias());
    // x = 1000 + N(0, 1): the mean's error of a few units of 1000 beside a deviation of 1.
    op.cases.push_back({{{"rows", 3}, {"cols", 300}, {"epsilon", 1e-5}}, Pattern::offset});
    op.reference = [](const P& p, const T& in, Values& out) {
        reference::norm(in.at("x"), NormKind::layer, size_of(p, "cols"), optional_values(in, "weight"),
                        optional_values(in, "bias"), p.at("epsilon"), out);
    };
    op.units = [](const P& p) { return 1000 + 2 * std::sqrt(p.at("cols")); };
    return op;
}

ShaderOp softmax_op() {
    const auto sized = [](double rows, double cols, Pattern pattern = Pattern::normal) {
        return ShaderCase{{{"rows", rows}, {"cols", cols}, {"scale", 1}}, pattern};
    };
    return {"softmax",
            {input_x({"rows", "cols"})},
            output_out({"rows", "cols"}),
            {"rows"},
            {sized(1, 64), sized(5, 1), sized(3, 37), sized(2, 1025), sized(4, 300, Pattern::spikes),
             sized(2, 100, Pattern::zeros), sized(2, 70, Pattern::huge), sized(2, 70, Pattern::offset)},
            [](const P& p, const T& in, Values& out) {
                const size_t cols = size_of(p, "cols");
                for (size_t first = 0; first < out.size(); first += cols) {
                    const std::span row = std::span(in.at("x")).subspan(first, cols);
                    const double most = *std::ranges::max_element(row) * p.at("scale");
                    double sum = 0;
                    for (size_t i = 0; i < cols; ++i)
                        sum += out[first + i] = std::exp(row[i] * p.at("scale") - most);
                    for (size_t i = 0; i < cols; ++i) out[first + i] /= sum;
                }
            },
            // e^x may be off by 3 + 2 |x| units (Vulkan's table of precisions); arguments that matter are
            // above -20, and those of `offset` are rounded to 6e-5.
            [](const P& p) { return 64 + 2 * std::sqrt(p.at("cols")); }};
}

ShaderOp glu_op(const char* name, Activation activation) {
    const auto sized = [](double rows, double cols, Pattern pattern = Pattern::normal) {
        return ShaderCase{{{"rows", rows}, {"cols", cols}}, pattern};
    };
    return {name,
            {{"gate", {"rows", "cols"}, {"a", "x", "g", "src0"}},
             {"up", {"rows", "cols"}, {"b", "y", "u", "src1"}}},
            {"out", {"rows", "cols"}, {"output", "dst", "result", "c", "d"}},
            {"rows*cols/local_size"},
            {sized(1, 1536), sized(3, 37), sized(1, 1), sized(5, 257), sized(3, 400, Pattern::spikes),
             sized(2, 64, Pattern::tiny), sized(2, 130, Pattern::offset)},
            [activation](const P&, const T& in, Values& out) {
                reference::glu(in.at("gate"), in.at("up"), activation, 0, 1, out);
            },
            [](const P&) { return 16.0; }};
}

double rope_frequency(const P& p, size_t pair) {
    return std::pow(p.at("theta"), -2 * double(pair) / p.at("head_dim"));
}
double rope_angle(const P& p, size_t i) {
    const size_t pairs = size_of(p, "head_dim") / 2;
    return (p.at("first") + double(i / pairs)) * rope_frequency(p, i % pairs);
}

ShaderOp rope_op(const char* name, RopePairs pairs) {
    const auto sized = [](double tokens, double heads, double head_dim, double first) {
        return ShaderCase{{{"tokens", tokens},
                           {"heads", heads},
                           {"head_dim", head_dim},
                           {"first", first},
                           {"theta", 10000}}};
    };
    return {name,
            {input_x({"tokens", "heads", "head_dim"}),
             {"positions",
              {"tokens"},
              {"position", "pos"},
              true,
              [](const P& p, size_t i) { return p.at("first") + double(i); }},
             {"cosines",
              {"tokens", "head_dim/2"},
              {"cos", "coscache", "costable"},
              true,
              [](const P& p, size_t i) { return std::cos(rope_angle(p, i)); }},
             {"sines",
              {"tokens", "head_dim/2"},
              {"sin", "sincache", "sintable"},
              true,
              [](const P& p, size_t i) { return std::sin(rope_angle(p, i)); }}},
            output_out({"tokens", "heads", "head_dim"}),
            {"tokens*heads*head_dim/2/local_size"},
            {sized(1, 1, 4, 0), sized(1, 9, 64, 5), sized(7, 3, 64, 100), sized(3, 5, 10, 0),
             sized(2, 2, 128, 1000)},
            [pairs](const P& p, const T& in, Values& out) {
                const size_t head_dim = size_of(p, "head_dim");
                Rope rope{.pairs = pairs,
                          .width = uint32_t(head_dim),
                          .inverse_frequencies = {},
                          .magnitude = 1,
                          .long_inverse_frequencies = {}};
                for (size_t i = 0; i < head_dim / 2; ++i)
                    rope.inverse_frequencies.push_back(rope_frequency(p, i));
                reference::rope(in.at("x"), size_of(p, "heads"), head_dim, rope, size_of(p, "first"), out);
            },
            // The angle itself, position * theta^(...), is rounded: half a unit of up to 1000 radians.
            [](const P& p) { return 16 + 2 * (p.at("first") + p.at("tokens")); }};
}

ShaderOp linear_op() {
    const auto sized = [](double tokens, double rows, double cols, Pattern pattern = Pattern::normal) {
        return ShaderCase{{{"tokens", tokens}, {"rows", rows}, {"cols", cols}}, pattern};
    };
    return {"linear",
            {input_x({"tokens", "cols"}),
             {"weight", {"rows", "cols"}, {"weights", "w", "matrix", "m", "src1", "b"}},
             {"bias", {"rows"}, {"biases"}, true}},
            output_out({"tokens", "rows"}),
            {"rows", "tokens"},
            {sized(1, 64, 576), sized(1, 33, 45), sized(1, 1, 1), sized(3, 49, 96), sized(5, 130, 257),
             sized(1, 70, 1000, Pattern::spikes), sized(2, 40, 300, Pattern::alternating)},
            [](const P& p, const T& in, Values& out) {
                const size_t cols = size_of(p, "cols");
                const Values& weight = in.at("weight");
                const reference::Rows rows{
                    uint32_t(size_of(p, "rows")), uint32_t(cols), [&](uint32_t row, std::span<double> to) {
                        std::copy_n(weight.begin() + ptrdiff_t(row * cols), cols, to.begin());
                    }};
                reference::linear(in.at("x"), rows, optional_values(in, "bias"), out);
            },
            [](const P& p) { return 8 + 2 * std::sqrt(p.at("cols")); }};
}

ShaderOp attention_op() {
    const auto sized = [](double tokens, double keys, double heads, double kv_heads, double head_dim,
                          Pattern pattern = Pattern::normal) {
        return ShaderCase{{{"tokens", tokens},
                           {"keys", keys},
                           {"heads", heads},
                           {"kv_heads", kv_heads},
                           {"head_dim", head_dim},
                           {"scale", 1 / std::sqrt(head_dim)}},
                          pattern};
    };
    return {"attention",
            {{"q", {"tokens", "heads", "head_dim"}, {"query", "queries"}},
             {"k", {"keys", "kv_heads", "head_dim"}, {"key", "keys", "kcache"}},
             {"v", {"keys", "kv_heads", "head_dim"}, {"value", "values", "vcache"}}},
            {"out", {"tokens", "heads", "head_dim"}, {"output", "o", "dst", "result"}},
            {"heads", "tokens"},
            {sized(1, 1, 1, 1, 4), sized(1, 200, 9, 3, 64), sized(7, 7, 4, 2, 12), sized(5, 37, 6, 1, 64),
             sized(3, 65, 2, 2, 128, Pattern::spikes)},
            [](const P& p, const T& in, Values& out) {
                const scoria::Attention shape{.heads = uint32_t(size_of(p, "heads")),
                                              .kv_heads = uint32_t(size_of(p, "kv_heads")),
                                              .head_dim = uint32_t(size_of(p, "head_dim")),
                                              .scale = float(p.at("scale")),
                                              .qk_norm = {}};
                reference::attention(shape,
                                     {.q = in.at("q"),
                                      .keys = in.at("k"),
                                      .values = in.at("v"),
                                      .first = size_of(p, "keys") - size_of(p, "tokens")},
                                     out);
            },
            // As attention's own check: a score's error is absolute under exp and grows with it.
            [](const P& p) { return 64 * (4 + std::sqrt(p.at("head_dim")) + std::sqrt(p.at("keys"))); }};
}

}  // namespace

const std::vector<ShaderOp>& shader_ops() {
    static const std::vector<ShaderOp> ops = {rms_norm_op(),
                                              layer_norm_op(),
                                              softmax_op(),
                                              glu_op("glu", Activation::silu),
                                              glu_op("geglu", Activation::gelu_tanh),
                                              rope_op("rope", RopePairs::halves),
                                              rope_op("rope_interleaved", RopePairs::interleaved),
                                              linear_op(),
                                              attention_op()};
    return ops;
}

size_t count_of(const ShaderTensor& tensor, const Parameters& parameters) {
    double count = 1;
    for (const std::string& size : tensor.shape) count *= evaluate(size, parameters, tensor.name);
    return size_t(count);
}

}  // namespace scoria::validate
