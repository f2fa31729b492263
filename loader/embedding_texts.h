// What sentence-transformers makes of a text: before it becomes tokens a prompt in front, and lower case;
// then no more tokens than the model is meant for. White space around a text stays, as in its releases from 6
// on.
#pragma once

#include "model.h"

#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace scoria {

struct EmbeddingTexts {
    std::map<std::string, std::string> prompts;  // by name
    std::string usual;                           // the name of the one where none is asked for; empty: none
    bool lowercase = false;
    bool pools_prompt = true;  // false: pooling leaves a prompt's tokens out
    std::optional<uint32_t>
        most_tokens;          // what longer texts are cut to, the tokenizer's own tokens among them
    bool cuts_front = false;  // else their end is what goes
    // A pair is a conversation of a query and a document, whose contents are texts or lists of parts.
    bool pairs_as_messages = false, in_parts = false, add_generation_prompt = false;

    /// The prompt of that name, the usual one where there is none, or no prompt for "". Errors: bad_argument,
    /// for a name that the model has not.
    std::string prompt_text(const std::optional<std::string>& name) const;
    /// The text with that prompt in front. Errors: also unsupported, for a prompt whose tokens do not count.
    std::string prepared(const std::string& text, const std::optional<std::string>& prompt) const;
    struct Encoded {
        std::vector<TokenId> ids;
        bool was_cut;  // to most_tokens
    };
    /// The ids of the text so prepared. Errors: prepared()'s.
    Encoded encoded(const Tokenizer& tokenizer, const std::string& text,
                    const std::optional<std::string>& prompt) const;
};

/// What a tokenizer puts around every text.
std::vector<TokenId> frame_of(const Tokenizer& tokenizer);
/// Of a text's ids `most` stay, among them `frame`.
void cut(std::vector<TokenId>& ids, std::span<const TokenId> frame, size_t most, bool front);

/// By config_sentence_transformers.json, sentence_bert_config.json and tokenizer_config.json, where the
/// folder has them. Errors: bad_file.
EmbeddingTexts read_embedding_texts(const std::filesystem::path& folder);
/// Of a Hugging Face folder by these, of any other model nothing. Errors: bad_file.
EmbeddingTexts embedding_texts_of(const Model& model);

}  // namespace scoria
