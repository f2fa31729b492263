// See shader_ops.h. Sizes are odd, one, and past a workgroup; patterns are what naive formulas fail on.
#include "own_shader.h"

#include "fail.h"
#include "reference/attention.h"
#include "reference/elementwise.h"
#include "reference/linear.h"
#include "reference/norm.h"
#include "reference/rope.h"

#include <algorithm>
#include <cmath>
#include <functional>

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
    return {"out", std::move(shape), {"output", "outputs", "y", "dst", "result", "c", "d"}};
}
ShaderTensor norm_weight(bool optional) {
    return {"weight", {"cols"}, {"weights", "w", "gamma", "scale", "g"}, optional};
}
ShaderTensor norm_bias() { return {"bias", {"cols"}, {"b", "beta"}, true}; }

std::vector<ShaderCase> norm_cases() {
    const auto sized = [](double rows, double cols, Pattern pattern = Pattern::normal,
                          double epsilon = 1e-5) {
        return ShaderCase{{{"rows", rows}, {"cols", cols}, {"epsilon", epsilon}}, pattern};
    };
    return {sized(1, 576),
            sized(3, 64),
            sized(4, 1),
            sized(7, 37, Pattern::normal, 0.03),
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
            [](const P& p, const T&) { return 4 + 2 * std::sqrt(p.at("cols")); },
            "epsilon"};
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
    op.units = [](const P& p, const T&) { return 1000 + 2 * std::sqrt(p.at("cols")); };
    return op;
}

ShaderOp softmax_op() {
    const auto sized = [](double rows, double cols, Pattern pattern = Pattern::normal, double scale = 1) {
        return ShaderCase{{{"rows", rows}, {"cols", cols}, {"scale", scale}}, pattern};
    };
    return {"softmax",
            {input_x({"rows", "cols"})},
            output_out({"rows", "cols"}),
            {"rows"},
            {sized(1, 64), sized(5, 1), sized(3, 37, Pattern::normal, 0.3), sized(2, 1025),
             sized(4, 300, Pattern::spikes), sized(2, 100, Pattern::zeros), sized(2, 70, Pattern::huge),
             sized(2, 70, Pattern::offset), sized(2, 70, Pattern::sunken), sized(2, 200, Pattern::masked)},
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
            [](const P& p, const T&) { return 64 + 2 * std::sqrt(p.at("cols")); },
            "scale"};
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
                reference::glu(in.at("gate"), in.at("up"), activation, {}, out);
            },
            [](const P&, const T&) { return 16.0; },
            "",
            [](P& p) { p.try_emplace("n", p.at("rows") * p.at("cols")); }};
}

ShaderOp add_op() {
    ShaderOp op = glu_op("add", Activation::silu);
    op.inputs = {{"a", {"rows", "cols"}, {"x", "src0", "input", "in"}},
                 {"b", {"rows", "cols"}, {"y", "src1", "residual", "other"}}};
    op.reference = [](const P&, const T& in, Values& out) {
        std::ranges::transform(in.at("a"), in.at("b"), out.begin(), std::plus());
    };
    op.units = [](const P&, const T&) { return 1.0; };
    return op;
}

ShaderOp embed_op() {
    const auto sized = [](double tokens, double vocab, double cols) {
        return ShaderCase{{{"tokens", tokens}, {"vocab", vocab}, {"cols", cols}}};
    };
    return {"embed",
            {{"ids",
              {"tokens"},
              {"id", "tokenids", "indices", "index", "src1"},
              false,
              [](const P& p, size_t i) {
                  return std::fmod(double(i) * 7919 + p.at("vocab") - 1, p.at("vocab"));
              }},
             {"table", {"vocab", "cols"}, {"weight", "weights", "w", "embedding", "embeddings", "src0"}}},
            output_out({"tokens", "cols"}),
            {"tokens"},
            {sized(1, 1000, 576), sized(7, 100, 37), sized(3, 1, 1), sized(5, 70000, 8), sized(2, 50, 1030)},
            [](const P& p, const T& in, Values& out) {
                const size_t cols = size_of(p, "cols");
                for (const double id : in.at("ids"))
                    if (!(id >= 0 && id < p.at("vocab") && id == std::floor(id)))
                        fail(Status::bad_argument, "ids", "expected rows of the table, from 0 to ",
                             p.at("vocab") - 1, ", got ", id);
                for (size_t i = 0; i < out.size(); ++i)
                    out[i] = in.at("table")[size_t(in.at("ids")[i / cols]) * cols + i % cols];
            },
            [](const P&, const T&) { return 1.0; }};
}

