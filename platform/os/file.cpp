// What of file.h is the same on every system.
#include "file.h"

#include "fail.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

namespace scoria {

File::File(File&& other) noexcept
    : path_(std::move(other.path_)), size_(other.size_), written_(other.written_),
      handle_(std::exchange(other.handle_, -1)), mapped_(std::exchange(other.mapped_, nullptr)) {}

File& File::operator=(File&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(size_, other.size_);
    std::swap(written_, other.written_);
    std::swap(handle_, other.handle_);
    std::swap(mapped_, other.mapped_);
    return *this;
}

void File::read(uint64_t offset, std::span<std::byte> out) const {
    if (offset > size_ || out.size() > size_ - offset)
        fail(Status::bad_file, path_, "expected ", out.size(), " bytes at offset ", offset,
             ", got a file of ", size_, " bytes");
    if (mapped_ != nullptr && !out.empty()) {
        std::memcpy(out.data(), mapped_ + offset, out.size());
        out = {};
    }
    while (!out.empty()) {
        const size_t got = read_some(offset, out.first(std::min<size_t>(out.size(), 1u << 30)));
        if (got == 0) fail(Status::bad_file, path_, "shrank while it was read, at byte ", offset);
        out = out.subspan(got);
        offset += got;
    }
    if (last_write() != written_)
        fail(Status::bad_file, path_, "expected the file that was opened, got one written to since");
}

std::string read_file(const std::string& path, uint64_t limit) {
    const File file(path);
    if (file.size() > limit)
        fail(Status::bad_file, path, "expected at most ", limit, " bytes, got ", file.size());
    std::string text(size_t(file.size()), '\0');
    file.read(0, std::as_writable_bytes(std::span(text)));
    return text;
}

std::filesystem::path path_of(std::string_view text) { return std::u8string(text.begin(), text.end()); }

void check_writable(const std::string& path) {
    std::error_code unknown;
    const std::filesystem::file_status found = std::filesystem::status(path_of(path), unknown);
    if (std::filesystem::is_directory(found)) fail(Status::failed, path, "expected a file, got a folder");
    if (std::filesystem::exists(found) && !std::filesystem::is_regular_file(found))
        return;  // a device, a pipe
    const NewFile trial(path, 0);
}

void make_folders(const std::string& path) {
    std::error_code error;
    std::filesystem::create_directories(path_of(path), error);
    if (error) fail(Status::failed, path, "cannot be created: ", error.message());
}

}  // namespace scoria
