// See spirv_function.h.
#include "spirv_function.h"

namespace scoria::vk::spirv {
namespace {

void write(std::vector<uint32_t>& out, uint32_t code, std::initializer_list<uint32_t> operands) {
    out.push_back(uint32_t(operands.size() + 1) << 16 | code);
    out.insert(out.end(), operands);
}

}  // namespace

Instruction Block::promised() const {
    return merge.empty() ? merge : merge.subspan(1, opcode(merge) == op_loop_merge ? 2 : 1);  // then hints
}

bool Function::read(std::span<const Instruction> instructions, const Values& values) {
    return split(instructions, values) &&
           std::ranges::all_of(blocks_, [&](Block& block) { return link(block); }) && fold(values);
}

bool Function::split(std::span<const Instruction> instructions, const Values& values) {
    for (const Instruction& each : instructions) {
        const uint32_t code = opcode(each);
        if (each.size() > 2 && values.is_wide(each[1])) wide_.insert(each[2]);
        if (code == op_line || code == op_no_line || code == op_function_end) continue;
        if (code == op_label && each.size() == 2) {
            if (!places_.try_emplace(each[1], blocks_.size()).second) return false;
            blocks_.emplace_back().label = each[1];
        } else if (blocks_.empty()) {
            head_.push_back(each);
        } else if (!blocks_.back().end.empty()) {
            return false;
        } else if (code == op_selection_merge || code == op_loop_merge) {
            blocks_.back().merge = each;
        } else if (code >= op_branch && code <= op_unreachable) {
            blocks_.back().end = each;
        } else {
            blocks_.back().body.push_back(each);
        }
    }
    return !blocks_.empty();
}

bool Function::link(Block& block) const {
    const Instruction end = block.end;
    if (end.empty() || (!block.merge.empty() && block.merge.size() < 3)) return false;
    if (opcode(end) == op_branch && end.size() == 2) block.successors = {end[1]};
    if (opcode(end) == op_branch_conditional && end.size() >= 4) block.successors = {end[2], end[3]};
    if (opcode(end) == op_switch)  // selector, default, and pairs of a literal and a target
        for (size_t i = 2; i < end.size(); i += wide_.contains(end[1]) ? 3 : 2)
            block.successors.push_back(end[i]);
    if (block.successors.empty() && opcode(end) <= op_switch) return false;
    const auto exists = [&](uint32_t label) { return places_.contains(label); };
    return std::ranges::all_of(block.successors, exists) && std::ranges::all_of(block.promised(), exists);
}

std::optional<uint32_t> Function::known_target(const Block& block, const Values& values) const {
    if (block.merge.empty() || opcode(block.merge) != op_selection_merge) return std::nullopt;
    const Instruction end = block.end;
    const uint32_t code = opcode(end);
    if (code != op_branch_conditional && code != op_switch) return std::nullopt;
    const std::optional<uint32_t> known = values.value(end[1]);
    if (!known) return std::nullopt;
    if (code == op_branch_conditional) return *known ? end[2] : end[3];
    for (size_t i = 3; i + 1 < end.size(); i += 2)
        if (end[i] == *known) return end[i + 1];
    return end[2];
}

Ids Function::walk(std::vector<uint32_t> first, const Ids& stops,
                   std::span<const uint32_t> (*next)(const Block&)) const {
    Ids seen;
    while (!first.empty()) {
        const uint32_t label = first.back();
        first.pop_back();
        if (stops.contains(label) || !seen.insert(label).second) continue;
        const std::span<const uint32_t> further = next(at(label));
        first.insert(first.end(), further.begin(), further.end());
    }
    return seen;
}

Ids Function::reachable() const {
    return walk({blocks_[0].label}, {},
                [](const Block& block) { return std::span<const uint32_t>(block.successors); });
}

/// Whether a construct within `head`'s goes straight to its end, as a break out of a switch does from a
/// branch: without the head nothing could be left that way.
bool Function::left_from_within(const Block& head, const Ids& reached) const {
    const uint32_t end = head.promised()[0];
    // Constructs within count as one step, from their head to their end.
    const Ids outermost = walk(head.successors, {end, head.label}, [](const Block& block) {
        return block.merge.empty() ? std::span<const uint32_t>(block.successors) : block.promised().first(1);
    });
    return std::ranges::any_of(blocks_, [&](const Block& block) {
        return &block != &head && reached.contains(block.label) && block.goes_to(end) &&
               !(outermost.contains(block.label) && block.merge.empty());
    });
}

bool Function::fold(const Values& values) {
    const Ids before = reachable();
    std::vector<std::pair<Block*, uint32_t>> folded;
    for (Block& block : blocks_)
        if (const std::optional<uint32_t> target = known_target(block, values))
            if (!left_from_within(block, before)) folded.emplace_back(&block, *target);
    for (const auto& [block, target] : folded) {
        block->successors = {target};
        block->merge = {};
        block->folded = true;
    }
    reached_ = reachable();
    for (const Block& block : blocks_) {
        if (!reached_.contains(block.label)) continue;
        const Instruction promised = block.promised();
        for (size_t i = 0; i < promised.size(); ++i) {
            if (reached_.contains(promised[i])) continue;
            stubs_[promised[i]] = i == 0 ? 0 : block.label;
            // What would come into it around the loop is gone.
            if (i == 1 && !block.body.empty() && opcode(block.body[0]) == op_phi) return false;
        }
    }
    return true;
}

void Function::add_gone(bool whole, const Values& values, Ids& gone) const {
    const auto result = [&](const Instruction& each) {
        if (each.size() > 2 && values.is_type(each[1])) gone.insert(each[2]);
    };
    if (whole) std::ranges::for_each(head_, result);
    for (const Block& block : blocks_) {
        if (!whole && reached_.contains(block.label)) continue;
        if (whole || !stubs_.contains(block.label)) gone.insert(block.label);
        std::ranges::for_each(block.body, result);
    }
}

void Function::write_reached(std::vector<uint32_t>& out, const Block& block) const {
    for (const Instruction& each : block.body) {
        if (opcode(each) != op_phi || each.size() < 3) {
            write(out, each);
            continue;
        }
        const size_t start = out.size();
        write(out, each.first(3));
        for (size_t i = 3; i + 1 < each.size(); i += 2)  // a value, and the block that it comes from
            if (reached_.contains(each[i + 1]) && at(each[i + 1]).goes_to(block.label))
                write(out, each.subspan(i, 2));
        out[start] = uint32_t(out.size() - start) << 16 | op_phi;
    }
    write(out, block.merge);
    if (block.folded)
        write(out, op_branch, {block.successors[0]});
    else
        write(out, block.end);
}

void Function::write_to(std::vector<uint32_t>& out) const {
    for (const Instruction& each : head_) write(out, each);
    for (const Block& block : blocks_) {
        const auto stub = stubs_.find(block.label);
        const bool reached = reached_.contains(block.label);
        if (!reached && stub == stubs_.end()) continue;
        write(out, op_label, {block.label});
        if (reached)
            write_reached(out, block);
        else if (stub->second)
            write(out, op_branch, {stub->second});
        else
            write(out, op_unreachable, {});
    }
    write(out, op_function_end, {});
}

}  // namespace scoria::vk::spirv
