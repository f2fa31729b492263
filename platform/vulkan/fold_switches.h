// Removes from a module what its specialization constants make unreachable, for drivers that do not.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace scoria::vk {

struct Constant;

/// `words` (valid SPIR-V) with every OpSwitch on a specialization constant reduced to the target that it
/// takes under `constants` (a constant not listed keeps its default). SwiftShader runs all cases of a switch,
/// with the lanes masked off: a linear kernel with its 28 weight types took ten times as long there. Words
/// that are no whole instructions end the work; what was read stays as it was.
std::vector<uint32_t> fold_switches(std::span<const uint32_t> words, std::span<const Constant> constants);

}  // namespace scoria::vk
