// NVFP4 in GGUF, whose factors are tensors of their own.
#include "fail.h"
#include "gguf_builder.h"
#include "model.h"

#include <doctest/doctest.h>

#include <cstring>
#include <limits>

using namespace scoria;
using namespace scoria::test;

namespace {

constexpr uint32_t nvfp4 = 40;
constexpr size_t block_bytes = 36, read_bytes = 40;

GgufFile::Tensor blocks(uint64_t rows, uint64_t matrices = 1) {
    GgufFile::Tensor tensor{{64, rows}, nvfp4, {}};
    if (matrices > 1) tensor.dimensions.push_back(matrices);
    for (size_t i = 0; i < rows * matrices * block_bytes; ++i) tensor.data += char(i * 37 + i / 36);
    return tensor;
}

GgufFile::Tensor floats(std::initializer_list<float> values) {
    GgufFile::Tensor tensor{{values.size()}, 0, {}};
    for (const float value : values) put(tensor.data, value);
    return tensor;
}

/// A llama of 64 columns whose gate and up are NVFP4.
GgufFile scaled_llama() {
    GgufFile file = tiny_llama();
    file.metadata["llama.embedding_length"] = 64u;
    file.metadata["llama.attention.key_length"] = file.metadata["llama.attention.value_length"] = 4u;
    for (auto& [name, tensor] : file.tensors) {
        std::vector<uint64_t> dimensions = tensor.dimensions;
        if (dimensions[0] == 8 && name != "blk.0.attn_output.weight") dimensions[0] = 64;
        if (name == "blk.0.attn_output.weight" || name == "blk.0.ffn_down.weight") dimensions[1] = 64;
        file.add(name, dimensions);
    }
    for (const std::string name : {"blk.0.ffn_gate", "blk.0.ffn_up"}) {
        file.tensors[name + ".weight"] = blocks(12);
        file.tensors[name + ".scale"] = floats({name.ends_with("up") ? 0.00037f : -3});
        file.tensors[name + ".input_scale"] = floats({1});
    }
    return file;
}

void check_blocks(const Model& model, WeightRef ref, const GgufFile::Tensor& stored, float factor,
                  size_t first = 0) {
    const TensorView& view = model.weights.at(ref);
    CAPTURE(view.name);
    CHECK(view.type == TensorType::nvfp4_s);
    std::vector<std::byte> bytes(view.bytes());
    model.tensors->read(view, 0, bytes);
    for (size_t block = 0; block < 12; ++block) {
        const std::byte* read = bytes.data() + (first + block) * read_bytes;
        CHECK(std::memcmp(read, &factor, sizeof factor) == 0);
        CHECK(std::memcmp(read + sizeof factor, stored.data.data() + (first + block) * block_bytes,
                          block_bytes) == 0);
    }
}

}  // namespace

TEST_CASE("factors of NVFP4 are read with its blocks") {
    const GgufFile file = scaled_llama();
    const TemporaryFile on_disk(file.bytes());
    const Model model = open_model(on_disk.path());
    CHECK(model.unused.empty());
    check_blocks(model, {Role::gate, 0}, file.tensors.at("blk.0.ffn_gate.weight"), -3);
    check_blocks(model, {Role::up, 0}, file.tensors.at("blk.0.ffn_up.weight"), 0.00037f);
}

TEST_CASE("NVFP4 without factors stays what it is") {
    GgufFile file = scaled_llama();
    for (const char* name : {"blk.0.ffn_up.scale", "blk.0.ffn_up.input_scale"}) file.tensors.erase(name);
    const TemporaryFile on_disk(file.bytes());
    const Model model = open_model(on_disk.path());
    CHECK(model.weights.at({Role::gate, 0}).type == TensorType::nvfp4_s);
    CHECK(model.weights.at({Role::up, 0}).type == TensorType::nvfp4);
}

TEST_CASE("each expert has a factor") {
    GgufFile file = scaled_llama();
    file.metadata["llama.expert_count"] = 3u;
    file.metadata["llama.expert_used_count"] = 2u;
    for (const char* part : {"gate", "up"}) {
        for (const char* ending : {".weight", ".scale", ".input_scale"})
            file.tensors.erase(cat("blk.0.ffn_", part, ending));
        file.tensors[cat("blk.0.ffn_", part, "_exps.weight")] = blocks(12, 3);
        file.tensors[cat("blk.0.ffn_", part, "_exps.scale")] = floats({0.5f, 0.25f, 7});
    }
    file.tensors.erase("blk.0.ffn_down.weight");
    file.add("blk.0.ffn_down_exps.weight", {12, 64, 3});
    file.add("blk.0.ffn_gate_inp.weight", {64, 3});
    const TemporaryFile on_disk(file.bytes());
    const Model model = open_model(on_disk.path());
    CHECK(model.unused.empty());
    const GgufFile::Tensor& stored = file.tensors.at("blk.0.ffn_up_exps.weight");
    check_blocks(model, {Role::expert_up, 0}, stored, 0.5f);
    check_blocks(model, {Role::expert_up, 0}, stored, 0.25f, 12);
    check_blocks(model, {Role::expert_up, 0}, stored, 7, 24);
}

TEST_CASE("factors that are refused") {
    const auto refused = [](const char* name, GgufFile::Tensor tensor, const char* message) {
        GgufFile file = scaled_llama();
        file.tensors[name] = std::move(tensor);
        const TemporaryFile on_disk(file.bytes());
        std::string said;
        try {
            open_model(on_disk.path());
        } catch (const Error& error) {
            said = error.what();
        }
        CAPTURE(said);
        CHECK(said.find(message) != std::string::npos);
    };
    refused("blk.0.ffn_up.scale", floats({1, 2}), "tensor blk.0.ffn_up.scale: expected F32 [1], got F32 [2]");
    refused("blk.0.ffn_up.scale", floats({std::numeric_limits<float>::infinity()}),
            "tensor blk.0.ffn_up.scale: expected finite numbers, got inf");
    refused("blk.0.attn_q.scale", floats({1}),
            "tensor blk.0.attn_q.weight: expected NVFP4, which alone has a blk.0.attn_q.scale, got F32");
}
