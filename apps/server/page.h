// The page to chat in.
#pragma once

#include <string_view>

namespace scoria::server {

std::string_view chat_page();  // page.html

}  // namespace scoria::server
