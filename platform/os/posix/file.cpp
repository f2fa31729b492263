// POSIX positioned reads and atomic replacement.
#include "file.h"

#include "fail.h"
#include "system.h"

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace scoria {
namespace {

std::string system_reason() { return std::generic_category().message(errno); }

int64_t time_of(const struct stat& info) {
    return int64_t(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec;
}

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

/// 0; EWOULDBLOCK, if another process holds it; or another error, as where a file system has no locks.
int lock(int descriptor) { return ::flock(descriptor, LOCK_EX | LOCK_NB) == 0 ? 0 : errno; }

/// Where what is written to `path` belongs: behind symbolic links, and as whom the file that it replaces may
/// be opened by.
struct Place {
    std::string path;
    std::optional<mode_t> mode;
    bool is_special = false;  // a device, a pipe: written, never replaced
};
Place place_of(const std::string& path) {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) {
        if (errno != ENOENT) return {path, {}};
        std::error_code no_link;  // of a link to what is not there yet, that is what is made
        const std::filesystem::path target = std::filesystem::read_symlink(path, no_link);
        if (no_link) return {path, {}};
        return place_of((std::filesystem::path(path).parent_path() / target).string());
    }
    if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) return {path, {}, true};
    std::error_code unknown;
    const std::filesystem::path real = std::filesystem::canonical(path, unknown);
    return {unknown ? path : real.string(), info.st_mode & 0777};
}

}  // namespace

