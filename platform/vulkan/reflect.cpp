// See reflect.h.
#include "reflect.h"

#include "fail.h"

#include <algorithm>
#include <map>
#include <set>

#include <spirv_cross/spirv_cross.hpp>

namespace scoria::vk {
namespace {

// By number, from the SPIR-V specification's table of capabilities: headers of distributions lag.
const std::map<uint32_t, ModuleNeeds> capability_needs = {
    {1, ModuleNeeds::none},  // Shader
    {9, ModuleNeeds::float16},
    {11, ModuleNeeds::int64},
    {22, ModuleNeeds::int16},
    {39, ModuleNeeds::int8},
    {46, ModuleNeeds::texel_words},  // SampledBuffer
    {61, ModuleNeeds::subgroup_basic},
    {63, ModuleNeeds::subgroup_arithmetic},
    {64, ModuleNeeds::subgroup_ballot},
    {65, ModuleNeeds::subgroup_shuffle},
    {4433, ModuleNeeds::storage16},  // StorageBuffer16BitAccess
    {4448, ModuleNeeds::storage8},   // StorageBuffer8BitAccess
    {5116, ModuleNeeds::bfloat16},   // BFloat16TypeKHR
    {5345, ModuleNeeds::vulkan_memory_model},
    {5346, ModuleNeeds::vulkan_memory_model},  // VulkanMemoryModelDeviceScope
    {5430, ModuleNeeds::matrix_reductions},    // CooperativeMatrixReductionsNV
    {5431, ModuleNeeds::matrix_reductions},    // CooperativeMatrixConversionsNV
    {5432, ModuleNeeds::cooperative_matrix2},  // CooperativeMatrixPerElementOperationsNV
    {6017, ModuleNeeds::int_dot},              // DotProductInput4x8Bit
    {6018, ModuleNeeds::int_dot},              // DotProductInput4x8BitPacked
    {6019, ModuleNeeds::int_dot},              // DotProduct
    {6022, ModuleNeeds::cooperative_matrix},
};

using Compiler = spirv_cross::Compiler;
using Type = spirv_cross::SPIRType;

std::pair<NumberKind, uint32_t> number_of(const Type& type) {
    switch (type.basetype) {
    case Type::Half:
    case Type::Float:
    case Type::Double:
        return {NumberKind::float_number, type.width / 8};
    case Type::SByte:
    case Type::Short:
    case Type::Int:
    case Type::Int64:
        return {NumberKind::signed_integer, type.width / 8};
    case Type::UByte:
    case Type::UShort:
    case Type::UInt:
    case Type::UInt64:
        return {NumberKind::unsigned_integer, type.width / 8};
    case Type::Boolean:
        return {NumberKind::unsigned_integer, 4};
    default:
        return {NumberKind::none, 0};
    }
}

/// Numbers in one element of it: of a vector, a matrix, or arrays of them.
uint64_t numbers_in(const Type& type) {
    uint64_t count = uint64_t(type.vecsize) * type.columns;
    for (const uint32_t size : type.array) count *= size;
    return count;
}

bool is_scalar(const Type& type) { return type.array.empty() && !type.pointer && numbers_in(type) == 1; }

/// Empty for numbers without gaps from the start of the block, a vector being as many; else what is wrong.
std::string odd_layout(const Compiler& compiler, const Type& block, uint32_t last) {
    Type element = compiler.get_type(block.member_types[last]);
    if (number_of(element).first == NumberKind::none || element.pointer)
        return "elements that are no numbers";
    if (block.member_types.size() > 1) return cat(block.member_types.size(), " members");
    if (const uint32_t offset = compiler.type_struct_member_offset(block, last); offset != 0)
        return cat("an offset of ", offset, " bytes");
    if (element.array.empty()) return {};
    element.array.pop_back();  // the outermost
    const uint64_t tight = numbers_in(element) * (element.width / 8);
    const uint32_t stride = compiler.type_struct_member_array_stride(block, last);
    return stride == tight ? "" : cat("elements of ", tight, " bytes that lie ", stride, " bytes apart");
}

ReflectedBuffer reflect_buffer(const Compiler& compiler, const spirv_cross::Resource& resource) {
    const Type& block = compiler.get_type(resource.base_type_id);
    const uint32_t last = uint32_t(block.member_types.size()) - 1;
    const auto [kind, bytes] = number_of(compiler.get_type(block.member_types[last]));
    ReflectedBuffer buffer{compiler.get_decoration(resource.id, spv::DecorationBinding),
                           {},
                           kind,
                           std::max(bytes, 1u),
                           odd_layout(compiler, block, last)};
    for (const std::string& name : {compiler.get_name(resource.id), compiler.get_name(resource.base_type_id),
                                    compiler.get_member_name(resource.base_type_id, last)})
        if (!name.empty()) buffer.names.push_back(name);
    return buffer;
}

// SPIRV-Cross of most distributions cannot parse cooperative matrices, and an interface holds none: the
// module without function bodies, matrix types and what is made of them; as it is, if it has none. Opcodes by
// number, as above.
std::vector<uint32_t> interface_of(const std::vector<uint32_t>& words) {
    constexpr uint32_t type_matrix = 4456, function = 54, type_array = 28, type_pointer = 32,
                       type_function = 33;
    // Constants and variables name their type first, types themselves.
    constexpr uint32_t typed[] = {43, 44, 46, 50, 51, 52, 59};
    std::set<uint32_t> dropped;  // ids
    std::vector<uint32_t> kept(words.begin(), words.begin() + 5);
    for (size_t at = 5; at < words.size();) {
        const uint32_t count = words[at] >> 16, opcode = words[at] & 0xFFFF;
        if (count == 0 || at + count > words.size())
            fail(Status::bad_file, "shader", "expected SPIR-V, got an instruction of ", count, " words");
        if (opcode == function) break;
        const auto uses = [&](size_t first) {
            return std::any_of(words.begin() + long(at + first), words.begin() + long(at + count),
                               [&](uint32_t word) { return dropped.contains(word); });
        };
        const bool has_type = std::ranges::find(typed, opcode) != std::end(typed);
        if (opcode == type_matrix || (opcode == type_pointer && dropped.contains(words[at + 3])) ||
            (opcode == type_array && dropped.contains(words[at + 2])) || (opcode == type_function && uses(2)))
            dropped.insert(words[at + 1]);
        else if (has_type && dropped.contains(words[at + 1]))
            dropped.insert(words[at + 2]);
        else
            kept.insert(kept.end(), words.begin() + long(at), words.begin() + long(at + count));
        at += count;
    }
    return dropped.empty() ? words : kept;
}

// A layout has one descriptor at each binding; the shader of an array would find what follows it.
void refuse_arrays(const Compiler& compiler,
                   const spirv_cross::SmallVector<spirv_cross::Resource>& resources) {
    for (const auto& resource : resources)
        if (!compiler.get_type(resource.type_id).array.empty())
            fail(Status::bad_file, "shader", "expected one buffer at each binding, got an array of them at ",
                 compiler.get_decoration(resource.id, spv::DecorationBinding));
}

// Several blocks may share a binding (one buffer seen as words and as vectors): accesses add up.
void reflect_bindings(const Compiler& compiler, const spirv_cross::ShaderResources& resources,
                      Reflection& reflection) {
    for (const auto* kind :
         {&resources.storage_buffers, &resources.sampled_images, &resources.uniform_buffers})
        refuse_arrays(compiler, *kind);
    std::map<uint32_t, uint32_t> accesses;
    for (const auto& buffer : resources.storage_buffers) {
        const uint32_t set = compiler.get_decoration(buffer.id, spv::DecorationDescriptorSet);
        if (set != 0) fail(Status::bad_file, "shader", "expected descriptor set 0, got ", set);
        const spirv_cross::Bitset flags = compiler.get_buffer_block_flags(buffer.id);
        const uint32_t access = (flags.get(spv::DecorationNonReadable) ? 0u : uint32_t(Access::read)) |
                                (flags.get(spv::DecorationNonWritable) ? 0u : uint32_t(Access::write));
        reflection.buffers.push_back(reflect_buffer(compiler, buffer));
        accesses[reflection.buffers.back().binding] |= access;
    }
    for (const auto& image : resources.sampled_images) {
        const Type& type = compiler.get_type(image.type_id);
        const bool words =
            type.image.dim == spv::DimBuffer && compiler.get_type(type.image.type).basetype == Type::UInt;
        if (!words) fail(Status::bad_file, "shader", "expected buffers only, got an image");
        accesses[compiler.get_decoration(image.id, spv::DecorationBinding)] = uint32_t(Access::texels);
    }
    for (const auto& buffer : resources.uniform_buffers) {
        accesses[compiler.get_decoration(buffer.id, spv::DecorationBinding)] = uint32_t(Access::uniform);
        reflection.needs = reflection.needs | ModuleNeeds::uniform_scalars;
    }
    const auto count = [&](Access kind) {
        return std::ranges::count(accesses, uint32_t(kind), [](const auto& each) { return each.second; });
    };
    if (count(Access::uniform) > 1 || count(Access::texels) > most_texel_buffers)
        fail(Status::bad_file, "shader", "expected one uniform buffer and ", most_texel_buffers,
             " texel buffers at most");
    for (const auto& [binding, access] : accesses) {
        if (binding != reflection.bindings.size())
            fail(Status::bad_file, "shader", "expected bindings numbered from 0 without a gap, got binding ",
                 binding, " after ", reflection.bindings.size(), " bindings");
        reflection.bindings.push_back(Access(access));
    }
}

void reflect_numbers(const Compiler& compiler, const spirv_cross::ShaderResources& resources,
                     Reflection& reflection) {
    for (const auto& push : resources.push_constant_buffers) {
        const Type& type = compiler.get_type(push.base_type_id);
        reflection.push_size = uint32_t(compiler.get_declared_struct_size(type));
        for (uint32_t i = 0; i < type.member_types.size(); ++i) {
            const Type& member = compiler.get_type(type.member_types[i]);
            reflection.push.push_back({compiler.get_member_name(push.base_type_id, i),
                                       compiler.type_struct_member_offset(type, i),
                                       is_scalar(member) ? number_of(member).first : NumberKind::none,
                                       uint32_t(compiler.get_declared_struct_member_size(type, i))});
        }
    }
    for (const auto& constant : compiler.get_specialization_constants()) {
        const auto [kind, bytes] =
            number_of(compiler.get_type(compiler.get_constant(constant.id).constant_type));
        reflection.constants.push_back({compiler.get_name(constant.id), constant.constant_id, kind, bytes});
        reflection.constant_ids.push_back(constant.constant_id);
    }
    std::ranges::sort(reflection.constant_ids);
}

void check_entry(const Compiler& compiler) {
    const auto entries = compiler.get_entry_points_and_stages();
    if (entries.size() == 1 && entries[0].name == "main" &&
        entries[0].execution_model == spv::ExecutionModelGLCompute)
        return;
    std::string names;
    for (const auto& entry : entries)
        names += cat(names.empty() ? "" : ", ",
                     entry.execution_model == spv::ExecutionModelGLCompute ? "compute" : "not compute", " '",
                     entry.name, "'");
    fail(Status::bad_file, "shader", "expected one entry point, a compute shader's 'main', got ", names);
}

void reflect_workgroup(const Compiler& compiler, Reflection& reflection) {
    spirv_cross::SpecializationConstant sides[3];
    compiler.get_work_group_size_specialization_constants(sides[0], sides[1], sides[2]);
    for (uint32_t i = 0; i < 3; ++i) {
        reflection.workgroup[i] = compiler.get_execution_mode_argument(spv::ExecutionModeLocalSize, i);
        if (sides[i].id == 0) continue;
        reflection.workgroup[i] = compiler.get_constant(sides[i].id).scalar();
        reflection.workgroup_ids[i] = sides[i].constant_id;
    }
}

/// Types of shared variables have no layout: their sizes are added up.
class SharedMemory : Compiler {
  public:
    SharedMemory(const std::vector<uint32_t>& words, std::span<const Constant> constants)
        : Compiler(interface_of(words)) {
        for (const auto& known : get_specialization_constants())
            for (const Constant& given : constants)
                if (given.id == known.constant_id) get_constant(known.id).m.c[0].r[0].u32 = given.value;
    }
    uint64_t bytes() const {
        uint64_t sum = 0;
        ir.for_each_typed_id<spirv_cross::SPIRVariable>([&](uint32_t, const spirv_cross::SPIRVariable& each) {
            if (each.storage == spv::StorageClassWorkgroup) sum += bytes_of(get_type(each.basetype));
        });
        return sum;
    }

