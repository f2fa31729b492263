// See chat.h.
#include "chat.h"
#include "attention_map.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <future>
#include <random>
#include <utility>

namespace scoria::desktop {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t most_speeds = 240;  // points of the plot
constexpr size_t speed_window = 8;   // tokens that a speed is the mean over

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

/// What the reader can do about it.
const char* advice(scoria_status status) {
    switch (status) {
    case SCORIA_BAD_FILE:
        return "The file is missing, damaged or no model.";
    case SCORIA_OUT_OF_DEVICE_MEMORY:
        return "A smaller context or a smaller model may fit.";
    case SCORIA_DEVICE_LOST:
        return "The GPU was reset. It is opened again, and the model with it.";
    case SCORIA_CONTEXT_FULL:
        return "The conversation has become too long: Ctrl-N begins a new one.";
    default:
        return "";
    }
}

const char* stop_text(scoria_status status, uint32_t stop) {
    if (status == SCORIA_CANCELLED) return "stopped";
    if (status != SCORIA_OK) return "failed";
    constexpr const char* names[] = {"end", "limit", "context full", "stopped", "stop text"};
    return names[std::min<uint32_t>(stop, 4)];
}

}  // namespace

const char* phase_name(Phase phase) {
    constexpr const char* names[] = {"empty", "loading", "ready", "prompt", "answer"};
    return names[size_t(phase)];
}

Chat::Chat(std::string log) : log_(std::move(log)), worker_([this] { run(); }) {
    scoria_set_log(
        [](void* user, const char* line) {
            static_cast<Chat*>(user)->change([&](ChatState& state) { state.note = line; });
        },
        this);
}

Chat::~Chat() {
    stop();
    {
        const std::lock_guard lock(mutex_);
        ending_ = true;
    }
    wake_.notify_all();
    worker_.join();
    release();
    scoria_set_log(nullptr, nullptr);
}

// --- the window's side --------------------------------------------------------------------------------

void Chat::enqueue(std::function<void()> work) {
    {
        const std::lock_guard lock(mutex_);
        jobs_.push_back({++last_id_, std::move(work)});
    }
    wake_.notify_all();
}

void Chat::load(const ModelOptions& options) {
    stop();
    // At once: nothing is sent to the last model.
    change([](ChatState& state) { state.phase = Phase::loading; });
    enqueue([this, options] { do_load(options); });
}

void Chat::send(const std::string& text, const std::string& system, const Sampling& sampling) {
    {
        const std::lock_guard lock(mutex_);
        if (state_.phase != Phase::ready) return;
        state_.phase = Phase::prompt;  // at once, so that nothing is sent twice
        ++state_.revision;
    }
    enqueue([this, text, system, sampling] { do_send(text, system, sampling); });
}

void Chat::watch(std::optional<uint32_t> layer) {
    enqueue([this, layer] {
        wanted_layer_ = layer;
        do_watch();
        show_attention();
    });
}

void Chat::stop() {
    {
        const std::lock_guard lock(mutex_);
        stop_until_ = last_id_;
    }
    if (scoria_session* const session = session_) scoria_session_cancel(session);
}

void Chat::clear() {
    bool loading = false;
    change([&](const ChatState& state) { loading = state.phase == Phase::loading; });
    if (!loading) stop();  // a new conversation is no reason to go without a model
    enqueue([this] {
        change([](ChatState& state) {
            state.messages.clear();
            state.error.clear();
            state.unsent.clear();
            state.used = 0;
        });
        if (map_) map_->forget();
        write_log();
    });
}

void Chat::close() {
    stop();
    std::promise<void> released;
    enqueue([&] {
        release();
        change([](ChatState& state) {
            state.phase = Phase::empty;
            state.device_lost = false;
        });
        released.set_value();
    });
    released.get_future().wait();
}

bool Chat::refresh(ChatState& seen) {
    const std::lock_guard lock(mutex_);
    if (seen.revision == state_.revision) return false;
    seen = state_;
    state_.unsent.clear();  // the window has it now
    return true;
}

void Chat::dismiss_error() {
    change([](ChatState& state) { state.error.clear(); });
}

// --- the worker's side --------------------------------------------------------------------------------

template <class Change> void Chat::change(const Change& change) {
    const std::lock_guard lock(mutex_);
    change(state_);
    ++state_.revision;
}

void Chat::run() {
    while (true) {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return ending_ || !jobs_.empty(); });
        if (jobs_.empty()) return;
        const Job job = std::move(jobs_.front());
        jobs_.pop_front();
        lock.unlock();
        job_ = job.id;
        try {
            job.work();
        } catch (const std::exception& error) {
            fail(SCORIA_FAILED, error.what());
            change([&](ChatState& state) { state.phase = session_ ? Phase::ready : Phase::empty; });
        }
    }
}

