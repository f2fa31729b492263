// Removes from a module what its specialization constants make unreachable, for drivers that do not, or late.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace scoria::vk {

struct Constant;

/// `words` (valid SPIR-V) without the branches, cases and functions that nobody reaches under `constants` (a
/// constant not listed keeps its default): a branch or a switch on what is known before it runs becomes a
/// jump, and what a constant is set to its default. Every driver has less to read, and SwiftShader less to
/// run: it takes all ways, with lanes masked off, and so a linear kernel with its 28 weight types was ten
/// times as slow there. A module of which it cannot be sure comes back as it was.
std::vector<uint32_t> prune(std::span<const uint32_t> words, std::span<const Constant> constants);

}  // namespace scoria::vk
