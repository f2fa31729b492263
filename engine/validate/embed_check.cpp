// Checks of embed, and with it of dequantisation on the device: bit for bit.
#include "check_tools.h"
#include "ops/embed.h"
#include "step.h"
#include "weight_check.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace scoria::validate {
namespace {

struct Case {
    TensorType type;
    uint32_t vocab, cols, shard_rows;
};
/// Every second type is sharded; a float row ends inside a block.
Case case_for(const TensorTypeInfo& info) {
    if (info.type == TensorType::q8_0) return {info.type, 700, 576, 64};
    const uint32_t cols = info.block == 1 ? 45 : 2 * std::max(info.block, 48u);
    return {info.type, 50, cols, uint32_t(info.type) % 2 == 0 ? 18u : 0u};
}
constexpr uint32_t table_ids[] = {0,  49,          17, 17,
                                  33, 4000000000u, 48};  // one past the vocabulary: its last row

void run_case(CheckContext& context, const Case& c, std::span<const uint32_t> ids) {
    const CheckWeight table = check_weight(
        context, c.type, c.vocab, c.cols,
        random_blocks(c.type, std::min(c.vocab, weight_period), c.cols, context.seed), c.shard_rows);
    const uint32_t tokens = uint32_t(ids.size());
    // One type is read by axes of positions.
    const uint32_t divide = 3, period = c.type == TensorType::bf16 ? std::min(7u, c.vocab) : 0;
    const bool by_position = c.type == TensorType::f32 || period != 0;
    const float scale = c.type == TensorType::f16 ? 8 : 1;  // a power of two: exact
    std::vector<uint32_t> step(STEP_TOKENS + tokens * STEP_TOKEN_WORDS);
    std::vector<double> expected(tokens * c.cols);
    for (uint32_t t = 0; t < tokens; ++t) {
        step[STEP_TOKENS + t * STEP_TOKEN_WORDS + (by_position ? STEP_TOKEN_POSITION : STEP_TOKEN_ID)] =
            ids[t];
        const uint32_t row =
            period != 0 ? (ids[t] & ~STEP_TOKEN_GLOBAL) / divide % period : std::min(ids[t], c.vocab - 1);
        table.reference().row(row, std::span(expected).subspan(t * c.cols, c.cols));
        for (double& value : std::span(expected).subspan(t * c.cols, c.cols)) value *= double(scale);
    }
    const vk::Buffer step_buffer = context.buffer_of<uint32_t>(step);
    for (const KernelVariant& variant : embed_variants(context.caps())) {
        if (context.leaves_out("embed", variant)) continue;
        std::string error;
        const std::vector<float> actual = context.run_twice(
            tokens * c.cols,
            [&](OpContext& op, const CheckContext::Output& output) {
                record_embed(op,
                             {table.device, step_buffer.view(), output.matrix(tokens, c.cols),
                              by_position ? EmbedBy::position : EmbedBy::token, scale, divide, period},
                             variant);
            },
            error);
        for (size_t i = 0; i < actual.size() && error.empty(); ++i) {
            const float wanted = float(expected[i]);
            // Any instruction may do so to a float: no module asks for another mode.
            const bool flushed = std::fpclassify(wanted) == FP_SUBNORMAL && actual[i] == 0 &&
                                 std::signbit(actual[i]) == std::signbit(wanted);
            if (flushed) expected[i] = double(actual[i]);
            if (std::bit_cast<uint32_t>(actual[i]) != std::bit_cast<uint32_t>(wanted) && !flushed)
                error = cat("row ", i / c.cols, " column ", i % c.cols, ": expected the bits of ", wanted,
                            ", got ", actual[i]);
        }
        context.compare("embed", variant.name,
                        cat(tensor_type_info(c.type).name, " vocab ", c.vocab, " cols ", c.cols), expected,
                        actual, c.cols, {0, 0, 0}, error);
    }
}

}  // namespace

void check_embed(CheckContext& context) {
    for (const TensorTypeInfo& info : tensor_types()) run_case(context, case_for(info), table_ids);
}

void check_embed(CheckContext& context, TensorType type, uint32_t vocab, uint32_t cols) {
    std::vector<uint32_t> ids = sampled(vocab, 12);
    ids.push_back(4000000000u);
    run_case(context, {type, vocab, cols, 0}, ids);
}

}  // namespace scoria::validate
