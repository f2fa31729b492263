// See gguf_writer.h.
#include "gguf_writer.h"

#include <algorithm>
#include <cstring>

namespace scoria {
namespace {

enum : uint32_t { type_u32 = 4, type_i32 = 5, type_f32 = 6, type_bool = 7, type_string = 8, type_array = 9 };

template <class T> void put(std::string& out, T value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
}
void put_text(std::string& out, std::string_view text) {
    put(out, uint64_t{text.size()});
    out += text;
}
template <class T> void put_array(std::string& out, uint32_t type, std::span<const T> values) {
    put(out, type);
    put(out, uint64_t{values.size()});
    for (const T& value : values) {
        if constexpr (std::is_same_v<T, std::string>)
            put_text(out, value);
        else
            put(out, value);
    }
}

uint64_t aligned(uint64_t offset, uint64_t alignment) {
    return (offset + alignment - 1) / alignment * alignment;
}

}  // namespace

GgufWriter::Pair& GgufWriter::slot(std::string_view key, uint32_t type) {
    const auto found = std::ranges::find(pairs_, key, &Pair::key);
    Pair& pair = found != pairs_.end() ? *found : pairs_.emplace_back();
    pair = {std::string(key), type, {}};
    return pair;
}

void GgufWriter::set(std::string_view key, uint32_t value) { put(slot(key, type_u32).value, value); }
void GgufWriter::set(std::string_view key, float value) { put(slot(key, type_f32).value, value); }
void GgufWriter::set(std::string_view key, bool value) { put(slot(key, type_bool).value, uint8_t{value}); }
void GgufWriter::set(std::string_view key, std::string_view value) {
    put_text(slot(key, type_string).value, value);
}
void GgufWriter::set(std::string_view key, std::span<const std::string> values) {
    put_array(slot(key, type_array).value, type_string, values);
}
void GgufWriter::set(std::string_view key, std::span<const int32_t> values) {
    put_array(slot(key, type_array).value, type_i32, values);
}
void GgufWriter::set(std::string_view key, std::span<const float> values) {
    put_array(slot(key, type_array).value, type_f32, values);
}
void GgufWriter::set(std::string_view key, const std::vector<bool>& values) {
    const std::vector<uint8_t> bytes(values.begin(), values.end());
    put_array(slot(key, type_array).value, type_bool, std::span<const uint8_t>(bytes));
}
void GgufWriter::set_raw(std::string_view key, uint32_t type, std::span<const std::byte> value) {
    slot(key, type).value.assign(reinterpret_cast<const char*>(value.data()), value.size());
}
void GgufWriter::remove(std::string_view key) {
    std::erase_if(pairs_, [&](const Pair& pair) { return pair.key == key; });
}

void GgufWriter::add(std::string name, std::vector<uint64_t> dimensions, TensorType type) {
    const TensorTypeInfo& info = tensor_type_info(type);
    uint64_t bytes = info.block_bytes;
    for (size_t i = 0; i < dimensions.size(); ++i)
        bytes *= i == 0 ? dimensions[0] / info.block : dimensions[i];
    tensors_.push_back({std::move(name), std::move(dimensions), type, bytes, 0});
}

std::vector<std::byte> GgufWriter::header(uint32_t alignment) {
    std::string out = "GGUF";
    put(out, uint32_t{3});
    put(out, uint64_t{tensors_.size()});
    put(out, uint64_t{pairs_.size()});
    for (const Pair& pair : pairs_) {
        put_text(out, pair.key);
        put(out, pair.type);
        out += pair.value;
    }
    uint64_t data_bytes = 0;
    for (Tensor& tensor : tensors_) {
        put_text(out, tensor.name);
        put(out, static_cast<uint32_t>(tensor.dimensions.size()));
        for (const uint64_t size : tensor.dimensions) put(out, size);
        put(out, static_cast<uint32_t>(tensor.type));
        put(out, data_bytes);
        tensor.offset = data_bytes;
        data_bytes = aligned(data_bytes + tensor.bytes, alignment);
    }
    out.resize(aligned(out.size(), alignment));
    for (Tensor& tensor : tensors_) tensor.offset += out.size();
    file_bytes_ = out.size() + data_bytes;

    std::vector<std::byte> bytes(out.size());
    std::memcpy(bytes.data(), out.data(), out.size());
    return bytes;
}

}  // namespace scoria