void Chat::release() {
    scoria_session_destroy(session_.exchange(nullptr));
    scoria_engine_destroy(std::exchange(engine_, nullptr));
    if (map_) map_->forget();
    map_ = nullptr;  // its device may go next
    watches_ = false;
}

void Chat::fail(scoria_status status, const char* what) {
    if (status == SCORIA_OK || status == SCORIA_CANCELLED) return;
    last_error_ = std::string(what) + (*advice(status) ? "\n\n" : "") + advice(status);
    change([&](ChatState& state) {
        state.error = last_error_;
        state.device_lost = state.device_lost || status == SCORIA_DEVICE_LOST;
    });
}

void Chat::do_load(const ModelOptions& wanted) {
    release();
    last_error_.clear();
    change([&](ChatState& state) {
        state.phase = Phase::loading;
        state.model = {wanted.path};
        state.error.clear();
        state.done = state.total = state.used = 0;
    });
    write_log();
    scoria_engine_options options;
    scoria_engine_options_init(&options, sizeof options);
    options.model_path = wanted.path.c_str();
    options.context = wanted.context;
    options.submission_ms = wanted.submission_ms;
    options.prompt_chunk = wanted.prompt_chunk;
    options.precision = wanted.precision;
    options.vulkan = wanted.vulkan;
    options.user = this;
    options.progress = [](void* user, uint64_t done, uint64_t total) -> int {
        auto& chat = *static_cast<Chat*>(user);
        chat.change([&](ChatState& state) { state.done = done, state.total = total; });
        return !chat.stopped();
    };
    scoria_session* session = nullptr;
    scoria_status status = scoria_engine_create(&options, &engine_);
    if (status == SCORIA_OK) status = scoria_session_create(engine_, &session);
    session_ = session;
    scoria_engine_info info{sizeof info};
    if (status == SCORIA_OK) status = scoria_engine_get_info(engine_, &info);
    fail(status, ("Cannot open " + wanted.path + "\n\n" + scoria_last_error()).c_str());
    if (status != SCORIA_OK) release();
    chunk_ = std::max(info.prompt_chunk, 1u);
    map_ = status == SCORIA_OK ? wanted.map : nullptr;
    do_watch();
    change([&](ChatState& state) {
        state.phase = status == SCORIA_OK ? Phase::ready : Phase::empty;
        if (status == SCORIA_OK)
            state.model = {wanted.path, info.model_name, info.family, info.context, info.layers};
    });
    write_log();
}

/// Computes what the sequence lacks of the conversation, a chunk at a time. The last token is computed anew
/// even if it is there: its logits are what the answer begins from.
scoria_status Chat::append_history(const std::string& system) {
    std::vector<scoria_message> messages;
    if (!system.empty()) messages.push_back({"system", system.c_str()});
    for (const ChatMessage& message : state_.messages)
        messages.push_back({message.role.c_str(), message.text.c_str()});
    scoria_chat_options options{sizeof options, messages.data(), messages.size()};
    size_t count = 0, held_count = 0;
    scoria_status status = scoria_chat_tokens(engine_, &options, nullptr, 0, &count);
    if (status != SCORIA_OK) return status;
    std::vector<int32_t> ids(count);
    status = scoria_chat_tokens(engine_, &options, ids.data(), count, &count);
    if (status != SCORIA_OK) return status;
    std::vector<int32_t> held(state_.model.context);
    status = scoria_session_tokens(session_, held.data(), held.size(), &held_count);
    if (status != SCORIA_OK || ids.empty()) return status;
    held.resize(std::min(held_count, held.size()));

    const auto differs = std::ranges::mismatch(held, ids).in2;
    const size_t keep = std::min<size_t>(size_t(differs - ids.begin()), ids.size() - 1);
    status = scoria_session_truncate(session_, keep);
    // All at once to be refused at once, where it cannot fit.
    const size_t step = ids.size() < state_.model.context ? chunk_ : ids.size();
    for (size_t at = keep; at < ids.size() && status == SCORIA_OK; at += step) {
        change([&](ChatState& state) {
            state.done = at - keep, state.total = ids.size() - keep, state.used = at;
        });
        if (stopped()) return SCORIA_CANCELLED;
        status = scoria_session_append(session_, ids.data() + at, std::min(step, ids.size() - at));
    }
    change([&](ChatState& state) {
        state.total = ids.size() - keep;
        if (status == SCORIA_OK) state.used = ids.size();
    });
    return status;
}

/// A family without such a matrix goes without.
void Chat::do_watch() {
    if (!session_ || !map_) return;
    uint32_t layer = SCORIA_NO_LAYER;
    if (wanted_layer_) {
        scoria_engine_info info{sizeof info};
        scoria_engine_get_info(engine_, &info);
        layer = std::min(*wanted_layer_, std::max(info.layers, 1u) - 1);
    }
    const bool set = scoria_session_watch(session_, layer) == SCORIA_OK;
    watches_ = set && layer != SCORIA_NO_LAYER;
    if (!watches_) map_->forget();
}

