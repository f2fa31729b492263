// See exchange.h.
#include "exchange.h"

#include <algorithm>

namespace scoria::server {
namespace {

constexpr auto heartbeat = std::chrono::seconds(1);

}  // namespace

/// What the next news, if one comes in `most`, adds to a stream. Errors: the answer's own.
std::string Exchange::take(std::chrono::milliseconds most) {
    std::optional<News> news = mailbox_->take(most);
    if (!news) return {};
    size_t at = 0;
    while (news->answer >= replies_[at]->answers()) news->answer -= uint32_t(replies_[at++]->answers());
    return replies_[at]->take(std::move(*news));
}

bool Exchange::done() const {
    return std::ranges::all_of(replies_, [](const auto& reply) { return reply->done(); });
}

Json Exchange::whole(const std::function<bool()>& stays) try {
    for (Clock::time_point looked = Clock::now(); !done();) {
        (void)take(heartbeat);
        if (Clock::now() - looked < heartbeat) continue;
        if (!stays()) throw client_left();
        looked = Clock::now();
    }
    if (mailbox_->cancelled()) throw server_ends();
    // The choices of all prompts in one list, and what they cost together.
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
} catch (...) {
    mailbox_->cancel();
    throw;
}

Exchange::Next Exchange::send(const Write& write, std::string& problem) {
    std::string out = std::exchange(begun_, true) ? "" : replies_.front()->begin();
    try {
        out += take(out.empty() ? heartbeat : heartbeat.zero());
    } catch (const std::exception& error) {
        if (!mailbox_->cancelled()) outcome_ = Outcome::failed;
        mailbox_->cancel();
        problem = error.what();
        return write(out + replies_.front()->failure(problem)) ? Next::done : Next::lost;
    }
    const bool ends = done();
    if (ends) out += replies_.front()->end();
    // That a client is gone shows when something is sent: a comment, where there is nothing else.
    const Clock::time_point now = Clock::now();
    if (out.empty() && now - written_ >= heartbeat) out = ":\n\n";
    if (!out.empty()) {
        if (!write(out)) return Next::lost;
        written_ = now;
    }
    if (ends && !mailbox_->cancelled()) outcome_ = Outcome::answered;
    return ends ? Next::done : Next::more;
}

}  // namespace scoria::server
