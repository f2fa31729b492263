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
    Exchange(std::vector<std::unique_ptr<Reply>> replies, bool stream);
    const std::shared_ptr<Mailbox>& mailbox() const { return mailbox_; }
    /// Waits a heartbeat at most and writes what there is. `problem`: what an answer failed of, if one did;
    /// what is no stream can only break off then, since its status is sent.
    Next send(const Write& write, std::string& problem);
    Outcome outcome() const { return outcome_; }  // at the end

  private:
    Json whole() const;

    std::shared_ptr<Mailbox> mailbox_ = std::make_shared<Mailbox>();
    std::vector<std::unique_ptr<Reply>> replies_;
    const bool stream_;
    std::string unsent_;
    Outcome outcome_ = Outcome::cancelled;
    std::chrono::steady_clock::time_point written_ = std::chrono::steady_clock::now();
};

}  // namespace scoria::server
