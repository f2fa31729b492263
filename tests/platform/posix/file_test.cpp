// What POSIX systems may have at a path that is written.
#include "console.h"
#include "fail.h"
#include "file.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <thread>

using namespace scoria;
namespace fs = std::filesystem;

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
