#include "gguf.h"

#include "fail.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <set>

namespace scoria {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is read as it lies");

// Far above every published model; they bound what a hostile file can make us do.
constexpr uint64_t most_tensors = 1 << 16;
constexpr uint64_t most_pairs = 1 << 16;
constexpr uint64_t most_elements = 1 << 24;
constexpr uint64_t most_string_bytes = 1 << 24;
constexpr uint64_t most_header_bytes = 1 << 28;
constexpr uint64_t most_name_bytes = 255;

enum class ValueType : uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };
constexpr const char* value_type_names[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                            "bool", "string", "array", "u64", "i64", "f64"};

// Names of ggml's types by number; null where a number was withdrawn.
constexpr const char* type_names[] = {
    "F32",   "F16",    "Q4_0",  "Q4_1",  "Q4_2",  "Q4_3",    "Q5_0",   "Q5_1",    "Q8_0",  "Q8_1",   "Q2_K",
    "Q3_K",  "Q4_K",   "Q5_K",  "Q6_K",  "Q8_K",  "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S",
    "IQ2_S", "IQ4_XS", "I8",    "I16",   "I32",   "I64",     "F64",    "IQ1_M",   "BF16",  nullptr,  nullptr,
    nullptr, "TQ1_0",  "TQ2_0", nullptr, nullptr, nullptr,   "MXFP4",  "NVFP4",   "Q1_0",  "Q2_0"};

const char* kind_of(const GgufValue& value) {
    constexpr const char* kinds[] = {"a bool", "an integer", "an integer", "a float", "a string", "an array"};
    return kinds[value.index()];
}

}  // namespace

/// Reads the header in order through a buffer, so that small fields do not cost a system call each.
class GgufReader {
  public:
    explicit GgufReader(const File& file) : file_(file) {}
    Gguf read(uint64_t whole);

  private:
    uint64_t left() const { return std::min(file_.size(), most_header_bytes) - position_; }
    void need(uint64_t bytes, std::string_view what) const;
    void bytes(std::span<std::byte> out, std::string_view what);
    template <class T> T scalar(std::string_view what);
    uint64_t count(std::string_view what, uint64_t most, uint64_t least_bytes_each);
    std::string string(std::string_view what, uint64_t most);
    ValueType value_type(std::string_view what);
    GgufValue value(ValueType type, std::string_view key);
    GgufArray array(std::string_view key);
    template <class Wide, class T> GgufArray scalars(uint64_t elements, std::string_view key);
    GgufTensor tensor();

    const File& file_;
    uint64_t position_ = 0;  // next byte of the file
    uint64_t buffer_start_ = 0;
    std::vector<std::byte> buffer_;
};

void GgufReader::need(uint64_t bytes, std::string_view what) const {
    if (bytes <= left()) return;
    if (file_.size() - position_ >= bytes) {
        fail(Status::bad_file, "gguf", what, ": the header is longer than ", most_header_bytes, " bytes");
    }
    fail(Status::bad_file, "gguf", what, ": expected ", bytes, " bytes at ", position_, ", got a file of ",
         file_.size());
}

void GgufReader::bytes(std::span<std::byte> out, std::string_view what) {
    need(out.size(), what);
    const uint64_t in_buffer = position_ - buffer_start_;
    if (in_buffer + out.size() > buffer_.size()) {
        constexpr uint64_t most_ahead = 1 << 18;
        if (out.size() >= most_ahead) {
            file_.read(position_, out);
            position_ += out.size();
            buffer_.clear();
            buffer_start_ = position_;
            return;
        }
        buffer_.resize(static_cast<size_t>(std::min(most_ahead, file_.size() - position_)));
        file_.read(position_, buffer_);
        buffer_start_ = position_;
    }
    std::memcpy(out.data(), buffer_.data() + (position_ - buffer_start_), out.size());
    position_ += out.size();
}

template <class T> T GgufReader::scalar(std::string_view what) {
    T value;
    bytes(std::as_writable_bytes(std::span(&value, 1)), what);
    return value;
}

