// What sentence-transformers makes of a text before it is cut into tokens: a prompt in front, and lower case.
#pragma once

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

    /// The text with the prompt of that name, the usual one where there is none, or no prompt for "". Errors:
    /// bad_argument, for a name that the model has not; unsupported, for a prompt whose tokens do not count.
    std::string prepared(const std::string& text, const std::optional<std::string>& prompt) const;
};

/// By config_sentence_transformers.json and sentence_bert_config.json, where the folder has them. Errors:
/// bad_file.
EmbeddingTexts read_embedding_texts(const std::filesystem::path& folder);

}  // namespace scoria
