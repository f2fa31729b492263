// Files as the loader and the caches need them: positioned reads that never run past the end, whole-file
// reads with a cap, and writes that replace a file only once they are complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace scoria {

/// A regular file open for reading. Move-only; read_at is thread-safe.
class File {
  public:
    /// Errors: bad_file, with the path and the system's reason; not a regular file is one too.
    static File open(const std::filesystem::path& path);
    File(File&& other) noexcept;
    File& operator=(File&& other) noexcept;
    ~File();

    uint64_t size() const { return size_; }        // bytes, as it was when opened
    const std::filesystem::path& path() const { return path_; }
    /// Fills `out` from byte `offset`. Errors: bad_file, when the range is not inside the file, the
    /// read fails, or the file has become shorter.
    void read_at(uint64_t offset, std::span<std::byte> out) const;

  private:
    File(int descriptor, uint64_t size, std::filesystem::path path);
    int descriptor_ = -1;
    uint64_t size_ = 0;
    std::filesystem::path path_;
};

/// The whole file. Errors: bad_file, also when it is larger than `most` bytes.
std::string read_file(const std::filesystem::path& path, uint64_t most = uint64_t{1} << 30);

/// Writes to a temporary file beside `path`, syncs it and renames it over `path`: a reader or a crash
/// sees the old file or the new one. Errors: failed, with the path and the reason.
void write_file(const std::filesystem::path& path, std::span<const std::byte> bytes);
void write_file(const std::filesystem::path& path, std::string_view text);

}  // namespace scoria
