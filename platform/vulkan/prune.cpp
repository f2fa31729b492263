// See prune.h.
#include "prune.h"

#include "pipelines.h"
#include "spirv_function.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace scoria::vk {
namespace {

/// Names and decorations, of members, by ids and by strings, too: what they are of is their first operand.
constexpr uint32_t annotations[] = {5, 6, 71, 72, 332, 5632, 5633};
constexpr size_t header_words = 5;

class Module {
  public:
    /// False where something is not as expected.
    bool read(std::span<const uint32_t> words, std::span<const Constant> constants);
    std::vector<uint32_t> written() const;

  private:
    void set_default(const spirv::Instruction& each, std::vector<uint32_t>& out) const;
    bool read_functions(std::span<const spirv::Instruction> instructions);
    void mark_used();

    std::span<const uint32_t> words_;
    spirv::Values values_;
    std::vector<spirv::Instruction> globals_;  // before the first function
    std::vector<std::pair<uint32_t, spirv::Function>> functions_;
    spirv::Ids used_;  // functions
};

bool Module::read(std::span<const uint32_t> words, std::span<const Constant> constants) {
    if (words.size() < header_words) return false;
    words_ = words;
    std::vector<spirv::Instruction> bodies;
    for (size_t at = header_words; at < words.size();) {
        const size_t count = words[at] >> 16;
        if (count == 0 || count > words.size() - at) return false;
        const spirv::Instruction each = words.subspan(at, count);
        at += count;
        if (!bodies.empty() || spirv::opcode(each) == spirv::op_function) {
            bodies.push_back(each);
            continue;
        }
        if (spirv::opcode(each) == spirv::op_decoration_group)
            return false;  // their targets are listed elsewhere
        values_.read(each, constants);
        globals_.push_back(each);
    }
    if (!read_functions(bodies)) return false;
    mark_used();
    return true;
}

bool Module::read_functions(std::span<const spirv::Instruction> instructions) {
    while (!instructions.empty()) {
        const auto end = std::ranges::find(instructions, spirv::op_function_end, spirv::opcode);
        if (end == instructions.end() || instructions[0].size() != 5) return false;
        const size_t count = size_t(end - instructions.begin()) + 1;
        auto& [id, function] = functions_.emplace_back(instructions[0][2], spirv::Function{});
        if (!function.read(instructions.first(count), values_)) return false;
        instructions = instructions.subspan(count);
    }
    return true;
}

/// Calls are not the only instructions that name a function: matrix units are given some, too. A number that
/// looks like one keeps it, which costs nothing but its place.
void Module::mark_used() {
    std::unordered_map<uint32_t, const spirv::Function*> all;
    for (const auto& [id, function] : functions_) all.emplace(id, &function);
    std::vector<uint32_t> next;
    for (const spirv::Instruction& each : globals_)
        if (spirv::opcode(each) == spirv::op_entry_point && each.size() > 2) next.push_back(each[2]);
    while (!next.empty()) {
        const auto found = all.find(next.back());
        next.pop_back();
        if (found == all.end() || !used_.insert(found->first).second) continue;
        found->second->each_reached([&](const spirv::Instruction& each) {
            for (const uint32_t word : each.subspan(1))
                if (all.contains(word)) next.push_back(word);
        });
    }
}

/// Behind `each`, what its constant is set to becomes its default: sizes made of defaults, of arrays say,
/// need not be any that a compiler would accept.
void Module::set_default(const spirv::Instruction& each, std::vector<uint32_t>& out) const {
    const uint32_t code = spirv::opcode(each);
    const bool flag = code == spirv::op_spec_constant_true || code == spirv::op_spec_constant_false;
    if (!flag && code != spirv::op_spec_constant) return;
    const std::optional<uint32_t> value = values_.value(each[2]);
    if (!value) return;
    if (flag)
        out[out.size() - each.size()] =
            uint32_t(each.size()) << 16 |
            (*value ? spirv::op_spec_constant_true : spirv::op_spec_constant_false);
    else
        out.back() = *value;
}

std::vector<uint32_t> Module::written() const {
    spirv::Ids gone;
    for (const auto& [id, function] : functions_) function.add_gone(!used_.contains(id), values_, gone);
    std::vector<uint32_t> out(words_.begin(), words_.begin() + header_words);
    out.reserve(words_.size());
    for (const spirv::Instruction& each : globals_) {
        const bool annotates = std::ranges::find(annotations, spirv::opcode(each)) != std::end(annotations);
        if (annotates && each.size() >= 2 && gone.contains(each[1])) continue;
        spirv::write(out, each);
        set_default(each, out);
    }
    for (const auto& [id, function] : functions_)
        if (used_.contains(id)) function.write_to(out);
    return out;
}

}  // namespace

std::vector<uint32_t> prune(std::span<const uint32_t> words, std::span<const Constant> constants) {
    Module module;
    if (module.read(words, constants)) return module.written();
    return {words.begin(), words.end()};
}

std::vector<uint32_t> with_halves_kept(std::span<const uint32_t> words, bool doubles) {
    constexpr uint32_t capability = 4464, mode = 4459;  // both are called DenormPreserve
    std::vector<uint32_t> out(words.begin(), words.begin() + header_words);
    std::optional<uint32_t> entry;
    bool declared = false, set = false;
    for (size_t at = header_words; at < words.size(); at += words[at] >> 16) {
        const spirv::Instruction each = words.subspan(at, words[at] >> 16);
        if (!std::exchange(declared, true))
            out.insert(out.end(), {2u << 16 | spirv::op_capability, capability});
        if (spirv::opcode(each) == spirv::op_entry_point)
            entry = each[2];
        else if (entry && !std::exchange(set, true))
            for (const uint32_t bits : {16u, 64u})
                if (bits == 16 || doubles)
                    out.insert(out.end(), {4u << 16 | spirv::op_execution_mode, *entry, mode, bits});
        spirv::write(out, each);
    }
    return out;
}

}  // namespace scoria::vk
