// Files by positioned reads, so that a file which shrinks is an Error and never a SIGBUS; or mapped, on
// request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace scoria {

/// A regular file open for reading. Movable; reads are thread-safe.
class File {
  public:
    /// Errors: bad_file (missing, a folder, no permission).
    explicit File(const std::string& path);
    ~File();
    File(File&& other) noexcept;
    File& operator=(File&& other) noexcept;

    const std::string& path() const { return path_; }
    uint64_t size() const { return size_; }  // bytes, when it was opened

    /// From now on reads copy from a memory map: no system call each, but a file that shrinks, or a disk that
    /// fails, ends the process (SIGBUS). Before any read in another thread. Errors: failed.
    void map();

    /// Fills `out` from byte `offset`. Errors: bad_file when the range is not all inside the file, or
    /// somebody has written to it since it was opened.
    void read(uint64_t offset, std::span<std::byte> out) const;

  private:
    size_t read_some(uint64_t offset, std::span<std::byte> out) const;  // bytes read; 0: none are left
    int64_t last_write() const;                                         // a time of the system's

    std::string path_;
    uint64_t size_ = 0;
    int64_t written_ = 0;                // last_write(), when it was opened
    std::intptr_t handle_ = -1;          // a descriptor, or a HANDLE of Windows
    const std::byte* mapped_ = nullptr;  // size_ bytes
};

/// Of UTF-8, as all text here is; std::filesystem's own conversion is the system's.
std::filesystem::path path_of(std::string_view text);

/// How the data of a model's tensors is read.
enum class Reads : uint8_t { positioned, mapped };

/// The whole file. Errors: bad_file (also when it is longer than `limit` bytes).
std::string read_file(const std::string& path, uint64_t limit = 1ull << 30);

/// Errors: failed, if a file could not be written to `path` now: for what is written after long work.
void check_writable(const std::string& path);

/// Writes a temporary file beside `path`, syncs and renames it, so readers see the old bytes or the new.
/// Errors: failed, with the reason of the system.
void write_file_atomic(const std::string& path, std::span<const std::byte> bytes);

/// A large file that appears under its name only when it is whole. Bytes go to `path`.partial, which the
/// next writer of the same path takes over if a killed one left it behind.
class NewFile {
  public:
    /// Reserves the disk space at once. Errors: failed (no permission, disk full, another process is writing
    /// the same path).
    NewFile(std::string path, uint64_t bytes);
    /// Without commit() nothing is left.
    ~NewFile();
    NewFile(const NewFile&) = delete;
    NewFile& operator=(const NewFile&) = delete;

    /// Thread-safe for ranges that do not overlap. Errors: failed.
    void write(uint64_t offset, std::span<const std::byte> bytes);
    /// Syncs and renames. Errors: failed.
    void commit();

  private:
    std::string path_, partial_;
    std::intptr_t handle_ = -1;
};

/// A small file that one process at a time holds, and lets go of however it ends. Made where there is none.
class LockedFile {
  public:
    /// Errors: busy (another process holds it), failed (it cannot be opened).
    explicit LockedFile(const std::string& path);
    ~LockedFile();
    LockedFile(const LockedFile&) = delete;
    LockedFile& operator=(const LockedFile&) = delete;

    /// Its first 512 bytes.
    std::string text() const;
    /// `text` instead of what it holds; on disk when this returns, unless empty. False: it cannot be written.
    bool write(std::string_view text) noexcept;

  private:
    std::intptr_t handle_ = -1;
};

/// An empty file in the system's folder for temporary ones, until this goes.
class ScratchFile {
  public:
    /// Errors: failed.
    ScratchFile();
    ~ScratchFile();
    ScratchFile(const ScratchFile&) = delete;
    ScratchFile& operator=(const ScratchFile&) = delete;
    const std::string& path() const { return path_; }

  private:
    std::string path_;
};

/// Makes a folder and its parents. Errors: failed.
void make_folders(const std::string& path);

}  // namespace scoria
