// Which variants an engine's plan runs, for every batch size: what `--variant` may name, and what a
// self-test has to prove.
#pragma once

#include "batch.h"

namespace scoria {

struct VariantUse {
    std::string op, of;              // as in variant_key
    std::vector<std::string> names;  // that the device offers, default first
    std::string chosen;              // one of them
    Shader shader;                   // of the chosen
    std::string shape;               // "rows 576 cols 1536 tokens 512"
    size_t kernel;                   // of the plan; its size, for ops that are not part of it
    uint32_t tokens;                 // rows of the batch

    std::string key() const { return variant_key(op, chosen, of); }
};

struct UseLimits {
    StepLayout layout;
    uint32_t positions;  // of the cache
    KvType kv;
};

/// Each op, variant and shape once, with the most tokens that a batch of it has. Errors: as Choices::choose.
std::vector<VariantUse> variant_uses(const Plan& plan, const Graph& graph, const Architecture& architecture,
                                     const vk::Caps& caps, const Choices& choices, const UseLimits& limits);

/// {op, variant} of each "OP=NAME". Errors: bad_argument, for what is not among `uses`, with what is.
std::map<std::string, std::string, std::less<>> forced_variants(std::span<const std::string> texts,
                                                                std::span<const VariantUse> uses,
                                                                const std::string& device);

}  // namespace scoria
