// Changes to modules before drivers see them: what specialization constants make unreachable is removed, for
// those that do not, or late; and subnormal halves are kept.
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

/// `words` (valid SPIR-V of 1.4 or later) with the execution mode DenormPreserve for 16 bits: without it any
/// instruction may take subnormal halves for zero, even on devices that report shaderDenormPreserveFloat16
/// ("Precision and Operation of SPIR-V Instructions" of Vulkan's specification), which this must be one of.
/// `doubles`: for 64 bits, too (Caps::denorm_f16_as_f64).
std::vector<uint32_t> with_halves_kept(std::span<const uint32_t> words, bool doubles);

}  // namespace scoria::vk
