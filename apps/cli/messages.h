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

/// JSON: an array of {"role", "content"}, or an object whose "messages" is one. Errors: bad_file.
std::vector<Message> parse_messages(std::string_view where, const std::string& json);

}  // namespace scoria::cli
