// Quantised Hugging Face folders: numbers and their scales in tensors of their own.
#include "hf_scales.h"

#include "fail.h"
#include "half.h"
#include "held_floats.h"
#include "hf_builder.h"
#include "hf_folder.h"
#include "model.h"
#include "weight_check.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

using namespace scoria;
using namespace scoria::test;

namespace {

const std::string up = "model.layers.0.mlp.up_proj.weight";  // [12, 8] of tiny_hf_llama
constexpr char e4m3[] = {0x38, 0x40, 0x3C, char(0xB8)};      // 1, 2, 1.5, -1
constexpr float e4m3_values[] = {1, 2, 1.5f, -1};

std::string floats(std::initializer_list<float> values) {
    return {reinterpret_cast<const char*>(std::data(values)), values.size() * sizeof(float)};
}

/// A llama whose up is of 8-bit floats, with `scales` of them.
HfFolder with_floats(const std::string& ending, HfFolder::Tensor scales,
                     nlohmann::json config = {{"quant_method", "fp8"}}) {
    HfFolder folder = tiny_hf_llama();
    folder.config["quantization_config"] = std::move(config);
    folder.tensors[up] = {"F8_E4M3", {12, 8}, {}};
    for (size_t i = 0; i < 96; ++i) folder.tensors[up].bytes += e4m3[i % 4];
    folder.tensors[up + ending] = std::move(scales);
    return folder;
}

/// Its up beside what `scale` says of each element.
template <class Scale> void check_floats(const HfFolder& folder, const Scale& scale) {
    const TemporaryFolder on_disk(folder);
    const Model model = open_model(on_disk.path());
    CHECK(model.unused.empty());
    CHECK(model.weights.at({Role::up, 0}).type == TensorType::bf16);
    const std::vector<float> values = floats_of(model, {Role::up, 0});
    for (size_t r = 0; r < 12; ++r)
        for (size_t c = 0; c < 8; ++c) CHECK(values[r * 8 + c] == e4m3_values[c % 4] * scale(r, c));
}

/// A llama of `cols` columns whose up is of integers by a scale for each row, 1/4, 1/2, ...
HfFolder with_integers(uint32_t cols, const char* type, std::string bytes, const char* format) {
    HfFolder folder = tiny_hf_llama();
    folder.config["hidden_size"] = cols;
    folder.config["head_dim"] = 4;
    folder.config["quantization_config"] = {{"quant_method", "compressed-tensors"}, {"format", format}};
    for (auto& [name, tensor] : folder.tensors)
        if (tensor.shape.back() == 8 || name.ends_with("o_proj.weight") ||
            name.ends_with("down_proj.weight")) {
            std::vector<uint64_t> shape = tensor.shape;
            for (uint64_t& size : shape)
                if (size == 8) size = cols;
            if (name.ends_with("q_proj.weight")) shape = {8, cols};
            if (name.ends_with("o_proj.weight")) shape = {cols, 8};
            folder.add(name, shape);
        }
    folder.tensors[up] = {type, {12, cols}, std::move(bytes)};
    folder.tensors[up + "_scale"] = {"F32", {12, 1}, {}};
    for (int i = 0; i < 12; ++i) folder.tensors[up + "_scale"].bytes += floats({std::ldexp(0.25f, i)});
    return folder;
}

/// A tensor x of 8 rows and 32 columns in one group, whose zeros are `zeros` and whose scales are 1/4, 1/2,
/// ...
HfFolder by_columns(const char* method, HfFolder::Tensor words, std::string zeros) {
    HfFolder folder = tiny_hf_llama();
    folder.config["quantization_config"] = {{"quant_method", method}, {"bits", 4}};
    folder.tensors["x.qweight"] = std::move(words);
    folder.tensors["x.qzeros"] = {"I32", {1, 1}, std::move(zeros)};
    folder.tensors["x.scales"] = {"F32", {1, 8}, {}};
    for (int i = 0; i < 8; ++i) folder.tensors["x.scales"].bytes += floats({std::ldexp(0.25f, i)});
    return folder;
}

/// Tensors of a file, joined.
struct Joined {
    GatheredTensors source;
    std::vector<StoredTensor> tensors;
};

Joined joined(const TemporaryFolder& folder, const char* method) {
    const std::string path = (folder.path() / "model.safetensors").string();
    std::vector<File> files;
    files.emplace_back(path);
    Joined made{GatheredTensors(std::move(files)), {}};
    const Safetensors stored(path);
    for (const auto& [name, array] : stored.arrays()) made.tensors.push_back(stored_tensor(name, array, 0));
    const Settings config(Settings::Format::hugging_face, "config.json", "",
                          {{"quantization_config", {{"quant_method", method}, {"bits", 4}}}});
    made.source.set_scales(join_scales(config, made.tensors, made.source));
    return made;
}

/// Bytes of rows first, first + stride, ... of a joined tensor, as blocks of its type.
std::vector<uint8_t> rows_of(Joined& from, const StoredTensor& tensor, uint64_t first, uint64_t stride,
                             uint32_t rows) {
    const auto cols = static_cast<uint32_t>(tensor.shape.back());
    Strip strip{first * cols, stride * cols, 1, rows, tensor.file, tensor.offset, tensor.scales};
    GatherRecipe recipe{cols, tensor.type, tensor.decode, tensor.type};
    recipe.strips = {strip};
    from.source.set_recipes({recipe});
    const TensorView view{tensor.name, tensor.type, rows, cols, 0, 0, 0};
    std::vector<uint8_t> bytes(view.bytes());
    from.source.read(view, 0, std::as_writable_bytes(std::span(bytes)));
    return bytes;
}

}  // namespace

