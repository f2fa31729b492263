// The tokens of a model by id and by spelling.
#pragma once

#include "tokenizer/tokenizer.h"

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace scoria {

/// Spellings by id ("": none of this id takes part) and ids by spelling; the first of equals counts.
class Spellings {
  public:
    explicit Spellings(std::vector<std::string> tokens);
    Spellings(const Spellings&) = delete;
    Spellings& operator=(const Spellings&) = delete;
    TokenId id(std::string_view spelling) const {  // -1: none
        const auto found = ids_.find(spelling);
        return found == ids_.end() ? -1 : found->second;
    }
    const std::vector<std::string>& tokens() const { return tokens_; }
    size_t longest() const { return longest_; }  // bytes
    /// Whether no token has a space mark behind another character, so that words can be taken one by one.
    bool words_are_apart() const;
    /// Ids of "<0x00>" to "<0xFF>", or -1.
    std::array<TokenId, 256> byte_tokens() const;

  private:
    std::vector<std::string> tokens_;
    std::unordered_map<std::string_view, TokenId> ids_;  // views of tokens_
    size_t longest_ = 0;
};

/// The byte that "<0x0A>" spells.
std::optional<uint8_t> spelled_byte(std::string_view token);

}  // namespace scoria
