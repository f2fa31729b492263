// See npy.h. The format is NumPy's NEP 1: magic, version, length of a header, the header as a Python dict.
#include "npy.h"

#include "cache_tools.h"
#include "fail.h"
#include "file.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>

namespace scoria::validate {
namespace {

template <class T> double number_at(const char* bytes) {
    T value;
    std::memcpy(&value, bytes, sizeof value);
    return double(value);
}
double half_at(const char* bytes) {
    uint16_t value;
    std::memcpy(&value, bytes, sizeof value);
    return double(float_of(value));
}

struct NpyType {
    const char* name;
    size_t bytes;
    double (*read)(const char*);
};
constexpr NpyType npy_types[] = {
    {"f2", 2, half_at},
    {"f4", 4, number_at<float>},
    {"f8", 8, number_at<double>},
    {"i1", 1, number_at<int8_t>},
    {"i2", 2, number_at<int16_t>},
    {"i4", 4, number_at<int32_t>},
    {"i8", 8, number_at<int64_t>},
    {"u1", 1, number_at<uint8_t>},
    {"u2", 2, number_at<uint16_t>},
    {"u4", 4, number_at<uint32_t>},
    {"u8", 8, number_at<uint64_t>},
    {"b1", 1, number_at<uint8_t>},
};

/// What the header's dict holds under `key`; a tuple without its end is none.
std::string_view entry(std::string_view header, const char* key) {
    const std::string start = cat("'", key, "':");
    const size_t at = header.find(start);
    if (at == std::string_view::npos) return {};
    header.remove_prefix(at + start.size());
    header.remove_prefix(std::min(header.find_first_not_of(' '), header.size()));
    if (header.starts_with('(')) return header.substr(0, header.find(')') + 1);
    return header.substr(0, header.find_first_of(",}"));
}

/// "(2, 3)", "(2,)" or "()". Errors: bad_file.
std::vector<size_t> npy_shape(std::string_view tuple, const std::string& path, size_t most) {
    std::vector<size_t> shape;
    const auto wrong = [&] {
        fail(Status::bad_file, path,
             "expected a shape of sizes from 1, and as many elements as the file holds, ", "got ",
             tuple.empty() ? "none that is whole" : tuple.substr(0, 80));
    };
    if (tuple.empty()) wrong();
    const char *at = tuple.data() + 1, *const end = tuple.data() + tuple.size() - 1;
    for (size_t count = 1; at < end;) {
        size_t size = 0;
        const auto [rest, error] = std::from_chars(at, end, size);
        if (error != std::errc() || size == 0 || size > most / count || (rest < end && *rest != ',')) wrong();
        shape.push_back(size);
        count *= size;
        at = std::find_if(std::min(rest + 1, end), end, [](char c) { return c != ' '; });
    }
    return shape;
}

}  // namespace

NpyArray read_npy(const std::string& path) {
    const std::string file = read_file(path);
    if (file.size() < 12 || file.compare(0, 6, "\x93NUMPY") != 0)
        fail(Status::bad_file, path, "expected an .npy file");
    if (file[6] < 1 || file[6] > 3)
        fail(Status::bad_file, path, "expected version 1 to 3 of the format, got ", int(file[6]));
    const size_t length_bytes = file[6] == 1 ? 2 : 4;
    size_t length = 0;
    for (size_t i = 0; i < length_bytes; ++i) length |= size_t(uint8_t(file[8 + i])) << (8 * i);
    const size_t start = 8 + length_bytes;
    if (length > std::min<size_t>(file.size() - start, 1 << 16))
        fail(Status::bad_file, path, "expected a header of at most ",
             std::min<size_t>(file.size() - start, 1 << 16), " bytes, got ", length);
    const std::string_view header = std::string_view(file).substr(start, length);
    const std::string_view type = entry(header, "descr");  // '<f4'
    const auto* known = std::ranges::find_if(npy_types, [&](const NpyType& each) {
        return type.size() == 5 && type.substr(2) == cat(each.name, "'") && type[0] == '\'' &&
               (type[1] == '<' || type[1] == '|' || type[1] == '=');
    });
    if (known == std::end(npy_types))
        fail(Status::bad_file, path, "expected little-endian numbers (f2, f4, f8, integers), got ",
             type.substr(0, 80));
    if (entry(header, "fortran_order") != "False")
        fail(Status::bad_file, path, "expected C order (numpy.ascontiguousarray)");

    NpyArray array{npy_shape(entry(header, "shape"), path, file.size()), {}};
    size_t count = 1;
    for (const size_t size : array.shape) count *= size;
    const size_t data = start + length;
    if (file.size() - data != count * known->bytes)
        fail(Status::bad_file, path, "expected ", count * known->bytes, " bytes of data, got ",
             file.size() - data);
    array.values.resize(count);
    for (size_t i = 0; i < count; ++i) array.values[i] = known->read(&file[data + i * known->bytes]);
    return array;
}

void write_npy(const std::string& path, const NpyArray& array) {
    std::string header = "{'descr': '<f8', 'fortran_order': False, 'shape': (";
    for (const size_t size : array.shape) header += cat(size, ",");
    header += "), }";
    constexpr size_t before = 10;  // magic, version and the header's length of 2 bytes
    header.resize((before + header.size() + 1 + 63) / 64 * 64 - before - 1, ' ');
    header += '\n';
    std::string bytes = "\x93NUMPY\x01";
    bytes += '\0';
    bytes += {char(header.size() & 255), char(header.size() >> 8)};
    bytes += header;
    bytes.append(reinterpret_cast<const char*>(array.values.data()), array.values.size() * sizeof(double));
    write_file_atomic(path, std::as_bytes(std::span(bytes)));
}

}  // namespace scoria::validate
