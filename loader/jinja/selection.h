// What the filters that look into items share.
#pragma once

#include "jinja/native.h"

namespace scoria::jinja {

/// item.a.0.b for the path "a.0.b", or item[path] for an int; `otherwise`, if not null, where it is
/// undefined.
Value attribute_of(Runtime& runtime, const Value& item, const Value& path, const Value* otherwise = nullptr);

}  // namespace scoria::jinja
