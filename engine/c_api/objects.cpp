// See objects.h.
#include "objects.h"

namespace scoria::c_api {

Handles<EngineObject>& engines() {
    static Handles<EngineObject> all;
    return all;
}

Handles<SessionObject>& sessions() {
    static Handles<SessionObject> all;
    return all;
}

Handles<BatchObject>& batches() {
    static Handles<BatchObject> all;
    return all;
}

uintptr_t new_handle() {
    static std::atomic<uintptr_t> last{0};
    return ++last;
}

EngineUse::EngineUse(const scoria_engine* handle) {
    std::shared_ptr<EngineObject> found = engines().find(handle, "engine");
    int64_t users = found->users;
    do require(users >= 0, "a live engine, got one that is being destroyed");
    while (!found->users.compare_exchange_weak(users, users + 1));
    engine_ = std::move(found);
}

const Tokenizer& EngineUse::tokenizer() const {
    if (!engine_->model->tokenizer)
        fail(Status::unsupported, "tokenizer",
             "expected a model with a vocabulary, got none: ", engine_->model->tokenizer_problem);
    return *engine_->model->tokenizer;
}

SessionUse::SessionUse(const scoria_session* handle) {
    std::shared_ptr<SessionObject> found = sessions().find(handle, "session");
    if (found->busy.exchange(true))
        fail(Status::busy, "scoria.h",
             "expected a session that is not in use, got one that is: by another thread, or "
             "by the call whose callback this is");
    found->cancel = false;  // one that came before the call is not for it
    session_ = std::move(found);
}

BatchUse::BatchUse(const scoria_batch* handle, bool nested) {
    std::shared_ptr<BatchObject> found = batches().find(handle, "batch");
    outer_ = !found->busy.exchange(true);
    if (!outer_ && !(nested && found->by == std::this_thread::get_id()))
        fail(Status::busy, "scoria.h",
             "expected a batch that is not in use, got one that is: by another thread, or "
             "by the step whose callback this is");
    batch_ = std::move(found);
    if (outer_) batch_->by = std::this_thread::get_id();
}

BatchUse::~BatchUse() {
    if (!outer_ || !batch_) return;
    batch_->by = std::thread::id();
    batch_->busy = false;
}

std::span<const TokenId> ids_of(const int32_t* ids, size_t count) {
    require(ids || !count, "ids, got NULL");
    require(count <= UINT32_MAX, "fewer ids");
    return {ids, count};
}

}  // namespace scoria::c_api
