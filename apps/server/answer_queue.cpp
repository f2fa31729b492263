// See answer_queue.h.
#include "answer_queue.h"

#include "fail.h"

#include <algorithm>
#include <future>

namespace scoria::server {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

Error server_ends() {
    return Error(Status::cancelled, "[serve] expected a server that goes on, got one that ends");
}

Error client_left() {
    return Error(Status::cancelled, "[serve] expected a client that waits, got one that left");
}

void Mailbox::put(News news) {
    const std::lock_guard lock(mutex_);
    news_.push_back(std::move(news));
    filled_.notify_one();
}

std::optional<News> Mailbox::take(std::chrono::milliseconds most) {
    std::unique_lock lock(mutex_);
    if (!filled_.wait_for(lock, most, [&] { return !news_.empty(); })) return std::nullopt;
    News news = std::move(news_.front());
    news_.pop_front();
    return news;
}

AnswerQueue::AnswerQueue(Engine& engine, size_t most_waiting, Metrics& metrics)
    : engine_(engine), most_waiting_(most_waiting), metrics_(metrics), thread_([this] { compute(); }) {}

AnswerQueue::~AnswerQueue() { stop(); }

void AnswerQueue::stop() {
    std::unique_lock lock(mutex_);
    ended_ = true;
    for (const Work& work : std::exchange(waiting_, {})) {
        if (!work.mailbox) continue;
        work.mailbox->cancel();
        work.mailbox->put({.error = std::make_exception_ptr(server_ends())});
    }
    for (const auto& [key, mailbox] : begun_) mailbox->cancel();  // one of speculation is one step
    asked_.notify_one();
    lock.unlock();
    if (thread_.joinable()) thread_.join();
}

void AnswerQueue::wait(std::vector<Work> works) {
    const std::lock_guard lock(mutex_);
    if (ended_) throw server_ends();
    std::erase_if(waiting_, [](const Work& work) { return work.mailbox && work.mailbox->cancelled(); });
    if (waiting_.size() + running_ >= most_waiting_ + engine_.options().sequences)
        fail(Status::busy, "serve", "expected at most ", most_waiting_, " answers that wait, got one more");
    for (Work& work : works) waiting_.push_back(std::move(work));
    asked_.notify_one();
}

void AnswerQueue::ask(std::vector<Question> questions, const std::shared_ptr<Mailbox>& mailbox) {
    std::vector<Work> works;
    for (Question& each : questions)
        works.push_back({[this, each = std::move(each), answer = uint32_t(works.size()), mailbox] {
                             if (!mailbox->cancelled()) begin(each, answer, mailbox);
                         },
                         mailbox});
    wait(std::move(works));
}

void AnswerQueue::run(std::function<void(Engine&)> work) {
    auto task =
        std::make_shared<std::packaged_task<void()>>([this, work = std::move(work)] { work(engine_); });
    std::future<void> done = task->get_future();
    std::vector<Work> works;
    works.push_back({[task = std::move(task)] { (*task)(); }, nullptr});
    wait(std::move(works));
    try {
        done.get();
    } catch (const std::future_error&) {
        throw server_ends();
    }
}

size_t AnswerQueue::waiting() {
    const std::lock_guard lock(mutex_);
    return waiting_.size();
}

/// Of an answer.
struct AnswerQueue::Progress {
    const Clock::time_point begun = Clock::now();
    Clock::time_point first{};  // token
    size_t tokens = 0;          // that are counted
    uint32_t unsent = 0;        // of them
};

void AnswerQueue::count(const GenerateResult& result, const Progress& progress) {
    if (progress.tokens) {
        const std::chrono::duration<double> prompt = progress.first - progress.begun;
        metrics_.prompt_seconds += prompt.count() - result.waited;
        metrics_.generation_seconds += seconds_since(progress.first);
    }
    metrics_.generated_tokens += std::max(progress.tokens, result.tokens.size()) - progress.tokens;
    metrics_.reused_tokens += result.reused;
    metrics_.guessed_tokens += result.proposed;
    metrics_.accepted_tokens += result.accepted;
}

void AnswerQueue::begin(const Question& question, uint32_t answer, const std::shared_ptr<Mailbox>& mailbox) {
    Mailbox* const to = mailbox.get();
    try {
        {
            const std::lock_guard lock(mutex_);
            begun_[{to, answer}] = mailbox;
            running_ = begun_.size();
            if (ended_) mailbox->cancel();
        }
        const auto logprobs = std::make_shared<std::vector<TokenLogprobs>>();
        GenerateOptions options = question.options;
        options.cancel = &mailbox->cancelled();
        if (options.logprobs)
            options.on_logprobs = [logprobs](const TokenLogprobs& token) { logprobs->push_back(token); };
        const auto progress = std::make_shared<Progress>();
        options.on_text = [this, to, answer, logprobs, progress,
                           prompt = question.ids.size()](TokenId token, std::string_view text) {
            if (token >= 0 && progress->tokens++ == 0) {
                progress->first = Clock::now();
                metrics_.prompt_tokens += prompt;
            }
            metrics_.generated_tokens += token >= 0;
            progress->unsent += token >= 0;
            if (!text.empty() || !logprobs->empty())
                to->put({.answer = answer,
                         .text = std::string(text),
                         .tokens = std::exchange(progress->unsent, 0),
                         .logprobs = std::exchange(*logprobs, {})});
            return true;
        };
        auto session = std::make_shared<Session>(engine_);
        const std::vector<TokenId> ids = session->begin(question.ids);
        Session& begun = *session;
        batcher_->add(begun, ids, std::move(options),
                      [this, session = std::move(session), mailbox, answer,
                       progress](GenerateResult result, std::exception_ptr error) mutable {
                          session.reset();  // its part of the cache is the next one's
                          count(result, *progress);
                          end({mailbox.get(), answer});  // first: who hears of it may ask again
                          mailbox->put(
                              {.answer = answer, .result = std::move(result), .error = std::move(error)});
                      });
    } catch (const std::exception&) {
        end({to, answer});
        mailbox->put({.answer = answer, .error = std::current_exception()});
    }
}

void AnswerQueue::end(const std::pair<Mailbox*, uint32_t>& answer) {
    const std::lock_guard lock(mutex_);
    begun_.erase(answer);
    running_ = begun_.size();
}

bool AnswerQueue::begin() {
    while (true) {
        Work work;
        {
            std::unique_lock lock(mutex_);
            if (begun_.empty()) asked_.wait(lock, [&] { return ended_ || !waiting_.empty(); });
            if (ended_) return false;
            if (waiting_.empty() || begun_.size() >= engine_.options().sequences) return true;
            work = std::move(waiting_.front());
            waiting_.pop_front();
        }
        work.run();
    }
}

void AnswerQueue::step() {
    constexpr uint32_t most_failures = 3;  // a step that failed may be tried again
    try {
        batcher_->step();
        failures_ = 0;
    } catch (const std::exception&) {
        if (++failures_ < most_failures) return;
        batcher_.emplace(engine_);
        const std::lock_guard lock(mutex_);
        for (const auto& [key, mailbox] : std::exchange(begun_, {}))
            mailbox->put({.answer = key.second, .error = std::current_exception()});
        running_ = failures_ = 0;
    }
}

void AnswerQueue::compute() {
    batcher_.emplace(engine_);
    while (begin()) step();
    while (!begun_.empty()) step();
    batcher_.reset();
}

}  // namespace scoria::server
