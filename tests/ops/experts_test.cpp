// How a mixture's experts are multiplied: the choice, and what it must not change.
#include "devices.h"
#include "ops/experts.h"
#include "validate/checks.h"
#include "validate/weight_check.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <random>

using namespace scoria;

namespace {

constexpr ExpertShape qwen{.tokens = 1,
                           .experts = 128,
                           .used = 8,
                           .rows = 1536,
                           .cols = 2048,
                           .type = TensorType::q4_k,
                           .precision = Precision::balanced};

LinearVariant default_of(const vk::Caps& caps, uint32_t tokens, auto change) {
    ExpertShape shape = qwen;
    shape.tokens = tokens;
    change(shape);
    const std::vector<LinearVariant> variants = expert_linear_variants(caps, shape);
    REQUIRE_FALSE(variants.empty());
    CHECK(variants.back().name == "plain");
    return variants.front();
}
LinearVariant default_of(const vk::Caps& caps, uint32_t tokens) {
    return default_of(caps, tokens, [](ExpertShape&) {});
}

}  // namespace

TEST_SUITE("experts") {
    TEST_CASE("tokens are sorted where experts have one each, on CPUs several") {
        vk::Caps dots = test::nvidia_gpu();
        dots.int_dot = dots.int_dot_fast = true;
        const struct {
            vk::Caps caps;
            uint32_t tokens;
            bool sorted;
            Shader shader;
        } cases[] = {
            {test::gpu(), 1, false, Shader::linear_vec_sg},
            {test::gpu(), 15, false, Shader::linear_vec_sg},
            {test::gpu(), 16, true, Shader::linear_vec_sg},
            {test::gpu(), 512, true, Shader::linear_tile},
            {test::nvidia_gpu(), 1, false, Shader::linear_group},
            {test::nvidia_gpu(), 16, true, Shader::linear_group},
            {test::nvidia_gpu(), 512, true, Shader::linear_coop2},
            {dots, 1, false, Shader::linear_group_wide},
            {dots, 16, true, Shader::linear_group_wide},
            {test::compact_cpu(), 47, false, Shader::linear_vec_sg_compact},
            {test::compact_cpu(), 48, true, Shader::linear_vec_sg_compact},
        };
        for (const auto& c : cases) {
            CAPTURE(c.tokens);
            const LinearVariant variant = default_of(c.caps, c.tokens);
            CHECK(variant.sorted == c.sorted);
            CHECK(variant.shader == c.shader);
            CHECK(variant.splits == 1);
            CHECK(variant.name.starts_with(c.sorted ? "sorted " : "direct "));
        }
        const auto odd = [](ExpertShape& shape) { shape.rows = 33; };
        const auto few_rows = [](ExpertShape& shape) { shape.rows = 24; };
        const auto many = [](ExpertShape& shape) { shape.experts = 4096, shape.used = 16; };
        CHECK(default_of(test::gpu(), 512, odd).name == "plain");
        CHECK(default_of(test::gpu(), 512, few_rows).expert_rows() == 2);  // tiles want whole groups of rows
        CHECK_FALSE(default_of(test::gpu(), 512, many).sorted);
    }

    TEST_CASE("lists hold whatever experts are asked") {
        std::mt19937 random(1);
        const auto below = [&](uint32_t limit) { return uint32_t(random() % limit); };
        for (uint32_t i = 0; i < 2000; ++i) {
            const uint32_t experts = 1 + below(40), used = 1 + below(experts), tokens = 1 + below(70);
            const LinearVariant variant{
                .shader = Shader::linear_tile, .tokens = 1 + below(40), .sorted = true};
            std::vector<uint32_t> asked(experts);
            const uint32_t popular = below(2) ? experts : std::min(experts, 1 + below(5));
            for (uint32_t item = 0; item < tokens * used; ++item) ++asked[below(popular)];
            uint64_t tiles = 0;
            for (const uint32_t items : asked) tiles += groups_for(items, variant.tokens);
            const ExpertShape shape{tokens, experts, used, 16, 32, TensorType::f32};
            CHECK(expert_scratch_bytes(variant, shape) >= 4 * tiles * (2 * variant.tokens + 1));
        }
    }

    TEST_CASE("as NVIDIA's GPUs take them: groups of rows in parts, and sorted" *
              doctest::skip(test::few_models())) {
        test::Narrowed nvidia(R"({"type": "discrete", "vendor_id": 4318})");
        const vk::Caps& caps = nvidia.device.caps();
        const bool shuffles = caps.native_subgroups() && caps.subgroup_shuffle;
        for (const uint32_t tokens : {1u, 4u}) {
            const ExpertShape shape{tokens, 4, 2, 32, 1056, TensorType::mxfp4};
            const LinearVariant variant = expert_linear_variants(caps, shape).front();
            CHECK(variant.grouped() == (shuffles && caps.subgroup_size % 8 == 0));
            CHECK(variant.sorted == (tokens > 1));
            validate::check_experts(nvidia.context, {shape, true, true, Activation::silu}, variant);
        }
        CHECK(nvidia.context.results().size() == 2);
        for (const validate::CheckResult& result : nvidia.context.results())
            CHECK_MESSAGE(result.passed, cat(result.variant, ", ", result.shape, ": ", result.detail));
    }

    TEST_CASE("what they make of a token has the same bits, however many go beside it" *
              doctest::skip(test::few_models())) {
        test::Narrowed gpu(R"({"type": "discrete"})");
        validate::CheckContext& context = gpu.context;
        constexpr uint32_t tokens = 64, experts = 4, used = 2, rows = 512, cols = 1024;
        const ExpertShape shape{tokens, experts, used, rows, cols, TensorType::q4_k};
        const auto weight = validate::check_weight(
            context, shape.type, experts * rows, cols,
            validate::random_blocks(shape.type, experts * rows, cols, 1), experts * rows);
        std::vector<float> routes(size_t(tokens) * 2 * used, 0.5f);
        for (uint32_t i = 0; i < tokens * used; ++i)
            routes[i / used * 2 * used + i % used] = float(i % experts);
        const vk::Buffer x = context.buffer_of<float>(validate::random_floats(size_t(tokens) * cols, 2)),
                         route = context.buffer_of<float>(routes);
        const std::vector<LinearVariant> variants = expert_linear_variants(context.caps(), shape);
        const auto direct = std::ranges::find(variants, false, &LinearVariant::sorted);
        CHECK(variants.front().sorted);
        for (const LinearVariant& variant : {variants.front(), *direct}) {
            CAPTURE(variant.name);
            const vk::Buffer scratch(gpu.device, std::max<uint64_t>(4, expert_scratch_bytes(variant, shape)),
                                     vk::MemoryUse::device);
            // In parts by tiles of the experts' rows, as submissions have them.
            const auto made = [&](uint32_t first, uint32_t count, std::vector<uint32_t> cuts = {0}) {
                std::string sentinel;
                return context.run_twice(
                    count * used * rows,
                    [&](OpContext& op, const validate::CheckContext::Output& output) {
                        for (size_t i = 0; i < cuts.size(); ++i)
                            record_expert_linear(
                                op,
                                {{x.view(), count, cols, cols, first * cols},
                                 Matrix{route.view(), count, 2 * used, 2 * used, first * 2 * used},
                                 output.matrix(count, used * rows),
                                 weight.device,
                                 std::nullopt,
                                 experts,
                                 used,
                                 false,
                                 Activation::silu,
                                 scratch.view(),
                                 cuts[i],
                                 i + 1 < cuts.size() ? cuts[i + 1] - cuts[i]
                                                     : uint32_t(groups_for(rows, variant.rows)) - cuts[i]},
                                variant);
                    },
                    sentinel);
            };
            const std::vector<float> all = made(0, tokens);
            for (const uint32_t token : {0u, tokens - 1}) {
                const std::vector<float> alone = made(token, 1);
                CHECK(std::memcmp(alone.data(), &all[token * alone.size()], 4 * alone.size()) == 0);
            }
            if (!variant.sorted) continue;
            REQUIRE(groups_for(rows, variant.rows) >= 4);
            const std::vector<float> parts = made(0, tokens, {0, 1, 3});
            CHECK(std::memcmp(parts.data(), all.data(), 4 * all.size()) == 0);
        }
    }
}