ShaderOp argmax_op() {
    const auto sized = [](double rows, double cols, Pattern pattern = Pattern::normal) {
        return ShaderCase{{{"rows", rows}, {"cols", cols}}, pattern};
    };
    return {"argmax",
            {input_x({"rows", "cols"})},
            {"out", {"rows"}, {"output", "y", "dst", "result", "index", "indices", "ids", "c", "d"}},
            {"rows"},
            {sized(1, 32000), sized(3, 37), sized(5, 1), sized(2, 257), sized(4, 1000, Pattern::spikes),
             sized(2, 300, Pattern::zeros), sized(3, 129, Pattern::huge), sized(2, 70, Pattern::sunken),
             sized(2, 200, Pattern::masked)},
            [](const P& p, const T& in, Values& out) {
                const size_t cols = size_of(p, "cols");
                for (size_t row = 0; row < out.size(); ++row) {
                    const std::span x = std::span(in.at("x")).subspan(row * cols, cols);
                    out[row] = double(std::ranges::max_element(x) - x.begin());
                }
            }};
}

/// Of given positions those of rows; else they count up from `first`.
double position_of(const P& p, const T& in, size_t token) {
    const Values& given = optional_values(in, "positions");
    return given.empty() ? p.at("first") + double(token) : given[token];
}
double rope_angle(const P& p, double position, size_t pair) {
    return position * std::pow(p.at("theta"), -2 * double(pair) / p.at("head_dim"));
}
/// Rows of several sequences: neither from 0 nor in order.
double scattered_position(const P& p, size_t token) { return p.at("first") + double(5 * token % 7); }
double table_angle(const P& p, size_t i) {
    const size_t pairs = size_of(p, "head_dim") / 2;
    return rope_angle(p, scattered_position(p, i / pairs), i % pairs);
}

/// Su et al. 2021, eq. 34, with the tables or positions that are given.
void rope(RopePairs pairing, const P& p, const T& in, Values& out) {
    const size_t heads = size_of(p, "heads"), head_dim = size_of(p, "head_dim"), pairs = head_dim / 2;
    const Values &cosines = optional_values(in, "cosines"), &sines = optional_values(in, "sines");
    out = in.at("x");
    for (size_t row = 0; row < out.size() / head_dim; ++row)
        for (size_t i = 0; i < pairs; ++i) {
            const size_t token = row / heads, in_table = token * pairs + i;
            const double angle = rope_angle(p, position_of(p, in, token), i);
            const double cosine = cosines.empty() ? std::cos(angle) : cosines[in_table];
            const double sine = sines.empty() ? std::sin(angle) : sines[in_table];
            reference::turn_pair(std::span(out).subspan(row * head_dim, head_dim), pairing, pairs, i, cosine,
                                 sine);
        }
}

