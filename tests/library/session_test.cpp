// What hosts do with engines and sessions, from one thread and from many.
#include "library.h"
#include "support/made_folder.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

using namespace scoria::test;

namespace {

/// An adapter of rank 2 on the first query projection, as PEFT writes it.
void write_adapter(const std::filesystem::path& folder) {
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "adapter_config.json") << R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4})";
    std::string header = R"({"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight":)"
                         R"({"dtype":"F32","shape":[2,64],"data_offsets":[0,512]},)"
                         R"("base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight":)"
                         R"({"dtype":"F32","shape":[64,2],"data_offsets":[512,1024]}})";
    header.resize((header.size() + 7) / 8 * 8, ' ');
    std::vector<float> values(256);
    for (size_t i = 0; i < values.size(); ++i) values[i] = float(i % 7) / 7 - 0.4f;
    std::ofstream out(folder / "adapter_model.safetensors", std::ios::binary);
    const uint64_t bytes = header.size();
    out.write(reinterpret_cast<const char*>(&bytes), 8);
    out << header;
    out.write(reinterpret_cast<const char*>(values.data()), 1024);
    REQUIRE(out.flush());
}

}  // namespace

TEST_CASE("text to ids and back, results that do not fit" * needs_fixtures()) {
    const Loaded loaded;
    const std::string text = "a b";
    int32_t ids[64];
    size_t count = 0, again = 0, length = 0;
    REQUIRE_OK(scoria_tokenize(loaded.engine, text.data(), text.size(), 0, ids, 64, &count));
    REQUIRE(count > 0);
    int32_t one[1] = {-7};
    REQUIRE_OK(scoria_tokenize(loaded.engine, text.data(), text.size(), 0, one, 1, &again));
    CHECK(again == count);
    CHECK(one[0] == ids[0]);
    char out[64] = "untouched";
    REQUIRE_OK(scoria_detokenize(loaded.engine, ids, count, 0, out, 1, &length));
    CHECK(std::string(out) == "untouched");
    REQUIRE(length < sizeof out);
    REQUIRE_OK(scoria_detokenize(loaded.engine, ids, count, 0, out, sizeof out, &length));
    CHECK(std::string(out).find("a b") != std::string::npos);
    REQUIRE_OK(scoria_tokenize(loaded.engine, text.data(), text.size(), SCORIA_ADD_SPECIAL, ids, 64, &again));
    CHECK(again >= count);
    CHECK(scoria_tokenize(loaded.engine, text.data(), text.size(), 4, ids, 64, &again) ==
          SCORIA_BAD_ARGUMENT);
    CHECK(scoria_tokenize(loaded.engine, text.data(), SIZE_MAX, 0, ids, 64, &again) == SCORIA_BAD_ARGUMENT);
    const scoria_engine_info info = info_of(loaded.engine);
    CHECK(info.kind == SCORIA_DECODER);
    CHECK(info.decoder_start == -1);
    CHECK(logits_of((generated(loaded.session, some_prompt, 1), loaded.session)).size() == info.vocab);
}

TEST_CASE("replace keeps what the sequences share" * needs_fixtures()) {
    const Loaded loaded;
    const std::vector<int32_t> first = generated(loaded.session, some_prompt, 6);
    CHECK(generated(loaded.session, some_prompt, 6) == first);
    const std::vector<int32_t> other = {3, 40, 9};
    const std::vector<int32_t> second = generated(loaded.session, other, 6);
    CHECK(generated(Loaded().session, other, 6) == second);
    size_t count = 0;
    for (const std::vector<int32_t>& bad : {std::vector<int32_t>{3, -1}, std::vector<int32_t>(500, 9)}) {
        CHECK(scoria_session_replace(loaded.session, bad.data(), bad.size()) ==
              (bad.size() == 2 ? SCORIA_BAD_ARGUMENT : SCORIA_CONTEXT_FULL));
        REQUIRE_OK(scoria_session_tokens(loaded.session, nullptr, 0, &count));
        CHECK(count == second.size());  // what was there stays
    }
    REQUIRE_OK(scoria_session_replace(loaded.session, nullptr, 0));
    REQUIRE_OK(scoria_session_tokens(loaded.session, nullptr, 0, &count));
    CHECK(count == 0);
}

