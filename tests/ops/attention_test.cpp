// The choice of attention kernels.
#include "ops/attention.h"

#include "attention.push.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <tuple>

using namespace scoria;

namespace {

vk::Caps matrix_gpu() {
    vk::Caps caps;
    caps.type = vk::DeviceType::discrete;
    caps.subgroup_size = caps.subgroup_min = caps.subgroup_max = caps.matrix_subgroup = 32;
    caps.subgroup_arithmetic = caps.subgroup_ballot = true;
    caps.float16 = caps.vulkan_memory_model = caps.cooperative_matrix = true;
    caps.matrix_m = caps.matrix_n = caps.matrix_k = 16;
    caps.max_invocations = caps.max_workgroup_x = 1024;
    caps.shared_memory = 49152;
    return caps;
}

bool built() { return !shader_module(Shader::attention_coop).words.empty(); }

}  // namespace

TEST_SUITE("attention") {
    TEST_CASE("groups take rows evenly") {
        for (const auto& [heads, queries] : {std::pair(1u, 1u),
                                             {2u, 2u},
                                             {3u, 3u},
                                             {4u, 4u},
                                             {5u, 3u},
                                             {6u, 3u},
                                             {7u, 4u},
                                             {8u, 4u},
                                             {9u, 3u}}) {
            const AttentionShape shape{
                .tokens = 1, .heads = heads, .kv_heads = 1, .head_dim = 64, .context = 64};
            CAPTURE(shape.heads);
            const std::vector<AttentionVariant> variants = attention_variants(matrix_gpu(), shape);
            CHECK(std::ranges::find(variants, "subgroup", &AttentionVariant::name)->queries == queries);
            // One token's by workgroups are fewer: an H200 then has more of these.
            CHECK(variants.front().name == "shares");
            CHECK(variants.front().queries == std::min(queries, 2u));
            vk::Caps nvidia = matrix_gpu();
            nvidia.vendor_id = vk::vendor_nvidia;
            CHECK(attention_variants(nvidia, shape).front().queries == 1);
        }
    }

    TEST_CASE("the default kernel suits device, shape and precision class") {
        vk::Caps plain = matrix_gpu(), cpu = matrix_gpu(), poor = matrix_gpu(), texels = matrix_gpu();
        plain.cooperative_matrix = false;
        cpu.type = vk::DeviceType::cpu;
        vk::Caps few_registers = plain;
        few_registers.vendor_id = vk::vendor_intel;
        few_registers.subgroup_min = 8;
        poor.shared_memory = 16384;
        texels.cooperative_matrix = false;
        texels.texel_words = true;
        vk::Caps texels_cpu = texels;
        texels_cpu.type = vk::DeviceType::cpu;
        texels_cpu.subgroup_shuffle = true;
        vk::Caps no_shuffle = texels_cpu;
        no_shuffle.subgroup_shuffle = false;
        const Precision strict = Precision::strict, balanced = Precision::balanced;
        const struct {
            vk::Caps caps;
            uint32_t tokens, head_dim;
            Precision precision;
            bool values;
            Shader expected;
            uint32_t queries;
        } cases[] = {
            {matrix_gpu(), 512, 64, balanced, false, Shader::attention_coop, 64},
            {matrix_gpu(), 512, 128, balanced, false, Shader::attention_coop, 32},
            {matrix_gpu(), 512, 256, balanced, false, Shader::attention_coop, 16},
            {matrix_gpu(), 16, 64, balanced, false, Shader::attention_coop, 64},
            {matrix_gpu(), 8, 64, balanced, false, Shader::attention_vec_sg, 4},
            {matrix_gpu(), 512, 576, balanced, false, Shader::attention_tile, 16},
            {matrix_gpu(), 512, 577, balanced, false, Shader::attention_vec_sg, 4},
            {matrix_gpu(), 512, 128, strict, false, Shader::attention_tile, 64},
            {matrix_gpu(), 512, 256, strict, false, Shader::attention_tile, 32},
            {matrix_gpu(), 512, 64, balanced, true, Shader::attention_vec_sg, 4},
            {matrix_gpu(), 1, 64, balanced, false, Shader::attention_vec_sg, 2},
            {plain, 512, 64, balanced, false, Shader::attention_tile, 64},
            {few_registers, 512, 128, balanced, false, Shader::attention_tile, 32},
            {poor, 512, 64, balanced, false, Shader::attention_coop, 32},
            {cpu, 512, 64, balanced, false, Shader::attention_vec_sg, 4},
            {texels, 1, 64, balanced, false, Shader::attention_vec_sg, 2},
            {texels_cpu, 1, 64, balanced, false, Shader::attention_vec_sg_compact, 4},
            {texels_cpu, 512, 64, balanced, true, Shader::attention_vec_sg_compact, 4},
            {no_shuffle, 1, 64, balanced, false, Shader::attention_vec_sg, 4},
        };
        for (const auto& c : cases) {
            CAPTURE(c.tokens);
            CAPTURE(c.head_dim);
            if (c.expected == Shader::attention_coop && !built()) continue;
            const AttentionShape shape{.tokens = c.tokens,
                                       .heads = 16,
                                       .kv_heads = 4,
                                       .head_dim = c.head_dim,
                                       .context = 4096,
                                       .distance_values = c.values,
                                       .precision = c.precision};
            const std::vector<AttentionVariant> variants = attention_variants(c.caps, shape);
            CHECK(variants.front().shader == c.expected);
            CHECK(variants.front().queries == c.queries);
            const bool offered = std::ranges::any_of(variants, [](const AttentionVariant& variant) {
                return variant.shader == Shader::attention_coop;
            });
            const bool valid =
                c.precision != strict && c.caps.cooperative_matrix && !c.values && c.head_dim <= 256;
            CHECK(offered == (built() && valid));
            for (const AttentionVariant& variant : attention_candidates(c.caps, shape)) {
                CAPTURE(attention_text(variant));
                CHECK(variant.workgroup <= c.caps.max_invocations);
                if (variant.shader == Shader::attention_coop)
                    CHECK(variant.workgroup ==
                          variant.queries / c.caps.matrix_m * variant.dim_parts * c.caps.matrix_subgroup);
            }
        }
    }
    TEST_CASE("matrices of any size are offered where rows of them can be reduced") {
        if (shader_module(Shader::attention_coop2).words.empty()) return;
        vk::Caps caps = matrix_gpu(), lacks;
        caps.cooperative_matrix2 = caps.matrix_reductions = true;
        caps.matrix_grains = {{32, 32, 16, 256}, {32, 16, 16, 128}, {16, 16, 16, 0}, {16, 64, 16, 0}};
        caps.matrix_most = 1024;
        caps.matrix_reserved = 16384;
        lacks = caps;
        lacks.matrix_reductions = false;
        const auto of = [](std::vector<AttentionVariant> variants) {
            std::erase_if(variants, [](const AttentionVariant& v) { return v.strip == 0; });
            return variants;
        };
        AttentionShape shape{.tokens = 512, .heads = 32, .kv_heads = 8, .head_dim = 128, .context = 4096};
        shape.precision = Precision::balanced;
        const std::vector<AttentionVariant> offered = of(attention_variants(caps, shape));
        REQUIRE(offered.size() == 1);
        CHECK(offered.front().name == "coop2");
        CHECK(offered.front().queries == 64);
        CHECK(offered.front().workgroup == 128);
        CHECK(attention_variants(caps, shape).front().shader == Shader::attention_coop);
        // Beyond 32 KiB, and by whole workgroups, which take some for themselves.
        const std::vector<AttentionVariant> all = of(attention_candidates(caps, shape));
        for (const auto& [name, queries, workgroup] : {std::tuple(std::string("coop2"), 128u, 256u),
                                                       {"coop2", 64u, 128u},
                                                       {"coop2_by_128", 64u, 128u},
                                                       {"coop2_by_256", 64u, 256u}})
            CHECK(std::ranges::any_of(all, [&](const AttentionVariant& v) {
                return v.name == name && v.queries == queries && v.workgroup == workgroup &&
                       v.strip == (name == "coop2" ? 16 : queries);
            }));
        for (const AttentionVariant& v : all) CHECK(uint64_t(v.queries) * 128 / v.workgroup <= 64);
        CHECK(of(attention_candidates(lacks, shape)).empty());
        std::array<AttentionShape, 3> others{shape, shape, shape};
        others[0].precision = Precision::strict;
        others[1].distance_values = true;
        others[2].tokens = 1;
        others[2].heads = 24;
        for (const AttentionShape& other : others) CHECK(of(attention_candidates(caps, other)).empty());
        // Four rows of one token take a quarter of a tile; never by default.
        shape.tokens = 1;
        const std::vector<AttentionVariant> one = of(attention_candidates(caps, shape));
        REQUIRE(!one.empty());
        for (const AttentionVariant& v : one) CHECK(v.queries == 16);
        CHECK(!attention_variants(caps, shape).front().on_matrix_units());
    }
}
