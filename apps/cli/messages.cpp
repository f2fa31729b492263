// Parsing of ids, JSON and times.
#include "messages.h"

#include "fail.h"

#include <nlohmann/json.hpp>

#include <charconv>
#include <ctime>

namespace scoria::cli {

std::vector<TokenId> parse_ids(std::string_view where, std::string_view text) {
    std::vector<TokenId> ids;
    constexpr std::string_view between = " \t\r\n,[]";
    size_t at = text.find_first_not_of(between);
    while (at != std::string_view::npos) {
        const size_t end = std::min(text.find_first_of(between, at), text.size());
        const std::string_view word = text.substr(at, end - at);
        TokenId id = 0;
        const auto parsed = std::from_chars(word.data(), word.data() + word.size(), id);
        if (parsed.ec != std::errc() || parsed.ptr != word.data() + word.size())
            fail(Status::bad_argument, where, "expected token ids such as 1,2,3, got '", word, "'");
        ids.push_back(id);
        at = text.find_first_not_of(between, end);
    }
    return ids;
}

nlohmann::ordered_json parse_json(std::string_view where, const std::string& text) {
    try {
        return nlohmann::ordered_json::parse(text);
    } catch (const nlohmann::json::exception& error) {
        fail(Status::bad_file, where, "expected JSON, got: ", error.what());
    }
}

int64_t parse_time(std::string_view where, const std::string& text) {
    std::tm time{};
    const char* end = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &time);
    if (end == nullptr || *end != '\0')
        fail(Status::bad_argument, where, "expected a time such as 2026-03-14T09:26:53, got '", text, "'");
    return static_cast<int64_t>(timegm(&time));
}

}  // namespace scoria::cli
