// Sessions of the C interface.
#include "objects.h"
#include "scoria_vulkan.h"
#include "session_impl.h"

using namespace scoria;
using namespace scoria::c_api;

namespace {

static_assert(offsetof(scoria_shared, reserved) + 4 == sizeof(scoria_shared));
static_assert(offsetof(scoria_embed_options, raw) + 4 == sizeof(scoria_embed_options));

void replace(SessionObject& object, std::span<const TokenId> ids) {
    // Before the sequence that there is goes.
    object.session.impl().check_vocabulary(ids, object.owner->model->architecture.vocab);
    if (ids.size() > object.session.capacity())
        fail(Status::context_full, "context", "expected at most ", object.session.capacity(),
             " tokens, which the context has, got ", ids.size());
    const std::span<const TokenId> held = object.session.tokens();
    const auto differs = std::mismatch(held.begin(), held.end(), ids.begin(), ids.end()).second;
    const size_t same = size_t(differs - ids.begin());
    // The last token is computed anew: its logits are what generation starts from.
    const size_t kept = std::min(same, ids.empty() ? 0 : ids.size() - 1);
    object.session.truncate(uint32_t(kept));
    if (!ids.empty()) object.session.append(ids.subspan(kept), &object.cancel);
}

struct Forgotten {  // the sequence before and, also where something fails, the one of now
    Session& session;
    explicit Forgotten(Session& its) : session(its) { session.truncate(0); }
    ~Forgotten() { session.truncate(0); }
};

std::vector<float> embedding(SessionObject& object, std::span<const TokenId> ids,
                             const scoria_embed_options& options) {
    const Model& model = *object.owner->model;
    if (ids.empty()) fail(Status::bad_argument, "embed", "expected at least one token, got none");
    constexpr Pooling poolings[] = {Pooling::mean, Pooling::first, Pooling::last};
    const Pooling pooling =
        options.pooling == SCORIA_POOL_BY_MODEL ? model.pooling : poolings[options.pooling - 1];
    const Forgotten forgotten(object.session);
    return object.owner->embedder.embedding(object.session, ids, pooling, options.raw == 0);
}

void require_host(SessionObject& object) {
    if (!object.owner->engine.options().device.host)
        fail(Status::unsupported, "scoria_vulkan.h", "expected a session on the host's own device");
}

}  // namespace

scoria_shared c_api::shared_of(const SharedView& view) {
    return {.size = sizeof(scoria_shared),
            .buffer = view.view.buffer,
            .offset = view.view.offset,
            .bytes = view.view.size,
            .semaphore = view.ready.semaphore,
            .value = view.ready.value,
            .rows = view.rows,
            .cols = view.cols,
            .memory = view.memory.handle,
            .memory_bytes = view.memory.bytes,
            .memory_type = view.memory.type,
            .reserved = 0};
}

scoria_status scoria_session_create(scoria_engine* engine, scoria_session** session) {
    return guarded([&] {
        if (session) *session = nullptr;
        EngineUse use(engine);
        require(session != nullptr, "a place for the session");
        auto object = std::make_shared<SessionObject>(std::move(use));
        *session = reinterpret_cast<scoria_session*>(sessions().add(std::move(object), new_handle()));
    });
}

scoria_status scoria_session_destroy(scoria_session* session) {
    return guarded([&] {
        if (!session) return;
        SessionUse use(session);
        use.keep();
        sessions().end(session);
    });
}

scoria_status scoria_session_cancel(scoria_session* session) {
    return guarded([&] { sessions().find(session, "session")->cancel = true; });
}

scoria_status scoria_session_append(scoria_session* session, const int32_t* ids, size_t count) {
    return guarded([&] {
        const SessionUse use(session);
        use->session.append(ids_of(ids, count), &use->cancel);
    });
}

scoria_status scoria_session_replace(scoria_session* session, const int32_t* ids, size_t count) {
    return guarded([&] {
        const SessionUse use(session);
        replace(*use.operator->(), ids_of(ids, count));
    });
}

scoria_status scoria_session_truncate(scoria_session* session, size_t length) {
    return guarded([&] {
        const SessionUse use(session);
        use->session.truncate(uint32_t(std::min<size_t>(length, UINT32_MAX)));
    });
}

scoria_status scoria_session_evict(scoria_session* session) {
    return guarded([&] { SessionUse(session)->session.evict(); });
}

scoria_status scoria_session_restore(scoria_session* session) {
    return guarded([&] {
        const SessionUse use(session);
        use->session.restore(&use->cancel);
    });
}

scoria_status scoria_session_share(scoria_session* session, uint32_t what, scoria_shared* shared) {
    return guarded([&] {
        const SessionUse use(session);
        require(what <= SCORIA_SHARE_ATTENTION, "SCORIA_SHARE_LOGITS, _HIDDEN or _ATTENTION");
        require(shared != nullptr, "a place for the buffer");
        check_size<scoria_shared>(shared->size);
        require_host(use.object());
        fill(shared, shared_of(use->session.share(SharedKind(what))));
    });
}

scoria_status scoria_session_watch(scoria_session* session, uint32_t layer) {
    return guarded([&] {
        const SessionUse use(session);
        require_host(use.object());
        use->session.watch(layer == SCORIA_NO_LAYER ? std::nullopt : std::optional(layer));
    });
}

scoria_status scoria_session_wait(scoria_session* session, VkSemaphore semaphore, uint64_t value) {
    return guarded([&] {
        const SessionUse use(session);
        require_host(use.object());
        use->session.wait_for({semaphore, value});
    });
}

scoria_status scoria_session_tokens(scoria_session* session, int32_t* ids, size_t capacity, size_t* count) {
    return guarded([&] {
        const SessionUse use(session);
        const std::span<const TokenId> all = use->session.tokens();
        give_array(all.data(), all.size(), ids, capacity, count);
    });
}

scoria_status scoria_session_logits(scoria_session* session, float* logits, size_t capacity, size_t* count) {
    return guarded([&] {
        const SessionUse use(session);
        const std::vector<float> all = use->session.logits();
        give_array(all.data(), all.size(), logits, capacity, count);
    });
}

scoria_status scoria_session_encode(scoria_session* session, const int32_t* ids, size_t count) {
    return guarded([&] {
        const SessionUse use(session);
        use->session.encode(ids_of(ids, count));
    });
}

scoria_status scoria_session_embed(scoria_session* session, const int32_t* ids, size_t count,
                                   const scoria_embed_options* given, float* vector, size_t capacity,
                                   size_t* size) {
    return guarded([&] {
        const SessionUse use(session);
        scoria_embed_options options{.size = sizeof(scoria_embed_options)};
        if (given) options = versioned(given, options);
        require(options.pooling <= SCORIA_POOL_LAST && options.raw <= 1,
                "a pooling from 0 to 3, a raw of 0 or 1");
        const std::vector<float> all = embedding(*use.operator->(), ids_of(ids, count), options);
        give_array(all.data(), all.size(), vector, capacity, size);
    });
}

scoria_status scoria_session_rank(scoria_session* session, const char* query, size_t query_length,
                                  const char* document, size_t document_length, double* score) {
    return guarded([&] {
        const SessionUse use(session);
        require(score != nullptr, "a place for the score");
        const std::string_view texts[] = {text_of(query, query_length), text_of(document, document_length)};
        const Forgotten forgotten(use->session);
        *score = use->owner->ranker.score(use->session, texts[0], texts[1]).score;
    });
}
