// Regular expressions as tokenizer.json writes them (Oniguruma's syntax), run by PCRE2 over untrusted text.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

namespace scoria {

class Regex {
  public:
    /// Errors: unsupported, with the place, if PCRE2 cannot run the expression.
    explicit Regex(std::string_view pattern);
    ~Regex();
    Regex(Regex&&) noexcept;
    Regex& operator=(Regex&&) noexcept;

  private:
    friend class RegexSearch;
    struct Compiled;
    struct Scratch;
    std::unique_ptr<Compiled> compiled_;
};

/// The matches of an expression in one text, in order, as Oniguruma gives them: an empty match that touches
/// the match before it does not count. Every thread searches for itself.
class RegexSearch {
  public:
    /// `text` is valid UTF-8; both outlive the search.
    RegexSearch(const Regex& regex, std::string_view text);
    ~RegexSearch();
    RegexSearch(const RegexSearch&) = delete;
    /// First and end byte of the next match. Errors: failed, if the expression takes too many steps or,
    /// over the whole text, more time than any real one.
    std::optional<std::pair<size_t, size_t>> next();

  private:
    const Regex& regex_;
    std::unique_ptr<Regex::Scratch> scratch_;
    std::string_view text_;
    std::chrono::steady_clock::time_point started_;
    size_t from_ = 0, last_end_;
};

}  // namespace scoria
