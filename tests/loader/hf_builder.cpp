#include "hf_builder.h"

#include "fail.h"
#include "file.h"
#include "model.h"
#include "safetensors.h"
#include "system.h"

#include <algorithm>
#include <atomic>
#include <fstream>

namespace scoria::test {

void HfFolder::add(const std::string& name, std::vector<uint64_t> shape, float first) {
    uint64_t elements = 1;
    for (const uint64_t size : shape) elements *= size;
    std::vector<float> values(elements);
    for (float& value : values) value = first++;
    tensors[name] = {
        "F32", std::move(shape),
        std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float))};
}

void HfFolder::drop(std::string_view part) {
    std::erase_if(tensors, [&](const auto& each) { return each.first.find(part) != std::string::npos; });
}

HfFolder tiny_hf_llama() {
    HfFolder folder;
    folder.config = {{"model_type", "llama"},      {"vocab_size", 16},
                     {"hidden_size", 8},           {"num_hidden_layers", 1},
                     {"num_attention_heads", 2},   {"num_key_value_heads", 1},
                     {"intermediate_size", 12},    {"max_position_embeddings", 32},
                     {"rms_norm_eps", 1e-5},       {"hidden_act", "silu"},
                     {"tie_word_embeddings", true}};
    folder.add("model.embed_tokens.weight", {16, 8});
    folder.add("model.norm.weight", {8});
    const std::string layer = "model.layers.0.";
    for (const char* name : {"input_layernorm.weight", "post_attention_layernorm.weight"})
        folder.add(layer + name, {8});
    folder.add(layer + "self_attn.q_proj.weight", {8, 8});
    folder.add(layer + "self_attn.k_proj.weight", {4, 8});
    folder.add(layer + "self_attn.v_proj.weight", {4, 8});
    folder.add(layer + "self_attn.o_proj.weight", {8, 8});
    folder.add(layer + "mlp.gate_proj.weight", {12, 8});
    folder.add(layer + "mlp.up_proj.weight", {12, 8});
    folder.add(layer + "mlp.down_proj.weight", {8, 12});
    return folder;
}

HfFolder hf_folder(const std::filesystem::path& path) {
    const std::string weights = (path / "model.safetensors").string(), bytes = read_file(weights, 1 << 24);
    const Safetensors header(weights);
    HfFolder folder{.config = nlohmann::json::parse(read_file((path / "config.json").string()))};
    for (const auto& [name, array] : header.arrays())
        folder.tensors[name] = {array.type, array.shape, bytes.substr(array.offset, array.bytes)};
    return folder;
}

std::string safetensors_bytes(const std::map<std::string, HfFolder::Tensor>& tensors) {
    nlohmann::json header = nlohmann::json::object();
    std::string data;
    for (const auto& [name, tensor] : tensors) {
        const size_t begin = data.size();
        data += tensor.bytes;
        header[name] = {
            {"dtype", tensor.type}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
    }
    const std::string text = header.dump();
    const uint64_t length = text.size();
    return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text + data;
}

TemporaryFolder::TemporaryFolder(const HfFolder& folder) {
    static std::atomic<int> serial = 0;
    path_ = std::filesystem::temp_directory_path() /
            path_of(cat("scoria-f\u00f6lder-", process_id(), "-", serial++));
    std::filesystem::create_directories(path_);
    const auto write = [&](const std::string& name, const std::string& bytes) {
        std::filesystem::create_directories((path_ / name).parent_path());
        std::ofstream(path_ / name, std::ios::binary) << bytes;
    };
    if (!folder.files.contains("config.json")) write("config.json", folder.config.dump());
    for (const auto& [name, bytes] : folder.files) write(name, bytes);
    const bool has_weights = std::ranges::any_of(folder.files, [](const auto& file) {
        return file.first.find("safetensors") != std::string::npos &&
               file.first.find('/') == std::string::npos;
    });
    if (!has_weights) write("model.safetensors", safetensors_bytes(folder.tensors));
}

std::string refusal_of(const HfFolder& folder) {
    const TemporaryFolder on_disk(folder);
    try {
        open_model(on_disk.path());
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

}  // namespace scoria::test
