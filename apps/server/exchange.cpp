// See exchange.h.
#include "exchange.h"

#include <algorithm>

namespace scoria::server {
namespace {

constexpr auto heartbeat = std::chrono::seconds(1);

}  // namespace

Exchange::Exchange(std::vector<std::unique_ptr<Reply>> replies, bool stream)
    : replies_(std::move(replies)), stream_(stream) {
    if (stream) unsent_ = replies_.front()->begin();
}

/// The choices of all prompts in one list, and what they cost together.
Json Exchange::whole() const {
    Json all = replies_.front()->whole();
    for (size_t i = 1; i < replies_.size(); ++i) {
        Json other = replies_[i]->whole();
        for (Json& choice : other["choices"]) {
            choice["index"] = all["choices"].size();
            all["choices"].push_back(std::move(choice));
        }
        for (const char* key : {"prompt_tokens", "completion_tokens", "total_tokens"})
            all["usage"][key] = all["usage"][key].get<size_t>() + other["usage"][key].get<size_t>();
    }
    return all;
}

Exchange::Next Exchange::send(const Write& write, std::string& problem) {
    std::string out = std::exchange(unsent_, {});
    std::optional<News> news = mailbox_->take(out.empty() ? heartbeat : heartbeat.zero());
    bool ends = false;
    if (news) {
        size_t at = 0;
        while (news->answer >= replies_[at]->answers()) news->answer -= uint32_t(replies_[at++]->answers());
        try {
            out += replies_[at]->take(std::move(*news));
        } catch (const std::exception& error) {
            mailbox_->cancel();
            problem = error.what();
            outcome_ = Outcome::failed;
            if (!stream_) return Next::lost;
            return write(out + replies_[at]->failure(problem)) ? Next::done : Next::lost;
        }
        if (!stream_) out.clear();
        ends = std::ranges::all_of(replies_, [](const auto& reply) { return reply->done(); });
        if (ends) out += stream_ ? replies_.front()->end() : json_text(whole());
    }
    // That a client is gone shows when something is sent: a comment of a stream, white space before JSON.
    const auto now = std::chrono::steady_clock::now();
    if (out.empty() && now - written_ >= heartbeat) out = stream_ ? ":\n\n" : " ";
    if (!out.empty()) {
        if (!write(out)) return Next::lost;
        written_ = now;
    }
    if (ends && !mailbox_->cancelled()) outcome_ = Outcome::answered;
    return ends ? Next::done : Next::more;
}

}  // namespace scoria::server