uint64_t GgufReader::count(std::string_view what, uint64_t most, uint64_t least_bytes_each) {
    const uint64_t value = scalar<uint64_t>(what);
    if (value > most) fail(Status::bad_file, "gguf", what, ": expected at most ", most, ", got ", value);
    need(value * least_bytes_each, what);
    return value;
}

std::string GgufReader::string(std::string_view what, uint64_t most) {
    std::string text(static_cast<size_t>(count(what, most, 1)), '\0');
    if (!text.empty()) bytes(std::as_writable_bytes(std::span(text)), what);
    return text;
}

ValueType GgufReader::value_type(std::string_view what) {
    const uint32_t type = scalar<uint32_t>(what);
    if (type >= std::size(value_type_names)) {
        fail(Status::bad_file, "gguf", what, ": expected a value type below ", std::size(value_type_names),
             ", got ", type);
    }
    return static_cast<ValueType>(type);
}

GgufValue GgufReader::value(ValueType type, std::string_view key) {
    switch (type) {
    case ValueType::u8:
        return uint64_t{scalar<uint8_t>(key)};
    case ValueType::u16:
        return uint64_t{scalar<uint16_t>(key)};
    case ValueType::u32:
        return uint64_t{scalar<uint32_t>(key)};
    case ValueType::u64:
        return scalar<uint64_t>(key);
    case ValueType::i8:
        return int64_t{scalar<int8_t>(key)};
    case ValueType::i16:
        return int64_t{scalar<int16_t>(key)};
    case ValueType::i32:
        return int64_t{scalar<int32_t>(key)};
    case ValueType::i64:
        return scalar<int64_t>(key);
    case ValueType::f32:
        return double{scalar<float>(key)};
    case ValueType::f64:
        return scalar<double>(key);
    case ValueType::boolean:
        return scalar<uint8_t>(key) != 0;
    case ValueType::string:
        return string(key, most_string_bytes);
    case ValueType::array:
        return array(key);
    }
    fail(Status::bad_file, "gguf", key, ": unknown value type");
}

template <class Wide, class T> GgufArray GgufReader::scalars(uint64_t elements, std::string_view key) {
    need(elements * sizeof(T), key);
    std::vector<T> narrow(static_cast<size_t>(elements));
    if (elements != 0) bytes(std::as_writable_bytes(std::span(narrow)), key);
    return std::vector<Wide>(narrow.begin(), narrow.end());
}

GgufArray GgufReader::array(std::string_view key) {
    const ValueType type = value_type(key);
    const uint64_t elements = count(key, most_elements, type == ValueType::string ? sizeof(uint64_t) : 1);
    switch (type) {
    case ValueType::u8:
    case ValueType::boolean:
        return scalars<uint64_t, uint8_t>(elements, key);
    case ValueType::u16:
        return scalars<uint64_t, uint16_t>(elements, key);
    case ValueType::u32:
        return scalars<uint64_t, uint32_t>(elements, key);
    case ValueType::u64:
        return scalars<uint64_t, uint64_t>(elements, key);
    case ValueType::i8:
        return scalars<int64_t, int8_t>(elements, key);
    case ValueType::i16:
        return scalars<int64_t, int16_t>(elements, key);
    case ValueType::i32:
        return scalars<int64_t, int32_t>(elements, key);
    case ValueType::i64:
        return scalars<int64_t, int64_t>(elements, key);
    case ValueType::f32:
        return scalars<double, float>(elements, key);
    case ValueType::f64:
        return scalars<double, double>(elements, key);
    case ValueType::array:
        fail(Status::unsupported, "gguf", key, ": an array of arrays");
    case ValueType::string:
        break;
    }
    std::vector<std::string> texts;
    texts.reserve(static_cast<size_t>(elements));
    for (uint64_t i = 0; i < elements; ++i) texts.push_back(string(key, most_string_bytes));
    return texts;
}

