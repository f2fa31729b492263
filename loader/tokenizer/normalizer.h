// What is done to text before it is split, as a list of steps (data, run by normalize()).
#pragma once

#include "tokenizer/regex.h"
#include "tokenizer/trie.h"
#include "tokenizer/unicode.h"

#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace scoria {

/// A literal text or an expression, as tokenizer.json's "pattern".
struct Pattern {
    std::string text;  // if there is no expression; not empty
    std::optional<Regex> regex;
};

/// Calls `visit` with first and end byte of each match in `text` (valid UTF-8), until it returns false.
template <class Visit> void each_match(const Pattern& pattern, std::string_view text, const Visit& visit) {
    if (pattern.regex) {
        RegexSearch search(*pattern.regex, text);
        while (const auto range = search.next())
            if (!visit(range->first, range->second)) return;
        return;
    }
    for (size_t found, done = 0; (found = text.find(pattern.text, done)) != text.npos;) {
        done = found + pattern.text.size();
        if (!visit(found, done)) return;
    }
}

/// SentencePiece's table of replacements: a Darts double array whose leaves are offsets into the
/// replacements, each of which ends in a zero byte.
class Charsmap {
  public:
    /// Errors: bad_file, naming `where`, if sizes or offsets lie. Empty bytes: nothing is replaced.
    Charsmap(std::string_view bytes, std::string_view where);
    /// The replacement of the shortest or longest prefix of `text` that has one, and the prefix's bytes.
    struct Found {
        std::string_view replacement;
        size_t bytes = 0;  // 0: none
    };
    Found shortest(std::string_view text) const { return find(text, false); }
    Found longest(std::string_view text) const { return find(text, true); }

  private:
    Found find(std::string_view text, bool longest) const;
    std::vector<uint32_t> units_;
    std::string replacements_;
};

struct Lowercase {};
struct StripAccents {};    // removes marks; a decomposition goes before
struct ByteCharacters {};  // every byte as GPT-2's character for it
struct Nmt {};             // the clean-up of SentencePiece's nmt rules
struct StripSpaces {
    bool left = true, right = true;
};
struct Prepend {
    std::string text;
};
struct Replace {
    Pattern pattern;
    std::string content;
};
/// tokenizer.json's use of a charsmap: whole grapheme clusters of less than 6 bytes, else characters.
struct Precompiled {
    Charsmap charsmap;
};
struct BertRules {
    bool clean_text = true, chinese_characters = true, strip_accents = true, lowercase = true;
};
/// SentencePiece's normalizer (normalizer.cc): the longest replacement, then its treatment of spaces.
/// User-defined symbols pass unchanged.
struct SentencePieceRules {
    Charsmap charsmap;
    bool add_dummy_prefix = true, remove_extra_spaces = true, escape_spaces = true, space_is_suffix = false;
    Trie user_defined;
};

using NormalForm = utf8::NormalForm;
using NormalizerStep = std::variant<NormalForm, Lowercase, StripAccents, ByteCharacters, Nmt, StripSpaces,
                                    Prepend, Replace, Precompiled, BertRules, SentencePieceRules>;
/// `text` is valid UTF-8, and so is the result. `front`, if given, becomes how many bytes in front of the
/// result come from the first character of the text: 0 where that was removed.
std::string normalize(const std::vector<NormalizerStep>& steps, std::string_view text,
                      size_t* front = nullptr);

/// Replaces every occurrence. Also a decoder's step.
std::string replace_all(std::string_view text, const Pattern& pattern, std::string_view content);
std::string replace_all(std::string_view text, std::string_view from, std::string_view to);

constexpr std::string_view space_mark = "\u2581";  // SentencePiece's space

}  // namespace scoria
