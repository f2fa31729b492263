// Lists of ids and conversations as users write them.
#pragma once

#include "conversation.h"

#include <string>
#include <string_view>
#include <vector>

namespace scoria::cli {

/// "1,2,3", "1 2 3" or "[1, 2, 3]". Errors: bad_argument, naming what is no id.
std::vector<TokenId> parse_ids(std::string_view where, std::string_view text);

/// JSON of any kind, its keys in order. Errors: bad_file.
nlohmann::ordered_json parse_json(std::string_view where, const std::string& text);

/// "2026-03-14T09:26:53" as seconds since 1970. Errors: bad_argument.
int64_t parse_time(std::string_view where, const std::string& text);

}  // namespace scoria::cli