TEST_CASE("scales and zeros are held in as few bytes as tell them") {
    const float infinity = std::numeric_limits<float>::infinity();
    struct Case {
        std::vector<float> values;
        size_t bytes;
    };
    const Case cases[] = {
        {{}, 0},
        {{0, 8, 255}, 3},
        {{0, 8, 256}, 6},
        {{-1, 0x1.8p-24f, 0x1.004p0f}, 12},             // one is no half, one no BF16
        {{-1, 3 * 0x1p-24f, 65504, -0.0f}, 8},          // F16
        {{0x1p-30f, 0x1.02p100f, infinity, -0.0f}, 8},  // BF16
        {{0x1p-30f, 0.1f}, 8},
    };
    for (const auto& [values, bytes] : cases) {
        const HeldFloats held(values);
        CHECK(held.held_bytes() == bytes);
        CHECK(held.empty() == values.empty());
        for (size_t i = 0; i < values.size(); ++i)
            CHECK(std::bit_cast<uint32_t>(held[i]) == std::bit_cast<uint32_t>(values[i]));
    }
    CHECK(std::isnan(HeldFloats(std::vector{1.0f, std::nanf("")})[1]));
}

TEST_CASE("8-bit floats by one scale, by one of each row, and by one of each block") {
    check_floats(with_floats("_scale_inv", {"F32", {}, floats({0.5f})}), [](size_t, size_t) { return 0.5f; });
    check_floats(with_floats("_scale", {"BF16", {1}, std::string("\x80\x3E", 2)}),  // 0.25
                 [](size_t, size_t) { return 0.25f; });
    HfFolder::Tensor rows{"F32", {12, 1}, {}};
    for (int i = 0; i < 12; ++i) rows.bytes += floats({std::ldexp(1.0f, i - 6)});
    const nlohmann::json rowwise = {{"quant_method", "compressed-tensors"}, {"format", "float-quantized"}};
    const auto by_row = [](size_t r, size_t) { return std::ldexp(1.0f, int(r) - 6); };
    check_floats(with_floats("_scale", rows, rowwise), by_row);
    rows.shape = {12};
    check_floats(with_floats("_scale", rows, rowwise), by_row);
    const nlohmann::json blocks = {{"quant_method", "fp8"}, {"weight_block_size", {5, 3}}};
    HfFolder::Tensor scales{"F32", {3, 3}, {}};
    for (int i = 0; i < 9; ++i) scales.bytes += floats({std::ldexp(1.0f, i)});
    HfFolder folder = with_floats("_scale_inv", scales, blocks);
    folder.add("model.layers.0.mlp.up_proj.activation_scale", {1});
    check_floats(folder, [](size_t r, size_t c) { return std::ldexp(1.0f, int(r / 5 * 3 + c / 3)); });
}

TEST_CASE("products of 8-bit floats and scales are rounded to the nearest BF16") {
    const HfFolder folder = with_floats("_scale", {"F32", {}, floats({1.00390625f + 0x1p-20f})});
    const TemporaryFolder on_disk(folder);
    const std::vector<float> values = floats_of(open_model(on_disk.path()), {Role::up, 0});
    CHECK(values[0] == 1.0078125f);  // more than halfway from 1
    CHECK(values[3] == -1.0078125f);
}

