// Instructions of SPIR-V modules. Opcodes and layouts: SPIR-V 1.6, sections 2.3 and 3.52.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_set>

namespace scoria::vk::spirv {

/// One instruction's words; the first is its number of words and its opcode.
using Instruction = std::span<const uint32_t>;
using Ids = std::unordered_set<uint32_t>;
inline uint32_t opcode(Instruction each) { return each[0] & 0xFFFF; }

/// Those that something here reads; headers of distributions lag behind.
enum : uint32_t {
    op_line = 8,
    op_entry_point = 15,
    op_execution_mode = 16,
    op_capability = 17,
    op_type_void = 19,
    op_type_bool = 20,
    op_type_int = 21,
    op_type_last = 39,  // of the core
    op_constant_true = 41,
    op_constant_false = 42,
    op_constant = 43,
    op_spec_constant_true = 48,
    op_spec_constant_false = 49,
    op_spec_constant = 50,
    op_spec_constant_composite = 51,
    op_spec_constant_op = 52,
    op_function = 54,
    op_function_end = 56,
    op_decorate = 71,
    op_decoration_group = 73,
    op_composite_extract = 81,
    op_unsigned_divide = 134,
    op_unsigned_modulo = 137,
    op_phi = 245,
    op_loop_merge = 246,
    op_selection_merge = 247,
    op_label = 248,
    op_branch = 249,
    op_branch_conditional = 250,
    op_switch = 251,
    op_unreachable = 255,
    op_no_line = 317,
    op_extensions = 4096,           // from here on
    op_extended_decorations = 5632  // the same: OpDecorateString and after
};

}  // namespace scoria::vk::spirv
