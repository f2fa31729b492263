// One response while it is computed: from the mailbox to the connection, as a stream of events or as one
// object.
#pragma once

#include "metrics.h"
#include "replies.h"

#include <chrono>

namespace scoria::server {

class Exchange {
  public:
    /// false: the connection is lost.
    using Write = std::function<bool(const std::string&)>;
    enum class Next : uint8_t { more, done, lost };

    /// `replies`: one for each prompt, in the order of the mailbox's answers; of a stream, one.
    explicit Exchange(std::vector<std::unique_ptr<Reply>> replies) : replies_(std::move(replies)) {}
    const std::shared_ptr<Mailbox>& mailbox() const { return mailbox_; }
    /// All of it as one object. `stays`: whether the client still waits, asked with every heartbeat. Errors:
    /// an answer's own; cancelled, where the client left or the server ends.
    Json whole(const std::function<bool()>& stays);
    /// Of a stream: waits a heartbeat at most and writes what there is. `problem`: what the answer failed of,
    /// if it did.
    Next send(const Write& write, std::string& problem);
    Outcome outcome() const { return outcome_; }  // of a stream, at its end

  private:
    using Clock = std::chrono::steady_clock;
    std::string take(std::chrono::milliseconds most);
    bool done() const;

    std::shared_ptr<Mailbox> mailbox_ = std::make_shared<Mailbox>();
    std::vector<std::unique_ptr<Reply>> replies_;
    bool begun_ = false;
    Outcome outcome_ = Outcome::cancelled;
    Clock::time_point written_ = Clock::now();
};

}  // namespace scoria::server
