// See npy.h. The format is NumPy's NEP 1: magic, version, length of a header, the header as a Python dict.
#include "npy.h"

#include "cache_tools.h"
#include "fail.h"
#include "file.h"

#include <algorithm>
#include <cstring>
#include <regex>

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

std::string found(const std::string& header, const char* pattern) {
    std::smatch match;
    return std::regex_search(header, match, std::regex(pattern)) ? match[1].str() : std::string();
}

}  // namespace

NpyArray read_npy(const std::string& path) {
    const std::string file = read_file(path);
    if (file.size() < 12 || file.compare(0, 6, "\x93NUMPY") != 0)
        fail(Status::bad_file, path, "expected an .npy file");
    const size_t length_bytes = file[6] == 1 ? 2 : 4;
    size_t length = 0;
    for (size_t i = 0; i < length_bytes; ++i) length |= size_t(uint8_t(file[8 + i])) << (8 * i);
    const size_t start = 8 + length_bytes;
    if (length > std::min<size_t>(file.size() - start, 1 << 16))
        fail(Status::bad_file, path, "expected a header of at most ", file.size() - start, " bytes, got ",
             length);
    const std::string header = file.substr(start, length);
    const std::string type = found(header, "'descr': *'[<|=]([a-z][0-9])'");
    const auto* known = std::ranges::find(npy_types, type, &NpyType::name);
    if (known == std::end(npy_types))
        fail(Status::bad_file, path, "expected little-endian numbers (f2, f4, f8, integers), got ",
             found(header, "'descr': *([^,]*)"));
    if (found(header, "'fortran_order': *(False)").empty())
        fail(Status::bad_file, path, "expected C order (numpy.ascontiguousarray)");

    NpyArray array;
    size_t count = 1;
    const std::string shape = found(header, "'shape': *\\(([0-9, ]*)\\)");
    for (size_t at = 0; (at = shape.find_first_of("0123456789", at)) != std::string::npos;) {
        const size_t end = std::min(shape.find_first_not_of("0123456789", at), shape.size());
        const size_t size = end - at > 12 ? SIZE_MAX : size_t(std::stoull(shape.substr(at, end - at)));
        if (size > file.size() || count * size > file.size())
            fail(Status::bad_file, path, "expected as many elements as the file holds, got shape (", shape,
                 ")");
        array.shape.push_back(size);
        count *= size;
        at = end;
    }
    const size_t data = start + length;
    if (file.size() - data != count * known->bytes)
        fail(Status::bad_file, path, "expected ", count * known->bytes, " bytes of data, got ",
             file.size() - data);
    array.values.resize(count);
    for (size_t i = 0; i < count; ++i) array.values[i] = known->read(&file[data + i * known->bytes]);
    return array;
}

}  // namespace scoria::validate
