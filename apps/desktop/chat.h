// A conversation with a model: one worker thread makes all calls of the C interface, and the window looks at
// copies of what it has so far.
#pragma once

#include "scoria_vulkan.h"
#include "settings.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace scoria::desktop {

class AttentionMap;

enum class Phase { empty, loading, ready, prompt, answer };
const char* phase_name(Phase phase);

struct ChatMessage {
    std::string role, text;  // as scoria_message
    // Of answers:
    size_t prompt_tokens = 0, tokens = 0;  // computed for it, generated
    double prompt_seconds = 0, seconds = 0;
    std::string stop;  // why it ended: "end", "limit", ...; "" while it comes
};

struct ModelInfo {
    std::string path, name, family;
    uint32_t context = 0, layers = 0;
};

/// A copy of everything that the window shows.
struct ChatState {
    uint64_t revision = 0;  // grows with each change
    Phase phase = Phase::empty;
    ModelInfo model;               // path "": none
    uint64_t done = 0, total = 0;  // of loading in bytes, of a prompt in tokens
    size_t used = 0;               // positions of the context
    std::vector<ChatMessage> messages;
    std::vector<float> speeds;  // tokens per second of late, the newest last
    std::string error;          // for people; "" if nothing went wrong since the last command
    std::string unsent;         // a message that got no answer, to be tried again
    std::string note;           // the library's last message
    bool device_lost = false;   // the VkDevice is to be made anew, after close()
};

struct ModelOptions {
    std::string path;
    uint32_t context = 0;       // 0: by the library
    float submission_ms = 0;    // 0: by the library
    uint32_t prompt_chunk = 0;  // 0: by the library
    uint32_t precision = SCORIA_BALANCED;
    const scoria_vulkan* vulkan = nullptr;  // valid until close() has returned, as the next
    AttentionMap* map = nullptr;            // takes what watch() asks for; may be null
};

/// Calls may come from the window's thread only; all but close() and the destructor return at once.
class Chat {
  public:
    /// `log`: a file that holds the conversation as JSON after every change of phase; "": none.
    explicit Chat(std::string log);
    ~Chat();
    Chat(const Chat&) = delete;

    /// Stops what runs and opens a model in the place of the one before. The conversation is kept.
    void load(const ModelOptions& options);
    /// Asks for an answer; does nothing unless `phase` is ready.
    void send(const std::string& text, const std::string& system, const Sampling& sampling);
    /// What a layer's heads attend to goes to the map, now and while answers come; unset: nothing does.
    void watch(std::optional<uint32_t> layer);
    /// Stops loading, prompt or answer, soon. What came of an answer stays.
    void stop();
    /// Forgets the conversation, and stops an answer.
    void clear();
    /// Waits until engine and session are gone: before their VkDevice goes.
    void close();
    /// Makes `seen` the present state; false if it is already.
    bool refresh(ChatState& seen);
    void dismiss_error();

  private:
    struct Job {
        uint64_t id;
        std::function<void()> work;
    };

    void run();
    void enqueue(std::function<void()> work);
    bool stopped() const { return job_ <= stop_until_; }
    template <class Change> void change(const Change& change);
    void fail(scoria_status status, const char* what);
    void write_log();
    void release();

    void do_load(const ModelOptions& options);
    void do_watch();
    void show_attention();
    void do_send(const std::string& text, const std::string& system, const Sampling& sampling);
    scoria_status append_history(const std::string& system);
    scoria_status generate(const Sampling& sampling);
    void hear(int32_t id, const char* text, size_t bytes);

    const std::string log_;
    std::mutex mutex_;  // guards state_ and jobs_
    std::condition_variable wake_;
    ChatState state_;
    std::deque<Job> jobs_;
    uint64_t last_id_ = 0;
    bool ending_ = false;
    std::atomic<uint64_t> stop_until_{0};            // jobs up to this id are to stop
    std::atomic<scoria_session*> session_{nullptr};  // the library itself refuses a stale one

    // The worker's own.
    uint64_t job_ = 0;
    scoria_engine* engine_ = nullptr;
    uint32_t chunk_ = 1;
    AttentionMap* map_ = nullptr;
    std::optional<uint32_t> wanted_layer_;
    bool watches_ = false;    // the session does
    std::string last_error_;  // of the command that ran last
    std::thread worker_;
};

}  // namespace scoria::desktop
