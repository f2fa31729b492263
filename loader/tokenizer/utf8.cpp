#include "tokenizer/utf8.h"

namespace scoria::utf8 {

Step step(std::string_view text) {
    const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
    const uint8_t first = byte(0);
    if (first < 0x80) return {Step::Kind::valid, 1, first};
    const uint8_t length = first >= 0xC2 && first <= 0xDF   ? 2
                           : (first & 0xF0) == 0xE0         ? 3
                           : first >= 0xF0 && first <= 0xF4 ? 4
                                                            : 0;
    if (length == 0) return {Step::Kind::invalid, 1, 0};
    // Only the second byte has narrower limits: they exclude overlong forms, surrogates and codes past
    // U+10FFFF.
    const uint8_t low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    const uint8_t high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    char32_t code = first & (0x7Fu >> length);
    for (uint8_t i = 1; i < length; ++i) {
        if (i == text.size()) return {Step::Kind::incomplete, i, 0};
        if (byte(i) < (i == 1 ? low : 0x80) || byte(i) > (i == 1 ? high : 0xBF))
            return {Step::Kind::invalid, i, 0};
        code = code << 6 | (byte(i) & 0x3Fu);
    }
    return {Step::Kind::valid, length, code};
}

void append(std::string& out, char32_t code) {
    const auto put = [&](char32_t bits) { out += static_cast<char>(bits); };
    if (code < 0x80) return put(code);
    if (code < 0x800) {
        put(0xC0 | code >> 6);
    } else {
        if (code < 0x10000) {
            put(0xE0 | code >> 12);
        } else {
            put(0xF0 | code >> 18);
            put(0x80 | (code >> 12 & 0x3F));
        }
        put(0x80 | (code >> 6 & 0x3F));
    }
    put(0x80 | (code & 0x3F));
}

bool is_valid(std::string_view text) {
    while (!text.empty()) {
        const Step next = step(text);
        if (next.kind != Step::Kind::valid) return false;
        text.remove_prefix(next.bytes);
    }
    return true;
}

std::string valid(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    while (!text.empty()) {
        const Step next = step(text);
        if (next.kind == Step::Kind::valid)
            out += text.substr(0, next.bytes);
        else
            append(out, replacement);
        text.remove_prefix(next.bytes);
    }
    return out;
}

}  // namespace scoria::utf8
