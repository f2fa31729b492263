// The table of checks: every op that has kernels.
#include "checks.h"

namespace scoria::validate {

std::span<const OpCheck> op_checks() {
    static constexpr OpCheck table[] = {
        {"embed", check_embed},
        {"norm", check_norm},
        {"linear", check_linear},
        {"rope_cache", check_rope_cache},
        {"attention", check_attention},
        {"attention_map", check_attention_map},
        {"compress", check_compress},
        {"chunk_attention", check_chunk_attention},
        {"choose", check_choose},
        {"convolve", check_convolve},
        {"shift", check_shift},
        {"scan", check_scan},
        {"wkv", check_wkv},
        {"glu", check_glu},
        {"add", check_add},
        {"gate", check_gate},
        {"map", check_map},
        {"pack", check_pack},
        {"mix", check_mix},
        {"experts", check_experts},
        {"select", check_select},
        {"sample", check_sample},
    };
    return table;
}

}  // namespace scoria::validate
