// Files, paths, logs and progress.
#include "console.h"
#include "expect.h"
#include "file.h"
#include "log.h"
#include "on_system.h"
#include "system.h"
#include "text_table.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <thread>

using namespace scoria;
using namespace scoria::test;
namespace fs = std::filesystem;

namespace {

struct TemporaryFolder {
    std::string path = fs::temp_directory_path().string() + "/scoria_test_" + std::to_string(process_id());
    TemporaryFolder() { make_folders(path); }
    ~TemporaryFolder() { fs::remove_all(path); }
};

void write(const std::string& path, std::string_view text) {
    write_file_atomic(path, std::as_bytes(std::span(text)));
}

}  // namespace

TEST_CASE("reads stay inside the file") {
    const TemporaryFolder folder;
    const std::string path = folder.path + "/ten";
    write(path, "0123456789");
    const File file(path);
    CHECK(file.size() == 10);
    File to_map(path);
    to_map.map();
    const File mapped(std::move(to_map));
    CHECK(is_mapped(path));
    struct Case {
        uint64_t offset;
        size_t bytes;
        const char* text;  // nullptr: an error
    };
    const Case cases[] = {{0, 10, "0123456789"},
                          {3, 2, "34"},
                          {10, 0, ""},
                          {9, 1, "9"},
                          {9, 2, nullptr},
                          {11, 0, nullptr},
                          {UINT64_MAX, 1, nullptr},
                          {UINT64_MAX - 4, 8, nullptr}};
    for (const Case& each : cases) {
        for (const File* from : {&file, &mapped}) {
            CAPTURE(each.offset);
            CAPTURE((from == &mapped));
            std::string out(each.bytes, '?');
            const auto read = [&] { from->read(each.offset, std::as_writable_bytes(std::span(out))); };
            if (!each.text) {
                expect_error(Status::bad_file, "got a file of 10 bytes", read);
                continue;
            }
            read();
            CHECK(out == each.text);
        }
    }
}

TEST_CASE("an empty file can be mapped, and a map ends with its file") {
    const TemporaryFolder folder;
    const std::string empty = folder.path + "/empty", full = folder.path + "/full";
    write(empty, "");
    write(full, "12345");
    {
        File file(empty), other(full);
        file.map();
        other.map();
        other.map();
        file.read(0, {});
        CHECK(is_mapped(full));
    }
    CHECK_FALSE(is_mapped(full));
}

TEST_CASE("a file that shrinks after it was opened is an error") {
    const TemporaryFolder folder;
    const std::string path = folder.path + "/shrinks";
    write(path, "0123456789");
    const File file(path);
    fs::resize_file(path, 4);
    std::byte bytes[10];
    expect_error(Status::bad_file, "shrank", [&] { file.read(0, bytes); });
}

TEST_CASE("a file that somebody writes to after it was opened is an error") {
    const TemporaryFolder folder;
    const std::string path = folder.path + "/changes";
    write(path, "0123456789");
    File file(path), mapped(path);
    mapped.map();
    std::byte bytes[10];
    file.read(0, bytes);
    std::ofstream(path, std::ios::in | std::ios::out) << "ab";  // the same file, of the same size
    fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(1));
    for (const File* each : {&file, &mapped})
        expect_error(Status::bad_file, "written to since", [&] { each->read(0, bytes); });
    CHECK(read_file(path) == "ab23456789");
}

TEST_CASE("what cannot be written is known before") {
    const TemporaryFolder folder;
    const std::string path = folder.path + "/file";
    check_writable(path);
    CHECK(fs::is_empty(folder.path));
    write(path, "text");
    check_writable(path);
    CHECK(read_file(path) == "text");
    expect_error(Status::failed, "got a folder", [&] { check_writable(folder.path); });
    expect_error(Status::failed, "cannot be created", [&] { check_writable(folder.path + "/no/file"); });
}

TEST_CASE("what is no readable file is refused") {
    const TemporaryFolder folder;
    expect_error(Status::bad_file, "cannot be opened", [&] { File(folder.path + "/missing"); });
    expect_error(Status::bad_file, "regular file", [&] { File(folder.path + "/"); });
    write(folder.path + "/long", "12345");
    expect_error(Status::bad_file, "at most 4 bytes, got 5", [&] { read_file(folder.path + "/long", 4); });
    expect_error(Status::failed, "cannot be created", [&] { write(folder.path + "/no/folder", "x"); });
}

TEST_CASE("files are replaced whole and leave no temporary behind") {
    const TemporaryFolder folder;
    write(folder.path + "/file", "old");
    write(folder.path + "/file", "new text");
    CHECK(read_file(folder.path + "/file") == "new text");
    fs::create_directory(folder.path + "/taken");
    expect_error(Status::failed, "cannot be replaced", [&] { write(folder.path + "/taken", "x"); });
    size_t entries = 0;
    for (const auto& entry : fs::directory_iterator(folder.path)) entries += entry.exists();
    CHECK(entries == 2);
}

