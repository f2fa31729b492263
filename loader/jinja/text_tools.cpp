#include "jinja/text_tools.h"

#include "jinja/unicode.h"
#include "tokenizer/utf8.h"

namespace scoria::jinja {

Text strip(const Text& text, const Text* set, bool left, bool right) {
    const std::string_view bytes = text.bytes();
    const auto goes = [&](char32_t code) {
        if (set == nullptr) return is_space(code);
        std::string character;
        utf8::append(character, code);
        return set->bytes().find(character) != std::string::npos;
    };
    size_t begin = 0, end = bytes.size();
    if (left)
        for (size_t at = 0; at < end && goes(next_code(bytes, at));) begin = at;
    if (right)
        for (size_t at = end; at > begin && goes(previous_code(bytes, at));) end = at;
    return text.slice(begin, end);
}

std::vector<Text> split_lines(Runtime& runtime, const Text& text, bool keep_ends) {
    const auto ends_line = [](char32_t c) {
        return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
               c == 0x2029;
    };
    std::vector<Text> lines;
    size_t begin = 0;
    for (size_t at = 0; at < text.size();) {
        const size_t end = at;
        const char32_t code = next_code(text.bytes(), at);
        if (!ends_line(code)) continue;
        if (code == '\r' && at < text.size() && text.bytes()[at] == '\n') ++at;
        push(runtime, lines, text.slice(begin, keep_ends ? at : end));
        begin = at;
    }
    if (begin < text.size()) lines.push_back(text.slice(begin, text.size()));
    return lines;
}

Text replace(Runtime& runtime, const Text& text, const Text& from, const Text& to, int64_t most) {
    Writer out(runtime);
    if (most < 0) most = INT64_MAX;
    size_t at = 0;
    if (from.empty()) {
        for (; most > 0; --most) {
            out.append(to);
            const size_t begin = at;
            if (at == text.size()) break;
            next_code(text.bytes(), at);
            out.append(text, begin, at);
        }
    } else {
        for (; most > 0; --most) {
            const size_t found = search(runtime, text.bytes(), from.bytes(), at);
            if (found == std::string::npos) break;
            out.append(text, at, found);
            out.append(to);
            at = found + from.size();
        }
    }
    out.append(text, at, text.size());
    return out.take();
}

Text pad(Runtime& runtime, const Text& text, uint64_t before, uint64_t after, const Text& fill) {
    Writer out(runtime);
    out.repeat(fill.bytes(), before);
    out.append(text);
    out.repeat(fill.bytes(), after);
    return out.take();
}

}  // namespace scoria::jinja