TEST_CASE("8-bit floats whose scales cover whole blocks of 32 stay what they are") {
    struct Case {
        float scale;  // of all
        char code;    // of the first weight
        bool blocks;
    };
    const Case cases[] = {{0.5f, 0x38, true}, {0x1p-22f, 0x38, true},  {255, 0x38, true},
                          {0, 0x38, true},    {0x1p-23f, 0x38, false}, {300, 0x38, false},
                          {1, 0x7F, true},    {1, char(0xFF), true}};
    for (const Case& c : cases) {
        CAPTURE(c.scale);
        HfFolder folder = with_integers(32, "F8_E4M3", std::string(12 * 32, 0x40), "float-quantized");
        folder.tensors[up].bytes[0] = c.code;
        folder.tensors[up + "_scale"] = {"F32", {1}, floats({c.scale})};
        const TemporaryFolder on_disk(folder);
        for (const Floats8 floats8 : {Floats8::blocks, Floats8::bf16}) {
            const Model model = open_model(on_disk.path(), Reads::positioned, floats8);
            const bool blocks = c.blocks && floats8 == Floats8::blocks;
            const TensorView& view = model.weights.at({Role::up, 0});
            CHECK(view.type == (blocks ? TensorType::f8_e4m3 : TensorType::bf16));
            if (!blocks) continue;
            std::vector<std::byte> bytes(view.bytes());
            model.tensors->read(view, 0, bytes);
            for (size_t r = 0; r < 12; ++r) {
                const auto* block = reinterpret_cast<const uint8_t*>(bytes.data()) + 34 * r;
                const bool nan = r == 0 && c.code != 0x38;
                CHECK((block[0] | block[1] << 8) == (nan ? 0x7E00 : to_half(256 * c.scale)));
                CHECK(block[2] == uint8_t(r == 0 ? c.code : 0x40));
                CHECK(block[33] == 0x40);
            }
        }
    }
}

TEST_CASE("8-bit floats that are turned about become BF16") {
    HfFolder folder;
    folder.config = {{"model_type", "gpt2"}, {"vocab_size", 16},
                     {"n_embd", 32},         {"layer_norm_epsilon", 1e-5},
                     {"n_layer", 1},         {"n_head", 2},
                     {"n_positions", 32},    {"quantization_config", {{"quant_method", "fp8"}}}};
    folder.add("transformer.wte.weight", {16, 32});
    folder.add("transformer.wpe.weight", {32, 32});
    const std::string layer = "transformer.h.0.";
    for (const char* norm : {"transformer.ln_f", "transformer.h.0.ln_1", "transformer.h.0.ln_2"})
        for (const char* part : {".weight", ".bias"}) folder.add(cat(norm, part), {32});
    const std::pair<const char*, std::pair<uint64_t, uint64_t>> linears[] = {{"attn.c_attn", {32, 96}},
                                                                             {"attn.c_proj", {32, 32}},
                                                                             {"mlp.c_fc", {32, 128}},
                                                                             {"mlp.c_proj", {128, 32}}};
    for (const auto& [name, shape] : linears) {
        const std::string weight = cat(layer, name, ".weight");
        folder.tensors[weight] = {"F8_E4M3", {shape.first, shape.second}, {}};
        for (uint64_t i = 0; i < shape.first * shape.second; ++i)
            folder.tensors[weight].bytes += e4m3[i / shape.second % 4];
        folder.tensors[weight + "_scale_inv"] = {"F32", {}, floats({0.5f})};
        folder.add(cat(layer, name, ".bias"), {shape.second});
    }
    const TemporaryFolder on_disk(folder);
    const Model model = open_model(on_disk.path());
    CHECK(model.weights.at({Role::up, 0}).type == TensorType::bf16);
    const std::vector<float> values = floats_of(model, {Role::up, 0});
    for (size_t i = 0; i < values.size(); ++i) CHECK(values[i] == e4m3_values[i % 4] / 2);
}

