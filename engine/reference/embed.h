// out[t] = table[ids[t]]
#pragma once

#include "linear.h"

namespace scoria::reference {

/// ids must lie inside the table; out: [ids.size(), table.cols].
inline void embed(std::span<const int32_t> ids, const Rows& table, std::span<double> out) {
    for (size_t t = 0; t < ids.size(); ++t)
        table.row(static_cast<uint32_t>(ids[t]), out.subspan(t * table.cols, table.cols));
}

}  // namespace scoria::reference
