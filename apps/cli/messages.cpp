// Parsing of ids and conversations.
#include "messages.h"

#include "fail.h"

#include <nlohmann/json.hpp>

#include <charconv>

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

std::vector<Message> parse_messages(std::string_view where, const std::string& json) {
    try {
        nlohmann::json root = nlohmann::json::parse(json);
        if (root.is_object()) root = nlohmann::json(root.at("messages"));
        if (!root.is_array())
            fail(Status::bad_file, where, "expected an array of messages, got ", root.type_name());
        std::vector<Message> messages;
        for (const nlohmann::json& message : root)
            messages.push_back(
                {message.at("role").get<std::string>(), message.at("content").get<std::string>()});
        return messages;
    } catch (const nlohmann::json::exception& error) {
        fail(Status::bad_file, where, "expected messages with a role and a content, got: ", error.what());
    }
}

}  // namespace scoria::cli
