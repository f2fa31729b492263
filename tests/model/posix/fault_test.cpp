// Calls that fail once (our layer of tests/layer), where a session or a batch changes what stands on the
// device: whoever tries again gets what there would have been. Of calls of hosts:
// library/posix/fault_test.cpp.
#include "batcher.h"
#include "engine.h"
#include "fail.h"
#include "made_models.h"
#include "support/device.h"
#include "support/golden.h"
#include "support/layers.h"

#include <functional>

using namespace scoria;
using namespace scoria::test;

namespace failing {
namespace {

/// Tries again what fails, as a host would.
void patiently(const std::function<void()>& call) {
    for (int attempt = 0;; ++attempt) try {
            return call();
        } catch (const Error&) {
            if (attempt == 4) throw;
        }
}

std::vector<TokenId> some_ids(size_t count, TokenId step) {
    std::vector<TokenId> ids;
    for (size_t i = 0; i < count; ++i) ids.push_back(TokenId(3 + (i * i + i * size_t(step)) % 50));
    return ids;
}

Session session_of(Engine& engine) {
    std::optional<Session> session;
    patiently([&] { session.emplace(engine); });
    return std::move(*session);
}

/// Appends what is missing of `ids`.
void append(Session& session, std::span<const TokenId> ids) {
    patiently([&] {
        if (session.tokens().size() < ids.size()) session.append(ids.subspan(session.tokens().size()));
    });
}

using Said = std::vector<float>;
void note_logits(Session& session, Said& said) {
    patiently([&] {
        const std::vector<float> logits = session.logits();
        said.insert(said.end(), logits.begin(), logits.end());
    });
}

/// Answers beside a prompt of which states are kept.
Said batch(Engine& engine) {
    std::vector<Session> sessions;
    std::vector<std::vector<TokenId>> answers(3);
    std::optional<Batcher> batcher;
    patiently([&] { batcher.emplace(engine); });
    for (size_t i = 0; i < answers.size(); ++i) {
        sessions.push_back(session_of(engine));
        batcher->add(sessions.back(), some_ids(i == 2 ? 100 : 5, TokenId(i)), greedy(i == 2 ? 3 : 9),
                     [&, i](GenerateResult given, std::exception_ptr) { answers[i] = given.tokens; });
    }
    patiently([&] {
        while (batcher->step()) {
        }
    });
    Said said;
    for (const std::vector<TokenId>& answer : answers) said.insert(said.end(), answer.begin(), answer.end());
    return said;
}

/// Past the length at which rotations become others, and back.
Said rotations(Engine& engine) {
    Session session = session_of(engine);
    Said said;
    for (const size_t length : {20u, 90u}) {
        append(session, some_ids(length, 1));
        note_logits(session, said);
    }
    session.truncate(10);
    append(session, some_ids(30, 1));
    note_logits(session, said);
    return said;
}

/// Cut back to where the states of an earlier prompt were kept, of three in the place of two.
Said kept(Engine& engine) {
    Session session = session_of(engine);
    Said said;
    for (const size_t length : {80u, 180u, 280u}) append(session, some_ids(length, 1));
    note_logits(session, said);
    for (const size_t length : {164u, 64u}) {
        session.truncate(uint32_t(length));
        append(session, some_ids(length + 6, 1));
        note_logits(session, said);
    }
    return said;
}

/// Parts of the keys that the last group to arrive joins.
Said long_cache(Engine& engine) {
    Session session = session_of(engine);
    Said said;
    append(session, some_ids(600, 1));
    for (size_t length = 601; length < 604; ++length) append(session, some_ids(length, 1));
    note_logits(session, said);
    return said;
}

/// One key/value head, which CPU drivers split, too.
MadeModel with_one_kv_head() {
    MadeModel made = made_model("arcee");
    made.folder.config["max_position_embeddings"] = 1024;
    made.folder.config["num_key_value_heads"] = 1;
    for (auto& [name, tensor] : made.folder.tensors)
        if (name.find("k_proj") != name.npos || name.find("v_proj") != name.npos) {
            tensor.shape[0] /= 2;
            tensor.bytes.resize(tensor.bytes.size() / 2);
        }
    return made;
}

struct Scenario {
    const char* model;  // "": with_one_kv_head(); of fixtures with a slash
    Said (*run)(Engine& engine);
    uint32_t context, sequences;
    int from, to;  // which calls fail, once each: around those that told of errors; deep, all of 1 to 120
};
constexpr Scenario scenarios[] = {
    {"lfm2", batch, 160, 3, 6, 7},
    {"/models/phi3-longrope", rotations, 160, 1, 5, 6},
    {"mamba2", kept, 320, 1, 14, 16},
    {"", long_cache, 640, 1, 20, 22},
};
constexpr const char* faults[] = {"vkEndCommandBuffer:VK_ERROR_OUT_OF_HOST_MEMORY",
                                  "vkQueueSubmit:VK_ERROR_OUT_OF_DEVICE_MEMORY",
                                  "vkWaitSemaphores:VK_TIMEOUT"};

}  // namespace

TEST_CASE("vulkan: a call that fails once costs no answer anything" *
          doctest::skip(few_models() || floor_tier())) {
    for (const Scenario& scenario : scenarios) {
        CAPTURE(std::string(scenario.model));
        const bool fixture = *scenario.model == '/';
        if (fixture && !have_fixtures()) continue;
        const std::string name = fixture ? "mamba2" : scenario.model;
        const TemporaryFolder folder((name.empty() ? with_one_kv_head() : made_model(name)).folder);
        const auto model = std::make_shared<const Model>(
            open_model(fixture ? std::filesystem::path(fixtures() + scenario.model) : folder.path()));
        EngineOptions options = deterministic(scenario.sequences);
        options.device.validation = false;  // it takes a submission that failed for one in flight
        options.context = scenario.context;
        options.prompt_chunk = 32;
        options.deterministic = scenario.run != long_cache;  // which has no parts then
        Engine spared(model, options);
        const Said expected = scenario.run(spared);
        for (const std::string fault : faults)
            for (int call = deep() ? 1 : scenario.from; call <= (deep() ? 120 : scenario.to); ++call) {
                CAPTURE(fault);
                CAPTURE(call);
                const size_t colon = fault.find(':');
                const Layers layers(
                    "", fault.substr(0, colon) + ":" + std::to_string(call) + fault.substr(colon), false);
                std::optional<Engine> engine;
                try {
                    engine.emplace(model, options);
                } catch (const Error&) {
                    continue;  // nothing to go on with
                }
                CHECK(scenario.run(*engine) == expected);
            }
    }
}

}  // namespace failing