ShaderOp rope_op(const char* name, RopePairs pairs) {
    const auto sized = [](double tokens, double heads, double head_dim, double first, double theta = 10000) {
        return ShaderCase{{{"tokens", tokens},
                           {"heads", heads},
                           {"head_dim", head_dim},
                           {"first", first},
                           {"theta", theta}}};
    };
    return {name,
            {input_x({"tokens", "heads", "head_dim"}),
             {"positions", {"tokens"}, {"position", "pos"}, true, scattered_position},
             {"cosines",
              {"tokens", "head_dim/2"},
              {"cos", "coscache", "costable"},
              true,
              [](const P& p, size_t i) { return std::cos(table_angle(p, i)); }},
             {"sines",
              {"tokens", "head_dim/2"},
              {"sin", "sincache", "sintable"},
              true,
              [](const P& p, size_t i) { return std::sin(table_angle(p, i)); }}},
            output_out({"tokens", "heads", "head_dim"}),
            {"tokens*heads*head_dim/2/local_size"},
            {sized(1, 1, 4, 0), sized(1, 9, 64, 5), sized(7, 3, 64, 100), sized(3, 5, 10, 0, 500),
             sized(2, 2, 128, 1000)},
            [pairs](const P& p, const T& in, Values& out) { rope(pairs, p, in, out); },
            // The angle itself, position * theta^(...), is rounded: half a unit of up to 1000 radians.
            [](const P& p, const T& in) {
                double most = 0;
                for (size_t token = 0; token < size_of(p, "tokens"); ++token)
                    most = std::max(most, std::abs(position_of(p, in, token)));
                return 16 + 2 * (1 + most);
            },
            "theta",
            nullptr,
            [](const P& p) {
                return std::fmod(p.at("head_dim"), 2) != 0 ? "an even head_dim"
                       : p.at("theta") <= 0                ? "a theta above 0"
                                                           : nullptr;
            }};
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
            [](const P& p, const T&) { return 8 + 2 * std::sqrt(p.at("cols")); }};
}

ShaderOp attention_op() {
    const auto sized = [](double tokens, double keys, double heads, double kv_heads, double head_dim,
                          Pattern pattern = Pattern::normal) {
        return ShaderCase{{{"tokens", tokens},
                           {"keys", keys},
                           {"heads", heads},
                           {"kv_heads", kv_heads},
                           {"head_dim", head_dim}},
                          pattern};
    };
    return {
        "attention",
        {{"q", {"tokens", "heads", "head_dim"}, {"query", "queries"}},
         {"k", {"keys", "kv_heads", "head_dim"}, {"key", "keys", "kcache"}},
         {"v", {"keys", "kv_heads", "head_dim"}, {"value", "values", "vcache"}}},
        {"out", {"tokens", "heads", "head_dim"}, {"output", "o", "dst", "result"}},
        {"heads", "tokens"},
        {sized(1, 1, 1, 1, 4), sized(1, 200, 9, 3, 64), sized(7, 7, 4, 2, 12), sized(5, 37, 6, 1, 64),
         sized(3, 65, 2, 2, 128, Pattern::spikes),
         // One score a head, of +-1000: the largest of them is not above what a naive maximum starts at.
         sized(1, 1, 16, 16, 16, Pattern::offset)},
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
        [](const P& p, const T&) { return 64 * (4 + std::sqrt(p.at("head_dim")) + std::sqrt(p.at("keys"))); },
        "",
        [](P& p) { p.try_emplace("scale", 1 / std::sqrt(p.at("head_dim"))); },
        [](const P& p) {
            return std::fmod(p.at("heads"), p.at("kv_heads")) != 0 ? "heads to be a multiple of kv_heads"
                   : p.at("keys") < p.at("tokens")                 ? "at least as many keys as tokens"
                                                                   : nullptr;
        }};
}

}  // namespace

const std::vector<ShaderOp>& shader_ops() {
    static const std::vector<ShaderOp> ops = {rms_norm_op(),
                                              layer_norm_op(),
                                              softmax_op(),
                                              glu_op("glu", Activation::silu),
                                              glu_op("geglu", Activation::gelu_tanh),
                                              add_op(),
                                              rope_op("rope", RopePairs::halves),
                                              rope_op("rope_interleaved", RopePairs::interleaved),
                                              linear_op(),
                                              attention_op(),
                                              embed_op(),
                                              argmax_op()};
    return ops;
}

size_t count_of(const ShaderTensor& tensor, const Parameters& parameters) {
    double count = 1;
    for (const std::string& size : tensor.shape) count *= evaluate(size, parameters, tensor.name);
    return size_t(count);
}

}  // namespace scoria::validate
