#include "tokenizer/byte_characters.h"

#include "tokenizer/utf8.h"

#include <array>

namespace scoria {
namespace {

struct Tables {
    std::array<std::string, 256> spelling;
    std::array<int16_t, 0x144> byte;  // by character; -1: none
    Tables() {
        byte.fill(-1);
        char32_t next = 0x100;
        for (uint32_t value = 0; value < 256; ++value) {
            const bool prints =
                (value >= '!' && value <= '~') || (value >= 0xA1 && value <= 0xAC) || value >= 0xAE;
            const char32_t code = prints ? value : next++;
            utf8::append(spelling[value], code);
            byte[code] = static_cast<int16_t>(value);
        }
    }
};

const Tables& tables() {
    static const Tables only;
    return only;
}

}  // namespace

std::string to_byte_characters(std::string_view bytes) {
    std::string out;
    out.reserve(bytes.size() + bytes.size() / 4);
    for (const char byte : bytes) out += tables().spelling[static_cast<uint8_t>(byte)];
    return out;
}

std::optional<std::string> from_byte_characters(std::string_view characters) {
    std::string out;
    while (!characters.empty()) {
        const utf8::Step step = utf8::step(characters);
        const auto& bytes = tables().byte;
        if (step.kind != utf8::Step::Kind::valid || step.code >= bytes.size() || bytes[step.code] < 0)
            return std::nullopt;
        out += static_cast<char>(bytes[step.code]);
        characters.remove_prefix(step.bytes);
    }
    return out;
}

}  // namespace scoria