TEST_CASE("embeddings have length 1, of encoders and decoders" * needs_fixtures()) {
    for (const char* model : {"/gguf/bert.gguf", "/gguf/llama1.gguf", "/gguf/t5.gguf"}) {
        CAPTURE(model);
        const Loaded loaded(fixtures() + model);
        std::vector<float> vector(info_of(loaded.engine).hidden);
        size_t size = 0;
        REQUIRE_OK(scoria_session_embed(loaded.session, some_prompt.data(), some_prompt.size(), nullptr,
                                        vector.data(), vector.size(), &size));
        REQUIRE(size == vector.size());
        double sum = 0;
        for (const float value : vector) sum += double{value} * double{value};
        CHECK(std::abs(sum - 1) < 1e-5);
        CHECK(scoria_session_embed(loaded.session, nullptr, 0, nullptr, nullptr, 0, &size) ==
              SCORIA_BAD_ARGUMENT);
    }
}

TEST_CASE("documents are ranked by a model made for it, and by no other" * needs_fixtures()) {
    const MadeFolder made("made_rankers.jsonl");
    const Loaded loaded(made.path());
    const auto rank = [](const Loaded& by, const std::string& query, const std::string& document,
                         double& score) {
        return scoria_session_rank(by.session, query.data(), query.size(), document.data(), document.size(),
                                   &score);
    };
    double score = 0;
    for (size_t i = 0; i < 4; ++i) {
        REQUIRE_OK(rank(loaded, made.pairs()[i][0], made.pairs()[i][1], score));
        CHECK(score == doctest::Approx(made.pairs()[i][3].get<double>()).epsilon(0.01));
    }
    size_t count = 1;
    REQUIRE_OK(scoria_session_tokens(loaded.session, nullptr, 0, &count));
    CHECK(count == 0);
    const Loaded other(fixtures() + "/gguf/bert.gguf");
    CHECK(rank(other, "a", "b", score) == SCORIA_UNSUPPORTED);
}

TEST_CASE("an encoder-decoder" * needs_fixtures()) {
    const Loaded loaded(fixtures() + "/gguf/t5.gguf");
    const scoria_engine_info info = info_of(loaded.engine);
    CHECK(info.kind == SCORIA_ENCODER_DECODER);
    CHECK(scoria_session_append(loaded.session, &info.decoder_start, 1) == SCORIA_BAD_ARGUMENT);
    REQUIRE_OK(scoria_session_encode(loaded.session, some_prompt.data(), some_prompt.size()));
    CHECK(generated(loaded.session, {info.decoder_start}, 4).size() == 5);
}

TEST_CASE("adapters change the answer, at scale 0 they do not" * needs_fixtures()) {
    const Scratch scratch;
    write_adapter(scratch.path / "adapter");
    const std::string path = (scratch.path / "adapter").string();
    const auto logits = [&](float scale, size_t count) {
        const scoria_adapter adapter{path.c_str(), scale, 0};
        scoria_engine_options options = engine_options(tiny_model());
        options.adapters = &adapter;
        options.adapter_count = count;
        const Loaded loaded(options);
        REQUIRE_OK(scoria_session_append(loaded.session, some_prompt.data(), some_prompt.size()));
        return logits_of(loaded.session);
    };
    const auto apart = [](const std::vector<float>& a, const std::vector<float>& b) {
        float most = 0;
        for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
        return most;
    };
    const std::vector<float> plain = logits(1, 0);
    CHECK(apart(plain, logits(1, 1)) > 1e-3f);
    CHECK(apart(plain, logits(0, 1)) < 1e-5f);
    const scoria_adapter nameless{nullptr, 1, 0};
    scoria_engine_options options = engine_options(tiny_model());
    options.adapters = &nameless;
    options.adapter_count = 1;
    scoria_engine* engine = nullptr;
    CHECK(scoria_engine_create(&options, &engine) == SCORIA_BAD_ARGUMENT);
}

