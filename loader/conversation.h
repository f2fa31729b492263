// Conversations as JSON, and rendered prompts as tokens.
#pragma once

#include "chat_template.h"
#include "tokenizer/tokenizer.h"

#include <string>
#include <string_view>
#include <vector>

namespace scoria {

/// An array of {"role", ...}, or an object with "messages" and, where it has them, "tools", "documents" and
/// "variables". Errors: bad_file.
Conversation parse_conversation(std::string_view where, const std::string& json);

/// A rendered prompt as tokens: control tokens where the template wrote them, never where a message spells
/// one. The template writes BOS itself where it wants one.
std::vector<TokenId> encode_prompt(const Tokenizer& tokenizer, const ChatPrompt& prompt);

}  // namespace scoria
