// Batches of the C interface.
#include "objects.h"

using namespace scoria;
using namespace scoria::c_api;

namespace {

/// A session while it is in a batch, and how to say that it no longer is.
struct Member {
    Member(scoria_session* session, scoria_batch_done on_done, void* of_caller)
        : handle(session), use(std::in_place, session), done(on_done), user(of_caller) {}

    scoria_session* const handle;
    std::optional<SessionUse> use;
    PromptLookup lookup;
    const scoria_batch_done done;
    void* const user;

    void finish(const GenerateResult& generated, const std::exception_ptr& error) {
        use.reset();  // it may be added again from inside the callback
        if (!done) return;
        const scoria_generate_result result = result_of(generated);
        const auto tell = [&](Status status, const char* text) noexcept {
            done(user, handle, scoria_status(status), text, &result);
            return scoria_status(status);
        };
        const auto ended = [&] {
            if (error) std::rethrow_exception(error);
            check_cancelled(generated);
        };
        if (guarded(ended, tell) == SCORIA_OK) done(user, handle, SCORIA_OK, "", &result);
    }
};

}  // namespace

scoria_status scoria_batch_create(scoria_engine* engine, scoria_batch** batch) {
    return guarded([&] {
        if (batch) *batch = nullptr;
        EngineUse use(engine);
        require(batch != nullptr, "a place for the batch");
        auto object = std::make_shared<BatchObject>(std::move(use));
        *batch = reinterpret_cast<scoria_batch*>(batches().add(std::move(object), new_handle()));
    });
}

scoria_status scoria_batch_destroy(scoria_batch* batch) {
    return guarded([&] {
        if (!batch) return;
        BatchUse use(batch);
        use.keep();
        batches().end(batch);
    });
}

scoria_status scoria_batch_add(scoria_batch* batch, scoria_session* session, const int32_t* ids, size_t count,
                               const scoria_generate_options* given, scoria_batch_done on_done) {
    return guarded([&] {
        const BatchUse use(batch, /*nested=*/true);
        const scoria_generate_options options = all_options(given);
        const auto member = std::make_shared<Member>(session, on_done, options.user);
        GenerateOptions generate = generate_options_of(member->use->object(), options, member->lookup);
        use->batcher.add((*member->use)->session, ids_of(ids, count), std::move(generate),
                         [member](const GenerateResult& generated, const std::exception_ptr& error) {
                             member->finish(generated, error);
                         });
    });
}

scoria_status scoria_batch_step(scoria_batch* batch, size_t* left) {
    return guarded([&] {
        const BatchUse use(batch);
        use->batcher.step();
        if (left) *left = use->batcher.size();
    });
}
