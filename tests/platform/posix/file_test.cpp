// What POSIX systems may have at a path that is written.
#include "console.h"
#include "expect.h"
#include "fail.h"
#include "file.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace scoria;
namespace fs = std::filesystem;

namespace {

int lock_error = 0;

}  // namespace

/// The system's, or one that fails as on file systems without locks.
extern "C" int flock(int descriptor, int operation) noexcept {
    if (lock_error == 0)
        return reinterpret_cast<int (*)(int, int)>(::dlsym(RTLD_NEXT, "flock"))(descriptor, operation);
    errno = lock_error;
    return -1;
}

TEST_CASE("a file system without locks is not taken for another writer") {
    std::string pattern = (fs::temp_directory_path() / "scoria-XXXXXX").string();
    const fs::path folder = ::mkdtemp(pattern.data());
    struct Case {
        int error;
        Status status;
        const char *of_new, *of_locked;
    };
    const Case cases[] = {
        {EWOULDBLOCK, Status::busy, "is being written by another process", "is held by another process"},
        {ENOLCK, Status::failed, "cannot be reserved: No locks", "cannot be locked: No locks"},
        {EOPNOTSUPP, Status::failed, "cannot be reserved: Op", "cannot be locked: Op"},
    };
    for (const Case& c : cases) {
        CAPTURE(c.of_locked);
        lock_error = c.error;
        expect_error(Status::failed, c.of_new, [&] { NewFile(folder / "new", 1); });
        expect_error(c.status, c.of_locked, [&] { LockedFile((folder / "locked").string()); });
        lock_error = 0;
        CHECK(fs::exists(folder / "new.partial") == (c.error == EWOULDBLOCK));  // which may be another's
    }
    fs::remove_all(folder);
}

TEST_CASE("links are followed, permissions kept, and pipes and devices never replaced") {
    std::string pattern = (fs::temp_directory_path() / "scoria-XXXXXX").string();
    const fs::path folder = ::mkdtemp(pattern.data());
    const std::string file = folder / "file", link = folder / "link", pipe = folder / "pipe";
    const auto write = [](const std::string& path, std::string_view text) {
        write_file_atomic(path, std::as_bytes(std::span(text)));
    };
    write(file, "old");
    fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
    fs::create_symlink("file", link);
    write(link, "new");
    CHECK(fs::is_symlink(link));
    CHECK(read_file(file) == "new");
    CHECK(fs::status(file).permissions() == (fs::perms::owner_read | fs::perms::owner_write));
    {
        NewFile through(link, 3);
        through.write(0, std::as_bytes(std::span("end", 3)));
        through.commit();
    }
    CHECK(fs::is_symlink(link));
    CHECK(read_file(file) == "end");

    fs::create_symlink("later", folder / "ahead");
    write(folder / "ahead", "first");
    CHECK(fs::is_symlink(folder / "ahead"));
    CHECK(read_file(folder / "later") == "first");
    fs::create_symlink("itself", folder / "itself");
    write(folder / "itself", "at last");
    CHECK(read_file(folder / "itself") == "at last");

    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    std::string got;
    std::thread reader([&] { std::getline(std::ifstream(pipe), got); });
    write(pipe, "through");
    reader.join();
    CHECK(got == "through");
    CHECK(fs::is_fifo(pipe));
    CHECK_THROWS_AS(NewFile(pipe, 1), Error);
    CHECK_THROWS_AS(write("/dev/full", "x"), Error);
    CHECK(fs::is_character_file("/dev/full"));
    fs::remove_all(folder);
}

TEST_CASE("a pipe that does not block cuts no text short") {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    int on = 1;
    REQUIRE(::ioctl(ends[1], FIONBIO, &on) == 0);  // <fcntl.h> has a struct flock
    std::FILE* const stream = ::fdopen(ends[1], "wb");
    const std::string text(1 << 20, 'x');  // more than pipes hold
    std::string got;
    std::thread reader([&] {
        char part[4096];
        for (ssize_t size = 0; (size = ::read(ends[0], part, sizeof part)) > 0;)
            got.append(part, size_t(size));
    });
    CHECK(write_stream(stream, text) == 0);
    std::fclose(stream);
    reader.join();
    ::close(ends[0]);
    CHECK(got == text);
}

TEST_CASE("a file longer than the shell allows is an error, not the program's end") {
    std::string pattern = (fs::temp_directory_path() / "scoria-XXXXXX").string();
    const fs::path folder = ::mkdtemp(pattern.data());
    start_program(0, nullptr);
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
    const rlimit low{4096, before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &low) == 0);
    const std::string file = folder / "file", text(8192, 'x');
    CHECK_THROWS_AS(NewFile(file, text.size()), Error);
    CHECK_THROWS_AS(write_file_atomic(file, std::as_bytes(std::span(text))), Error);
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
    CHECK(fs::is_empty(folder));
    fs::remove_all(folder);
}
