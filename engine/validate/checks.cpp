// The table of checks: every op that has kernels.
#include "checks.h"

namespace scoria::validate {

std::span<const OpCheck> op_checks() {
    static constexpr OpCheck table[] = {
        {"embed", check_embed},
        {"rms_norm", check_rms_norm},
        {"linear", check_linear},
        {"rope_cache", check_rope_cache},
        {"attention", check_attention},
        {"glu", check_glu},
        {"add", check_add},
        {"soft_cap", check_soft_cap},
        {"select", check_select},
        {"sample", check_sample},
    };
    return table;
}

}  // namespace scoria::validate
