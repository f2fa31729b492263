// Little-endian hosts only, as everywhere in Scoria: the data is read and written as it lies in memory.
#include "safetensors_file.h"

#include "fail.h"
#include "file.h"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace scoria::cli {
namespace {

constexpr uint64_t most_header_bytes = 100'000'000;  // the format's own cap

struct Header {
    nlohmann::json entries;
    uint64_t data = 0;  // where the data starts in the file
};

Header read_header(const File& file) {
    const std::string where = file.path();
    uint64_t length = 0;
    if (file.size() < sizeof length) fail(Status::bad_file, where, "expected at least 8 bytes, got ", file.size());
    file.read(0, std::as_writable_bytes(std::span(&length, 1)));
    if (length > std::min(most_header_bytes, file.size() - sizeof length))
        fail(Status::bad_file, where, "expected a header inside the file of ", file.size(), " bytes, got ", length);
    std::string text(length, '\0');
    file.read(sizeof length, std::as_writable_bytes(std::span(text)));
    nlohmann::json entries = nlohmann::json::parse(text, nullptr, false);
    if (!entries.is_object()) fail(Status::bad_file, where, "expected a JSON object as header, got something else");
    return {std::move(entries), sizeof length + length};
}

template <class T> std::vector<int64_t> integers(const File& file, uint64_t first, uint64_t bytes) {
    std::vector<T> values(bytes / sizeof(T));
    file.read(first, std::as_writable_bytes(std::span(values)));
    return std::vector<int64_t>(values.begin(), values.end());
}

using Stream = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

}  // namespace

std::vector<int64_t> read_integers(const std::filesystem::path& path, const std::string& name) {
    const File file(path);
    const Header header = read_header(file);
    const std::string where = path.string();
    if (!header.entries.contains(name)) fail(Status::bad_file, where, "expected a tensor ", name, ", got none");
    const nlohmann::json& entry = header.entries[name];
    std::string type;
    std::vector<uint64_t> shape, range;
    try {
        type = entry.at("dtype").get<std::string>();
        shape = entry.at("shape").get<std::vector<uint64_t>>();
        range = entry.at("data_offsets").get<std::vector<uint64_t>>();
    } catch (const nlohmann::json::exception& error) {
        fail(Status::bad_file, where, "expected dtype, shape and data_offsets of ", name, ", got: ", error.what());
    }
    const uint64_t width = type == "I64" ? 8 : type == "I32" ? 4 : 0;
    if (width == 0 || shape.size() != 1)
        fail(Status::bad_file, where, "expected ", name, " to be I64 or I32 with one dimension, got ", type, " with ", shape.size());
    const uint64_t room = file.size() - header.data;
    if (range.size() != 2 || range[0] > range[1] || range[1] > room || (range[1] - range[0]) / width != shape[0] ||
        (range[1] - range[0]) % width != 0)
        fail(Status::bad_file, where, "expected ", name, " of ", shape[0], " values inside ", room,
             " bytes of data, got other offsets");
    const uint64_t first = header.data + range[0], bytes = range[1] - range[0];
    return width == 8 ? integers<int64_t>(file, first, bytes) : integers<int32_t>(file, first, bytes);
}

void write_safetensors(const std::filesystem::path& path, std::span<const OutputTensor> tensors) {
    nlohmann::json header = nlohmann::json::object();
    uint64_t offset = 0;
    for (const OutputTensor& tensor : tensors) {
        header[tensor.name] = {{"dtype", tensor.type},
                               {"shape", tensor.shape},
                               {"data_offsets", {offset, offset + tensor.data.size()}}};
        offset += tensor.data.size();
    }
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');  // data starts at a multiple of 8
    const uint64_t length = text.size();

    const std::filesystem::path partial = path.string() + ".partial";
    const auto failed = [&] {
        const std::string reason = std::strerror(errno);
        std::remove(partial.c_str());
        fail(Status::failed, path.string(), "expected to be written, got: ", reason);
    };
    Stream out(std::fopen(partial.c_str(), "wb"), std::fclose);
    if (!out) failed();
    const auto write = [&](const void* data, size_t bytes) { return std::fwrite(data, 1, bytes, out.get()) == bytes; };
    bool written = write(&length, sizeof length) && write(text.data(), text.size());
    for (const OutputTensor& tensor : tensors) written = written && write(tensor.data.data(), tensor.data.size());
    if (!written || std::fclose(out.release()) != 0 || std::rename(partial.c_str(), path.c_str()) != 0) failed();
}

}  // namespace scoria::cli
