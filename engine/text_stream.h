// Tokens to the text of an answer, cut off at stop texts. What could still become a stop text, or is half a
// UTF-8 sequence, is held back.
#pragma once

#include "tokenizer/tokenizer.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace scoria {

/// Finds the first of several texts in a stream, byte by byte (Knuth, Morris and Pratt 1977).
class StopFinder {
  public:
    /// Errors: bad_argument for texts that are empty, long or no UTF-8.
    explicit StopFinder(std::vector<std::string> stops);
    /// What is certain now: no stop text has begun in it. After a stop text, nothing more.
    std::string push(std::string_view text);
    std::string finish();  // what was held back
    bool stopped() const { return !found_.empty(); }
    /// The stop text that ended it; empty: none did.
    const std::string& found() const { return found_; }

  private:
    struct Stop {
        std::string text;
        std::vector<uint32_t> border;  // of every prefix: its longest proper prefix that is a suffix too
        uint32_t matched = 0;
    };
    std::vector<Stop> stops_;
    std::string held_, found_;
};

class TextStream {
  public:
    /// special: control tokens are text, too.
    TextStream(const Tokenizer& tokenizer, std::vector<std::string> stops, bool special = false)
        : decoder_(tokenizer, special), finder_(std::move(stops)) {}
    std::string push(TokenId id) { return finder_.push(decoder_.push(id)); }
    std::string finish();
    bool stopped() const { return finder_.stopped(); }
    const std::string& found() const { return finder_.found(); }

  private:
    StreamDecoder decoder_;
    StopFinder finder_;
};

}  // namespace scoria
