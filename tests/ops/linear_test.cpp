// Weight planes, dequantisation bit for bit against the fixtures, and the choice of linear kernels.
#include "devices.h"
#include "fail.h"
#include "file.h"
#include "ops/choices.h"
#include "ops/embed.h"
#include "ops/experts.h"
#include "ops/linear.h"
#include "ops/weight_layout.h"
#include "quant_grids.h"
#include "reference/dequantise.h"
#include "safetensors.h"
#include "step.h"
#include "system.h"
#include "test_env.h"
#include "validate/linear_tools.h"
#include "validate/weight_check.h"
#include "weight_planes.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

using namespace scoria;
using test::compact_cpu;
using test::gpu;
using test::nvidia_gpu;

namespace {

/// Rows of a fixture: bytes as in a file and the values they stand for.
struct Rows {
    std::string name;
    TensorType type;
    uint32_t rows, cols;
    std::vector<std::byte> bytes;
    std::vector<float> values;
};
/// Every code of E4M3 but NaN, whose place zeros take, by scales of both signs from the least normal half on.
Rows float8_rows() {
    const std::pair<uint16_t, float> scales[] = {
        {0x0400, 0x1p-22f}, {0x3C00, 0x1p-8f}, {0xB555, -0.333251953125f / 256}, {0x7BFF, 65504.0f / 256}};
    Rows rows{"F8_E4M3", TensorType::f8_e4m3, uint32_t(std::size(scales)), 256, {}, {}};
    for (const auto& [half, scale] : scales)
        for (uint32_t code = 0; code < 256; ++code) {
            if (code % 32 == 0)
                for (const uint32_t byte : {half & 255u, half >> 8 & 255u})
                    rows.bytes.push_back(std::byte(byte));
            const uint32_t kept = code % 128 == 127 ? 0 : code, exponent = kept / 8 % 16, fraction = kept % 8;
            rows.bytes.push_back(std::byte(kept));
            const float steps =
                std::ldexp(float(exponent ? 8 + fraction : fraction), int(std::max(exponent, 1u)) - 10);
            rows.values.push_back(steps == 0 ? 0 * scale : (kept < 128 ? steps : -steps) * scale);
        }
    return rows;
}

std::vector<Rows> fixture_rows(const TensorTypeInfo& info);

/// NVFP4's rows by factors, one for each block.
std::vector<Rows> scaled_nvfp4_rows() {
    constexpr float factors[] = {0x1p-60f, 1, -0x1.555p-13f, 0x1.FFFp+60f};  // whose products are exact
    std::vector<Rows> all = fixture_rows(tensor_type_info(TensorType::nvfp4));
    for (Rows& rows : all) {
        rows.name = "NVFP4_S of " + rows.name;
        rows.type = TensorType::nvfp4_s;
        std::vector<std::byte> bytes;
        for (size_t block = 0; block * 64 < rows.values.size(); ++block) {
            const float factor = factors[block % std::size(factors)];
            const auto head = std::as_bytes(std::span(&factor, 1));
            bytes.insert(bytes.end(), head.begin(), head.end());
            bytes.insert(bytes.end(), &rows.bytes[36 * block], &rows.bytes[36 * block] + 36);
            for (size_t i = 0; i < 64; ++i) rows.values[64 * block + i] *= factor;
        }
        rows.bytes = std::move(bytes);
    }
    return all;
}

std::vector<Rows> fixture_rows(const TensorTypeInfo& info) {
    if (info.type == TensorType::f8_e4m3) return {float8_rows()};
    if (info.type == TensorType::nvfp4_s) return scaled_nvfp4_rows();
    const Safetensors file(test::fixtures() + "/quants/" + info.name + ".safetensors");
    std::vector<Rows> all;
    for (const std::string prefix : {"", "edge_"}) {
        const std::vector<uint8_t> raw = file.read<uint8_t>(prefix + "raw");
        const auto& shape = file.array(prefix + "deq").shape;
        const auto bytes = std::as_bytes(std::span(raw));
        all.push_back({cat(info.name, " ", prefix, "raw"),
                       info.type,
                       uint32_t(shape[0]),
                       uint32_t(shape[1]),
                       {bytes.begin(), bytes.end()},
                       file.read<float>(prefix + "deq")});
    }
    return all;
}

/// Equal bits; a subnormal may be a zero of the same sign where `flushes`.
void check_bits(const Rows& rows, std::span<const float> actual, bool flushes) {
    size_t wrong = 0, first = 0;
    for (size_t i = 0; i < rows.values.size(); ++i) {
        const uint32_t want = std::bit_cast<uint32_t>(rows.values[i]),
                       got = std::bit_cast<uint32_t>(actual[i]);
        const bool zero =
            flushes && std::fpclassify(rows.values[i]) == FP_SUBNORMAL && got == (want & 0x80000000u);
        // A NaN may lose its payload: Vulkan promises none.
        const bool nan = std::isnan(rows.values[i]) && std::isnan(actual[i]);
        if (want != got && !zero && !nan && wrong++ == 0) first = i;
    }
    CHECK_MESSAGE(wrong == 0, cat(rows.name, ": ", wrong, " values differ, first ", first, ": expected ",
                                  rows.values[first], ", got ", actual[first]));
}

/// The file's bytes, but that scales of NVFP4 have no sign, and are zero where they were NaN.
std::vector<std::byte> as_kept(const Rows& rows) {
    std::vector<std::byte> bytes = rows.bytes;
    const TensorType type = rows.type;
    if (type != TensorType::nvfp4 && type != TensorType::nvfp4_s) return bytes;
    const size_t block = tensor_type_info(type).block_bytes, first = type == TensorType::nvfp4 ? 0 : 4;
    for (size_t at = first; at < bytes.size(); at += block)
        for (std::byte& scale : std::span(bytes).subspan(at, 4))
            scale = scale == std::byte{0x7F} ? std::byte{} : scale & std::byte{0x7F};
    return bytes;
}

}  // namespace

