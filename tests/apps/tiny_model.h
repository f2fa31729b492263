// A model so small that what it says means nothing.
#pragma once

#include "test_env.h"

#include <cstring>
#include <fstream>
#include <sstream>

namespace scoria::test {

inline std::string tiny_model() { return fixtures() + "/gguf/llama1.gguf"; }

/// The tiny model with a chat template: one more key, as long as the alignment of what lies behind keys
/// wants. Its control token 1 is called `control`.
inline void write_with_template(const std::string& path, std::string source,
                                const std::string& control = "<s>") {
    std::ifstream in(tiny_model(), std::ios::binary);
    std::stringstream whole;
    whole << in.rdbuf();
    std::string bytes = whole.str();
    constexpr size_t count_at = 16, keys_at = 24, alignment = 32;
    uint64_t count = 0;
    std::memcpy(&count, bytes.data() + count_at, sizeof count);
    ++count;
    std::memcpy(bytes.data() + count_at, &count, sizeof count);
    const std::string name = "tokenizer.chat_template";
    const auto number = [](auto value) {
        return std::string(reinterpret_cast<const char*>(&value), sizeof value);
    };
    constexpr uint32_t type_string = 8;
    const auto text = [&](const std::string& of) { return number(uint64_t{of.size()}) + of; };
    const std::string begin = "<s>", key = text(name) + number(type_string);
    bytes.replace(bytes.find(text(begin)), text(begin).size(), text(control));
    const size_t more = key.size() + sizeof(uint64_t) + source.size() + control.size() - begin.size();
    source.append((alignment - more % alignment) % alignment, ' ');
    std::ofstream(path, std::ios::binary) << bytes.insert(keys_at, key + text(source));
}

}  // namespace scoria::test
