#include "file.h"

#include "fail.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace scoria {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

constexpr uint64_t most_per_call = uint64_t{1} << 30;  // Linux transfers at most 2^31 - 4096 bytes a call

}  // namespace

File::File(int descriptor, uint64_t size, std::filesystem::path path)
    : descriptor_(descriptor), size_(size), path_(std::move(path)) {}

File::File(File&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), size_(other.size_), path_(std::move(other.path_)) {}

File& File::operator=(File&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    std::swap(size_, other.size_);
    std::swap(path_, other.path_);
    return *this;
}

File::~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

File File::open(const std::filesystem::path& path) {
    // O_NONBLOCK: opening a pipe without a writer would wait for ever; regular files ignore it.
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) fail(Status::bad_file, path.string(), "cannot open: ", reason(errno));
    File file(descriptor, 0, path);
    struct stat info {};
    if (::fstat(descriptor, &info) != 0) fail(Status::bad_file, path.string(), "cannot read: ", reason(errno));
    if (!S_ISREG(info.st_mode)) {
        fail(Status::bad_file, path.string(), "expected a regular file, got ",
             S_ISDIR(info.st_mode) ? "a folder" : "something else");
    }
    file.size_ = static_cast<uint64_t>(info.st_size);
    return file;
}

void File::read_at(uint64_t offset, std::span<std::byte> out) const {
    if (offset > size_ || out.size() > size_ - offset) {
        fail(Status::bad_file, path_.string(), "expected ", out.size(), " bytes at ", offset, ", got a file of ", size_);
    }
    while (!out.empty()) {
        const size_t wanted = static_cast<size_t>(std::min<uint64_t>(out.size(), most_per_call));
        const ssize_t got = ::pread(descriptor_, out.data(), wanted, static_cast<off_t>(offset));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) fail(Status::bad_file, path_.string(), "cannot read at ", offset, ": ", reason(errno));
        if (got == 0) fail(Status::bad_file, path_.string(), "expected ", size_, " bytes, but the file now ends at ", offset);
        out = out.subspan(static_cast<size_t>(got));
        offset += static_cast<uint64_t>(got);
    }
}

std::string read_file(const std::filesystem::path& path, uint64_t most) {
    const File file = File::open(path);
    if (file.size() > most) {
        fail(Status::bad_file, path.string(), "expected at most ", most, " bytes, got ", file.size());
    }
    std::string text(static_cast<size_t>(file.size()), '\0');
    file.read_at(0, std::as_writable_bytes(std::span(text)));
    return text;
}

void write_file(const std::filesystem::path& path, std::span<const std::byte> bytes) {
    static std::atomic<uint32_t> serial = 0;  // two threads may write the same path
    std::filesystem::path temporary = path;
    temporary += cat(".", static_cast<int64_t>(::getpid()), ".", serial++, ".tmp");
    const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0) fail(Status::failed, path.string(), "cannot write: ", reason(errno));

    int error = 0;
    while (!bytes.empty() && error == 0) {
        const ssize_t put = ::write(descriptor, bytes.data(), static_cast<size_t>(std::min<uint64_t>(bytes.size(), most_per_call)));
        if (put < 0) error = errno == EINTR ? 0 : errno;
        else bytes = bytes.subspan(static_cast<size_t>(put));
    }
    if (error == 0 && ::fsync(descriptor) != 0) error = errno;
    if (::close(descriptor) != 0 && error == 0) error = errno;
    if (error == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
    if (error != 0) {
        ::unlink(temporary.c_str());
        fail(Status::failed, path.string(), "cannot write: ", reason(error));
    }
}

void write_file(const std::filesystem::path& path, std::string_view text) {
    write_file(path, std::as_bytes(std::span(text)));
}

}  // namespace scoria