TEST_CASE("names of files are UTF-8") {
    const TemporaryFolder folder;
    const std::string inner = folder.path + "/\u6771\u4eac", path = inner + "/z\u00fcrich-\U0001F600";
    make_folders(inner);
    write(path, "text");
    CHECK(read_file(path) == "text");
    CHECK(fs::exists(fs::path(std::u8string(path.begin(), path.end()))));
    NewFile grown(path + "2", 3);
    grown.write(0, std::as_bytes(std::span("abc", 3)));
    grown.commit();
    CHECK(read_file(path + "2") == "abc");
}

TEST_CASE("a locked file is held once, and says what it was last told") {
    const TemporaryFolder folder;
    const std::string path = folder.path + "/lock";
    {
        LockedFile file(path);
        expect_error(Status::busy, "held by another", [&] { LockedFile again(path); });
        CHECK(file.text().empty());
        CHECK(file.write("a longer text"));
        CHECK(file.write("short"));
        CHECK(file.text() == "short");
    }
    LockedFile file(path);
    CHECK(file.text() == "short");
    CHECK(file.write(""));
    CHECK(file.text().empty());
    expect_error(Status::failed, "cannot be opened", [&] { LockedFile none(folder.path + "/no/file"); });
}

TEST_CASE("a scratch file is there, is its own, and goes") {
    std::string path;
    {
        const ScratchFile one, other;
        path = one.path();
        CHECK(path != other.path());
        CHECK(read_file(path).empty());
    }
    CHECK_FALSE(fs::exists(path));
}

TEST_CASE("the system tells what it is, and how long a thread computed") {
    CHECK(system_name().find(' ') != std::string::npos);
    CHECK(process_id() != 0);
    const double before = thread_cpu_us();
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(60);
    while (std::chrono::steady_clock::now() < until) {
    }
    const double spent = thread_cpu_us() - before;
    CHECK(spent > 0);
    CHECK(spent < 100'000);  // of 60 ms; Windows counts in steps of 16
    CHECK(std::abs(double(local_time() - std::time(nullptr))) <= 14 * 3600);  // no zone is farther from UTC
    CHECK(open_shared_library({"no-such-library.so", "no-such-library.dll"}) == nullptr);
}

TEST_CASE("the log is silent without a sink and says a line once") {
    log("nobody hears this");
    std::string heard;
    Status inside = Status::ok;
    set_log([&](std::string_view line) {
        heard.append(line).append("|");
        log("from inside the sink");
        try {
            set_log(nullptr);
        } catch (const Error& error) {
            inside = error.status();
        }
    });
    log_once("a");
    log_once("a");
    log_once("b");
    log("a");
    set_log(nullptr);
    log("c");
    CHECK(heard == "a|b|a|");
    CHECK(inside == Status::busy);
}

TEST_CASE("a thread that logs does not wait for another's line, which a sink may wait for with its locks") {
    std::atomic<bool> inside = false, returned = false, waited = false;
    std::string heard;
    set_log([&](std::string_view line) {
        heard.append(line).append("|");
        if (line != "a") return;
        inside = true;
        for (int i = 0; i < 500 && !returned; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
        waited = bool(returned);
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        heard += "end|";
    });
    std::thread other([&] {
        while (!inside) std::this_thread::yield();
        log("b");
        returned = true;
    });
    std::thread first([] { log("a"); });
    other.join();
    set_log(nullptr);
    CHECK(heard == "a|end|b|");
    CHECK(waited);
    first.join();
}

TEST_CASE("progress into a pipe is one final line") {
    const TemporaryFolder folder;
    std::FILE* stream = std::fopen((folder.path + "/progress").c_str(), "wb");
    REQUIRE(stream);
    Progress progress("Loading", stream);
    for (uint64_t done = 0; done <= 2'900'000'000; done += 100'000'000) progress.update(done, 2'900'000'000);
    progress.finish();
    std::fclose(stream);
    CHECK(read_file(folder.path + "/progress") == "Loading 100%  2.9 GB of 2.9 GB\n");
}

TEST_CASE("cells of tables keep to their lines and steer no terminal") {
    TextTable table({"name", "size"});
    table.add({"a\x1b[2J\n\r\xC2\x9B\x7F", "1"});
    table.add({"\xC3\xA9\tb", "10"});
    CHECK(table.text() == "name                      size\n"
                          "a\\x1b[2J\\x0a\\x0d\\x9b\\x7f     1\n"
                          "\xC3\xA9\\x09b                      10\n");
    CHECK(shown("a\tb\n\x1b") == "a\tb\n\\x1b");
    // Bytes that are no character of UTF-8: 0x9B alone is a control code where terminals take eight bits.
    CHECK(shown("\x9B"
                "2J \xE2\x9B \xC3\xA9 \xE2\x82\xAC \xFF") == "\\x9b"
                                                             "2J \\xe2\\x9b \xC3\xA9 \xE2\x82\xAC \\xff");
}

TEST_CASE("bytes are printed in decimal units") {
    CHECK(bytes_text(0) == "0 B");
    CHECK(bytes_text(999) == "999 B");
    CHECK(bytes_text(1000) == "1.0 kB");
    CHECK(bytes_text(128ull << 20) == "134 MB");
    CHECK(bytes_text(999'999) == "1.0 MB");
    CHECK(bytes_text(98'000'000) == "98.0 MB");
}
