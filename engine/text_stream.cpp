// See text_stream.h.
#include "text_stream.h"

#include "fail.h"
#include "tokenizer/utf8.h"

#include <algorithm>

namespace scoria {
namespace {

constexpr size_t most_stops = 64, longest_stop = 4096;

}  // namespace

StopFinder::StopFinder(std::vector<std::string> stops) {
    if (stops.size() > most_stops)
        fail(Status::bad_argument, "stop", "expected at most ", most_stops, " texts, got ", stops.size());
    for (std::string& text : stops) {
        if (text.empty() || text.size() > longest_stop)
            fail(Status::bad_argument, "stop", "expected a text of 1 to ", longest_stop, " bytes, got ",
                 text.size());
        if (!utf8::is_valid(text)) fail(Status::bad_argument, "stop", "expected UTF-8, got other bytes");
        Stop stop{std::move(text), {}, 0};
        stop.border.resize(stop.text.size());
        for (uint32_t i = 1, k = 0; i < stop.text.size(); ++i) {
            while (k > 0 && stop.text[i] != stop.text[k]) k = stop.border[k - 1];
            if (stop.text[i] == stop.text[k]) ++k;
            stop.border[i] = k;
        }
        stops_.push_back(std::move(stop));
    }
}

std::string StopFinder::push(std::string_view text) {
    if (stopped()) return {};
    for (const char byte : text) {
        held_ += byte;
        for (Stop& stop : stops_) {
            while (stop.matched > 0 && stop.text[stop.matched] != byte)
                stop.matched = stop.border[stop.matched - 1];
            if (stop.text[stop.matched] == byte) ++stop.matched;
            if (stop.matched < stop.text.size()) continue;
            if (stop.text.size() > found_.size()) found_ = stop.text;  // the longest of those that end here
        }
        if (stopped()) {
            std::string before = held_.substr(0, held_.size() - found_.size());
            held_.clear();
            return before;
        }
    }
    size_t kept = 0;  // a stop text begins with a whole character, so this cuts none
    for (const Stop& stop : stops_) kept = std::max<size_t>(kept, stop.matched);
    std::string certain = held_.substr(0, held_.size() - kept);
    held_.erase(0, certain.size());
    return certain;
}

std::string StopFinder::finish() { return std::exchange(held_, {}); }

std::string TextStream::finish() {
    const std::string rest = finder_.push(decoder_.finish());
    return rest + finder_.finish();
}

}  // namespace scoria
