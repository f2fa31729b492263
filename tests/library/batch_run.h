// Answers of several sessions in one batch, for tests of the C interface.
#pragma once

#include "library.h"

#include <functional>

namespace scoria::test {

/// A prompt and what is wanted after it.
struct BatchWish {
    std::vector<int32_t> prompt;
    scoria_generate_options options;
    std::vector<std::string> stop = {};
    std::string json_schema = {};

    /// Calls `use` with options that point to texts of this call alone, which are then no more.
    template <class Use> scoria_status with_options(void* user, Use use) const {
        std::string schema = json_schema;
        std::vector<std::string> texts = stop;
        std::vector<const char*> stops;
        for (const std::string& text : texts) stops.push_back(text.c_str());
        scoria_generate_options all = options;
        all.user = user;
        all.stop = stops.data();
        all.stop_count = stops.size();
        if (!schema.empty()) all.json_schema = schema.c_str();
        const scoria_status status = use(all);
        for (std::string& text : texts) text.assign(text.size(), '~');
        schema.assign(schema.size(), '~');
        return status;
    }
};

/// What came of it.
struct BatchAnswer {
    std::vector<int32_t> ids;
    std::string text;
    scoria_status status = SCORIA_FAILED;
    std::string message = "never done";
    uint32_t stop = 0;
    bool operator==(const BatchAnswer&) const = default;

    void on_token(int32_t id, std::string_view more) {
        if (id >= 0) ids.push_back(id);
        text += more;
    }
};

/// A session in a batch: its wishes one after the other, each begun from inside on_done of the one before.
struct BatchMember {
    scoria_batch* batch = nullptr;
    scoria_session* session = nullptr;
    std::vector<BatchWish> wishes = {};
    std::vector<BatchAnswer> answers = {};
    std::function<void(BatchMember&)> during = {}, after = {};  // called by on_token and on_done

    /// Owns the session.
    BatchMember(scoria_batch* in, scoria_session* of, std::vector<BatchWish> wanted)
        : batch(in), session(of), wishes(std::move(wanted)) {}
    BatchMember(scoria_batch* in, scoria_engine* engine, std::vector<BatchWish> wanted)
        : batch(in), wishes(std::move(wanted)) {
        REQUIRE_OK(scoria_session_create(engine, &session));
    }
    BatchMember(const BatchMember&) = delete;
    ~BatchMember() { CHECK(scoria_session_destroy(session) == SCORIA_OK); }

    scoria_status add() {
        BatchWish& wish = wishes[answers.size()];
        wish.options.on_token = [](void* user, int32_t id, const char* text, size_t bytes) {
            auto& member = *static_cast<BatchMember*>(user);
            member.answers.back().on_token(id, {text, bytes});
            if (member.during) member.during(member);
            return 1;
        };
        answers.emplace_back();
        return wish.with_options(this, [&](const scoria_generate_options& options) {
            return scoria_batch_add(batch, session, wish.prompt.data(), wish.prompt.size(), &options,
                                    on_done);
        });
    }
    static void on_done(void* user, scoria_session* session, scoria_status status, const char* message,
                        const scoria_generate_result* result) {
        auto& member = *static_cast<BatchMember*>(user);
        CHECK(session == member.session);
        BatchAnswer& answer = member.answers.back();
        CHECK(answer.message == "never done");
        CHECK(result->tokens == answer.ids.size());
        answer.status = status;
        answer.message = message;
        answer.stop = result->stop;
        if (status == SCORIA_OK && member.answers.size() < member.wishes.size()) REQUIRE_OK(member.add());
        if (member.after) member.after(member);
    }
};

inline scoria_batch* make_batch(scoria_engine* engine) {
    scoria_batch* batch = nullptr;
    REQUIRE_OK(scoria_batch_create(engine, &batch));
    return batch;
}

/// Steps until nothing is left, or steps have failed `failures` times; the first status that is not OK.
inline scoria_status run_batch(scoria_batch* batch, int failures = 1) {
    scoria_status first = SCORIA_OK;
    for (size_t left = 1; left != 0;) {
        const scoria_status status = scoria_batch_step(batch, &left);
        if (first == SCORIA_OK) first = status;
        if (status != SCORIA_OK && --failures == 0) break;
    }
    return first;
}

}  // namespace scoria::test
