// Build tool: reflects compiled shaders and writes shaders.h (the enum) and shaders.cpp (compressed
// SPIR-V beside the interface that SPIRV-Cross saw), so that C++ never repeats what a shader declares.
//   embed_shaders VARIANTS.txt OUTPUT_DIR      a line per variant: name, path of the .spv or "-", needs
#include "reflect.h"

#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <zlib.h>

namespace {

using scoria::vk::Access;
using scoria::vk::ModuleNeeds;

const std::map<std::string, ModuleNeeds> need_names = {
    {"subgroup_basic", ModuleNeeds::subgroup_basic},
    {"subgroup_arithmetic", ModuleNeeds::subgroup_arithmetic},
    {"subgroup_shuffle", ModuleNeeds::subgroup_shuffle},
    {"subgroup_ballot", ModuleNeeds::subgroup_ballot},
    {"float16", ModuleNeeds::float16},
    {"storage16", ModuleNeeds::storage16},
    {"int8", ModuleNeeds::int8},
    {"storage8", ModuleNeeds::storage8},
    {"int_dot", ModuleNeeds::int_dot},
    {"cooperative_matrix", ModuleNeeds::cooperative_matrix},
    {"cooperative_matrix2", ModuleNeeds::cooperative_matrix2},
    {"matrix_reductions", ModuleNeeds::matrix_reductions},
    {"bfloat16", ModuleNeeds::bfloat16},
    {"vulkan_memory_model", ModuleNeeds::vulkan_memory_model},
    {"int16", ModuleNeeds::int16},
    {"int64", ModuleNeeds::int64},
    {"texel_words", ModuleNeeds::texel_words},
    {"uniform_scalars", ModuleNeeds::uniform_scalars},
};

struct Module {
    std::string name;
    std::vector<uint32_t> words;
    std::vector<Access> bindings;
    uint32_t push_size = 0;
    std::vector<uint32_t> constant_ids;
    ModuleNeeds needs = ModuleNeeds::unknown;  // stays so when the compiler could not compile it
};

template <class T> std::string list(const std::vector<T>& values, const char* separator = ",") {
    std::ostringstream out;
    for (const T& value : values) out << +value << separator;
    return out.str();
}

std::vector<uint32_t> read_words(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    if (bytes.empty() || bytes.size() % 4 != 0) throw std::runtime_error("cannot read " + path);
    std::vector<uint32_t> words(bytes.size() / 4);
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(words.data()));
    return words;
}

void check_needs(const scoria::vk::Reflection& reflection, ModuleNeeds allowed) {
    if (has(reflection.needs, ModuleNeeds::unknown))
        throw std::runtime_error("declares SPIR-V capability " +
                                 std::to_string(scoria::vk::unknown_capability(reflection.words)) +
                                 ", which no member of vk::ModuleNeeds covers");
    // Every subgroup operation implies the basic ones, so a line need not list both.
    if (uint32_t(allowed) & 0xfu) allowed = allowed | ModuleNeeds::subgroup_basic;
    for (const auto& [name, need] : need_names)
        if (has(reflection.needs, need) && !has(allowed, need))
            throw std::runtime_error("needs " + name + ": write NEEDS " + name +
                                     " on its line in shaders/CMakeLists.txt, or do without it");
}

Module reflect(const std::string& name, const std::string& path, ModuleNeeds allowed) {
    scoria::vk::Reflection reflection = scoria::vk::reflect(read_words(path));
    check_needs(reflection, allowed);
    return {name,
            std::move(reflection.words),
            std::move(reflection.bindings),
            reflection.push_size,
            std::move(reflection.constant_ids),
            reflection.needs};
}

std::vector<Module> read_variants(const std::string& path) {
    std::ifstream file(path);
    std::vector<Module> modules;
    for (std::string line; std::getline(file, line);) {
        std::istringstream fields(line);
        std::string name, spv;
        if (!(fields >> name >> spv)) continue;
        ModuleNeeds allowed = ModuleNeeds::none;
        for (std::string need; fields >> need;) {
            const auto row = need_names.find(need);
            if (row == need_names.end())
                throw std::runtime_error(name + ": expected NEEDS to name members of vk::ModuleNeeds, got " +
                                         need);
            allowed = allowed | row->second;
        }
        try {
            modules.push_back(spv == "-"
                                  ? Module{.name = name, .words = {}, .bindings = {}, .constant_ids = {}}
                                  : reflect(name, spv, allowed));
        } catch (const std::exception& error) {
            throw std::runtime_error(name + ": " + error.what());
        }
    }
    return modules;
}

