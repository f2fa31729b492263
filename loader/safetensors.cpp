#include "safetensors.h"

#include "fail.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <set>

namespace scoria {
namespace {

constexpr uint64_t most_header_bytes = 100'000'000;  // the cap of the format's own library
constexpr size_t most_arrays = 1 << 16;
constexpr size_t most_values = 1 << 20;  // JSON takes many times its text in memory
constexpr int most_depth = 3;            // file, array, shape
constexpr size_t most_dimensions = 8;

struct ElementType {
    std::string_view name;
    uint64_t bytes;
};
constexpr ElementType element_types[] = {
    {"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"I64", 8},  {"I32", 4},
    {"I16", 2}, {"I8", 1},  {"U64", 8}, {"U32", 4},  {"U16", 2},     {"U8", 1},      {"BOOL", 1},
};

template <class T> constexpr const char* type_of() {
    if constexpr (std::is_same_v<T, float>)
        return "F32";
    else if constexpr (std::is_same_v<T, double>)
        return "F64";
    else if constexpr (std::is_same_v<T, int32_t>)
        return "I32";
    else if constexpr (std::is_same_v<T, int64_t>)
        return "I64";
    else
        return "U8";
}

/// Parses the header, refusing what would make the parser work or allocate out of proportion.
nlohmann::json parse_header(const std::string& text) {
    using Event = nlohmann::json::parse_event_t;
    size_t values = 0;
    std::set<std::string> names;
    const auto watch = [&](int depth, Event event, nlohmann::json& parsed) {
        if (depth > most_depth)
            fail(Status::bad_file, "safetensors", "header: nested deeper than ", most_depth);
        if (++values > most_values)
            fail(Status::bad_file, "safetensors", "header: more than ", most_values, " values");
        if (event == Event::key && depth == 1 && !names.insert(parsed.get<std::string>()).second) {
            fail(Status::bad_file, "safetensors", parsed.get<std::string>(), ": expected once, got twice");
        }
        return true;
    };
    try {
        nlohmann::json header = nlohmann::json::parse(text, watch);
        if (!header.is_object()) fail(Status::bad_file, "safetensors", "header: expected a JSON object");
        return header;
    } catch (const nlohmann::json::exception& error) {
        fail(Status::bad_file, "safetensors", "header: ", error.what());
    }
}

uint64_t unsigned_number(const nlohmann::json& value, std::string_view what) {
    if (!value.is_number_unsigned())
        fail(Status::bad_file, "safetensors", what, ": expected an integer of 0 or more");
    return value.get<uint64_t>();
}

/// Offsets are relative to the data until the caller has checked that the arrays tile it.
SafetensorsArray read_array(const std::string& name, const nlohmann::json& entry) {
    if (!entry.is_object()) fail(Status::bad_file, "safetensors", name, ": expected an object");
    const auto type = entry.find("dtype"), shape = entry.find("shape"), range = entry.find("data_offsets");
    if (type == entry.end() || !type->is_string())
        fail(Status::bad_file, "safetensors", name, ": expected a dtype");
    if (shape == entry.end() || !shape->is_array() || shape->size() > most_dimensions) {
        fail(Status::bad_file, "safetensors", name, ": expected a shape of at most ", most_dimensions,
             " sizes");
    }
    if (range == entry.end() || !range->is_array() || range->size() != 2) {
        fail(Status::bad_file, "safetensors", name, ": expected two data_offsets");
    }
    SafetensorsArray array;
    array.type = type->get<std::string>();
    const auto known = std::ranges::find(element_types, array.type, &ElementType::name);
    if (known == std::end(element_types)) {
        fail(Status::unsupported, "safetensors", name, ": element type ", array.type, " is not supported");
    }
    uint64_t bytes = known->bytes;
    for (const nlohmann::json& size : *shape) {
        array.shape.push_back(unsigned_number(size, name));
        if (__builtin_mul_overflow(bytes, array.shape.back(), &bytes)) {
            fail(Status::bad_file, "safetensors", name, ": the number of bytes overflows");
        }
    }
    array.offset = unsigned_number((*range)[0], name);
    const uint64_t end = unsigned_number((*range)[1], name);
    if (end < array.offset || end - array.offset != bytes) {
        fail(Status::bad_file, "safetensors", name, ": expected ", bytes, " bytes by its shape, got offsets ",
             array.offset, " to ", end);
    }
    array.bytes = bytes;
    return array;
}

void check_tiling(const std::map<std::string, SafetensorsArray, std::less<>>& arrays, uint64_t data_bytes) {
    std::vector<std::pair<uint64_t, uint64_t>> ranges;
    for (const auto& [name, array] : arrays) ranges.emplace_back(array.offset, array.offset + array.bytes);
    std::ranges::sort(ranges);
    uint64_t end = 0;
    for (const auto& [first, last] : ranges) {
        if (first != end) {
            fail(Status::bad_file, "safetensors", first < end ? "arrays overlap" : "a hole between arrays",
                 ": expected data at ", end, ", got ", first);
        }
        end = last;
    }
    if (end != data_bytes)
        fail(Status::bad_file, "safetensors", "expected ", end, " bytes of data, got ", data_bytes);
}

}  // namespace

uint64_t SafetensorsArray::elements() const {
    uint64_t product = 1;
    for (const uint64_t size : shape) product *= size;
    return product;
}

Safetensors::Safetensors(const std::string& path) : file_(path) {
    uint64_t header_bytes = 0;
    file_.read(0, std::as_writable_bytes(std::span(&header_bytes, 1)));
    const uint64_t most = std::min(most_header_bytes, file_.size() - sizeof header_bytes);
    if (header_bytes > most) {
        fail(Status::bad_file, "safetensors", "header: expected at most ", most, " bytes, got ",
             header_bytes);
    }
    std::string text(static_cast<size_t>(header_bytes), '\0');
    file_.read(sizeof header_bytes, std::as_writable_bytes(std::span(text)));
    const nlohmann::json header = parse_header(text);
    if (header.size() > most_arrays) {
        fail(Status::bad_file, "safetensors", "header: expected at most ", most_arrays, " arrays, got ",
             header.size());
    }
    for (const auto& [name, entry] : header.items()) {
        if (name != "__metadata__") arrays_[name] = read_array(name, entry);
    }
    const uint64_t data_start = sizeof header_bytes + header_bytes;
    check_tiling(arrays_, file_.size() - data_start);
    for (auto& [name, array] : arrays_) array.offset += data_start;
}

const SafetensorsArray& Safetensors::array(std::string_view name) const {
    const auto found = arrays_.find(name);
    if (found == arrays_.end()) fail(Status::bad_argument, file_.path(), "no array is named ", name);
    return found->second;
}

template <class T> std::vector<T> Safetensors::read(std::string_view name) const {
    const SafetensorsArray& found = array(name);
    if (found.type != type_of<T>()) {
        fail(Status::bad_argument, file_.path(), name, ": expected ", type_of<T>(), ", got ", found.type);
    }
    std::vector<T> values(static_cast<size_t>(found.bytes / sizeof(T)));
    file_.read(found.offset, std::as_writable_bytes(std::span(values)));
    return values;
}

template <class T>
NamedArray::NamedArray(std::string name_, std::vector<uint64_t> shape_, const std::vector<T>& values)
    : name(std::move(name_)), type(type_of<T>()), shape(std::move(shape_)),
      bytes(std::as_bytes(std::span(values))) {
    uint64_t elements = 1;
    for (const uint64_t size : shape) elements *= size;
    if (elements != values.size()) {
        fail(Status::bad_argument, "safetensors", name, ": expected ", elements,
             " elements by its shape, got ", values.size());
    }
}

#define SCORIA_ELEMENT(T)                                                 \
    template std::vector<T> Safetensors::read<T>(std::string_view) const; \
    template NamedArray::NamedArray(std::string, std::vector<uint64_t>, const std::vector<T>&);
SCORIA_ELEMENT(float)
SCORIA_ELEMENT(double)
SCORIA_ELEMENT(int32_t)
SCORIA_ELEMENT(int64_t)
SCORIA_ELEMENT(uint8_t)
#undef SCORIA_ELEMENT

void write_safetensors(const std::string& path, std::span<const NamedArray> arrays) {
    nlohmann::json header = nlohmann::json::object();
    uint64_t data_bytes = 0;
    for (const NamedArray& array : arrays) {
        if (header.contains(array.name))
            fail(Status::bad_argument, "safetensors", array.name, ": expected once, got twice");
        header[array.name] = {{"dtype", array.type},
                              {"shape", array.shape},
                              {"data_offsets", {data_bytes, data_bytes + array.bytes.size()}}};
        data_bytes += array.bytes.size();
    }
    std::string text = header.dump();
    text.append((8 - text.size() % 8) % 8, ' ');  // data starts at a multiple of 8

    const uint64_t header_bytes = text.size();
    std::vector<std::byte> file(sizeof header_bytes + text.size() + static_cast<size_t>(data_bytes));
    std::byte* out = file.data();
    const auto put = [&](const void* bytes, size_t size) {
        if (size != 0) std::memcpy(out, bytes, size);
        out += size;
    };
    put(&header_bytes, sizeof header_bytes);
    put(text.data(), text.size());
    for (const NamedArray& array : arrays) put(array.bytes.data(), array.bytes.size());
    write_file_atomic(path, file);
}

}  // namespace scoria