TEST_CASE("MXFP4 of pairs and exponents, rows of gates and ups by turns") {
    HfFolder folder;  // 2 experts, 4 rows, 64 columns
    HfFolder::Tensor blocks{"U8", {2, 4, 2, 16}, {}}, scales{"U8", {2, 4, 2}, {}};
    for (int i = 0; i < 2 * 4 * 2 * 16; ++i) blocks.bytes += char(i * 37 + i / 16);
    for (int i = 0; i < 16; ++i) scales.bytes += char(120 + i);
    folder.tensors = {{"x_blocks", blocks}, {"x_scales", scales}};
    const TemporaryFolder on_disk(folder);
    Joined from = joined(on_disk, "mxfp4");
    REQUIRE(from.tensors.size() == 1);
    CHECK(from.tensors[0].shape == std::vector<uint64_t>{2, 4, 64});
    CHECK(from.tensors[0].type == TensorType::mxfp4);
    const std::vector<uint8_t> bytes = rows_of(from, from.tensors[0], 5, 2, 2);  // ups of the second expert
    REQUIRE(bytes.size() == size_t{2} * 2 * 17);
    for (size_t b = 0; b < 4; ++b) {
        const size_t stored = (b < 2 ? 5 : 7) * 2 + b % 2;
        CHECK(bytes[b * 17] == 120 + stored);
        for (size_t i = 0; i < 32; ++i) {
            const auto pair = static_cast<uint8_t>(blocks.bytes[stored * 16 + i / 2]);
            CHECK((bytes[b * 17 + 1 + i % 16] >> (i / 16 * 4) & 15) == (pair >> (i % 2 * 4) & 15));
        }
    }
}

TEST_CASE("NVFP4 keeps its codes and scales where rows are multiples of 64") {
    constexpr std::string_view scales("\x38\xB8\x01\x7E", 4);  // 1, -1, 2^-9, 448
    for (const bool packed : {true, false})
        for (const uint32_t cols : {64, 80}) {
            HfFolder folder = with_integers(cols, "U8", {}, "nvfp4-pack-quantized");
            if (!packed)
                folder.config["quantization_config"] = {{"quant_method", "modelopt"},
                                                        {"quant_algo", "NVFP4"}};
            folder.tensors.erase(up);
            HfFolder::Tensor& codes =
                folder.tensors[up + (packed ? "_packed" : "")] = {"U8", {12, cols / 2}, {}};
            for (uint32_t i = 0; i < 12 * cols / 2; ++i) codes.bytes += char(i * 37 + 1);
            HfFolder::Tensor& each = folder.tensors[up + "_scale"] = {"F8_E4M3", {12, cols / 16}, {}};
            for (uint32_t i = 0; i < 12 * cols / 16; ++i) each.bytes += scales[i % 4];
            if (cols == 64) each.bytes[4 * 5] = 0x7F;  // NaN
            folder.tensors[up + (packed ? "_global_scale" : "_scale_2")] = {"F32", {1}, floats({3})};
            const float factor = packed ? 1 / 3.0f : 3;
            const TemporaryFolder on_disk(folder);
            CHECK(
                open_model(on_disk.path(), Reads::positioned, Floats8::bf16).weights.at({Role::up, 0}).type ==
                TensorType::bf16);
            const Model model = open_model(on_disk.path());
            const TensorView& view = model.weights.at({Role::up, 0});
            CHECK(view.type == (cols == 64 ? TensorType::nvfp4_s : TensorType::bf16));
            if (cols != 64) continue;
            std::vector<std::byte> bytes(view.bytes());
            model.tensors->read(view, 0, bytes);
            for (size_t r = 0; r < 12; ++r) {
                const auto* block = reinterpret_cast<const uint8_t*>(bytes.data()) + 40 * r;
                float read = 0;
                std::memcpy(&read, block, sizeof read);
                CHECK((r == 5 ? std::isnan(read) : read == factor));
                if (r != 5) CHECK(std::memcmp(block + 4, "\x38\x38\x01\x7E", 4) == 0);
                for (size_t i = 0; i < 64; ++i) {
                    const int stored = uint8_t(codes.bytes[32 * r + i / 2]) >> (i % 2 * 4) & 15;
                    const int turned = i / 16 == 1 ? 8 : 0;  // the scale's sign
                    CHECK((block[8 + i / 16 * 8 + i % 8] >> (i % 16 / 8 * 4) & 15) == (stored ^ turned));
                }
            }
        }
}

