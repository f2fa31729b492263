// See spirv_values.h.
#include "spirv_values.h"

#include "pipelines.h"

#include <algorithm>

namespace scoria::vk::spirv {
namespace {

constexpr uint32_t decoration_spec_id = 1;

struct Operation {
    uint32_t code, operands;
    uint32_t (*of)(uint32_t, uint32_t, uint32_t);
};

/// On 32-bit integers and booleans: those that kernels make of their constants. What others give stays
/// unknown.
const Operation operations[] = {
    {128, 2, [](uint32_t a, uint32_t b, uint32_t) { return a + b; }},                 // IAdd
    {130, 2, [](uint32_t a, uint32_t b, uint32_t) { return a - b; }},                 // ISub
    {132, 2, [](uint32_t a, uint32_t b, uint32_t) { return a * b; }},                 // IMul
    {op_unsigned_divide, 2, [](uint32_t a, uint32_t b, uint32_t) { return a / b; }},  //
    {op_unsigned_modulo, 2, [](uint32_t a, uint32_t b, uint32_t) { return a % b; }},  //
    {166, 2, [](uint32_t a, uint32_t b, uint32_t) { return a | b; }},                 // LogicalOr
    {167, 2, [](uint32_t a, uint32_t b, uint32_t) { return a & b; }},                 // LogicalAnd
    {168, 1, [](uint32_t a, uint32_t, uint32_t) { return a ^ 1; }},                   // LogicalNot
    {169, 3, [](uint32_t a, uint32_t b, uint32_t c) { return a ? b : c; }},           // Select
    {170, 2, [](uint32_t a, uint32_t b, uint32_t) { return uint32_t(a == b); }},      // IEqual
    {171, 2, [](uint32_t a, uint32_t b, uint32_t) { return uint32_t(a != b); }},      // INotEqual
    {172, 2, [](uint32_t a, uint32_t b, uint32_t) { return uint32_t(a > b); }},       // UGreaterThan
    {174, 2, [](uint32_t a, uint32_t b, uint32_t) { return uint32_t(a >= b); }},      // UGreaterThanEqual
    {176, 2, [](uint32_t a, uint32_t b, uint32_t) { return uint32_t(a < b); }},       // ULessThan
    {178, 2, [](uint32_t a, uint32_t b, uint32_t) { return uint32_t(a <= b); }},      // ULessThanEqual
};

}  // namespace

std::optional<uint32_t> Values::value(uint32_t id) const {
    const auto found = values_.find(id);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
}

/// OpSpecConstantOp: type, result, opcode, operands.
std::optional<uint32_t> Values::result(Instruction operation) const {
    if (operation.size() < 5) return std::nullopt;
    const uint32_t code = operation[3];
    const Instruction operands = operation.subspan(4);
    if (code == op_composite_extract && operands.size() == 2) {
        const auto whole = composites_.find(operands[0]);
        if (whole == composites_.end() || operands[1] >= whole->second.size() - 3) return std::nullopt;
        return value(whole->second[3 + operands[1]]);
    }
    const auto row = std::ranges::find(operations, code, &Operation::code);
    if (row == std::end(operations) || row->operands != operands.size()) return std::nullopt;
    uint32_t in[3] = {};
    for (size_t i = 0; i < operands.size(); ++i) {
        const std::optional<uint32_t> known = value(operands[i]);
        if (!known) return std::nullopt;
        in[i] = *known;
    }
    if ((code == op_unsigned_divide || code == op_unsigned_modulo) && in[1] == 0) return std::nullopt;
    return row->of(in[0], in[1], in[2]);
}

void Values::read(Instruction each, std::span<const Constant> constants) {
    const uint32_t code = opcode(each);
    const size_t count = each.size();
    if (code == op_decorate && count == 4 && each[2] == decoration_spec_id) spec_ids_[each[1]] = each[3];
    if (count < 2) return;
    // Of extensions a type begins with its own id, all else with a type's.
    if ((code >= op_type_void && code <= op_type_last) ||
        (code >= op_extensions && code < op_extended_decorations && !is_type(each[1])))
        types_.insert(each[1]);
    if (code == op_type_bool || (code == op_type_int && count == 4 && each[2] == 32)) narrow_.insert(each[1]);
    if (code == op_type_int && count == 4 && each[2] == 64) wide_.insert(each[1]);
    if (count < 3) return;
    if (code == op_spec_constant_composite) composites_[each[2]] = each;
    if (!narrow_.contains(each[1])) return;

    const auto specialized = [&](uint32_t otherwise) {
        const auto id = spec_ids_.find(each[2]);
        if (id == spec_ids_.end()) return otherwise;
        const auto set = std::ranges::find(constants, id->second, &Constant::id);
        return set == constants.end() ? otherwise : set->value;
    };
    if (code == op_constant_true || code == op_constant_false) values_[each[2]] = code == op_constant_true;
    if (code == op_spec_constant_true || code == op_spec_constant_false)
        values_[each[2]] = specialized(code == op_spec_constant_true) != 0;
    if (code == op_constant && count == 4) values_[each[2]] = each[3];
    if (code == op_spec_constant && count == 4) values_[each[2]] = specialized(each[3]);
    if (code == op_spec_constant_op)
        if (const std::optional<uint32_t> known = result(each)) values_[each[2]] = *known;
}

}  // namespace scoria::vk::spirv
