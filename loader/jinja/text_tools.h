// Parts that filters and methods of strings share.
#pragma once

#include "jinja/operators.h"

namespace scoria::jinja {

/// Appends within the limits of memory.
template <class T> void push(Runtime& runtime, std::vector<T>& to, T item) {
    if (to.size() == to.capacity()) runtime.reserve(2 * (to.size() + 1) * sizeof(T));
    to.push_back(std::move(item));
}

/// Without characters of `set` (null: whitespace) at its ends.
Text strip(const Text& text, const Text* set, bool left, bool right);
std::vector<Text> split_lines(Runtime& runtime, const Text& text, bool keep_ends);
/// At most `most` replacements, all if negative. An empty `from` is found around every character.
Text replace(Runtime& runtime, const Text& text, const Text& from, const Text& to, int64_t most);
/// In the middle of `width` characters of `fill`.
Text pad(Runtime& runtime, const Text& text, uint64_t before, uint64_t after, const Text& fill);

}  // namespace scoria::jinja