TEST_CASE("integers by a scale of each row become Q8_0, or of 4 bits Q4_0") {
    std::string bytes;
    for (int i = 0; i < 12 * 32; ++i) bytes += char(i * 7);
    const auto blocks_of = [](const HfFolder& folder) {
        const TemporaryFolder on_disk(folder);
        const Model model = open_model(on_disk.path());
        CHECK(model.unused.empty());
        const TensorView& view = model.weights.at({Role::up, 0});
        std::vector<std::byte> blocks(view.bytes());
        model.tensors->read(view, 0, blocks);
        return std::pair(view.type, blocks);
    };
    HfFolder packed = with_integers(32, "I32", {}, "pack-quantized");
    packed.tensors.erase(up);
    const std::string shape("\x0c\0\0\0\0\0\0\0\x20\0\0\0\0\0\0\0", 16);
    packed.tensors[up + "_shape"] = {"I64", {2}, shape};
    packed.tensors[up + "_packed"] = {"I32", {12, 8}, bytes};
    for (const bool words : {false, true}) {
        const auto [type, blocks] =
            blocks_of(words ? packed : with_integers(32, "I8", bytes, "int-quantized"));
        CHECK(type == TensorType::q8_0);
        for (size_t r = 0; r < 12; ++r) {
            uint16_t half = 0;
            std::memcpy(&half, &blocks[r * 34], 2);
            CHECK(half == to_half(std::ldexp(0.25f, int(r))));
            for (size_t c = 0; c < 32; ++c)
                CHECK(int8_t(blocks[r * 34 + 2 + c]) == int8_t(bytes[r * 32 + c] - (words ? 128 : 0)));
        }
    }
    packed.tensors[up + "_packed"] = {"I32", {12, 4}, bytes.substr(0, 12 * 16)};
    const auto [type, blocks] = blocks_of(packed);
    CHECK(type == TensorType::q4_0);
    for (size_t i = 0; i < 12 * 32; ++i) {
        const size_t c = i % 32;
        const int number = uint8_t(bytes[i / 2]) >> (i % 2 * 4) & 15;
        CHECK((int(blocks[i / 32 * 18 + 2 + c % 16]) >> (c / 16 * 4) & 15) == number);
    }
}

TEST_CASE("numbers by columns, as GPTQ and AWQ pack them") {
    const size_t awq_order[] = {0, 2, 4, 6, 1, 3, 5, 7};  // of rows in a word, from its lowest bits on
    for (const bool awq : {false, true})
        for (const bool symmetric : {false, true}) {
            CAPTURE(awq);
            CAPTURE(symmetric);
            uint8_t numbers[8][32], zeros[8];
            std::string words(128, 0), of_zeros(4, 0);
            const auto put = [](std::string& to, size_t place, int number) {
                to[place / 2] = char(to[place / 2] | number << (place % 2 * 4));
            };
            for (size_t r = 0; r < 8; ++r) {
                const size_t place = size_t(std::ranges::find(awq_order, r) - awq_order);
                zeros[r] = uint8_t(symmetric ? 8 : r + 3);
                put(of_zeros, awq ? place : r, awq ? zeros[r] : zeros[r] - 1);
                for (size_t c = 0; c < 32; ++c) {
                    numbers[r][c] = uint8_t((r * 5 + c * 7) % 16);
                    put(words, awq ? c * 8 + place : (c / 8 * 8 + r) * 8 + c % 8, numbers[r][c]);
                }
            }
            const std::vector<uint64_t> shape =
                awq ? std::vector<uint64_t>{32, 1} : std::vector<uint64_t>{4, 8};
            const TemporaryFolder on_disk(by_columns(awq ? "awq" : "gptq", {"I32", shape, words}, of_zeros));
            Joined from = joined(on_disk, awq ? "awq" : "gptq");
            const auto x = std::ranges::find(from.tensors, std::string("x.weight"), &StoredTensor::name);
            REQUIRE(x != from.tensors.end());
            CHECK(x->shape == std::vector<uint64_t>{8, 32});
            CHECK(x->type == (symmetric ? TensorType::q4_0 : TensorType::q5_0));
            const std::vector<uint8_t> bytes = rows_of(from, *x, 1, 2, 4);
            const size_t head = symmetric ? 2 : 6, block = head + 16;
            for (size_t i = 0; i < 4; ++i) {
                const size_t r = 1 + 2 * i;
                uint16_t half = 0;
                std::memcpy(&half, &bytes[i * block], 2);
                CHECK(half == to_half(std::ldexp(0.25f, int(r))));
                for (size_t c = 0; c < 32; ++c) {
                    int number = bytes[i * block + head + c % 16] >> (c / 16 * 4) & 15;
                    if (!symmetric) number |= (bytes[i * block + 2 + c / 8] >> (c % 8) & 1) << 4;
                    CHECK(number - (symmetric ? 8 : 16) == numbers[r][c] - zeros[r]);
                }
            }
        }
}

TEST_CASE("scales that halves cannot hold keep floats") {
    HfFolder folder = with_integers(32, "I8", std::string(12 * 32, 3), "int-quantized");
    HfFolder::Tensor& scales = folder.tensors[up + "_scale"];
    scales.bytes.clear();
    for (int i = 0; i < 12; ++i) scales.bytes += floats({std::ldexp(1.0f + float(i) / 16, -24)});
    const TemporaryFolder on_disk(folder);
    const std::vector<float> values = floats_of(open_model(on_disk.path()), {Role::up, 0});
    for (size_t i = 0; i < values.size(); ++i)
        CHECK(values[i] == 3 * std::ldexp(1.0f + float(i / 32) / 16, -24));
}

