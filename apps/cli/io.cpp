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

namespace scoria::cli {

void write_out(std::string_view text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return;
    if (errno == EPIPE) throw ClosedPipe();
    fail(Status::failed, "stdout", "expected to write ", text.size(), " bytes, got: ", std::strerror(errno));
}

// Nothing can be reported when stderr itself fails.
void write_note(std::string_view text) {
    const std::string harmless = shown(text);
    (void)std::fwrite(harmless.data(), 1, harmless.size(), stderr);
}

std::string shown(std::string_view text) {
    std::string out;
    const auto escape = [&](uint8_t byte) {
        char hex[5];
        std::snprintf(hex, sizeof hex, "\\x%02x", byte);
        out += hex;
    };
    for (size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<uint8_t>(text[i]);
        const auto next = static_cast<uint8_t>(i + 1 < text.size() ? text[i + 1] : 0);
        if (byte == 0xC2 && next >= 0x80 && next < 0xA0)  // U+0080 to U+009F
            escape(next), ++i;
        else if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F)
            escape(byte);
        else
            out += text[i];
    }
    return out;
}

void write_answer(std::string_view text) {
    static const bool terminal = is_terminal(stdout);
    write_out(terminal ? shown(text) : text);
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
