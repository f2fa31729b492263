// Splits text into the pieces inside which a model works: a list of steps (data, run by pre_tokenize()), each
// of which splits every piece that the steps before it leave.
#pragma once

#include "tokenizer/normalizer.h"

#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace scoria {

/// What becomes of a match: tokenizer.json's "behavior".
enum class Matches : uint8_t { removed, isolated, merged_with_previous, merged_with_next, contiguous };

struct Split {
    Pattern pattern;
    Matches matches = Matches::isolated;
    bool inverted = false;  // what lies between matches is the match
};
/// Every character of a class is a match.
struct SplitCharacters {
    bool (*member)(char32_t);
    Matches matches = Matches::isolated;
};
/// Digits in groups of three, counted from the right: \d{1,3}(?=(?:\d{3})*\b) and its like, which as
/// expressions would look at the rest of a long number again from each group.
struct GroupDigits {
    bool word_end = false;  // only runs that end where a word does
    bool isolated = true;   // the first group also parts from what stands before it
};
/// SentencePiece's spaces, before words.
struct Metaspace {
    enum class Prefix : uint8_t { never, first, always } prefix = Prefix::always;
    std::string mark = std::string(space_mark);
    bool split = true;
};
struct PrefixSpace {};  // a space in front where there is none
struct FixedLength {
    size_t characters;
};
/// Where the script changes; characters of no script, such as the space, stay with what stands before them,
/// and those that nothing does are dropped.
struct SplitScripts {};
/// Before a space mark that follows another character. Exact where no token crosses such a place.
struct SplitMarkedWords {};
/// Bytes as GPT-2's characters. Last, it is left to the model.
struct SpellBytes {};

using PreTokenizerStep = std::variant<Split, SplitCharacters, GroupDigits, Metaspace, PrefixSpace,
                                      FixedLength, SplitScripts, SplitMarkedWords, SpellBytes>;

using PieceSink = std::function<void(std::string_view piece)>;

/// `text` is valid UTF-8. `first`: it begins where the whole text does.
void pre_tokenize(const std::vector<PreTokenizerStep>& steps, std::string_view text, bool first,
                  const PieceSink& piece);

/// A Split, or for an expression that has a faster equal that one.
PreTokenizerStep split_by(std::string_view expression, Matches matches = Matches::isolated,
                          bool inverted = false);

extern const std::string_view gpt2_expression;  // Radford et al. 2019, encoder.py

}  // namespace scoria