TEST_CASE("experts of a layer have one type, which holds the numbers of all") {
    HfFolder folder = by_columns("gptq", {"I32", {4, 8}, std::string(128, 'U')}, std::string(4, 'w'));
    for (const char* part : {"qweight", "qzeros", "scales"}) {
        folder.tensors[std::string("x.experts.0.up.") + part] = folder.tensors[std::string("x.") + part];
        folder.tensors[std::string("x.experts.1.up.") + part] = folder.tensors[std::string("x.") + part];
    }
    folder.tensors["x.experts.1.up.qzeros"].bytes = "abcd";
    const TemporaryFolder on_disk(folder);
    Joined from = joined(on_disk, "gptq");
    for (const auto& [name, type] :
         {std::pair("x.weight", TensorType::q4_0), std::pair("x.experts.0.up.weight", TensorType::q5_0),
          std::pair("x.experts.1.up.weight", TensorType::q5_0)}) {
        const auto x = std::ranges::find(from.tensors, std::string(name), &StoredTensor::name);
        REQUIRE(x != from.tensors.end());
        CHECK(x->type == type);
    }
    const auto x = std::ranges::find(from.tensors, "x.experts.0.up.weight", &StoredTensor::name);
    const std::vector<uint8_t> bytes = rows_of(from, *x, 0, 1, 1);
    CHECK(bytes[2] == 0);  // 5 - 8 + 16 is 13
    CHECK(bytes[6] == 0xDD);
}

