// Build tool: reflects compiled shaders and writes shaders.h (the enum) and shaders.cpp (compressed
// SPIR-V beside the interface that SPIRV-Cross saw), so that C++ never repeats what a shader declares.
//   embed_shaders VARIANTS.txt OUTPUT_DIR      a line per variant: name, path of the .spv or "-", needs
#include "shader_module.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <spirv_cross/spirv_cross.hpp>
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
    {"bfloat16", ModuleNeeds::bfloat16},
    {"vulkan_memory_model", ModuleNeeds::vulkan_memory_model},
    {"int16", ModuleNeeds::int16},
};

// By number, from the SPIR-V specification's table of capabilities: headers of distributions lag.
const std::map<uint32_t, ModuleNeeds> capability_needs = {
    {1, ModuleNeeds::none},  // Shader
    {9, ModuleNeeds::float16},
    {22, ModuleNeeds::int16},
    {39, ModuleNeeds::int8},
    {61, ModuleNeeds::subgroup_basic},
    {63, ModuleNeeds::subgroup_arithmetic},
    {64, ModuleNeeds::subgroup_ballot},
    {65, ModuleNeeds::subgroup_shuffle},
    {4433, ModuleNeeds::storage16},  // StorageBuffer16BitAccess
    {4448, ModuleNeeds::storage8},   // StorageBuffer8BitAccess
    {5116, ModuleNeeds::bfloat16},   // BFloat16TypeKHR
    {5345, ModuleNeeds::vulkan_memory_model},
    {5346, ModuleNeeds::vulkan_memory_model},  // VulkanMemoryModelDeviceScope
    {6017, ModuleNeeds::int_dot},              // DotProductInput4x8Bit
    {6018, ModuleNeeds::int_dot},              // DotProductInput4x8BitPacked
    {6019, ModuleNeeds::int_dot},              // DotProduct
    {6022, ModuleNeeds::cooperative_matrix},
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

// SPIRV-Cross of most distributions cannot parse cooperative matrices, and an interface holds none: the
// module without function bodies, matrix types and what is made of them. Opcodes by number, as above.
std::vector<uint32_t> interface_of(const std::vector<uint32_t>& words) {
    constexpr uint32_t type_matrix = 4456, function = 54, type_array = 28, type_pointer = 32,
                       type_function = 33;
    // Constants name their type first, types themselves.
    constexpr uint32_t constants[] = {43, 44, 46, 50, 51, 52};
    std::set<uint32_t> dropped;  // ids
    std::vector<uint32_t> kept(words.begin(), words.begin() + 5);
    for (size_t at = 5; at < words.size();) {
        const uint32_t count = words[at] >> 16, opcode = words[at] & 0xFFFF;
        if (count == 0 || at + count > words.size()) throw std::runtime_error("malformed SPIR-V");
        if (opcode == function) break;
        const auto uses = [&](size_t first) {
            return std::any_of(words.begin() + long(at + first), words.begin() + long(at + count),
                               [&](uint32_t word) { return dropped.contains(word); });
        };
        const bool constant = std::ranges::find(constants, opcode) != std::end(constants);
        if (opcode == type_matrix || (opcode == type_pointer && dropped.contains(words[at + 3])) ||
            (opcode == type_array && dropped.contains(words[at + 2])) || (opcode == type_function && uses(2)))
            dropped.insert(words[at + 1]);
        else if (constant && dropped.contains(words[at + 1]))
            dropped.insert(words[at + 2]);
        else
            kept.insert(kept.end(), words.begin() + long(at), words.begin() + long(at + count));
        at += count;
    }
    return kept;
}

// Several blocks may share a binding (one buffer seen as words and as vectors): accesses add up.
std::vector<Access> reflect_bindings(const spirv_cross::Compiler& compiler,
                                     const spirv_cross::ShaderResources& resources) {
    std::map<uint32_t, uint32_t> accesses;
    for (const auto& buffer : resources.storage_buffers) {
        const uint32_t set = compiler.get_decoration(buffer.id, spv::DecorationDescriptorSet);
        if (set != 0) throw std::runtime_error("expected descriptor set 0, got " + std::to_string(set));
        const spirv_cross::Bitset flags = compiler.get_buffer_block_flags(buffer.id);
        const uint32_t access = (flags.get(spv::DecorationNonReadable) ? 0u : uint32_t(Access::read)) |
                                (flags.get(spv::DecorationNonWritable) ? 0u : uint32_t(Access::write));
        accesses[compiler.get_decoration(buffer.id, spv::DecorationBinding)] |= access;
    }
    std::vector<Access> bindings;
    for (const auto& [binding, access] : accesses) {
        if (binding != bindings.size())
            throw std::runtime_error("expected bindings numbered from 0 without a gap, got binding " +
                                     std::to_string(binding) + " after " + std::to_string(bindings.size()) +
                                     " bindings");
        bindings.push_back(Access(access));
    }
    return bindings;
}

ModuleNeeds reflect_needs(const spirv_cross::Compiler& compiler, ModuleNeeds allowed) {
    ModuleNeeds needs = ModuleNeeds::none;
    for (const auto capability : compiler.get_declared_capabilities()) {
        const auto row = capability_needs.find(uint32_t(capability));
        if (row == capability_needs.end())
            throw std::runtime_error("declares SPIR-V capability " + std::to_string(capability) +
                                     ", which no member of vk::ModuleNeeds covers");
        needs = needs | row->second;
    }
    // Every subgroup operation implies the basic ones, so a line need not list both.
    if (uint32_t(allowed) & 0xfu) allowed = allowed | ModuleNeeds::subgroup_basic;
    for (const auto& [name, need] : need_names)
        if (has(needs, need) && !has(allowed, need))
            throw std::runtime_error("needs " + name + ": write NEEDS " + name +
                                     " on its line in shaders/CMakeLists.txt, or do without it");
    return needs;
}

Module reflect(const std::string& name, const std::string& path, ModuleNeeds allowed) {
    Module module{.name = name, .words = read_words(path), .bindings = {}, .constant_ids = {}};
    const spirv_cross::Compiler compiler(
        has(allowed, ModuleNeeds::cooperative_matrix) ? interface_of(module.words) : module.words);
    const spirv_cross::ShaderResources resources = compiler.get_shader_resources();
    if (!resources.uniform_buffers.empty() || !resources.storage_images.empty() ||
        !resources.sampled_images.empty() || !resources.separate_images.empty() ||
        !resources.separate_samplers.empty())
        throw std::runtime_error(
            "expected storage buffers only, got a uniform buffer, an image or a sampler");
    module.bindings = reflect_bindings(compiler, resources);
    for (const auto& push : resources.push_constant_buffers)
        module.push_size = uint32_t(compiler.get_declared_struct_size(compiler.get_type(push.base_type_id)));
    for (const auto& constant : compiler.get_specialization_constants())
        module.constant_ids.push_back(constant.constant_id);
    std::sort(module.constant_ids.begin(), module.constant_ids.end());
    module.needs = reflect_needs(compiler, allowed);
    return module;
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

std::vector<uint8_t> compressed(const std::vector<uint32_t>& words) {
    uLongf size = compressBound(uLong(words.size() * 4));
    std::vector<uint8_t> bytes(size);
    if (compress2(bytes.data(), &size, reinterpret_cast<const Bytef*>(words.data()), uLong(words.size() * 4),
                  Z_BEST_COMPRESSION) != Z_OK)
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
           "const vk::ShaderModule& shader_module(Shader shader);\n\n}  // namespace scoria\n";
}

// A module is unpacked into memory that is never freed: pipelines refer to it until the process ends, and
// a destructor of ours would run in the host's exit, in an order nobody chose.
constexpr const char* unpacking = R"(
struct Slot {
    std::once_flag once;
    vk::ShaderModule module;
};

void unpack(const Packed& packed, vk::ShaderModule& module) {
    auto* words = new uint32_t[packed.words];
    uLongf size = packed.words * 4ul;
    [[maybe_unused]] const int result = uncompress(reinterpret_cast<Bytef*>(words), &size, packed.bytes, packed.size);
    assert(result == Z_OK && size == packed.words * 4ul);
    module = {packed.name, {words, packed.words}, {packed.bindings, packed.binding_count}, packed.push_size,
              {packed.constants, packed.constant_count}, vk::ModuleNeeds(packed.needs)};
}

}  // namespace

const vk::ShaderModule& shader_module(Shader shader) {
    static Slot slots[size_t(Shader::count) + 1];
    assert(shader < Shader::count);
    Slot& slot = slots[size_t(shader)];
    std::call_once(slot.once, [&] { unpack(table[size_t(shader)], slot.module); });
    return slot.module;
}

}  // namespace scoria
)";

