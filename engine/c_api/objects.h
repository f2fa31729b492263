// What stands behind the handles of the C interface, and who may use it when.
#pragma once

#include "batcher.h"
#include "calls.h"
#include "embedding.h"
#include "ranker.h"
#include "scoria_vulkan.h"
#include "session.h"
#include "speculation.h"

#include <thread>

namespace scoria::c_api {

struct EngineObject {
    EngineObject(std::shared_ptr<const Model> of, const EngineOptions& options)
        : model(std::move(of)), engine(model, options), embedder(*model), ranker(*model),
          tokenizer_kind(model->tokenizer ? model->tokenizer->kind() : ""),
          device_name(engine.device().caps().name), driver_name(engine.device().caps().driver_name) {}

    std::shared_ptr<const Model> model;
    Engine engine;
    Embedder embedder;
    Ranker ranker;
    // Handed out as pointers; a device that was lost is another object afterwards.
    std::string tokenizer_kind, device_name, driver_name;
    std::atomic<int64_t> users{0};  // calls that run, sessions and batches; -1: destroyed
};

/// Keeps an engine from being destroyed. Errors: bad_argument.
class EngineUse {
  public:
    explicit EngineUse(const scoria_engine* handle);
    ~EngineUse() {
        if (engine_) --engine_->users;
    }
    EngineUse(EngineUse&& other) noexcept : engine_(std::move(other.engine_)) {}
    EngineObject* operator->() const { return engine_.get(); }
    /// Errors: unsupported, where the model has none.
    const Tokenizer& tokenizer() const;

  private:
    std::shared_ptr<EngineObject> engine_;
};

struct SessionObject {
    explicit SessionObject(EngineUse of) : owner(std::move(of)), session(owner->engine) {}

    EngineUse owner;  // outlives the session
    Session session;
    const scoria_engine* draft_handle = nullptr;  // what `draft` is of; never comes again (Handles)
    std::optional<DraftModel> draft;
    std::atomic<bool> cancel{false};
    std::atomic<bool> busy{false};
};

/// The only use of a session while it lives. Errors: bad_argument, busy.
class SessionUse {
  public:
    explicit SessionUse(const scoria_session* handle);
    ~SessionUse() {
        if (session_) session_->busy = false;
    }
    SessionUse(const SessionUse&) = delete;
    SessionObject* operator->() const { return session_.get(); }
    SessionObject& object() const { return *session_; }
    /// For good: nobody else can use what is about to be destroyed.
    void keep() { session_.reset(); }

  private:
    std::shared_ptr<SessionObject> session_;
};

struct BatchObject {
    explicit BatchObject(EngineUse of) : owner(std::move(of)), batcher(owner->engine) {}

    EngineUse owner;  // outlives the batcher
    Batcher batcher;
    std::atomic<bool> busy{false};
    std::atomic<std::thread::id> by;  // whose call it is that keeps it busy
};

/// The only use of a batch while it lives; where `nested`, also one more from inside it: from a callback.
/// Errors: bad_argument, busy.
class BatchUse {
  public:
    explicit BatchUse(const scoria_batch* handle, bool nested = false);
    ~BatchUse();
    BatchUse(const BatchUse&) = delete;
    BatchObject* operator->() const { return batch_.get(); }
    void keep() { batch_.reset(); }  // as SessionUse's

  private:
    std::shared_ptr<BatchObject> batch_;
    bool outer_ = false;  // it was not busy before
};

Handles<EngineObject>& engines();
Handles<SessionObject>& sessions();
Handles<BatchObject>& batches();
/// A number for a new handle, of any kind. Never NULL, never twice.
uintptr_t new_handle();

/// With the defaults of what `given` has not.
scoria_generate_options all_options(const scoria_generate_options* given);
/// `session` and `lookup` must outlive the result; of `options` nothing is kept but callbacks and `user`.
/// Errors: bad_argument, and what grammars and drafts have.
GenerateOptions generate_options_of(SessionObject& session, const scoria_generate_options& options,
                                    PromptLookup& lookup);
scoria_generate_result result_of(const GenerateResult& generated);
/// Errors: cancelled, if it was.
void check_cancelled(const GenerateResult& generated);

scoria_shared shared_of(const SharedView& view);
std::span<const TokenId> ids_of(const int32_t* ids, size_t count);

}  // namespace scoria::c_api
