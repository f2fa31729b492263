// Windows: positioned reads by OVERLAPPED offsets, locks by the sharing mode, replacement by MoveFileExW.
#include "file.h"

#include "fail.h"
#include "system.h"
#include "windows/wide.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace scoria {
namespace {

constexpr std::intptr_t none = -1;  // INVALID_HANDLE_VALUE
constexpr DWORD others_may_all = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
constexpr size_t most_at_once = 1u << 30;

HANDLE as_handle(std::intptr_t value) { return reinterpret_cast<HANDLE>(value); }

std::intptr_t open(const std::string& path, DWORD access, DWORD share, DWORD creation) {
    return reinterpret_cast<std::intptr_t>(
        ::CreateFileW(wide(path).c_str(), access, share, nullptr, creation, FILE_ATTRIBUTE_NORMAL, nullptr));
}

OVERLAPPED position(uint64_t offset) {
    OVERLAPPED at{};
    at.Offset = DWORD(offset);
    at.OffsetHigh = DWORD(offset >> 32);
    return at;
}

bool write_at(HANDLE file, uint64_t offset, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        OVERLAPPED at = position(offset);
        DWORD wrote = 0;
        if (!::WriteFile(file, bytes.data(), DWORD(std::min(bytes.size(), most_at_once)), &wrote, &at))
            return false;
        bytes = bytes.subspan(wrote);
        offset += wrote;
    }
    return true;
}

bool set_size(HANDLE file, uint64_t bytes) {
    LARGE_INTEGER at;
    at.QuadPart = LONGLONG(bytes);
    return ::SetFilePointerEx(file, at, nullptr, FILE_BEGIN) && ::SetEndOfFile(file);
}

bool replace(const std::string& from, const std::string& to) {
    return ::MoveFileExW(wide(from).c_str(), wide(to).c_str(),
                         MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH);
}

struct OpenFile {
    std::intptr_t value;
    ~OpenFile() { close(); }
    void close() {
        if (value != none) ::CloseHandle(as_handle(std::exchange(value, none)));
    }
};

}  // namespace

File::File(const std::string& path) : path_(path) {
    const DWORD attributes = ::GetFileAttributesW(wide(path).c_str());
    if (attributes == INVALID_FILE_ATTRIBUTES)
        fail(Status::bad_file, path, "cannot be opened: ", last_error());
    if (attributes & FILE_ATTRIBUTE_DIRECTORY) fail(Status::bad_file, path, "expected a regular file");
    OpenFile file{open(path, GENERIC_READ, others_may_all, OPEN_EXISTING)};
    if (file.value == none) fail(Status::bad_file, path, "cannot be opened: ", last_error());
    LARGE_INTEGER size{};
    if (::GetFileType(as_handle(file.value)) != FILE_TYPE_DISK ||
        !::GetFileSizeEx(as_handle(file.value), &size))
        fail(Status::bad_file, path, "expected a regular file");
    size_ = uint64_t(size.QuadPart);
    handle_ = std::exchange(file.value, none);
    written_ = last_write();
}

File::~File() {
    if (mapped_ != nullptr) ::UnmapViewOfFile(mapped_);
    if (handle_ != none) ::CloseHandle(as_handle(handle_));
}

void File::map() {
    if (mapped_ != nullptr || size_ == 0) return;
    const HANDLE mapping = ::CreateFileMappingW(as_handle(handle_), nullptr, PAGE_READONLY, 0, 0, nullptr);
    const void* const at = mapping ? ::MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, size_t(size_)) : nullptr;
    const std::string reason = at ? "" : last_error();
    if (mapping) ::CloseHandle(mapping);  // the view keeps it
    if (!at) fail(Status::failed, path_, "cannot be mapped: ", reason);
    mapped_ = static_cast<const std::byte*>(at);
}

size_t File::read_some(uint64_t offset, std::span<std::byte> out) const {
    OVERLAPPED at = position(offset);
    DWORD got = 0;
    if (!::ReadFile(as_handle(handle_), out.data(), DWORD(out.size()), &got, &at) &&
        ::GetLastError() != ERROR_HANDLE_EOF)
        fail(Status::bad_file, path_, "cannot be read: ", last_error());
    return got;
}

