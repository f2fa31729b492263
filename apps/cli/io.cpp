// Checked stdout, stderr notes, and texts given by flag, file or pipe.
#include "io.h"

#include "console.h"
#include "fail.h"
#include "file.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <sstream>

namespace scoria::cli {

void write_raw(std::string_view text) {
    const int error = write_stream(stdout, text);
    if (error == EPIPE) throw ClosedPipe();
    if (error != 0)
        fail(Status::failed, "stdout", "expected to write ", text.size(),
             " bytes, got: ", std::strerror(error));
}

void write_out(std::string_view text) {
    static const bool terminal = is_terminal(stdout);
    write_raw(terminal ? shown(text) : text);
}

// Nothing can be reported when stderr itself fails.
void write_note(std::string_view text) {
    const std::string harmless = shown(text);
    (void)write_stream(stderr, harmless);
}

std::string environment(const char* name) {
    const char* const value = std::getenv(name);
    return value ? value : "";
}

void write_text(const std::string& path, const std::string& text) {
    if (path == "-")
        print(text, '\n');
    else
        write_file_atomic(path, std::as_bytes(std::span(text)));
}

namespace {

std::string read_stream(std::FILE* from, std::string_view name) {
    constexpr size_t most = 1u << 30;
    std::string text;
    char part[65536];
    while (const size_t got = std::fread(part, 1, sizeof part, from)) {
        text.append(part, got);
        if (text.size() > most) fail(Status::bad_file, name, "expected at most ", most, " bytes, got more");
    }
    if (std::ferror(from)) fail(Status::bad_file, name, "cannot be read");
    return text;
}

}  // namespace

std::string read_text(const std::string& path) {
    if (path == "-") return read_stream(stdin, "stdin");
    std::error_code unknown;
    if (!std::filesystem::is_fifo(path_of(path), unknown)) return read_file(path);
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(std::fopen(path.c_str(), "rb"), &std::fclose);
    if (!pipe) fail(Status::bad_file, path, "cannot be opened: ", std::strerror(errno));
    return read_stream(pipe.get(), path);
}

std::string without_mark(std::string list) {
    constexpr std::string_view mark = "\xEF\xBB\xBF";
    if (list.starts_with(mark)) list.erase(0, mark.size());
    return list;
}

std::string prompt_text(std::string_view verb, const std::string& text, const std::string& file) {
    if (!text.empty() && !file.empty())
        fail(Status::bad_argument, verb, "expected one of -p TEXT and -f FILE, got both");
    if (!file.empty()) return read_text(file);
    if (!text.empty() && text != "-") return text;
    if (text.empty() && is_terminal(stdin))
        fail(Status::bad_argument, verb, "expected -p TEXT, -f FILE or text on stdin, got none");
    return read_text("-");
}

std::vector<std::string> listed_texts(std::string_view verb, std::vector<std::string> texts,
                                      const std::string& file) {
    for (std::string& text : texts)
        if (text == "-") text = read_text("-");
    if (!file.empty()) {
        std::istringstream lines(without_mark(prompt_text(verb, "", file)));
        for (std::string line; std::getline(lines, line);) {
            if (line.ends_with('\r')) line.pop_back();
            texts.push_back(line);
        }
    }
    if (texts.empty()) fail(Status::bad_argument, verb, "expected -p TEXT or -f FILE with a text per line");
    return texts;
}

std::string fixed(double value, int digits) {
    char text[64];
    const int length = std::snprintf(text, sizeof text, "%.*f", digits, value);
    return std::string(text, static_cast<size_t>(length));
}

std::string scientific(double value) {
    char text[32];
    const int length = std::snprintf(text, sizeof text, "%.1e", value);
    return std::string(text, static_cast<size_t>(length));
}

}  // namespace scoria::cli