GgufTensor GgufReader::tensor() {
    GgufTensor result;
    result.name = string("tensor name", most_name_bytes);
    const std::string what = cat("tensor ", result.name);
    const uint32_t dimensions = scalar<uint32_t>(what);
    if (dimensions < 1 || dimensions > 4) {
        fail(Status::bad_file, "gguf", what, ": expected 1 to 4 dimensions, got ", dimensions);
    }
    uint64_t elements = 1;
    for (uint32_t i = 0; i < dimensions; ++i) {
        const uint64_t size = scalar<uint64_t>(what);
        if (size == 0) fail(Status::bad_file, "gguf", what, ": dimension ", i, " is 0");
        if (__builtin_mul_overflow(elements, size, &elements)) {
            fail(Status::bad_file, "gguf", what, ": the number of elements overflows");
        }
        result.dimensions.push_back(size);
    }
    result.type = scalar<uint32_t>(what);
    result.offset = scalar<uint64_t>(what);  // within the data section, until read() knows where that starts
    return result;
}

namespace {

/// Where a tensor's bytes lie in the file.
struct Extent {
    uint64_t first, end;  // of a type that nobody knows: at least `first`, whose end is not known
    std::string_view name;
};

/// Moves a tensor's offset to the start of the file and proves that its bytes lie inside.
Extent place(GgufTensor& tensor, uint64_t data_start, uint64_t alignment, uint64_t file_size) {
    const std::string what = cat("tensor ", tensor.name);
    if (tensor.offset % alignment != 0) {
        fail(Status::bad_file, "gguf", what, ": expected an offset that is a multiple of ", alignment,
             ", got ", tensor.offset);
    }
    const TensorTypeInfo* info = tensor_type_info(tensor.type);
    uint64_t bytes = 0;
    if (info != nullptr) {
        if (tensor.dimensions[0] % info->block != 0) {
            fail(Status::bad_file, "gguf", what, ": expected rows of a multiple of ", info->block,
                 " weights (", info->name, "), got ", tensor.dimensions[0]);
        }
        bytes = tensor.dimensions[0] / info->block;
        bool overflows = __builtin_mul_overflow(bytes, uint64_t{info->block_bytes}, &bytes);
        for (size_t i = 1; i < tensor.dimensions.size(); ++i) {
            overflows |= __builtin_mul_overflow(bytes, tensor.dimensions[i], &bytes);
        }
        if (overflows) fail(Status::bad_file, "gguf", what, ": the number of bytes overflows");
    }
    uint64_t end = 0;
    if (__builtin_add_overflow(tensor.offset, data_start, &tensor.offset) ||
        __builtin_add_overflow(tensor.offset, bytes, &end) || end > file_size) {
        fail(Status::bad_file, "gguf", what, ": expected ", bytes, " bytes inside the file, got offset ",
             tensor.offset, " in a file of ", file_size);
    }
    return {tensor.offset, end, tensor.name};
}

/// One byte that is read as part of two tensors is wrong in one of them: an offset lies.
void check_apart(std::vector<Extent> extents) {
    std::ranges::sort(extents, {}, &Extent::first);
    for (size_t i = 1; i < extents.size(); ++i) {
        const Extent &before = extents[i - 1], &each = extents[i];
        if (each.first < before.end)
            fail(Status::bad_file, "gguf", "tensor ", each.name, ": expected an offset of ", before.end,
                 " or more, behind ", before.name, ", got ", each.first);
    }
}

}  // namespace

