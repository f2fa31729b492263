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

/// Appends the parts of a text, one after the other: a part's token, else its bytes', else the unknown token.
struct PartWriter {
    const std::array<TokenId, 256>* byte_tokens;  // nullptr: bytes do not stand for a part
    TokenId unknown;                              // -1: nothing stands for what is unknown
    bool fuse_unknown;                            // neighbours become one
    std::vector<TokenId>& out;
    bool after_unknown = false;

    /// `id` -1: the part has no token.
    void add(std::string_view part, TokenId id) {
        const bool is_unknown = id < 0 && byte_tokens == nullptr;
        if (id >= 0) {
            out.push_back(id);
        } else if (is_unknown) {
            if (unknown >= 0 && !(fuse_unknown && after_unknown)) out.push_back(unknown);
        } else {
            for (const char byte : part) {
                const TokenId token = (*byte_tokens)[static_cast<uint8_t>(byte)];
                if (token >= 0 || unknown >= 0) out.push_back(token >= 0 ? token : unknown);
            }
        }
        after_unknown = is_unknown;
    }
};

/// The byte that "<0x0A>" spells.
std::optional<uint8_t> spelled_byte(std::string_view token);

}  // namespace scoria