int64_t File::last_write() const {
    FILETIME time{};
    if (!::GetFileTime(as_handle(handle_), nullptr, nullptr, &time))
        fail(Status::bad_file, path_, "cannot be looked at: ", last_error());
    return int64_t(uint64_t(time.dwHighDateTime) << 32 | time.dwLowDateTime);
}

void write_file_atomic(const std::string& path, std::span<const std::byte> bytes) {
    static std::atomic<uint32_t> serial{0};  // two threads may write the same path
    const std::string temporary = cat(path, ".", process_id(), ".", serial++, ".tmp");
    OpenFile file{open(temporary, GENERIC_WRITE, 0, CREATE_ALWAYS)};
    if (file.value == none) fail(Status::failed, path, "cannot be created: ", last_error());
    const bool written =
        write_at(as_handle(file.value), 0, bytes) && ::FlushFileBuffers(as_handle(file.value));
    const std::string reason = written ? "" : last_error();
    file.close();
    if (written && replace(temporary, path)) return;
    const std::string why =
        written ? cat("cannot be replaced: ", last_error()) : cat("cannot be written: ", reason);
    ::DeleteFileW(wide(temporary).c_str());
    fail(Status::failed, path, why);
}

NewFile::NewFile(std::string path, uint64_t bytes) : path_(std::move(path)), partial_(path_ + ".partial") {
    OpenFile file{open(partial_, GENERIC_WRITE, FILE_SHARE_READ, OPEN_ALWAYS)};
    if (file.value == none && ::GetLastError() == ERROR_SHARING_VIOLATION)
        fail(Status::failed, path_, "is being written by another process");
    if (file.value == none) fail(Status::failed, path_, "cannot be created: ", last_error());
    if (!set_size(as_handle(file.value), 0) || !set_size(as_handle(file.value), bytes)) {
        const std::string reason = last_error();
        file.close();
        ::DeleteFileW(wide(partial_).c_str());
        fail(Status::failed, path_, bytes, " bytes cannot be reserved: ", reason);
    }
    handle_ = std::exchange(file.value, none);
}

NewFile::~NewFile() {
    if (handle_ == none) return;
    ::CloseHandle(as_handle(handle_));
    ::DeleteFileW(wide(partial_).c_str());
}

void NewFile::write(uint64_t offset, std::span<const std::byte> bytes) {
    if (!write_at(as_handle(handle_), offset, bytes))
        fail(Status::failed, path_, "cannot be written: ", last_error());
}

void NewFile::commit() {
    if (!::FlushFileBuffers(as_handle(handle_)))
        fail(Status::failed, path_, "cannot be synced: ", last_error());
    ::CloseHandle(as_handle(std::exchange(handle_, none)));  // an open file cannot be renamed
    if (replace(partial_, path_)) return;
    const std::string reason = last_error();
    ::DeleteFileW(wide(partial_).c_str());
    fail(Status::failed, path_, "cannot be replaced: ", reason);
}

LockedFile::LockedFile(const std::string& path)
    : handle_(open(path, GENERIC_READ | GENERIC_WRITE, FILE_SHARE_DELETE, OPEN_ALWAYS)) {
    if (handle_ == none && ::GetLastError() == ERROR_SHARING_VIOLATION)
        fail(Status::busy, path, "is held by another process");
    if (handle_ == none) fail(Status::failed, path, "cannot be opened: ", last_error());
}

LockedFile::~LockedFile() { ::CloseHandle(as_handle(handle_)); }

std::string LockedFile::text() const {
    char bytes[512];
    OVERLAPPED at = position(0);
    DWORD size = 0;
    ::ReadFile(as_handle(handle_), bytes, sizeof bytes, &size, &at);
    return {bytes, size};
}

bool LockedFile::write(std::string_view text) noexcept {
    const HANDLE file = as_handle(handle_);
    return set_size(file, 0) &&
           (text.empty() || (write_at(file, 0, std::as_bytes(std::span(text))) && ::FlushFileBuffers(file)));
}

ScratchFile::ScratchFile() {
    wchar_t folder[MAX_PATH + 1], name[MAX_PATH];
    if (!::GetTempPathW(MAX_PATH + 1, folder) || !::GetTempFileNameW(folder, L"sco", 0, name))
        fail(Status::failed, "temporary file", "cannot be made: ", last_error());
    path_ = narrow(name);
}

ScratchFile::~ScratchFile() { ::DeleteFileW(wide(path_).c_str()); }

}  // namespace scoria
