// Lists of ids and conversations as users write them.
#pragma once

#include "chat_template.h"
#include "tokenizer/tokenizer.h"

#include <string>
#include <string_view>
#include <vector>

namespace scoria::cli {

/// "1,2,3", "1 2 3" or "[1, 2, 3]". Errors: bad_argument, naming what is no id.
std::vector<TokenId> parse_ids(std::string_view where, std::string_view text);

/// JSON of any kind, its keys in order. Errors: bad_file.
nlohmann::ordered_json parse_json(std::string_view where, const std::string& text);

/// An array of {"role", ...}, or an object with "messages" and, where it has them, "tools", "documents" and
/// "variables". Errors: bad_file.
scoria::Conversation parse_conversation(std::string_view where, const std::string& text);

/// "2026-03-14T09:26:53" as seconds since 1970. Errors: bad_argument.
int64_t parse_time(std::string_view where, const std::string& text);

/// A rendered prompt as tokens: control tokens where the template wrote them, never where a message spells
/// one. The template writes BOS itself where it wants one.
std::vector<TokenId> encode_prompt(const Tokenizer& tokenizer, const ChatPrompt& prompt);

}  // namespace scoria::cli
