// The vocabulary of a GGUF file as its metadata states it, checked, and the tokenizer that it means.
#pragma once

#include "gguf.h"
#include "tokenizer/tokenizer.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace scoria {

/// GGUF's tokenizer.ggml.token_type.
enum class TokenType : uint8_t { normal = 1, unknown, control, user_defined, unused, byte };

struct Vocabulary {
    std::string model, pre;           // "gpt2", "llama-bpe"; pre is empty if the file names none
    std::vector<std::string> tokens;  // as spelled in the file
    std::vector<TokenType> types;     // one per token
    std::vector<std::string> merges;  // "left right", best first
    std::vector<double> scores;       // one per token, or empty
    TokenId bos = -1, eos = -1, unknown = -1, separator = -1, classifier = -1;
    std::optional<bool> add_bos, add_eos, add_separator, add_space_prefix, remove_extra_spaces;
    std::optional<bool> lowercase, strip_accents;
    std::string charsmap;            // precompiled_charsmap
    std::string name, architecture;  // of the model: some tokens' treatment of spaces is known by it alone
    std::vector<TokenId> ends;       // sorted: EOS and the tokens that end a turn

    bool is_special(TokenId id) const {  // written only on request
        const TokenType type = types[static_cast<size_t>(id)];
        return type == TokenType::control || type == TokenType::unknown;
    }
};

/// Errors: unsupported if the file has no vocabulary; bad_file, naming the key, if it contradicts itself.
Vocabulary read_vocabulary(const GgufMetadata& metadata);

/// Errors: unsupported, naming the kind; bad_file.
std::shared_ptr<const Tokenizer> make_tokenizer(const Vocabulary& vocabulary);

}  // namespace scoria