std::string source(const std::vector<Module>& modules) {
    std::ostringstream out;
    out << "// Generated by tools/embed_shaders: SPIR-V, compressed, and its interface.\n#include "
           "\"shaders.h\"\n\n"
           "#include <cassert>\n#include <mutex>\n\n#include <zlib.h>\n\nnamespace scoria {\nnamespace {\n\n"
           "struct Packed {\n    const char* name;\n    const uint8_t* bytes;\n    uint32_t size, words;\n"
           "    const vk::Access* bindings;\n    uint32_t binding_count, push_size;\n"
           "    const uint32_t* constants;\n    uint32_t constant_count, needs;\n};\n\n";
    std::ostringstream table;
    for (const Module& module : modules) {
        const std::vector<uint8_t> bytes = compressed(module.words);
        std::vector<std::string> accesses;
        const char* name = module.name.c_str();
        // One element too many keeps an empty list legal C++.
        out << "constexpr uint8_t " << name << "_bytes[] = {" << list(bytes) << "0};\n";
        out << "constexpr vk::Access " << name << "_bindings[] = {";
        for (const Access access : module.bindings) out << "vk::Access(" << int(access) << "),";
        out << "vk::Access(0)};\nconstexpr uint32_t " << name << "_constants[] = {"
            << list(module.constant_ids) << "0};\n";
        table << "    {\"" << name << "\", " << name << "_bytes, " << bytes.size() << ", "
              << module.words.size() << ", " << name << "_bindings, " << module.bindings.size() << ", "
              << module.push_size << ", " << name << "_constants, " << module.constant_ids.size() << ", "
              << uint32_t(module.needs) << "u},\n";
    }
    out << "\nconstexpr Packed table[] = {\n" << table.str() << "    {}};\n" << unpacking;
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