TEST_CASE("a plan, a budget, a memory map" * needs_fixtures()) {
    scoria_engine_options options = engine_options(tiny_model());
    scoria_memory plan{};
    plan.size = sizeof plan;
    REQUIRE_OK(scoria_plan_memory(&options, &plan));
    CHECK(plan.weights > 0);
    CHECK(plan.in_use == 0);
    CHECK(plan.host_weights == 0);
    CHECK(plan.host_kv == 0);
    options.memory_budget = 4096;
    scoria_engine* engine = nullptr;
    CHECK(scoria_engine_create(&options, &engine) == SCORIA_OUT_OF_DEVICE_MEMORY);
    CHECK(std::string(scoria_last_error()).find("weights") != std::string::npos);
    options.memory_budget = plan.weights / 2 + plan.scratch + plan.kv;
    options.mmap = 1;
    const Loaded loaded(options);
    scoria_memory real{};
    real.size = sizeof real;
    REQUIRE_OK(scoria_engine_memory(loaded.engine, &real));
    CHECK(real.context == plan.context);
    CHECK(real.host_weights > 0);
    CHECK(real.weights + real.kv + real.scratch <= options.memory_budget);
    CHECK(generated(loaded.session, some_prompt, 3).size() == some_prompt.size() + 3);
}

TEST_CASE("guesses change no answer; a draft's engine stays in use by its session" * needs_fixtures()) {
    const Loaded loaded;
    const std::vector<int32_t> expected = generated(loaded.session, some_prompt, 40);
    std::vector<int32_t> same = some_prompt;  // and then one token over and over
    same.resize(expected.size(), 11);
    const scoria_logit_bias always{11, 1000};
    scoria_engine* draft = nullptr;
    const scoria_engine_options engine = engine_options(tiny_model());
    REQUIRE_OK(scoria_engine_create(&engine, &draft));
    scoria_generate_options lookup = greedy(40), drafted = greedy(40);
    lookup.lookup = 1;
    lookup.logit_bias = &always;
    lookup.logit_bias_count = 1;
    drafted.draft = draft;
    drafted.draft_tokens = 3;
    for (const scoria_generate_options& options : {lookup, drafted, drafted}) {
        REQUIRE_OK(scoria_session_replace(loaded.session, some_prompt.data(), some_prompt.size()));
        scoria_generate_result result{};
        result.size = sizeof result;
        REQUIRE_OK(scoria_session_generate(loaded.session, &options, &result));
        std::vector<int32_t> ids(expected.size());
        size_t count = 0;
        REQUIRE_OK(scoria_session_tokens(loaded.session, ids.data(), ids.size(), &count));
        CHECK(ids == (options.draft ? expected : same));
        CHECK(result.proposed > 20);
        CHECK(result.accepted > result.proposed / 2);
    }
    lookup.draft = draft;  // both
    CHECK(scoria_session_generate(loaded.session, &lookup, nullptr) == SCORIA_BAD_ARGUMENT);
    CHECK(scoria_engine_destroy(draft) == SCORIA_BUSY);
    scoria_session* other = nullptr;
    REQUIRE_OK(scoria_session_create(draft, &other));
    drafted.draft = reinterpret_cast<scoria_engine*>(other);
    CHECK(scoria_session_generate(loaded.session, &drafted, nullptr) == SCORIA_BAD_ARGUMENT);
    REQUIRE_OK(scoria_session_destroy(other));
    CHECK(scoria_engine_destroy(draft) == SCORIA_OK);  // the failed call had given it back
}