Gguf GgufReader::read(uint64_t whole) {
    Gguf result;
    char magic[4];
    bytes(std::as_writable_bytes(std::span(magic)), "magic");
    if (std::memcmp(magic, "GGUF", 4) != 0)
        fail(Status::bad_file, "gguf", "magic: expected GGUF, got something else");
    result.version = scalar<uint32_t>("version");
    if (result.version != 0 && (result.version & 0xffff) == 0) {
        fail(Status::unsupported, "gguf", "the file is big-endian: convert it for little-endian machines");
    }
    if (result.version != 2 && result.version != 3) {
        fail(Status::unsupported, "gguf", "version: expected 2 or 3, got ", result.version);
    }
    // Shortest entries: empty name, 1 dimension, type, offset; empty key, type, 1 byte.
    const uint64_t tensors = count("tensor count", most_tensors, 8 + 4 + 8 + 4 + 8);
    const uint64_t pairs = count("metadata count", most_pairs, 8 + 4 + 1);

    for (uint64_t i = 0; i < pairs; ++i) {
        const std::string key = string("metadata key", most_name_bytes);
        const ValueType type = value_type(key);
        const uint64_t start = position_;
        if (!result.metadata.values_.emplace(key, value(type, key)).second) {
            fail(Status::bad_file, "gguf", key, ": expected once, got twice");
        }
        result.entries.push_back({key, static_cast<uint32_t>(type), start, position_ - start});
    }
    const uint64_t alignment = result.metadata.integer("general.alignment").value_or(32);
    if (!std::has_single_bit(alignment) || alignment > (1 << 20)) {
        fail(Status::bad_file, "gguf", "general.alignment: expected a power of two up to 2^20, got ",
             alignment);
    }

    std::set<std::string_view> names;
    result.tensors.reserve(static_cast<size_t>(tensors));
    for (uint64_t i = 0; i < tensors; ++i) {
        const GgufTensor& added = result.tensors.emplace_back(tensor());
        if (!names.insert(added.name).second)
            fail(Status::bad_file, "gguf", "tensor ", added.name, ": expected once, got twice");
    }
    const uint64_t data_start = (position_ + alignment - 1) / alignment * alignment;
    std::vector<Extent> extents;
    for (GgufTensor& tensor : result.tensors)
        extents.push_back(place(tensor, data_start, alignment, std::max(whole, file_.size())));
    check_apart(std::move(extents));
    return result;
}

Gguf read_gguf(const File& file, uint64_t whole) {
    return naming_file(file.path(), [&] { return GgufReader(file).read(whole); });
}

template <class T> const T* GgufMetadata::find(std::string_view key, const char* expected) const {
    const auto found = values_.find(key);
    if (found == values_.end()) return nullptr;
    if (const T* value = std::get_if<T>(&found->second)) return value;
    fail(Status::bad_file, "gguf", key, ": expected ", expected, ", got ", kind_of(found->second));
}

std::optional<uint64_t> GgufMetadata::integer(std::string_view key) const {
    const auto found = values_.find(key);
    if (found == values_.end()) return std::nullopt;
    if (const int64_t* value = std::get_if<int64_t>(&found->second)) {
        if (*value < 0) fail(Status::bad_file, "gguf", key, ": expected 0 or more, got ", *value);
        return static_cast<uint64_t>(*value);
    }
    return *find<uint64_t>(key, "an integer");
}

std::optional<double> GgufMetadata::number(std::string_view key) const {
    const auto found = values_.find(key);
    if (found == values_.end()) return std::nullopt;
    if (const uint64_t* value = std::get_if<uint64_t>(&found->second)) return static_cast<double>(*value);
    if (const int64_t* value = std::get_if<int64_t>(&found->second)) return static_cast<double>(*value);
    return *find<double>(key, "a number");
}

std::optional<bool> GgufMetadata::boolean(std::string_view key) const {
    const bool* value = find<bool>(key, "a bool");
    return value ? std::optional(*value) : std::nullopt;
}

const std::string* GgufMetadata::text(std::string_view key) const {
    return find<std::string>(key, "a string");
}

const std::vector<std::string>* GgufMetadata::texts(std::string_view key) const {
    const GgufArray* array = find<GgufArray>(key, "an array of strings");
    if (array == nullptr) return nullptr;
    const auto* texts = std::get_if<std::vector<std::string>>(array);
    if (texts == nullptr)
        fail(Status::bad_file, "gguf", key, ": expected an array of strings, got one of numbers");
    return texts;
}