TEST_SUITE("linear") {
    TEST_CASE("repack and its inverse keep every bit that counts" * test::needs_fixtures()) {
        for (const TensorTypeInfo& info : tensor_types())
            for (const Rows& rows : fixture_rows(info)) {
                CAPTURE(rows.name);
                const TensorType type = info.type;
                // Interleaved with a copy of itself, in planes with rows to spare.
                const uint32_t total = 2 * rows.rows + 1;
                std::vector<std::byte> planes(layout_bytes(type, total, rows.cols), std::byte{0x5A});
                for (const uint32_t part : {0u, 1u})
                    repack(type, total, rows.cols, rows.bytes, part, 2, planes);
                for (const uint32_t part : {0u, 1u}) {
                    std::vector<std::byte> back(rows.bytes.size());
                    unpack(type, total, rows.cols, planes, part, 2, back);
                    CHECK(back == as_kept(rows));
                }
            }
    }

    TEST_CASE("a shard uploaded in pieces is the shard repacked at once") {
        constexpr uint32_t rows = 41;
        for (const TensorTypeInfo& info : tensor_types()) {
            CAPTURE(info.name);
            const TensorType type = info.type;
            const uint32_t cols = 2 * std::max(info.block, 48u);
            const std::vector<std::byte> file = validate::random_blocks(type, rows, cols, 1);
            const size_t row_bytes = file.size() / rows;
            std::vector<std::byte> whole(layout_bytes(type, rows, cols)), pieces(whole.size());
            repack(type, rows, cols, file, 0, 1, whole);
            for (uint32_t first = 0; first < rows; first += weight_group_rows) {
                const uint32_t count = std::min(weight_group_rows, rows - first);
                std::vector<std::byte> piece(layout_bytes(type, count, cols));
                repack(type, count, cols, std::span(file).subspan(first * row_bytes, count * row_bytes), 0, 1,
                       piece);
                for (const PlaneCopy& copy : plane_copies(type, rows, cols, first, count)) {
                    REQUIRE(copy.from + copy.bytes <= piece.size());
                    REQUIRE(copy.to + copy.bytes <= pieces.size());
                    std::memcpy(&pieces[copy.to], &piece[copy.from], copy.bytes);
                }
            }
            CHECK(pieces == whole);
        }
    }

    TEST_CASE("reference dequantisation is the fixture's, bit for bit" * test::needs_fixtures()) {
        for (const TensorTypeInfo& info : tensor_types())
            for (const Rows& rows : fixture_rows(info)) {
                std::vector<float> values(rows.values.size());
                reference::dequantise(info.type, rows.bytes, values);
                check_bits(rows, values, false);
            }
    }

    TEST_CASE("dequantisation on the device is the fixture's, bit for bit" * test::needs_fixtures()) {
        vk::DeviceOptions options;
        options.select = test::variable("SCORIA_DEVICE");
        options.caps_profile = test::caps_profile();
        vk::Device device(options);
        vk::Pipelines pipelines(device);
        validate::CheckContext context(device, pipelines, validate::Tier::quick, 1);
        for (const TensorTypeInfo& info : tensor_types())
            for (const Rows& rows : fixture_rows(info)) {
                const auto table =
                    validate::check_weight(context, info.type, rows.rows, rows.cols, rows.bytes, 2);
                std::vector<uint32_t> step(STEP_TOKENS + rows.rows * STEP_TOKEN_WORDS);
                for (uint32_t t = 0; t < rows.rows; ++t)
                    step[STEP_TOKENS + t * STEP_TOKEN_WORDS + STEP_TOKEN_ID] = t;
                const vk::Buffer step_buffer = context.buffer_of<uint32_t>(step);
                const auto output = context.output(rows.rows * rows.cols);
                context.run([&](OpContext& op) {
                    record_embed(op, {table.device, step_buffer.view(), output.matrix(rows.rows, rows.cols)},
                                 embed_variants(op.caps).front());
                });
                std::string sentinel;
                check_bits(rows, context.download(output, sentinel), true);
                CHECK(sentinel.empty());
            }
    }

    TEST_CASE("GPUs look iq4's values up in shared memory, which CPU drivers compute") {
        test::Narrowed gpu(R"({"type": "discrete"})");
        const vk::Device& device = gpu.device;
        validate::CheckContext& context = gpu.context;
        REQUIRE(device.caps().looks_up_shared());
        const uint32_t rows = 48, cols = 512;
        const std::vector<float> x = validate::random_floats(cols, 2);
        const vk::Buffer x_buffer = context.buffer_of<float>(x);
        for (const TensorType type : {TensorType::iq4_nl, TensorType::iq4_xs}) {
            const auto weight = validate::check_weight(context, type, rows, cols,
                                                       validate::random_blocks(type, rows, cols, 3), rows);
            std::vector<double> expected(rows);
            reference::linear(std::vector<double>(x.begin(), x.end()), weight.reference(), {}, expected);
            for (const LinearVariant& variant :
                 linear_variants(device.caps(), {1, rows, cols, type, Precision::balanced})) {
                if (variant.shader != Shader::linear_vec_sg && variant.shader != Shader::linear_group)
                    continue;
                std::string sentinel;
                const std::vector<float> actual = context.run_twice(
                    rows,
                    [&](OpContext& op, const validate::CheckContext::Output& output) {
                        record_linear(op,
                                      {.x = {x_buffer.view(), 1, cols, cols, 0},
                                       .out = output.matrix(1, rows),
                                       .weight = weight.device},
                                      variant);
                    },
                    sentinel);
                context.compare("linear", variant.name, tensor_type_info(type).name, expected, actual, rows,
                                validate::linear_bounds(variant, type, 1, cols, false), sentinel);
            }
        }
        // Without subgroups there is no such kernel, and what there is computes them.
        const bool native = device.caps().native_subgroups() && device.caps().subgroup_ballot;
        CHECK((context.results().size() >= 4) == native);
        for (const validate::CheckResult& result : context.results())
            CHECK_MESSAGE(result.passed, cat(result.variant, ", ", result.shape, ": ", result.detail));
    }

    TEST_CASE("the default kernel suits the device") {
        vk::Caps cpu = gpu();
        cpu.type = vk::DeviceType::cpu;
        cpu.subgroup_size = cpu.subgroup_min = cpu.subgroup_max = 8;
        vk::Caps no_shuffle = cpu, no_int64 = cpu;
        cpu.subgroup_shuffle = no_int64.subgroup_shuffle = true;
        cpu.int64 = no_shuffle.int64 = true;
        cpu.uniform_scalars = true;
        vk::Caps floor = gpu();
        floor.subgroup_arithmetic = floor.subgroup_ballot = false;
        vk::Caps halves = gpu();
        halves.float16 = true;
        halves.vendor_id = vk::vendor_amd;
        vk::Caps intel = halves;
        intel.vendor_id = vk::vendor_intel;
        vk::Caps nvidia = nvidia_gpu();
        nvidia.int_dot = true;
        const struct {
            vk::Caps caps;
            uint32_t tokens;
            Shader expected, expected_fast;
        } cases[] = {
            {gpu(), 1, Shader::linear_vec_sg, Shader::linear_vec_sg},
            {gpu(), 8, Shader::linear_vec_sg, Shader::linear_vec_int},
            {gpu(), 9, Shader::linear_tile, Shader::linear_tile_int},
            {cpu, 1, Shader::linear_vec_sg_compact, Shader::linear_vec_sg_compact},
            {cpu, 128, Shader::linear_vec_sg_compact, Shader::linear_vec_sg_compact},
            {no_shuffle, 1, Shader::linear_vec_sg, Shader::linear_vec_sg},
            {no_int64, 1, Shader::linear_vec_sg, Shader::linear_vec_sg},
            {floor, 1, Shader::linear_vec, Shader::linear_vec},
            {floor, 9, Shader::linear_tile, Shader::linear_tile},
            {halves, 9, Shader::linear_tile, Shader::linear_tile_half},
            {halves, 8, Shader::linear_vec_sg, Shader::linear_vec_sg},
            {intel, 8, Shader::linear_vec_sg, Shader::linear_vec_sg},
            {intel, 9, Shader::linear_tile, Shader::linear_tile},
            {nvidia, 1, Shader::linear_group, Shader::linear_group_int},
            {nvidia, 8, Shader::linear_group, Shader::linear_group_int},
            {nvidia_gpu(), 8, Shader::linear_group, Shader::linear_group},
        };
        for (auto c : cases) {
            c.caps.int_dot = c.caps.int_dot_fast =
                c.caps.int_dot || (c.expected != c.expected_fast && !c.caps.float16) || c.caps.is_cpu();
            const LinearShape fast{c.tokens, 576, 576, TensorType::q4_1, Precision::fast};
            CHECK(linear_variants(c.caps, fast).front().shader == c.expected_fast);
            const auto variants = linear_variants(c.caps, {c.tokens, 576, 576, TensorType::q4_1});
            REQUIRE_FALSE(variants.empty());
            CHECK(variants.front().shader == c.expected);
            for (const LinearVariant& variant : variants) {
                CAPTURE(variant.name);
                CHECK(variant.workgroup <= c.caps.max_invocations);
                if (!c.caps.subgroup_ballot) CHECK(variant.shader != Shader::linear_vec_sg);
            }
        }
    }

    TEST_CASE("codes that are whole numbers are multiplied as such where that is fast") {
        vk::Caps nvidia = nvidia_gpu(), other = gpu();
        nvidia.int_dot = nvidia.int_dot_fast = other.int_dot = other.int_dot_fast = true;
        vk::Caps amd = nvidia;
        amd.vendor_id = vk::vendor_amd;
        const auto chosen = [](const vk::Caps& caps, uint32_t tokens, TensorType type, Precision precision) {
            return linear_variants(caps, {tokens, 576, 512, type, precision}).front().shader;
        };
        using enum TensorType;
        for (const TensorTypeInfo& info : tensor_types()) {
            CAPTURE(info.name);
            constexpr TensorType floats[] = {f32, f16, bf16, f8_e4m3, mxfp4, nvfp4, nvfp4_s, iq4_nl, iq4_xs};
            const bool whole = std::ranges::find(floats, info.type) == std::end(floats);
            CHECK((chosen(nvidia, 1, info.type, Precision::fast) == Shader::linear_group_int) == whole);
            CHECK((chosen(nvidia, 1, info.type, Precision::balanced) == Shader::linear_group_wide) == whole);
            CHECK((chosen(other, 8, info.type, Precision::fast) == Shader::linear_vec_int) == whole);
            CHECK(chosen(other, 8, info.type, Precision::balanced) == Shader::linear_vec_sg);
            // Points of grids, which lanes would be longer at than memory.
            const bool grid = quant_grid(info.type) != nullptr;
            CHECK((chosen(amd, 1, info.type, Precision::fast) == Shader::linear_group_int) == grid);
            CHECK((chosen(amd, 1, info.type, Precision::balanced) == Shader::linear_group_wide) == grid);
            CHECK((chosen(amd, 8, info.type, Precision::fast) == Shader::linear_vec_int) == whole);
            CHECK(chosen(amd, 1, info.type, Precision::strict) == Shader::linear_vec_sg);
        }
    }

    TEST_CASE("GPUs end heads where they make few tokens of them and only those that "
              "need a pair of rows") {
        vk::Caps nvidia = nvidia_gpu();
        nvidia.cores = 60;
        constexpr RopeShape whole{128, 128, RopePairs::interleaved, KvType::f16};
        const auto changed = [&](auto change) {
            RopeShape rope = whole;
            change(rope);
            return rope;
        };
        const struct {
            vk::Caps caps;
            uint32_t tokens;
            RopeShape rope;
            bool ends;
        } cases[] = {
            {gpu(), 1, whole, true},
            {nvidia_gpu(), 1, whole, true},
            {nvidia_gpu(), 8, whole, true},
            {nvidia_gpu(), 16, whole, true},
            {nvidia, 512, whole, false},
            {gpu(), 512, whole, false},
            {compact_cpu(), 1, whole, false},
            {gpu(), 1, changed([](RopeShape& r) { r.pairs = RopePairs::halves; }), false},
            {gpu(), 1, changed([](RopeShape& r) { r.pairs = RopePairs::halves, r.width = 0; }), true},
            {gpu(), 1, changed([](RopeShape& r) { r.type = KvType::q8_0; }), false},
            {gpu(), 1, changed([](RopeShape& r) { r.type = KvType::f32; }), true},
            {gpu(), 1, changed([](RopeShape& r) { r.shards = 2; }), false},
            {gpu(), 1, changed([](RopeShape& r) { r.head_dim = 63; }), false},
        };
        for (const auto& c : cases) {
            const auto variants =
                linear_variants(c.caps, {c.tokens, 6144, 4096, TensorType::q4_1, Precision::balanced});
            CHECK(ends_heads(variants.front(), c.rope) == c.ends);
        }
    }

    TEST_CASE("points of a grid lie in a uniform buffer where a CPU driver takes it") {
        vk::Caps cpu = compact_cpu();
        for (const bool uniforms : {false, true})
            for (const TensorType type : {TensorType::iq2_s, TensorType::iq3_xxs, TensorType::iq1_m}) {
                cpu.uniform_scalars = uniforms;
                CHECK(linear_variants(cpu, {1, 576, 512, type}).front().shader ==
                      (uniforms ? Shader::linear_vec_sg_grid : Shader::linear_vec_sg_compact));
            }
    }

    TEST_CASE("words are fetched as texels where a CPU driver takes that and it pays") {
        vk::Caps cpu = compact_cpu();
        cpu.uniform_scalars = true;
        const struct {
            TensorType type;
            uint32_t lane_tokens[3];  // of 1, 2 and 20 tokens; 0: not by texels
            Shader otherwise = Shader::linear_vec_sg_compact;
        } rows[] = {{TensorType::q8_0, {1, 2, 8}},
                    {TensorType::q3_k, {1, 2, 8}},
                    {TensorType::q4_1, {1, 2, 8}},
                    {TensorType::f16, {1, 2, 8}},
                    {TensorType::iq2_s, {0, 0, 8}, Shader::linear_vec_sg_grid}};
        for (const bool texels : {false, true})
            for (const auto& row : rows)
                for (size_t i = 0; i < 3; ++i) {
                    cpu.texel_words = texels;
                    const uint32_t tokens[] = {1, 2, 20};
                    const LinearVariant first = linear_variants(cpu, {tokens[i], 576, 512, row.type}).front();
                    const bool fetches = texels && row.lane_tokens[i] != 0;
                    CAPTURE(first.name);
                    CHECK(first.shader == (fetches ? Shader::linear_vec_sg_texels : row.otherwise));
                    if (fetches) CHECK(first.lane_tokens == row.lane_tokens[i]);
                }
        // Three columns of x are less than a texel.
        CHECK(linear_variants(cpu, {1, 576, 3, TensorType::f32}).front().shader ==
              Shader::linear_vec_sg_compact);
    }

    TEST_CASE("few rows make many subgroups, which share out the columns") {
        const auto parts = [](const vk::Caps& caps, uint32_t rows, uint32_t cols) {
            return linear_variants(caps, {1, rows, cols, TensorType::q4_k}).front().parts;
        };
        vk::Caps large = gpu();
        large.max_invocations = large.max_workgroup_x = 1024;
        large.shared_memory = 32768;
        CHECK(parts(large, 4096, 4096) == 16);
        CHECK(parts(large, 28672, 4096) == 8);
        CHECK(parts(large, 128256, 4096) == 2);
        CHECK(parts(large, 4096, 256) == 2);  // of four cells
        vk::Caps small = large;
        small.type = vk::DeviceType::integrated;
        CHECK(parts(small, 4096, 4096) == 8);
        CHECK(parts(small, 128256, 4096) == 1);
        small.max_invocations = 128;
        CHECK(parts(small, 4096, 4096) == 4);
        // Where a broadcast is a shuffle, a subgroup has 16 rows, and a cell for each four lanes.
        CHECK(parts(nvidia_gpu(), 4096, 4096) == 16);
        CHECK(parts(nvidia_gpu(), 28672, 4096) == 8);
        CHECK(parts(nvidia_gpu(), 4096, 512) == 2);
    }

    TEST_CASE("matrices of any size are offered beside the units' shape, and only as large as they may be") {
        if (shader_module(Shader::linear_coop2).words.empty()) return;
        vk::Caps coarse = nvidia_gpu(), full = nvidia_gpu(), small = nvidia_gpu(), none = nvidia_gpu();
        for (vk::MatrixGrain& grain : coarse.matrix_grains) grain.k = 64;
        full.matrix_reserved = 49152;
        small.matrix_most = 32;
        none.cooperative_matrix2 = false;
        const struct {
            vk::Caps caps;
            uint32_t tokens;
            Shader expected;
            bool whole, offered;
        } cases[] = {
            {nvidia_gpu(), 512, Shader::linear_coop2, true, true},
            {nvidia_gpu(), 64, Shader::linear_coop2, true, true},
            {nvidia_gpu(), 16, Shader::linear_coop2, true, true},
            {nvidia_gpu(), 8, Shader::linear_group, true, true},
            {full, 512, Shader::linear_coop, false, true},
            {small, 512, Shader::linear_coop2, true, true},
            {coarse, 512, Shader::linear_coop, false, false},
            {none, 512, Shader::linear_coop, false, false},
        };
        for (const auto& c : cases) {
            CAPTURE(c.tokens);
            const LinearShape shape{c.tokens, 4096, 4096, TensorType::q4_1, Precision::balanced};
            const auto variants = linear_variants(c.caps, shape);
            CHECK(variants.front().shader == c.expected);
            bool offered = false, whole = false;
            for (const LinearVariant& v : variants) {
                if (v.shader != Shader::linear_coop2) continue;
                CAPTURE(v.name);
                offered = true;
                whole = whole || v.whole;
                CHECK(names_variant(cat(v.deep() ? "coop2_deep" : "coop2", v.splits == 1 ? "" : "_split"),
                                    v.name));
                CHECK(v.operands() == LinearVariant::Operands::halves);
                const auto grain = std::ranges::find(c.caps.matrix_grains, v.whole ? v.workgroup : 0,
                                                     &vk::MatrixGrain::invocations);
                REQUIRE(grain != c.caps.matrix_grains.end());
                CHECK(v.part_rows / 2 % grain->m == 0);
                CHECK(v.part_tokens % grain->n == 0);
                CHECK(std::max(v.part_rows / 2, v.part_tokens) <= c.caps.matrix_most);
                const uint32_t parts = v.parts * (v.rows / v.part_rows) * (v.tokens / v.part_tokens);
                if (v.deep()) CHECK(parts == v.parts);
                CHECK(v.workgroup == (v.whole ? grain->invocations : parts * c.caps.matrix_subgroup));
            }
            CHECK(offered == c.offered);
            CHECK(whole == c.whole);
            for (const LinearVariant& v : linear_variants(c.caps, {c.tokens, 4096, 4096, TensorType::q4_1}))
                CHECK(v.shader != Shader::linear_coop2);
        }
    }

    TEST_CASE("what an H200 was fastest by is its default") {
        if (shader_module(Shader::linear_coop2).words.empty()) return;
        vk::Caps h200 = nvidia_gpu();
        h200.cores = 132;
        h200.int_dot = h200.int_dot_fast = true;
        h200.matrix_grains = {
            {32, 32, 16, 256}, {32, 16, 16, 128}, {16, 16, 16, 64}, {16, 16, 16, 32}, {16, 16, 16, 0}};
        h200.matrix_reserved = 8192;
        const struct {
            uint32_t tokens, rows, cols;
            const char* name;
            Precision precision = Precision::balanced;
        } cases[] = {{512, 28672, 4096, "coop2 128x128 by 128"},
                     {512, 4096, 14336, "coop2_split 128x128 by 128 splits 2"},
                     {512, 4096, 4096, "coop2_split 128x128 by 128 splits 2"},
                     {512, 6144, 4096, "coop2 128x64 by 128"},
                     {64, 28672, 4096, "coop2 128x64 by 256"},
                     {8, 28672, 4096, "group_wide 32 tokens 4 parts 2"},
                     {8, 4096, 14336, "group_wide 32 tokens 4 parts 4"},
                     {1, 28672, 4096, "group_wide 32 tokens 1 parts 4"},
                     {1, 6144, 4096, "group_wide 32 tokens 1 parts 8"},
                     {1, 4096, 4096, "group_wide 32 tokens 1 parts 8"},
                     {8, 28672, 4096, "group 32 tokens 4 parts 2", Precision::strict},
                     {1, 28672, 4096, "group 32 tokens 1 parts 8", Precision::strict},
                     {1, 4096, 4096, "group 32 tokens 1 parts 16", Precision::strict}};
        for (const auto& c : cases)
            CHECK(linear_variants(h200, {c.tokens, c.rows, c.cols, TensorType::q4_k, c.precision})
                      .front()
                      .name == c.name);
    }

    TEST_CASE("nine to thirty-two tokens take tiles of a subgroup each, whose columns several share out") {
        if (shader_module(Shader::linear_coop2).words.empty()) return;
        vk::Caps nvidia = nvidia_gpu(), no_any_size = nvidia_gpu(), small = nvidia_gpu(),
                 intel = nvidia_gpu(), cpu = nvidia_gpu();
        nvidia.cores = 132;
        no_any_size.cooperative_matrix2 = false;
        small.shared_memory = 16384;
        intel.vendor_id = vk::vendor_intel;  // whose registers hold less
        intel.matrix_subgroup = 16;
        intel.cooperative_matrix2 = false;
        cpu.type = vk::DeviceType::cpu;
        const struct {
            vk::Caps caps;
            uint32_t tokens, rows, cols;
            const char* name;
        } cases[] = {{nvidia, 16, 28672, 4096, "coop2_deep 64x16 parts 4"},
                     {nvidia, 9, 4096, 14336, "coop2_deep 32x16 parts 8"},
                     {nvidia, 32, 6144, 4096, "coop2_deep 32x32 parts 4"},
                     {nvidia, 32, 4096, 14336, "coop2_deep 32x16 parts 8"},
                     {nvidia, 32, 28672, 4096, "coop2_deep 64x32 parts 4"},
                     {nvidia, 33, 28672, 4096, "coop2 128x64 by 256"},
                     {nvidia, 16, 576, 576, "coop2_deep_split 32x16 parts 4 splits 2"},
                     {no_any_size, 16, 28672, 4096, "coop_deep 64x16 parts 4"},
                     {small, 16, 28672, 4096, "coop2_deep 32x16 parts 4"},
                     {intel, 16, 28672, 4096, "coop 64x32 of 16x16"},
                     {cpu, 16, 28672, 4096, "vec_sg 32 tokens 4 pairs 1 parts 1"}};
        for (const auto& c : cases) {
            const LinearShape shape{c.tokens, c.rows, c.cols, TensorType::q4_k, Precision::balanced};
            CHECK(linear_variants(c.caps, shape).front().name == c.name);
        }
    }

    TEST_CASE("columns are split where tiles are too few for the device, and no part is empty") {
        const vk::DeviceType large = vk::DeviceType::discrete, small = vk::DeviceType::integrated;
        const struct {
            vk::DeviceType type;
            uint32_t tokens, rows, cols, splits;
            uint32_t cores = 0;
        } cases[] = {{large, 64, 1024, 8192, 7, 60},  // two workgroups a core
                     {small, 512, 4096, 4096, 1, 60}, {large, 64, 64, 1024, 4, 60},
                     {large, 32, 576, 576, 2},        {small, 32, 4096, 4096, 1},
                     {small, 32, 576, 1312, 3},       {large, 512, 4096, 4096, 1},
                     {large, 64, 1024, 8192, 8},      {large, 64, 576, 1312, 5},
                     {large, 9, 64, 64, 1},           {large, 8, 576, 576, 1},
                     {large, 64, 64, 40960, 128},     {vk::DeviceType::cpu, 32, 576, 576, 1}};
        for (const auto& c : cases) {
            CAPTURE(c.rows);
            CAPTURE(c.cols);
            vk::Caps caps = gpu();
            caps.type = c.type;
            caps.cores = c.cores;
            const LinearShape shape{c.tokens, c.rows, c.cols, TensorType::q4_1};
            CHECK(linear_variants(caps, shape).front().splits == c.splits);
            Choices choices;
            choices.pinned = true;
            CHECK(choices.linear(caps, shape).splits == 1);
            uint32_t split = 0;
            for (const LinearVariant& variant : linear_variants(caps, shape)) {
                CAPTURE(variant.name);
                if (variant.splits == 1) continue;
                ++split;
                CHECK(names_variant("tile_split", variant.name));
                const uint32_t blocks = (c.cols + 31) / 32,
                               each = (blocks + variant.splits - 1) / variant.splits;
                CHECK((variant.splits - 1) * each < blocks);
                CHECK(linear_scratch_bytes(variant, c.tokens, c.rows, c.cols) ==
                      4ull * variant.splits * c.tokens * c.rows);
            }
            CHECK(split == 1);  // of two blocks at least
        }
    }

    TEST_CASE("what is worth timing is the variants first, each by a name of its own") {
        vk::Caps cpu = gpu();
        cpu.type = vk::DeviceType::cpu;
        vk::Caps poor = gpu();
        poor.max_invocations = poor.max_workgroup_x = 128;
        for (const vk::Caps& caps : {gpu(), cpu, poor})
            for (const uint32_t tokens : {1u, 3u, 8u, 512u}) {
                const LinearShape shape{tokens, 576, 576, TensorType::q4_1};
                const auto variants = linear_variants(caps, shape), all = linear_candidates(caps, shape);
                CHECK(all.size() > variants.size());
                CHECK(all.front().name == variants.front().name);
                for (const LinearVariant& each : all) {
                    CAPTURE(each.name);
                    CHECK(std::ranges::count(all, each.name, &LinearVariant::name) == 1);
                    CHECK(each.workgroup <= caps.max_invocations);
                    CHECK(each.lane_tokens <= std::max(8u, std::bit_ceil(tokens)));
                    if (each.parts) CHECK(each.workgroup % (each.parts * each.subgroup) == 0);
                }
            }
    }
}