TEST_CASE(
    "a model's own layer ahead guesses, and one of another that reads its layers, and no answer changes") {
    const MadeFolder made("made_ahead.jsonl"), eagle("made_features.jsonl"),
        target("made_features.jsonl", true);
    const std::string paths[] = {made.path(), eagle.path(), target.path()};
    const std::vector<int32_t> prompt{8, 18, 42, 19, 10, 15};
    for (const bool own : {true, false}) {
        CAPTURE(own);
        scoria_engine_options options = engine_options(paths[own ? 0 : 2]), of_draft = options;
        const Loaded plain(options);
        const std::vector<int32_t> expected = generated(plain.session, prompt, 40);
        if (own) {
            options.shows_hidden = of_draft.layer_ahead = 1;
        } else {
            of_draft.model_path = options.draft_path = paths[1].c_str();
            of_draft.target_path = paths[2].c_str();
        }
        const Loaded loaded(options), draft(of_draft);
        scoria_generate_options drafted = greedy(40);
        drafted.draft = draft.engine;
        drafted.draft_tokens = 3;
        scoria_session* session = nullptr;  // which holds the draft's engine
        REQUIRE_OK(scoria_session_create(loaded.engine, &session));
        for (int turn = 0; turn < 2; ++turn) {
            REQUIRE_OK(scoria_session_replace(session, prompt.data(), prompt.size()));
            scoria_generate_result result{};
            result.size = sizeof result;
            REQUIRE_OK(scoria_session_generate(session, &drafted, &result));
            CHECK(result.proposed > 3);
            std::vector<int32_t> ids(expected.size());
            size_t count = 0;
            REQUIRE_OK(scoria_session_tokens(session, ids.data(), ids.size(), &count));
            CHECK(ids == expected);
        }
        REQUIRE_OK(scoria_session_destroy(session));
        REQUIRE_OK(scoria_session_append(plain.session, prompt.data(), 1));
        CHECK(scoria_session_generate(plain.session, &drafted, nullptr) == SCORIA_BAD_ARGUMENT);
        CHECK(std::string(scoria_last_error()).find("expected an engine that shows 48 values") !=
              std::string::npos);
    }
    scoria_engine_options options = engine_options(tiny_model());
    options.layer_ahead = 1;
    scoria_engine* none = nullptr;
    CHECK(scoria_engine_create(&options, &none) == SCORIA_UNSUPPORTED);
    CHECK(std::string(scoria_last_error()).find("got none") != std::string::npos);
    options.layer_ahead = 2;
    CHECK(scoria_engine_create(&options, &none) == SCORIA_BAD_ARGUMENT);
    options = engine_options(paths[1]);
    options.target_path = tiny_model().c_str();  // whose streams are wider
    CHECK(scoria_engine_create(&options, &none) == SCORIA_BAD_ARGUMENT);
}

TEST_CASE("cancel from another thread" * needs_fixtures()) {
    const Loaded loaded;
    scoria_generate_options options = greedy(0);
    std::atomic<uint32_t> seen{0};
    options.user = &seen;
    options.on_token = [](void* user, int32_t, const char*, size_t) {
        ++*static_cast<std::atomic<uint32_t>*>(user);
        return 1;
    };
    REQUIRE_OK(scoria_session_append(loaded.session, some_prompt.data(), some_prompt.size()));
    scoria_status meanwhile = SCORIA_OK, cancelled = SCORIA_FAILED;
    std::jthread canceller([&] {
        while (seen < 3) std::this_thread::yield();
        meanwhile = scoria_session_append(loaded.session, some_prompt.data(), 1);
        cancelled = scoria_session_cancel(loaded.session);
    });
    scoria_generate_result result{};
    result.size = sizeof result;
    CHECK(scoria_session_generate(loaded.session, &options, &result) == SCORIA_CANCELLED);
    canceller.join();
    CHECK(meanwhile == SCORIA_BUSY);
    CHECK(cancelled == SCORIA_OK);
    CHECK(result.stop == SCORIA_STOP_CANCELLED);
    CHECK(result.tokens == seen);
    CHECK(result.tokens < 100);
    CHECK(generated(loaded.session, some_prompt, 3).size() == some_prompt.size() + 3);
}

extern "C" int scoria_c99_test(void);

TEST_CASE("a C99 program") { CHECK(scoria_c99_test() == 0); }
