// Opcodes and layouts: SPIR-V 1.6, sections 2.3 and 3.52.
#include "fold_switches.h"

#include "pipelines.h"

#include <algorithm>
#include <map>

namespace scoria::vk {
namespace {

constexpr size_t header_words = 5;
constexpr uint32_t op_spec_constant = 50, op_decorate = 71, op_switch = 251, decoration_spec_id = 1;

uint32_t taken(std::span<const uint32_t> instruction, uint32_t value) {
    for (size_t i = 3; i + 1 < instruction.size(); i += 2)
        if (instruction[i] == value) return instruction[i + 1];
    return instruction[2];
}

}  // namespace

std::vector<uint32_t> fold_switches(std::span<const uint32_t> words, std::span<const Constant> constants) {
    std::map<uint32_t, uint32_t> spec_ids, values;  // by result id
    std::vector<uint32_t> out(words.begin(), words.begin() + ptrdiff_t(std::min(words.size(), header_words)));
    out.reserve(words.size());
    for (size_t at = out.size(); at < words.size();) {
        const size_t count = words[at] >> 16;
        if (count == 0 || count > words.size() - at) {
            out.insert(out.end(), words.begin() + ptrdiff_t(at), words.end());
            break;
        }
        const auto instruction = words.subspan(at, count);
        const uint32_t op = instruction[0] & 0xFFFF;
        if (op == op_decorate && count == 4 && instruction[2] == decoration_spec_id)
            spec_ids[instruction[1]] = instruction[3];
        if (op == op_spec_constant && count == 4) {
            const auto id = spec_ids.find(instruction[2]);
            const auto set = std::ranges::find_if(constants, [&](const Constant& constant) {
                return id != spec_ids.end() && constant.id == id->second;
            });
            values[instruction[2]] = set != constants.end() ? set->value : instruction[3];
        }
        const auto known = op == op_switch && count >= 3 ? values.find(instruction[1]) : values.end();
        if (known != values.end())
            out.insert(out.end(), {3u << 16 | op_switch, instruction[1], taken(instruction, known->second)});
        else
            out.insert(out.end(), instruction.begin(), instruction.end());
        at += count;
    }
    return out;
}

}  // namespace scoria::vk
