// Answers that many threads ask for and one computes, together (engine/batcher.h).
#pragma once

#include "batcher.h"
#include "metrics.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

namespace scoria::server {

/// What those hear that still wait then.
Error server_ends();
/// What becomes of a request whose client does not wait for it.
Error client_left();

/// What has become of one of the answers that a mailbox is for.
struct News {
    uint32_t answer = 0;
    std::string text{};   // that came next
    uint32_t tokens = 0;  // that it is of, about: of some a part may be held back
    std::vector<TokenLogprobs> logprobs{};
    std::optional<GenerateResult> result{};  // it ended
    std::exception_ptr error{};              // or failed
};

/// Between the thread that computes and the one that asked. Thread-safe.
class Mailbox {
  public:
    void put(News news);
    /// The next news, or none in `most`.
    std::optional<News> take(std::chrono::milliseconds most);
    /// Its answers end at their next token, or never begin.
    void cancel() { cancelled_ = true; }
    const std::atomic<bool>& cancelled() const { return cancelled_; }

  private:
    std::mutex mutex_;
    std::condition_variable filled_;
    std::deque<News> news_;
    std::atomic<bool> cancelled_ = false;
};

struct Question {
    std::vector<TokenId> ids;  // the prompt; the encoder's where there is one
    GenerateOptions options;   // cancel, on_text and on_logprobs are the queue's
};

class AnswerQueue {
  public:
    /// At most EngineOptions::sequences answers are computed at a time. Where `most_waiting` others wait,
    /// none is taken, else all that are asked for at once.
    AnswerQueue(Engine& engine, size_t most_waiting, Metrics& metrics);
    ~AnswerQueue();
    /// Answers that are not done are cancelled, and nothing more is taken: what there is to say of each is in
    /// its mailbox then.
    void stop();

    /// Answers them all; news go to the mailbox, by their numbers in the list. Thread-safe. Errors: busy,
    /// where too many wait; none is then answered.
    void ask(std::vector<Question> questions, const std::shared_ptr<Mailbox>& mailbox);
    /// Runs `work` on the thread that computes, with a sequence free, and returns after it. Thread-safe.
    /// Errors: busy; its own; cancelled, if the queue is gone first.
    void run(std::function<void(Engine&)> work);
    size_t running() const { return running_; }  // answers
    size_t waiting();

  private:
    struct Work {
        std::function<void()> run;         // on the thread that computes; throws nothing
        std::shared_ptr<Mailbox> mailbox;  // that it is for, if it is for one
    };
    void wait(std::vector<Work> works);
    void compute();
    bool begin();  // false: the end
    void begin(const Question& question, uint32_t answer, const std::shared_ptr<Mailbox>& mailbox);
    struct Progress;
    void count(const GenerateResult& result, const Progress& progress);
    void step();
    void end(const std::pair<Mailbox*, uint32_t>& answer);

    Engine& engine_;
    const size_t most_waiting_;
    Metrics& metrics_;
    std::mutex mutex_;
    std::condition_variable asked_;
    std::deque<Work> waiting_;
    bool ended_ = false;
    std::map<std::pair<Mailbox*, uint32_t>, std::shared_ptr<Mailbox>>
        begun_;                        // the thread below alone changes it
    std::atomic<size_t> running_ = 0;  // begun_.size()
    // Of the thread that computes.
    std::optional<Batcher> batcher_;
    uint32_t failures_ = 0;  // steps in a row
    std::thread thread_;
};

}  // namespace scoria::server
