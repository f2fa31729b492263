// Which weights a model of an Architecture has, and of what shape: the one table behind both file formats.
#pragma once

#include "architecture.h"

#include <span>

namespace scoria {

struct RoleShape {
    uint32_t rows = 0, cols = 0;  // 0 rows: the model has no such weight
    uint32_t groups = 1;          // files may also shape it [groups, rows / groups, cols]: experts, heads
    bool vector = false;          // rows is 1 and files shape it [cols]
};

struct RoleRule {
    Role role;
    bool of_layer;
    RoleShape (*shape)(const Architecture&, const Layer&, size_t layer);  // not of a layer: any Layer
};

/// One rule per role, in the order of the enum.
std::span<const RoleRule> role_rules();
inline RoleShape role_shape(Role role, const Architecture& architecture, const Layer& layer, size_t index) {
    return role_rules()[static_cast<size_t>(role)].shape(architecture, layer, index);
}

}  // namespace scoria