/// What the last token attends to; computes it where that has not been done yet.
void Chat::show_attention() {
    if (!watches_ || state_.messages.empty()) return;
    scoria_shared weights{sizeof weights};
    if (scoria_session_share(session_, SCORIA_SHARE_ATTENTION, &weights) == SCORIA_OK)
        map_->take(weights, true);
}

void Chat::hear(int32_t id, const char* text, size_t bytes) {
    change([&](ChatState& state) {
        state.messages.back().text.append(text, bytes);
        if (id >= 0) ++state.used;
    });
}

scoria_status Chat::generate(const Sampling& sampling) {
    struct Listener {
        Chat* chat;
        std::deque<Clock::time_point> times;
    } listener{this, {Clock::now()}};
    scoria_generate_options options;
    scoria_generate_options_init(&options, sizeof options);
    options.temperature = sampling.temperature;
    options.top_k = uint32_t(sampling.top_k);
    options.top_p = sampling.top_p;
    options.min_p = sampling.min_p;
    options.repetition_penalty = sampling.repeat_penalty;
    options.seed = sampling.random_seed ? std::random_device()() : sampling.seed;
    options.max_tokens = uint32_t(sampling.max_tokens);
    options.user = &listener;
    if (watches_)
        options.on_attention = [](void* user, const scoria_shared* weights) {
            static_cast<Listener*>(user)->chat->map_->take(*weights, false);
        };
    options.on_token = [](void* user, int32_t id, const char* text, size_t bytes) -> int {
        auto& [chat, times] = *static_cast<Listener*>(user);
        chat->hear(id, text, bytes);
        if (id < 0) return 1;  // what the end set free
        times.push_back(Clock::now());
        if (times.size() > speed_window + 1) times.pop_front();
        const double took = std::chrono::duration<double>(times.back() - times.front()).count();
        const auto speed = float(double(times.size() - 1) / std::max(took, 1e-6));
        chat->change([&](ChatState& state) {
            if (state.speeds.size() >= most_speeds) state.speeds.erase(state.speeds.begin());
            state.speeds.push_back(speed);
        });
        return !chat->stopped();
    };
    scoria_generate_result result{sizeof result};
    const scoria_status status = scoria_session_generate(session_, &options, &result);
    change([&](ChatState& state) {
        ChatMessage& answer = state.messages.back();
        answer.tokens = result.tokens;
        answer.seconds = result.seconds;
        answer.stop = stop_text(status, result.stop);
    });
    return status;
}

void Chat::do_send(const std::string& text, const std::string& system, const Sampling& sampling) {
    last_error_.clear();
    change([&](ChatState& state) {
        state.error.clear();
        state.messages.push_back({"user", text});
        state.done = state.total = 0;
    });
    write_log();
    const Clock::time_point start = Clock::now();
    scoria_status status = append_history(system);
    if (status == SCORIA_OK) {
        change([&](ChatState& state) {
            state.phase = Phase::answer;
            state.messages.push_back({"assistant", "", size_t(state.total), 0, seconds_since(start)});
        });
        write_log();
        status = generate(sampling);
    }
    fail(status, scoria_last_error());
    change([&](ChatState& state) {
        // Without an answer the question goes back to where it was typed.
        if (status != SCORIA_OK && state.messages.back().text.empty()) state.messages.pop_back();
        if (state.messages.back().role == "user" && status != SCORIA_OK) {
            state.unsent = text;
            state.messages.pop_back();
        }
        state.phase = session_ ? Phase::ready : Phase::empty;
    });
    write_log();
    if (status == SCORIA_OK) show_attention();
}

void Chat::write_log() {
    if (log_.empty()) return;
    ChatState state;
    change([&](const ChatState& now) { state = now; });
    nlohmann::ordered_json json{{"phase", phase_name(state.phase)},
                                {"model", state.model.path},
                                {"error", last_error_},
                                {"messages", nlohmann::ordered_json::array()}};
    for (const ChatMessage& m : state.messages) {
        json["messages"].push_back({{"role", m.role}, {"content", m.text}});
        if (m.role != "assistant") continue;
        json["messages"].back().update({{"prompt_tokens", m.prompt_tokens},
                                        {"prompt_seconds", m.prompt_seconds},
                                        {"tokens", m.tokens},
                                        {"seconds", m.seconds},
                                        {"stop", m.stop}});
    }
    try {
        write_text(log_, json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
    } catch (const std::exception& error) {
        fail(SCORIA_FAILED, error.what());
    }
}

}  // namespace scoria::desktop
