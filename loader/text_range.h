// A range of bytes in a text.
#pragma once

#include <cstddef>

namespace scoria {

struct TextRange {
    size_t begin = 0, end = 0;  // end is past the last byte
    bool operator==(const TextRange&) const = default;
};

}  // namespace scoria
