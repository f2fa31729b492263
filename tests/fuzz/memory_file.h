// A file in memory with a path, since the loader opens paths.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace scoria::test {

class MemoryFile {
  public:
    MemoryFile(const uint8_t* data, size_t size) : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)) {
        while (size > 0) {
            const ssize_t wrote = write(descriptor_, data, size);
            if (wrote <= 0) std::abort();  // the fuzzer itself cannot run
            data += wrote;
            size -= static_cast<size_t>(wrote);
        }
    }
    ~MemoryFile() { close(descriptor_); }
    MemoryFile(const MemoryFile&) = delete;
    MemoryFile& operator=(const MemoryFile&) = delete;
    std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

  private:
    int descriptor_;
};

}  // namespace scoria::test
