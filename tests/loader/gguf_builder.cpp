#include "gguf_builder.h"

#include "fail.h"
#include "system.h"

#include <atomic>
#include <fstream>

namespace scoria::test {
namespace {

void put_text(std::string& out, const std::string& text) {
    put(out, uint64_t{text.size()});
    out += text;
}

template <class T> void put_numbers(std::string& out, uint32_t type, const std::vector<T>& numbers) {
    put(out, uint32_t{9});
    put(out, type);
    put(out, uint64_t{numbers.size()});
    for (const T one : numbers) put(out, one);
}

void put_value(std::string& out, const GgufPart& part) {
    enum : uint32_t { u32 = 4, i32 = 5, f32 = 6, boolean = 7, string = 8, array = 9 };
    if (const auto* number = std::get_if<uint32_t>(&part)) {
        put(out, uint32_t{u32});
        put(out, *number);
    } else if (const auto* real = std::get_if<float>(&part)) {
        put(out, uint32_t{f32});
        put(out, *real);
    } else if (const auto* flag = std::get_if<bool>(&part)) {
        put(out, uint32_t{boolean});
        put(out, static_cast<uint8_t>(*flag));
    } else if (const auto* text = std::get_if<std::string>(&part)) {
        put(out, uint32_t{string});
        put_text(out, *text);
    } else if (const auto* texts = std::get_if<std::vector<std::string>>(&part)) {
        put(out, uint32_t{array});
        put(out, uint32_t{string});
        put(out, uint64_t{texts->size()});
        for (const std::string& one : *texts) put_text(out, one);
    } else if (const auto* reals = std::get_if<std::vector<float>>(&part)) {
        put_numbers(out, f32, *reals);
    } else {
        put_numbers(out, i32, std::get<std::vector<int32_t>>(part));
    }
}

void align(std::string& out) { out.resize((out.size() + 31) / 32 * 32, '\0'); }

}  // namespace

void GgufFile::add(const std::string& name, std::vector<uint64_t> dimensions, float value) {
    uint64_t elements = 1;
    for (const uint64_t size : dimensions) elements *= size;
    std::string data;
    for (uint64_t i = 0; i < elements; ++i) put(data, value);
    tensors[name] = {std::move(dimensions), 0, std::move(data)};
}

std::string GgufFile::bytes() const {
    std::string out = "GGUF";
    put(out, version);
    put(out, uint64_t{tensors.size()});
    put(out, uint64_t{metadata.size()});
    for (const auto& [key, value] : metadata) {
        put_text(out, key);
        put_value(out, value);
    }
    std::string data;
    for (const auto& [name, tensor] : tensors) {
        put_text(out, name);
        put(out, static_cast<uint32_t>(tensor.dimensions.size()));
        for (const uint64_t size : tensor.dimensions) put(out, size);
        put(out, tensor.type);
        align(data);
        put(out, uint64_t{data.size()});
        data += tensor.data;
    }
    align(out);
    return out + data;
}

GgufFile tiny_llama() {
    GgufFile file;
    file.metadata = {
        {"general.architecture", "llama"},     {"llama.block_count", 1u},
        {"llama.context_length", 32u},         {"llama.embedding_length", 8u},
        {"llama.feed_forward_length", 12u},    {"llama.attention.head_count", 2u},
        {"llama.attention.head_count_kv", 1u}, {"llama.attention.layer_norm_rms_epsilon", 1e-5f},
        {"llama.rope.freq_base", 10000.0f},
    };
    file.add("token_embd.weight", {8, 16});
    file.add("output_norm.weight", {8});
    for (const char* name : {"attn_norm.weight", "ffn_norm.weight"}) file.add(cat("blk.0.", name), {8});
    file.add("blk.0.attn_q.weight", {8, 8});
    file.add("blk.0.attn_k.weight", {8, 4});
    file.add("blk.0.attn_v.weight", {8, 4});
    file.add("blk.0.attn_output.weight", {8, 8});
    file.add("blk.0.ffn_gate.weight", {8, 12});
    file.add("blk.0.ffn_up.weight", {8, 12});
    file.add("blk.0.ffn_down.weight", {12, 8});
    return file;
}

void add_vocabulary(GgufFile& file, std::vector<std::string> tokens, std::vector<std::string> merges) {
    file.metadata["tokenizer.ggml.model"] = "gpt2";
    file.metadata["tokenizer.ggml.pre"] = "gpt-2";
    file.metadata["tokenizer.ggml.tokens"] = std::move(tokens);
    file.metadata["tokenizer.ggml.merges"] = std::move(merges);
}

TemporaryFile::TemporaryFile(const std::string& bytes, const std::string& extension) {
    static std::atomic<int> serial = 0;
    const auto folder = std::filesystem::temp_directory_path();
    path_ = (folder / cat("scoria-test-", process_id(), "-", serial++, extension)).string();
    std::ofstream(path_, std::ios::binary) << bytes;
}

}  // namespace scoria::test
