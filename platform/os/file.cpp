// POSIX positioned reads and atomic replacement.
#include "file.h"
#include "fail.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace scoria {
namespace {

std::string system_reason() { return std::generic_category().message(errno); }

struct Descriptor {
    int value;
    ~Descriptor() {
        if (value >= 0) ::close(value);
    }
};

void write_all(int descriptor, std::span<const std::byte> bytes, const std::string& path) {
    while (!bytes.empty()) {
        const ssize_t wrote = ::write(descriptor, bytes.data(), bytes.size());
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) fail(Status::failed, path, "cannot be written: ", system_reason());
        bytes = bytes.subspan(size_t(wrote));
    }
}

}  // namespace

File::File(const std::string& path)
    : path_(path),
      descriptor_(::open(path.c_str(),
                         O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {  // a pipe without a writer would wait for ever
    if (descriptor_ < 0) fail(Status::bad_file, path, "cannot be opened: ", system_reason());
    struct stat info {};
    const bool known = ::fstat(descriptor_, &info) == 0;
    if (!known || !S_ISREG(info.st_mode)) {
        ::close(descriptor_);
        fail(Status::bad_file, path, "expected a regular file");
    }
    size_ = uint64_t(info.st_size);
}

File::~File() {
    if (mapped_ != nullptr) ::munmap(const_cast<std::byte*>(mapped_), size_t(size_));
    if (descriptor_ >= 0) ::close(descriptor_);
}

File::File(File&& other) noexcept
    : path_(std::move(other.path_)), size_(other.size_), descriptor_(std::exchange(other.descriptor_, -1)),
      mapped_(std::exchange(other.mapped_, nullptr)) {}

File& File::operator=(File&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(size_, other.size_);
    std::swap(descriptor_, other.descriptor_);
    std::swap(mapped_, other.mapped_);
    return *this;
}

void File::map() {
    if (mapped_ != nullptr || size_ == 0) return;
    void* const at = ::mmap(nullptr, size_t(size_), PROT_READ, MAP_SHARED, descriptor_, 0);
    if (at == MAP_FAILED) fail(Status::failed, path_, "cannot be mapped: ", system_reason());
    mapped_ = static_cast<const std::byte*>(at);
}

void File::read(uint64_t offset, std::span<std::byte> out) const {
    if (offset > size_ || out.size() > size_ - offset)
        fail(Status::bad_file, path_, "expected ", out.size(), " bytes at offset ", offset,
             ", got a file of ", size_, " bytes");
    if (mapped_ != nullptr && !out.empty()) {
        std::memcpy(out.data(), mapped_ + offset, out.size());
        return;
    }
    while (!out.empty()) {
        const ssize_t got =
            ::pread(descriptor_, out.data(), std::min<size_t>(out.size(), 1u << 30), off_t(offset));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) fail(Status::bad_file, path_, "cannot be read: ", system_reason());
        if (got == 0) fail(Status::bad_file, path_, "shrank while it was read, at byte ", offset);
        out = out.subspan(size_t(got));
        offset += uint64_t(got);
    }
}

std::string read_file(const std::string& path, uint64_t limit) {
    const File file(path);
    if (file.size() > limit)
        fail(Status::bad_file, path, "expected at most ", limit, " bytes, got ", file.size());
    std::string text(size_t(file.size()), '\0');
    file.read(0, std::as_writable_bytes(std::span(text)));
    return text;
}

void write_file_atomic(const std::string& path, std::span<const std::byte> bytes) {
    static std::atomic<uint32_t> serial{0};  // two threads may write the same path
    const std::string temporary = cat(path, ".", uint64_t(::getpid()), ".", serial++, ".tmp");
    try {
        const Descriptor file{::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
        if (file.value < 0) fail(Status::failed, path, "cannot be created: ", system_reason());
        write_all(file.value, bytes, path);
        if (::fsync(file.value) != 0) fail(Status::failed, path, "cannot be synced: ", system_reason());
        if (::rename(temporary.c_str(), path.c_str()) != 0)
            fail(Status::failed, path, "cannot be replaced: ", system_reason());
    } catch (...) {
        ::unlink(temporary.c_str());
        throw;
    }
}

NewFile::NewFile(std::string path, uint64_t bytes) : path_(std::move(path)), partial_(path_ + ".partial") {
    Descriptor opened{::open(partial_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644)};
    if (opened.value < 0) fail(Status::failed, path_, "cannot be created: ", system_reason());
    // The lock proves that no other process writes it; comparing the files, that none has just renamed it.
    struct stat ours {
    }, named{};
    if (::flock(opened.value, LOCK_EX | LOCK_NB) != 0 || ::fstat(opened.value, &ours) != 0 ||
        ::stat(partial_.c_str(), &named) != 0 || ours.st_ino != named.st_ino || ours.st_dev != named.st_dev)
        fail(Status::failed, path_, "is being written by another process");
    int error = ::ftruncate(opened.value, 0) == 0 ? 0 : errno;
    if (error == 0 && bytes != 0) error = ::posix_fallocate(opened.value, 0, off_t(bytes));
    if (error != 0) {
        ::unlink(partial_.c_str());
        fail(Status::failed, path_, bytes,
             " bytes cannot be reserved: ", std::generic_category().message(error));
    }
    descriptor_ = std::exchange(opened.value, -1);
}

NewFile::~NewFile() {
    if (descriptor_ < 0) return;
    ::unlink(partial_.c_str());
    ::close(descriptor_);
}

void NewFile::write(uint64_t offset, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t wrote = ::pwrite(descriptor_, bytes.data(), bytes.size(), off_t(offset));
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) fail(Status::failed, path_, "cannot be written: ", system_reason());
        bytes = bytes.subspan(size_t(wrote));
        offset += uint64_t(wrote);
    }
}

void NewFile::commit() {
    if (::fsync(descriptor_) != 0) fail(Status::failed, path_, "cannot be synced: ", system_reason());
    if (::rename(partial_.c_str(), path_.c_str()) != 0)
        fail(Status::failed, path_, "cannot be replaced: ", system_reason());
    ::close(std::exchange(descriptor_, -1));
}

void make_folders(const std::string& path) {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    if (error) fail(Status::failed, path, "cannot be created: ", error.message());
}

}  // namespace scoria