// By sevens of bits, the lowest first; the highest bit of a byte says that more follow.
void put(std::vector<uint8_t>& to, uint32_t value) {
    for (; value >= 128; value >>= 7) to.push_back(uint8_t(value | 128));
    to.push_back(uint8_t(value));
}

// SPIR-V as small numbers: the five words of its header, then of each instruction its opcode, its count of
// words, and by how much each of the others differs from that of the instruction of as many words and that
// opcode before it, with the sign in the lowest bit. It deflates to seven tenths of what the words do.
std::vector<uint8_t> small_numbers(const std::vector<uint32_t>& words) {
    constexpr size_t header_words = 5;
    std::vector<uint8_t> out;
    std::map<uint32_t, size_t> before;  // by first word
    for (size_t i = 0; i < std::min(words.size(), header_words); ++i) put(out, words[i]);
    for (size_t i = header_words, count; i < words.size(); i += count) {
        count = words[i] >> 16;
        if (count == 0 || i + count > words.size()) throw std::runtime_error("an instruction has no end");
        put(out, words[i] & 0xFFFF);
        put(out, uint32_t(count));
        const auto same = before.find(words[i]);
        for (size_t k = 1; k < count; ++k) {
            const uint32_t by = words[i + k] - (same == before.end() ? 0 : words[same->second + k]);
            put(out, by << 1 ^ (by >> 31 ? ~0u : 0u));
        }
        before[words[i]] = i;
    }
    return out;
}

std::vector<uint8_t> compressed(const std::vector<uint8_t>& from) {
    uLongf size = compressBound(uLong(from.size()));
    std::vector<uint8_t> bytes(size);
    if (compress2(bytes.data(), &size, from.data(), uLong(from.size()), Z_BEST_COMPRESSION) != Z_OK)
        throw std::runtime_error("zlib cannot compress");
    bytes.resize(size);
    return bytes;
}

std::string header(const std::vector<Module>& modules) {
    std::string out =
        "// Generated by tools/embed_shaders: the shader variants of this build.\n#pragma once\n\n"
        "#include \"shader_module.h\"\n\n#include <cstdint>\n\nnamespace scoria {\n\n"
        "enum class Shader : uint16_t {\n";
    for (const Module& module : modules) out += "    " + module.name + ",\n";
    return out +
           "    count\n};\n\n"
           "/// The module of a variant, unpacked at the first call; lives as long as the process. "
           "Thread-safe.\n"
           "/// A variant that this build's compiler could not compile has no words and needs `unknown`.\n"
           "const vk::ShaderModule& shader_module(Shader shader);\n\n"
           "std::string_view shader_name(Shader shader);\n\n"
           "/// Of the words of all modules of this build.\n"
           "uint64_t shaders_digest();\n\n"
           "/// Tests: another module, which must outlive the process's use of it, in the place of a "
           "variant's.\n"
           "/// Before that variant's first use.\n"
           "void replace_shader_module(Shader shader, const vk::ShaderModule& module);\n\n"
           "}  // namespace scoria\n";
}

// A module is unpacked into memory that is never freed: pipelines refer to it until the process ends, and
// a destructor of ours would run in the host's exit, in an order nobody chose.
constexpr const char* unpacking = R"(
struct Slot {
    std::once_flag once;
    vk::ShaderModule module;
};

// Undoes small_numbers() of tools/embed_shaders.
void make_words(const uint8_t* at, uint32_t* words, size_t size) {
    const auto next = [&] {
        uint32_t value = 0;
        for (int shift = 0;; shift += 7) {
            value |= uint32_t(*at & 127) << shift;
            if (*at++ < 128) return value;
        }
    };
    std::unordered_map<uint32_t, const uint32_t*> before;  // by first word
    uint32_t* const end = words + size;
    for (int i = 0; i < 5; ++i) *words++ = next();
    for (uint32_t count; words != end; words += count) {
        const uint32_t code = next();
        count = next();
        words[0] = count << 16 | code;
        const uint32_t*& same = before[words[0]];
        for (uint32_t k = 1; k < count; ++k) {
            const uint32_t by = next();
            words[k] = (same ? same[k] : 0) + (by >> 1 ^ (by & 1 ? ~0u : 0u));
        }
        same = words;
    }
}

