// Splits text into the pieces inside which byte-pair merges happen, by regular expressions.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

namespace scoria {

/// The expressions of one published tokenizer, applied one after the other: each splits every piece left
/// by those before it, and what lies between two matches is a piece too.
struct PreTokenizerKind {
    std::string_view name;  // tokenizer.ggml.pre
    std::vector<std::string_view> expressions;
    bool adds_bos = false;     // if the file does not say
    bool whole_words = false;  // a piece that is a token becomes it, whatever the merges say
    bool nfc = false;          // text is composed first
};
/// Row of the table, or null.
const PreTokenizerKind* pre_tokenizer_kind(std::string_view name);

class PreTokenizer {
  public:
    explicit PreTokenizer(const PreTokenizerKind& kind);
    ~PreTokenizer();
    /// Calls `piece` for the parts of `text` (valid UTF-8) in order; together they are the text. Thread-safe.
    void split(std::string_view text, const std::function<void(std::string_view)>& piece) const;

  private:
    struct Expression;
    std::vector<std::unique_ptr<Expression>> expressions_;
};

}  // namespace scoria
