// See exchange.h.
#include "exchange.h"

#include <algorithm>

namespace scoria::server {
namespace {

constexpr auto heartbeat = std::chrono::seconds(1);

}  // namespace

Exchange::Exchange(std::vector<Reply> replies, bool stream, bool usage_at_end)
    : replies_(std::move(replies)), stream_(stream), usage_at_end_(usage_at_end) {}

/// The choices of all prompts in one list, and what they cost together.
Json Exchange::whole() const {
    Json all = replies_.front().whole();
    for (size_t i = 1; i < replies_.size(); ++i) {
        Json other = replies_[i].whole();
        for (Json& choice : other["choices"]) {
            choice["index"] = all["choices"].size();
            all["choices"].push_back(std::move(choice));
        }
        for (const char* key : {"prompt_tokens", "completion_tokens", "total_tokens"})
            all["usage"][key] = all["usage"][key].get<size_t>() + other["usage"][key].get<size_t>();
    }
    return all;
}

std::string Exchange::last() const {
    if (!stream_) return json_text(whole());
    return (usage_at_end_ ? replies_.front().usage_event() : "") + "data: [DONE]\n\n";
}

Exchange::Next Exchange::send(const Write& write, std::string& problem) {
    std::optional<News> news = mailbox_->take(heartbeat);
    std::string out;
    bool ends = false;
    if (news) {
        size_t at = 0;
        while (news->answer >= replies_[at].answers()) news->answer -= uint32_t(replies_[at++].answers());
        try {
            out = replies_[at].take(std::move(*news));
        } catch (const std::exception& error) {
            mailbox_->cancel();
            problem = error.what();
            if (!stream_) return Next::lost;
            return write(event_text(error_json(problem, "server_error"))) ? Next::done : Next::lost;
        }
        if (!stream_) out.clear();
        ends = std::ranges::all_of(replies_, &Reply::done);
        if (ends) out += last();
    }
    // That a client is gone shows when something is sent: a comment of a stream, white space before JSON.
    const auto now = std::chrono::steady_clock::now();
    if (out.empty() && now - written_ >= heartbeat) out = stream_ ? ":\n\n" : " ";
    if (!out.empty()) {
        if (!write(out)) return Next::lost;
        written_ = now;
    }
    return ends ? Next::done : Next::more;
}

}  // namespace scoria::server
