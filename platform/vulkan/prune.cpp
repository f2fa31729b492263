// See prune.h.
#include "prune.h"

#include "pipelines.h"
#include "spirv_function.h"

#include <algorithm>

namespace scoria::vk {
namespace {

/// Names and decorations, of members, by ids and by strings, too: what they are of is their first operand.
constexpr uint32_t annotations[] = {5, 6, 71, 72, 332, 5632, 5633};
constexpr size_t header_words = 5;
constexpr uint32_t capability_float16 = 9;

/// Ids of the types that a type is made of.
spirv::Instruction parts_of(spirv::Instruction type) {
    const uint32_t code = spirv::opcode(type);
    if (type.size() < 3) return {};
    if (code >= spirv::op_type_vector && code <= spirv::op_type_runtime_array) return type.subspan(2, 1);
    if (code == spirv::op_type_pointer) return type.subspan(3);
    const bool is_list = code == spirv::op_type_struct || code == spirv::op_type_function;
    return is_list || code >= spirv::op_extensions ? type.subspan(2) : spirv::Instruction();
}

class Module {
  public:
    /// False where something is not as expected.
    bool read(std::span<const uint32_t> words, std::span<const Constant> constants);
    std::vector<uint32_t> written() const;

  private:
    bool read_functions(std::span<const spirv::Instruction> instructions);
    void mark_used();
    spirv::Ids types_of_halves() const;
    bool yields(const spirv::Ids& types) const;
    void drop_idle_halves();

    std::span<const uint32_t> words_;
    spirv::Values values_;
    std::vector<spirv::Instruction> globals_;  // before the first function
    std::vector<std::pair<uint32_t, spirv::Function>> functions_;
    spirv::Ids used_;  // functions
    spirv::Ids gone_;  // types and constants
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
    drop_idle_halves();
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

spirv::Ids Module::types_of_halves() const {
    spirv::Ids types;
    for (const spirv::Instruction& each : globals_) {
        if (each.size() < 2 || !values_.is_type(each[1])) continue;
        const bool is_half = spirv::opcode(each) == spirv::op_type_float && each.size() > 2 && each[2] == 16;
        if (is_half || std::ranges::any_of(parts_of(each), [&](uint32_t id) { return types.contains(id); }))
            types.insert(each[1]);
    }
    return types;
}

/// Whether something that is reached, or a variable of all functions, is of these types, or one of an
/// extension's.
bool Module::yields(const spirv::Ids& types) const {
    bool found = false;
    const auto look = [&](const spirv::Instruction& each) {
        found = found || (each.size() > 2 && types.contains(each[1]));
    };
    for (const spirv::Instruction& each : globals_)
        if (spirv::opcode(each) == spirv::op_variable || spirv::opcode(each) >= spirv::op_extensions)
            look(each);
    for (const auto& [id, function] : functions_)
        if (used_.contains(id)) function.each_reached(look);
    return found;
}

/// Floats of 16 bits need a capability that not every device has. Where nobody computes with them it goes,
/// and so do their types and constants.
void Module::drop_idle_halves() {
    const spirv::Ids types = types_of_halves();
    if (yields(types)) return;
    std::erase_if(globals_, [&](const spirv::Instruction& each) {
        const uint32_t code = spirv::opcode(each);
        if (code == spirv::op_capability) return each.size() == 2 && each[1] == capability_float16;
        const bool is_type = code >= spirv::op_type_void && code <= spirv::op_type_last;
        const bool is_constant =
            code >= spirv::op_constant_true && code <= spirv::op_spec_constant_op && each.size() > 2;
        if (!(is_type || is_constant) || !types.contains(each[1])) return false;
        gone_.insert(is_type ? each[1] : each[2]);
        return true;
    });
}

std::vector<uint32_t> Module::written() const {
    spirv::Ids gone = gone_;
    for (const auto& [id, function] : functions_) function.add_gone(!used_.contains(id), values_, gone);
    std::vector<uint32_t> out(words_.begin(), words_.begin() + header_words);
    out.reserve(words_.size());
    for (const spirv::Instruction& each : globals_) {
        const bool annotates = std::ranges::find(annotations, spirv::opcode(each)) != std::end(annotations);
        if (!annotates || each.size() < 2 || !gone.contains(each[1])) spirv::write(out, each);
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

bool declares_float16(std::span<const uint32_t> words) {
    size_t at = header_words;  // all of them stand there
    const auto is = [&](uint32_t code) { return at + 1 < words.size() && (words[at] & 0xFFFF) == code; };
    while (is(spirv::op_capability) && words[at + 1] != capability_float16) at += 2;
    return is(spirv::op_capability);
}

}  // namespace scoria::vk