void unpack(const Packed& packed, vk::ShaderModule& module) {
    auto words = std::make_unique<uint32_t[]>(packed.words);
    if (packed.words) {
        std::vector<uint8_t> numbers(packed.numbers);
        uLongf size = packed.numbers;
        if (uncompress(numbers.data(), &size, packed.bytes, packed.size) != Z_OK) throw std::bad_alloc();
        assert(size == packed.numbers);
        make_words(numbers.data(), words.get(), packed.words);
    }
    module = {packed.name, {words.release(), packed.words}, {packed.bindings, packed.binding_count}, packed.push_size,
              {packed.constants, packed.constant_count}, vk::ModuleNeeds(packed.needs)};
}

Slot& slot_of(Shader shader) {
    static Slot slots[size_t(Shader::count) + 1];
    assert(shader < Shader::count);
    return slots[size_t(shader)];
}

}  // namespace

const vk::ShaderModule& shader_module(Shader shader) {
    Slot& slot = slot_of(shader);
    std::call_once(slot.once, [&] { unpack(table[size_t(shader)], slot.module); });
    return slot.module;
}

std::string_view shader_name(Shader shader) {
    assert(shader < Shader::count);
    return table[size_t(shader)].name;
}

void replace_shader_module(Shader shader, const vk::ShaderModule& module) {
    Slot& slot = slot_of(shader);
    std::call_once(slot.once, [&] { slot.module = module; });
}

}  // namespace scoria
)";

std::string source(const std::vector<Module>& modules) {
    std::ostringstream out;
    out << "// Generated by tools/embed_shaders: SPIR-V, compressed, and its interface.\n#include "
           "\"shaders.h\"\n\n"
           "#include <cassert>\n#include <memory>\n#include <mutex>\n#include <new>\n#include "
           "<unordered_map>\n"
           "#include <vector>\n\n#include <zlib.h>\n\nnamespace scoria {\nnamespace {\n\n"
           "struct Packed {\n    const char* name;\n    const uint8_t* bytes;\n"
           "    uint32_t size, numbers, words;  // numbers: bytes of them, inflated\n"
           "    const vk::Access* bindings;\n    uint32_t binding_count, push_size;\n"
           "    const uint32_t* constants;\n    uint32_t constant_count, needs;\n};\n\n";
    std::ostringstream table;
    for (const Module& module : modules) {
        const std::vector<uint8_t> numbers = small_numbers(module.words), bytes = compressed(numbers);
        const char* name = module.name.c_str();
        // One element too many keeps an empty list legal C++.
        out << "constexpr uint8_t " << name << "_bytes[] = {" << list(bytes) << "0};\n";
        out << "constexpr vk::Access " << name << "_bindings[] = {";
        for (const Access access : module.bindings) out << "vk::Access(" << int(access) << "),";
        out << "vk::Access(0)};\nconstexpr uint32_t " << name << "_constants[] = {"
            << list(module.constant_ids) << "0};\n";
        table << "    {\"" << name << "\", " << name << "_bytes, " << bytes.size() << ", " << numbers.size()
              << ", " << module.words.size() << ", " << name << "_bindings, " << module.bindings.size()
              << ", " << module.push_size << ", " << name << "_constants, " << module.constant_ids.size()
              << ", " << uint32_t(module.needs) << "u},\n";
    }
    out << "\nconstexpr Packed table[] = {\n" << table.str() << "    {}};\n" << unpacking;
    uint64_t digest = 0xCBF29CE484222325ull;  // FNV-1a (Fowler, Noll, Vo), by words
    for (const Module& module : modules)
        for (const uint32_t word : module.words) digest = (digest ^ word) * 0x100000001B3ull;
    out << "\nnamespace scoria {\n\nuint64_t shaders_digest() { return " << digest
        << "ull; }\n\n}  // namespace scoria\n";
    return out.str();
}

// Leaves an equal file alone, so that editing a shader does not recompile what includes the enum.
void write_if_changed(const std::filesystem::path& path, const std::string& text) {
    std::ifstream old(path, std::ios::binary);
    if (old && std::string{std::istreambuf_iterator<char>(old), {}} == text) return;
    std::ofstream file(path, std::ios::binary);
    if (!(file << text) || !file.flush()) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace

int main(int argc, char** argv) {
    try {
        if (argc != 3) throw std::runtime_error("usage: embed_shaders VARIANTS.txt OUTPUT_DIR");
        const std::vector<Module> modules = read_variants(argv[1]);
        write_if_changed(std::filesystem::path(argv[2]) / "shaders.h", header(modules));
        write_if_changed(std::filesystem::path(argv[2]) / "shaders.cpp", source(modules));
    } catch (const std::exception& error) {
        std::cerr << "[shaders] " << error.what() << "\n";
        return 1;
    }
}