TEST_CASE("ternary codes become TQ2_0") {
    HfFolder folder;
    HfFolder::Tensor codes{"U8", {3, 256}, {}};
    for (int i = 0; i < 3 * 256; ++i)
        codes.bytes += char((i * 7 % 3) | (i / 3 % 3) << 2 | (i / 5 % 3) << 4 | (i % 3) << 6);
    folder.tensors = {{"x", codes}, {"x_scale", {"U8", {1}, "\x04"}}};
    const TemporaryFolder on_disk(folder);
    Joined from = joined(on_disk, "bitnet");
    REQUIRE(from.tensors.size() == 1);
    CHECK(from.tensors[0].shape == std::vector<uint64_t>{12, 256});
    const std::vector<uint8_t> bytes = rows_of(from, from.tensors[0], 0, 1, 12);
    for (size_t row = 0; row < 12; ++row) {
        const uint8_t* block = &bytes[row * 66];
        uint16_t half = 0;
        std::memcpy(&half, block + 64, 2);
        CHECK(half == to_half(0.25f));  // linear_class bitlinear divides
        for (size_t i = 0; i < 256; ++i) {
            const auto code = static_cast<uint8_t>(codes.bytes[row % 3 * 256 + i]) >> (row / 3 * 2) & 3;
            CHECK((block[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3) == code);
        }
    }
}

TEST_CASE("ternary codes of short rows become BF16") {
    HfFolder folder = tiny_hf_llama();
    folder.config["quantization_config"] = {{"quant_method", "bitnet"}, {"linear_class", "autobitlinear"}};
    folder.tensors[up] = {"U8", {3, 8}, std::string(24, char(0b10010010))};  // 1, -1, 0, 1 of rows 0, 3, 6, 9
    folder.tensors[up + "_scale"] = {"F32", {1}, floats({0.75f})};
    const TemporaryFolder on_disk(folder);
    const std::vector<float> values = floats_of(open_model(on_disk.path()), {Role::up, 0});
    const float expected[] = {0.75f, -0.75f, 0, 0.75f};
    for (size_t i = 0; i < values.size(); ++i) CHECK(values[i] == expected[i / 24]);
}

TEST_CASE("quantised folders that are refused") {
    const auto refused = [](HfFolder folder, const std::string& words) {
        const std::string said = refusal_of(folder);
        CAPTURE(said);
        CAPTURE(words);
        CHECK(said.find(words) != std::string::npos);
    };
    HfFolder folder = with_floats("_other", {"F32", {}, floats({1})});
    refused(folder, "tensor " + up + ": expected its scales, " + up + "_scale_inv, got none");
    refused(with_floats("_scale_inv", {"F32", {2, 1}, floats({1, 1})}), "expected scales of " + up);
    folder = with_floats("_scale", {"F32", {}, floats({1})});
    folder.config.erase("quantization_config");
    refused(folder, "quantization_config: expected one for " + up + "_scale, got none");
    refused(with_floats("_scale_inv", {"F32", {0}, {}}), "expected scales of " + up);
    folder = with_floats("_scale_inv", {"F32", {}, floats({0.5f})});
    folder.tensors["language_model." + up + "_scale_inv"] = {"F32", {}, floats({2})};
    refused(folder,
            "tensors language_model." + up + "_scale_inv and " + up + "_scale_inv: expected one of them");
    folder = with_floats("_scale_inv", {"F32", {}, floats({0.5f})});
    folder.tensors[up + "_scale"] = {"F32", {}, floats({2})};
    refused(folder,
            "tensor " + up + ": expected its scales once, got " + up + "_scale_inv and " + up + "_scale");
    const nlohmann::json blocks = {{"quant_method", "fp8"}, {"weight_block_size", {5, 0}}};
    refused(with_floats("_scale_inv", {"F32", {}, floats({1})}, blocks),
            "weight_block_size: expected two sizes");
    const auto configured = [&](nlohmann::json config) {
        return with_floats("_scale", {"F32", {}, floats({1})}, std::move(config));
    };
    refused(configured({{"quant_method", "hqq"}}),
            "quantization_config.quant_method: expected fp8, compressed-tensors, gptq, awq, mxfp4, quark, "
            "modelopt, bitsandbytes, bitnet, got hqq");
    refused(configured({{"quant_method", "compressed-tensors"}, {"format", "marlin-24"}}),
            "quantization_config.format: expected float-, int-, pack-, nvfp4-pack- or mxfp4-pack-quantized, "
            "got marlin-24");
    refused(configured({{"quant_method", "compressed-tensors"},
                        {"format", "mixed-precision"},
                        {"config_groups", {{"g", {{"format", "mxfp8-quantized"}}}}}}),
            "quantization_config.config_groups.g.format: expected");
    refused(configured({{"quant_method", "compressed-tensors"},
                        {"format", "dense"},
                        {"transform_config", {{"config_groups", {{"r", 1}}}}}}),
            "quantization_config.transform_config.config_groups: this build cannot honour it");
    refused(configured({{"quant_method", "modelopt"}, {"quant_algo", "W4A8_AWQ"}}),
            "quantization_config.quant_algo: expected FP8, NVFP4 or MIXED_PRECISION of these, got W4A8_AWQ");
    refused(
        configured({{"quant_method", "quark"}, {"global_quant_config", {{"weight", {{"dtype", "int4"}}}}}}),
        "quantization_config.global_quant_config.weight.dtype: expected fp4 or fp8_e4m3, got int4");
    folder = configured({{"quant_method", "modelopt"}, {"quant_algo", "FP8"}});
    folder.tensors["x.pre_quant_scale"] = {"F32", {1}, floats({1})};
    refused(folder, "tensor x.pre_quant_scale: expected weights by their scales alone");
    folder = with_integers(32, "I8", std::string(12 * 32, 1), "int-quantized");
    folder.tensors[up + "_zero_point"] = folder.tensors[up + "_scale"];
    refused(folder, "tensor " + up + "_zero_point: expected scales of " + up);
    folder.tensors.erase(up + "_zero_point");
    folder.config["quantization_config"]["config_groups"] = {{"g", {{"weights", {{"symmetric", false}}}}}};
    refused(folder, "tensor " + up + ": expected " + up + "_zero_point, got none");
    folder.config["quantization_config"]["config_groups"] = {{"g", {{"weights", {{"actorder", "group"}}}}}};
    folder.tensors[up].shape = {6, 64};
    folder.tensors[up + "_scale"].shape = {6, 2};
    refused(folder, "tensor " + up + "_scale: expected " + up + "_g_idx, got none");
    const HfFolder columns = by_columns("gptq", {"I32", {4, 8}, std::string(128, 'U')}, std::string(4, 7));
    folder = columns;
    folder.tensors["x.g_idx"] = {"U8", {32}, std::string(31, 0) + '\1'};
    refused(folder, "tensor x.g_idx: expected groups below 1, got 1");
    folder.tensors["x.g_idx"] = {"U8", {31}, std::string(31, 0)};
    refused(folder, "tensor x.g_idx: expected [32], got [31]");
    folder = columns;
    folder.config["quantization_config"]["bits"] = 5;
    refused(folder, "quantization_config.bits: expected 2, 3, 4 or 8, got 5");
    folder.config["quantization_config"]["bits"] = 8;
    refused(folder, "tensor x.qzeros: expected scales of x.qweight");
    folder = columns;
    folder.config["quantization_config"]["checkpoint_format"] = "marlin";
    refused(folder, "quantization_config.checkpoint_format: expected gptq or gptq_v2, got marlin");
    folder = columns;
    folder.config["quantization_config"]["group_size"] = 16;
    refused(folder, "tensor x.scales: expected 32 columns in groups of one size, got 1 groups");
    folder = by_columns("gptq", {"I32", {8, 8}, std::string(256, 'U')}, std::string(4, 7));
    folder.config["quantization_config"]["desc_act"] = true;
    folder.tensors["x.scales"] = {"F32", {2, 8}, std::string(64, 1)};
    folder.tensors["x.qzeros"] = {"I32", {2, 1}, std::string(8, 7)};
    refused(folder, "tensor x.scales: expected x.g_idx, got none");
    folder = columns;
    folder.tensors.erase("x.qzeros");
    refused(folder, "tensor x.qweight: expected its scales, x.qzeros, got none");
    const auto of_codes = [&](nlohmann::json config, HfFolder::Tensor codes, const char* name) {
        HfFolder made = tiny_hf_llama();
        made.config["quantization_config"] = std::move(config);
        made.tensors[name] = std::move(codes);
        return made;
    };
    const nlohmann::json nvfp4 = {{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}};
    folder = of_codes(nvfp4, {"U8", {1, 16}, std::string(16, 'U')}, "x.weight");
    refused(folder, "tensor x.weight: expected its scales, x.weight_scale, got none");
    folder.tensors["x.weight_scale"] = {"F8_E4M3", {1, 2}, "88"};
    refused(folder, "tensor x.weight: expected its scales, x.weight_scale_2, got none");
    folder.tensors["x.weight_scale_2"] = {"F32", {}, floats({0})};
    refused(folder, "tensor x.weight_scale_2: expected a finite number above 0, got 0");
    folder.tensors["x.weight_scale"] = {"F8_E4M3", {1, 1}, "8"};
    refused(folder, "expected scales of x.weight, [1, 16], got [1, 1]");
    folder = of_codes({{"quant_method", "quark"}}, {"U8", {1, 16}, std::string(16, 'U')}, "x.weight");
    folder.tensors["x.weight_scale"] = {"U8", {1, 2}, "UU"};
    refused(folder, "expected scales of x.weight, [1, 16], got [1, 2]");
    const std::string state = R"({"blocksize": 32, "dtype": "float16", "shape": [1, 32]})";
    folder = of_codes({{"quant_method", "bitsandbytes"}}, {"U8", {15, 1}, std::string(15, 'U')}, "x.weight");
    refused(folder, "expected x.weight.quant_state.bitsandbytes__nf4 or __fp4, got none");
    folder.tensors["x.weight.quant_state.bitsandbytes__nf4"] = {"U8", {state.size()}, state};
    refused(folder, "tensor x.weight: expected 16 bytes of two numbers, got [15, 1]");
    folder.tensors["x.weight"] = {"U8", {16, 1}, std::string(16, 'U')};
    refused(folder, "tensor x.weight: expected its scales, x.weight.absmax, got none");
    folder.tensors["x.weight.absmax"] = {"F32", {2}, floats({1, 1})};
    folder.tensors["x.weight.quant_map"] = {"F32", {2}, floats({1, 1})};
    refused(folder, "tensor x.weight.absmax: expected scales of x.weight");
    folder.tensors["x.weight.absmax"] = {"F32", {1}, floats({1})};
    refused(folder, "tensor x.weight.quant_map: expected scales of x.weight");
    folder = tiny_hf_llama();
    folder.config["quantization_config"] = {{"quant_method", "bitnet"}, {"quantization_mode", "online"}};
    refused(folder, "quantization_config.quantization_mode: expected offline");
    folder.config["quantization_config"] = {{"quant_method", "bitnet"}};
    folder.tensors["model.layers.0.mlp.down_proj.weight"] = {"U8", {2, 12}, std::string(24, 'U')};
    folder.tensors["model.layers.0.mlp.down_proj.weight_scale"] = {"F32", {2}, floats({1, 1})};
    refused(folder, "expected scales of model.layers.0.mlp.down_proj.weight");
    folder.config["quantization_config"] = {{"quant_method", "mxfp4"}};
    folder.tensors["x_blocks"] = {"U8", {2, 16}, std::string(32, 'U')};
    folder.tensors["x_scales"] = {"U8", {2}, "UU"};
    refused(folder, "expected scales of x_blocks");
}
