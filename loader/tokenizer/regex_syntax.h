// Oniguruma's syntax in PCRE2's.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace scoria {

/// Calls the last argument with the offset of every match of `expression` in `text`.
using EachMember = std::function<void(std::string_view expression, std::string_view text,
                                      const std::function<void(size_t)>& found)>;

/// `pattern` for PCRE2 with UTF and UCP: \s, \w and \h as Oniguruma defines them, nested classes and their
/// intersections as plain ones. Errors: unsupported, naming what cannot be said.
std::string pcre2_pattern(std::string_view pattern, const EachMember& each_member);

}  // namespace scoria