File::File(const std::string& path)
    : path_(path),
      handle_(::open(path.c_str(),
                     O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {  // a pipe without a writer would wait for ever
    if (handle_ < 0) fail(Status::bad_file, path, "cannot be opened: ", system_reason());
    struct stat info {};
    const bool known = ::fstat(int(handle_), &info) == 0;
    if (!known || !S_ISREG(info.st_mode)) {
        ::close(int(handle_));
        fail(Status::bad_file, path, "expected a regular file");
    }
    size_ = uint64_t(info.st_size);
    written_ = time_of(info);
}

File::~File() {
    if (mapped_ != nullptr) ::munmap(const_cast<std::byte*>(mapped_), size_t(size_));
    if (handle_ >= 0) ::close(int(handle_));
}

void File::map() {
    if (mapped_ != nullptr || size_ == 0) return;
    void* const at = ::mmap(nullptr, size_t(size_), PROT_READ, MAP_SHARED, int(handle_), 0);
    if (at == MAP_FAILED) fail(Status::failed, path_, "cannot be mapped: ", system_reason());
    mapped_ = static_cast<const std::byte*>(at);
}

size_t File::read_some(uint64_t offset, std::span<std::byte> out) const {
    while (true) {
        const ssize_t got = ::pread(int(handle_), out.data(), out.size(), off_t(offset));
        if (got >= 0) return size_t(got);
        if (errno != EINTR) fail(Status::bad_file, path_, "cannot be read: ", system_reason());
    }
}

int64_t File::last_write() const {
    struct stat info {};
    if (::fstat(int(handle_), &info) != 0)
        fail(Status::bad_file, path_, "cannot be looked at: ", system_reason());
    return time_of(info);
}

void write_file_atomic(const std::string& path, std::span<const std::byte> bytes) {
    static std::atomic<uint32_t> serial{0};  // two threads may write the same path
    const Place place = place_of(path);
    if (place.is_special) {
        const Descriptor file{::open(path.c_str(), O_WRONLY | O_CLOEXEC)};
        if (file.value < 0) fail(Status::failed, path, "cannot be opened: ", system_reason());
        return write_all(file.value, bytes, path);
    }
    const std::string temporary = cat(place.path, ".", process_id(), ".", serial++, ".tmp");
    try {
        const Descriptor file{::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
        if (file.value < 0) fail(Status::failed, path, "cannot be created: ", system_reason());
        if (place.mode && ::fchmod(file.value, *place.mode) != 0)
            fail(Status::failed, path, "cannot be created: ", system_reason());
        write_all(file.value, bytes, path);
        if (::fsync(file.value) != 0) fail(Status::failed, path, "cannot be synced: ", system_reason());
        if (::rename(temporary.c_str(), place.path.c_str()) != 0)
            fail(Status::failed, path, "cannot be replaced: ", system_reason());
    } catch (...) {
        ::unlink(temporary.c_str());
        throw;
    }
}

NewFile::NewFile(std::string path, uint64_t bytes) : path_(std::move(path)) {
    const Place place = place_of(path_);
    if (place.is_special) fail(Status::failed, path_, "expected a regular file or none");
    path_ = place.path;
    partial_ = path_ + ".partial";
    Descriptor opened{::open(partial_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644)};
    if (opened.value < 0) fail(Status::failed, path_, "cannot be created: ", system_reason());
    // The lock proves that no other process writes it; comparing the files, that none has just renamed it.
    struct stat ours {
    }, named{};
    int error = lock(opened.value);
    if (error == EWOULDBLOCK || ::fstat(opened.value, &ours) != 0 || ::stat(partial_.c_str(), &named) != 0 ||
        ours.st_ino != named.st_ino || ours.st_dev != named.st_dev)
        fail(Status::failed, path_, "is being written by another process");
    if (error == 0 && ::ftruncate(opened.value, 0) != 0) error = errno;
    if (error == 0 && place.mode && ::fchmod(opened.value, *place.mode) != 0) error = errno;
    if (error == 0 && bytes != 0) error = ::posix_fallocate(opened.value, 0, off_t(bytes));
    if (error != 0) {
        ::unlink(partial_.c_str());
        fail(Status::failed, path_, bytes,
             " bytes cannot be reserved: ", std::generic_category().message(error));
    }
    handle_ = std::exchange(opened.value, -1);
}

NewFile::~NewFile() {
    if (handle_ < 0) return;
    ::unlink(partial_.c_str());
    ::close(int(handle_));
}

void NewFile::write(uint64_t offset, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t wrote = ::pwrite(int(handle_), bytes.data(), bytes.size(), off_t(offset));
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) fail(Status::failed, path_, "cannot be written: ", system_reason());
        bytes = bytes.subspan(size_t(wrote));
        offset += uint64_t(wrote);
    }
}

void NewFile::commit() {
    if (::fsync(int(handle_)) != 0) fail(Status::failed, path_, "cannot be synced: ", system_reason());
    if (::rename(partial_.c_str(), path_.c_str()) != 0)
        fail(Status::failed, path_, "cannot be replaced: ", system_reason());
    ::close(int(std::exchange(handle_, -1)));
}

LockedFile::LockedFile(const std::string& path) {
    Descriptor file{::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)};
    if (file.value < 0) fail(Status::failed, path, "cannot be opened: ", system_reason());
    const int error = lock(file.value);
    if (error == EWOULDBLOCK) fail(Status::busy, path, "is held by another process");
    if (error != 0) fail(Status::failed, path, "cannot be locked: ", std::generic_category().message(error));
    handle_ = std::exchange(file.value, -1);
}

LockedFile::~LockedFile() { ::close(int(handle_)); }

std::string LockedFile::text() const {
    char bytes[512];
    const ssize_t size = ::pread(int(handle_), bytes, sizeof bytes, 0);
    return {bytes, size > 0 ? size_t(size) : 0};
}

bool LockedFile::write(std::string_view text) noexcept {
    const int file = int(handle_);
    if (::ftruncate(file, 0) != 0) return false;
    return text.empty() ||
           (::pwrite(file, text.data(), text.size(), 0) == ssize_t(text.size()) && ::fsync(file) == 0);
}

ScratchFile::ScratchFile() : path_((std::filesystem::temp_directory_path() / "scoria-XXXXXX").string()) {
    const Descriptor file{::mkstemp(path_.data())};
    if (file.value < 0) fail(Status::failed, path_, "cannot be made: ", system_reason());
}

ScratchFile::~ScratchFile() { ::unlink(path_.c_str()); }

}  // namespace scoria