  private:
    uint64_t bytes_of(const Type& type) const {
        uint64_t bytes = uint64_t(number_of(type).second) * type.vecsize * type.columns;
        for (const auto member : type.member_types) bytes += bytes_of(get_type(member));
        for (size_t i = 0; i < type.array.size(); ++i)
            bytes *= type.array_size_literal[i] ? type.array[i] : evaluate_constant_u32(type.array[i]);
        return bytes;
    }
};

}  // namespace

uint32_t unknown_capability(const std::vector<uint32_t>& words) {
    const Compiler compiler(interface_of(words));
    for (const auto capability : compiler.get_declared_capabilities())
        if (!capability_needs.contains(uint32_t(capability))) return uint32_t(capability);
    return 0;
}

Reflection reflect(std::vector<uint32_t> words) {
    constexpr uint32_t magic = 0x07230203;
    if (words.size() < 5 || words[0] != magic)
        fail(Status::bad_file, "shader", "expected SPIR-V in words of this machine's order");
    Reflection reflection;
    try {
        const Compiler compiler(interface_of(words));
        check_entry(compiler);
        const spirv_cross::ShaderResources resources = compiler.get_shader_resources();
        if (!resources.storage_images.empty() || !resources.separate_images.empty() ||
            !resources.separate_samplers.empty())
            fail(Status::bad_file, "shader", "expected buffers only, got an image or a sampler");
        reflect_bindings(compiler, resources, reflection);
        reflect_numbers(compiler, resources, reflection);
        reflect_workgroup(compiler, reflection);
        for (const auto capability : compiler.get_declared_capabilities()) {
            const auto row = capability_needs.find(uint32_t(capability));
            reflection.needs =
                reflection.needs | (row == capability_needs.end() ? ModuleNeeds::unknown : row->second);
        }
    } catch (const spirv_cross::CompilerError& error) {
        fail(Status::bad_file, "shader", "SPIRV-Cross cannot read it: ", error.what());
    }
    reflection.shared_bytes = [words](std::span<const Constant> constants) {
        return SharedMemory(words, constants).bytes();
    };
    reflection.words = std::move(words);
    return reflection;
}

}  // namespace scoria::vk
