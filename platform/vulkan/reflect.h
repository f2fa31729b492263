// What a SPIR-V module declares, as SPIRV-Cross sees it: the build reflects our shaders with it, and
// `scoria validate --shader` somebody else's.
#pragma once

#include "shader_module.h"

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace scoria::vk {

enum class NumberKind : uint8_t { none, float_number, signed_integer, unsigned_integer };

/// A number with the name it goes by.
struct ReflectedNumber {
    std::string name;
    uint32_t at;      // byte offset in the push constants, or id of a specialization constant
    NumberKind kind;  // none: a vector, an array or a struct
    uint32_t bytes;
};

struct ReflectedBuffer {
    uint32_t binding;
    std::vector<std::string> names;  // of the instance, the block and its last member; empty ones left out
    NumberKind kind;                 // of the last member's elements
    uint32_t bytes;                  // of one of them (of a vector: of a component)
    std::string layout;              // where it is no plain array of numbers: what it is instead
};

struct Reflection {
    std::vector<uint32_t> words;
    std::vector<Access> bindings;  // in order, without a gap
    std::vector<ReflectedBuffer> buffers;
    uint32_t push_size = 0;
    std::vector<ReflectedNumber> push, constants;
    std::vector<uint32_t> constant_ids;  // sorted
    std::array<uint32_t, 3> workgroup{1, 1, 1};
    std::array<std::optional<uint32_t>, 3> workgroup_ids;  // specialization constants of its sides
    ModuleNeeds needs = ModuleNeeds::none;
    /// Bytes of shared memory that a workgroup holds where these constants are set: without the gaps that a
    /// driver may leave between variables. No plain function, since the library does without SPIRV-Cross.
    std::function<uint64_t(std::span<const Constant>)> shared_bytes;

    /// Refers to this. `ours`: see ShaderModule.
    ShaderModule module(std::string_view name, bool ours = true) const {
        return {name, words, bindings, push_size, constant_ids, needs, ours};
    }
};

/// Errors: bad_file, when it is no module of one entry point, a compute shader's "main", or takes anything
/// but storage buffers, at most one uniform buffer and most_texel_buffers uniform texel buffers of uvec4, of
/// set 0, numbered from 0 without a gap, none of them an array, and push constants. A capability that Scoria
/// has no name for makes it need `unknown`.
Reflection reflect(std::vector<uint32_t> words);

/// The SPIR-V number of the first capability that has no name, for messages; 0 if all have one.
uint32_t unknown_capability(const std::vector<uint32_t>& words);

}  // namespace scoria::vk
