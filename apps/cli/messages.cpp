// Parsing of ids, JSON and times.
#include "messages.h"

#include "fail.h"
#include "tokenizer/json.h"

#include <nlohmann/json.hpp>

#include <charconv>
#include <chrono>

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
    return parse_shallow<nlohmann::ordered_json>(text, where);
}

int64_t parse_time(std::string_view where, const std::string& text) {
    constexpr std::string_view form = "0000-00-00T00:00:00";
    bool valid = text.size() == form.size();
    for (size_t i = 0; valid && i < form.size(); ++i)
        valid = form[i] == '0' ? text[i] >= '0' && text[i] <= '9' : text[i] == form[i];
    const auto number = [&](size_t at, size_t digits) {
        int value = 0;
        if (valid) std::from_chars(text.data() + at, text.data() + at + digits, value);
        return value;
    };
    const std::chrono::year_month_day day = std::chrono::year(number(0, 4)) / number(5, 2) / number(8, 2);
    const int hour = number(11, 2), minute = number(14, 2), second = number(17, 2);
    if (!valid || !day.ok() || hour > 23 || minute > 59 || second > 60)
        fail(Status::bad_argument, where, "expected a time such as 2026-03-14T09:26:53, got '", text, "'");
    const std::chrono::seconds midnight = std::chrono::sys_days(day).time_since_epoch();
    return midnight.count() + 3600 * hour + 60 * minute + second;
}

}  // namespace scoria::cli