std::optional<std::vector<int64_t>> GgufMetadata::integers(std::string_view key) const {
    const GgufArray* array = find<GgufArray>(key, "an array of integers");
    if (array == nullptr) return std::nullopt;
    if (const auto* values = std::get_if<std::vector<int64_t>>(array)) return *values;
    const auto* values = std::get_if<std::vector<uint64_t>>(array);
    if (values == nullptr)
        fail(Status::bad_file, "gguf", key, ": expected an array of integers, got another");
    const bool fits = std::ranges::all_of(
        *values, [](uint64_t v) { return v <= uint64_t{std::numeric_limits<int64_t>::max()}; });
    if (!fits) fail(Status::bad_file, "gguf", key, ": expected integers below 2^63");
    return std::vector<int64_t>(values->begin(), values->end());
}

std::optional<std::vector<double>> GgufMetadata::numbers(std::string_view key) const {
    const GgufArray* array = find<GgufArray>(key, "an array of floats");
    if (array == nullptr) return std::nullopt;
    const auto* values = std::get_if<std::vector<double>>(array);
    if (values == nullptr) fail(Status::bad_file, "gguf", key, ": expected an array of floats, got another");
    return *values;
}

std::string GgufMetadata::json() const {
    constexpr size_t shown = 8;
    nlohmann::ordered_json object = nlohmann::ordered_json::object();
    for (const auto& [key, value] : values_) {
        nlohmann::ordered_json& slot = object[key];
        const auto array_json = [&](const auto& elements) {
            slot = nlohmann::ordered_json::array();
            for (size_t i = 0; i < std::min(shown, elements.size()); ++i) slot.push_back(elements[i]);
            if (elements.size() > shown) slot = {{"count", elements.size()}, {"first", std::move(slot)}};
        };
        if (const auto* array = std::get_if<GgufArray>(&value))
            std::visit(array_json, *array);
        else
            std::visit(
                [&](const auto& one) {
                    if constexpr (!std::is_same_v<std::decay_t<decltype(one)>, GgufArray>) slot = one;
                },
                value);
    }
    return object.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

nlohmann::json GgufMetadata::section(std::string_view prefix) const {
    nlohmann::json object = nlohmann::json::object();
    for (auto at = values_.lower_bound(prefix); at != values_.end() && at->first.starts_with(prefix); ++at) {
        nlohmann::json& slot = object[at->first.substr(prefix.size())];
        const auto put = [&](const auto& one) { slot = one; };
        if (const auto* array = std::get_if<GgufArray>(&at->second))
            std::visit(put, *array);
        else
            std::visit(
                [&](const auto& one) {
                    if constexpr (!std::is_same_v<std::decay_t<decltype(one)>, GgufArray>) put(one);
                },
                at->second);
    }
    return object;
}

std::string gguf_type_name(uint32_t type) {
    if (type < std::size(type_names) && type_names[type] != nullptr) return type_names[type];
    return cat("type ", type);
}

TensorView tensor_view(const GgufTensor& tensor) {
    const TensorTypeInfo* info = tensor_type_info(tensor.type);
    if (info == nullptr) {
        fail(Status::unsupported, "gguf", "tensor ", tensor.name, ": type ", gguf_type_name(tensor.type),
             " is not supported");
    }
    uint64_t rows = 1;  // no overflow: the reader has checked the product
    for (size_t i = 1; i < tensor.dimensions.size(); ++i) rows *= tensor.dimensions[i];
    const uint64_t cols = tensor.dimensions[0];
    constexpr uint64_t most = std::numeric_limits<uint32_t>::max();
    if (rows > most || cols > most) {
        fail(Status::unsupported, "gguf", "tensor ", tensor.name,
             ": expected rows and columns below 2^32, got [", rows, ", ", cols, "]");
    }
    return {tensor.name, info->type,   static_cast<uint32_t>(rows), static_cast<uint32_t>(cols),
            tensor.file, tensor.offset};
}

}  // namespace scoria
