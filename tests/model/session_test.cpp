// The session on the device of SCORIA_DEVICE under SCORIA_CAPS: what must not depend on how the work is
// cut, recorded, shuffled or poisoned; and what bad input meets.
#include "session.h"

#include "beam_search.h"
#include "engine.h"
#include "fail.h"
#include "support/compare.h"
#include "support/device.h"
#include "support/golden.h"
#include "tenant.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <memory>
#include <regex>
#include <thread>

using namespace scoria;
using namespace scoria::test;

namespace {

EngineOptions strict() { return engine_options(Precision::strict); }

std::shared_ptr<const Model> tiny() {
    static const auto model = std::make_shared<const Model>(open_model(fixtures() + "/gguf/llama3.gguf"));
    return model;
}

std::vector<TokenId> some_ids(size_t count) {
    std::vector<TokenId> ids(count);
    for (size_t i = 0; i < count; ++i) ids[i] = TokenId(3 + (i * 37 + i * i) % 250);
    return ids;
}

struct Outcome {
    std::vector<float> logits;
    std::vector<TokenId> tokens;
    bool operator==(const Outcome&) const = default;
};

/// Prompt of `prompt` tokens, appended in parts, then 12 tokens.
Outcome outcome(const EngineOptions& options, size_t prompt = 50, size_t part = 1000,
                SamplingOptions sampling = {}) {
    Engine engine(tiny(), options);
    Session session(engine);
    const std::vector<TokenId> ids = some_ids(prompt);
    for (size_t done = 0; done < ids.size(); done += part)
        session.append(std::span(ids).subspan(done, std::min(part, ids.size() - done)));
    Outcome result{session.logits(), {}};
    GenerateOptions generate{.sampling = sampling, .max_tokens = 12, .ignore_end = true, .on_token = {}};
    result.tokens = session.generate(generate).tokens;
    CHECK(engine.device().validation_errors() == 0);
    return result;
}

double largest_difference(const Outcome& a, const Outcome& b) {
    double largest = 0;
    for (size_t i = 0; i < a.logits.size(); ++i)
        largest = std::max(largest, double(std::abs(a.logits[i] - b.logits[i])));
    return largest;
}

Status status_of(const std::function<void()>& call) {
    try {
        call();
    } catch (const Error& error) {
        MESSAGE(std::string(error.what()));
        return error.status();
    }
    return Status::ok;
}

}  // namespace

TEST_CASE("bits do not depend on shuffled barrier groups, poison, or replay" * needs_fixtures_and_time()) {
    const Outcome plain = outcome(strict());
    struct Row {
        const char* what;
        EngineOptions options;
    };
    std::vector<Row> rows{{"again", strict()}, {"re-recorded decode", strict()}};
    rows[1].options.replay = false;
    for (const uint64_t seed : {1u, 2u, 3u})
        rows.push_back({"shuffled", strict()}), rows.back().options.shuffle_seed = seed;
    for (const uint32_t word : {0x7FC0DEADu, 0xFF800000u}) {
        rows.push_back({"poisoned", strict()});
        rows.back().options.device.poison = true;
        rows.back().options.device.poison_word = word;
    }
    for (const Row& row : rows) {
        CAPTURE(row.what);
        CHECK(outcome(row.options) == plain);
    }
}

TEST_CASE("the result does not depend on how the prompt is cut or ops are fused" *
          needs_fixtures_and_time()) {
    const Outcome whole = outcome(strict());
    const auto near_whole = [&](const Outcome& other) {
        CHECK(largest_difference(whole, other) < 1e-4);
        CHECK(other.tokens == whole.tokens);
    };
    for (const size_t part : {1, 3, 9, 33}) near_whole(outcome(strict(), 50, part));
    EngineOptions chunked = strict();
    chunked.prompt_chunk = 7;
    near_whole(outcome(chunked));
    EngineOptions unfused = strict();
    unfused.fusion = false;
    near_whole(outcome(unfused));
    EngineOptions hurried = strict();
    hurried.submission_budget_ms = 1e-6;  // every kernel its own submission
    CHECK(outcome(hurried) == whole);
}

TEST_CASE("after a rehearsal a prompt and decode make no pipeline but sampling's" *
          needs_fixtures_and_time()) {
    for (const char* family :
         {"llama3", "gemma3-text", "deepseek-v3", "gpt-oss", "qwen2-moe", "falcon-7b-style"})
        for (const bool deterministic : {false, true}) {
            CAPTURE(family);
            CAPTURE(deterministic);
            EngineOptions options = engine_options(Precision::balanced);
            options.deterministic = deterministic;
            Engine engine(std::make_shared<Model>(open_model(cat(fixtures(), "/gguf/", family, ".gguf"))),
                          options);
            const Rehearsed what{64, deterministic ? std::optional(true) : std::nullopt};
            Rehearsal(engine.impl(), what, deterministic ? 3 : 1).wait();
            const size_t rehearsed = engine.pipelines().created();
            Session session(engine);
            session.append(some_ids(64));
            session.logits();
            CHECK(engine.pipelines().created() == rehearsed);
            session.generate({.sampling = {}, .max_tokens = 3, .ignore_end = true, .on_token = {}});
            CHECK(engine.pipelines().created() == rehearsed + (deterministic ? 0 : 2));
            CHECK(engine.device().validation_errors() == 0);
        }
}

TEST_CASE("deterministic: equal bits however the prompt is batched" * needs_fixtures_and_time()) {
    EngineOptions pinned = strict();
    pinned.deterministic = true;
    const Outcome whole = outcome(pinned);
    for (const size_t part : {1, 3, 9, 33}) CHECK(outcome(pinned, 50, part) == whole);
    pinned.prompt_chunk = 7;
    CHECK(outcome(pinned) == whole);
}

TEST_CASE("an engine never knew of what could not be made for it" * needs_fixtures()) {
    struct Unmade final : Tenant {
        explicit Unmade(Engine::Impl& owner) : Tenant(owner) { fail(Status::failed, "test", "not made"); }
        void release() noexcept override {}
        void forget_recorded() noexcept override {}
        void fail_cancelled() const override { fail(Status::cancelled, "test", "cancelled"); }
    };
    Engine engine(tiny(), strict());
    CHECK_THROWS_AS((void)make_tenant<Unmade>(engine.impl()), Error);
    CHECK(engine.impl().tenants.empty());
}

TEST_CASE("hidden states without logits are those beside them" * needs_fixtures()) {
    EngineOptions options = strict();
    options.prompt_chunk = 48;
    Engine engine(tiny(), options);
    const std::vector<TokenId> ids = some_ids(100);
    const auto run = [&](size_t count, Outputs outputs) {
        Session session(engine);
        const ForwardResult result = session.forward(std::span(ids).first(count), false, {}, {}, outputs);
        CHECK(result.logits.empty() == (outputs != Outputs::logits));
        return result;
    };
    for (const size_t count : {1, 47, 48, 49, 100}) {
        CAPTURE(count);
        Session session(engine);  // the head runs where every layer is asked for, too
        CHECK(session.forward(std::span(ids).first(count), true, {}, {}, Outputs::hidden).logits.empty());
        const ForwardResult all = run(count, Outputs::logits), hidden = run(count, Outputs::hidden),
                            last = run(count, Outputs::last_hidden);
        CHECK(largest_error(all.last_hidden, hidden.last_hidden) < 1e-5);
        CHECK(last.tokens == 1);
        REQUIRE(last.last_hidden_size() == all.last_hidden_size());
        const std::span<const float> row = std::span(all.last_hidden).last(all.last_hidden_size());
        CHECK(largest_error(std::vector<float>(row.begin(), row.end()), last.last_hidden) < 1e-5);
    }
}

TEST_CASE("truncate forgets" * needs_fixtures()) {
    Engine engine(tiny(), strict());
    Session session(engine);
    const auto ids = some_ids(40);
    session.append(ids);
    session.generate({.sampling = {}, .max_tokens = 5, .ignore_end = true, .on_token = {}});
    CHECK(session.tokens().size() == 45);
    session.truncate(20);
    session.append(std::span(ids).subspan(20));
    const std::vector<float> again = session.logits();
    Session fresh(engine);
    fresh.append(ids);
    const std::vector<float> expected = fresh.logits();
    for (size_t i = 0; i < expected.size(); ++i)
        CHECK(again[i] == doctest::Approx(expected[i]).epsilon(1e-4));
}

TEST_CASE("sampling: one seed one answer, another seed another" * needs_fixtures_and_time()) {
    SamplingOptions hot{.temperature = 1.5f, .top_k = 0, .top_p = 1, .min_p = 0, .seed = 1};
    const Outcome first = outcome(strict(), 20, 1000, hot);
    CHECK(outcome(strict(), 20, 1000, hot) == first);
    hot.seed = 2;
    CHECK(outcome(strict(), 20, 1000, hot).tokens != first.tokens);
}

TEST_CASE("log-probabilities are the model's own, and biases choose beside them" *
          needs_fixtures_and_time()) {
    EngineOptions pinned = strict();
    pinned.deterministic = true;  // else one token may run other variants than nine
    Engine engine(tiny(), pinned);
    Session session(engine);
    session.append(some_ids(9));
    const std::vector<float> logits = session.logits();
    double sum = 0;
    for (const float value : logits) sum += std::exp(double(value));
    std::vector<TokenLogprobs> shown;
    GenerateOptions options{.max_tokens = 3, .ignore_end = true, .on_token = {}};
    options.logprobs = 4;
    options.on_logprobs = [&](const TokenLogprobs& token) { shown.push_back(token); };
    const GenerateResult plain = session.generate(options);
    REQUIRE(plain.logprobs.size() == 3);
    CHECK(shown.size() == 3);
    const TokenLogprobs first = plain.logprobs[0];
    REQUIRE(first.best.size() == 4);
    CHECK(first.token == plain.tokens[0]);
    CHECK(first.best[0] == std::pair(first.token, first.logprob));
    for (const auto& [id, logprob] : first.best)
        CHECK(logprob == doctest::Approx(double(logits[size_t(id)]) - std::log(sum)).epsilon(1e-5));

    // Without the best one the second is chosen; the probabilities stay those of the model.
    session.truncate(9);
    options.sampling.logit_bias = {{first.token, -INFINITY}};
    options.max_tokens = 1;
    const GenerateResult banned = session.generate(options);
    CHECK(banned.tokens[0] == first.best[1].first);
    CHECK(banned.logprobs[0].best == first.best);
    CHECK(banned.logprobs[0].logprob == first.best[1].second);
}

namespace {

/// Token i is the byte i; 0 ends an answer.
struct Bytes : Tokenizer {
    std::vector<TokenId> encode(std::string_view, const EncodeOptions&) const override { return {}; }
    std::string piece(TokenId id, bool) const override { return id == 0 ? "" : std::string(1, char(id)); }
    std::string decode(std::span<const TokenId>, bool) const override { return {}; }
    uint32_t size() const override { return 256; }
    TokenId bos() const override { return -1; }
    TokenId eos() const override { return 0; }
    bool adds_bos() const override { return false; }
    bool ends_generation(TokenId id) const override { return id == 0; }
    std::string_view kind() const override { return "bytes"; }
};

struct Spoken {
    std::string text;
    GenerateResult result;
};

Spoken spoken(Session& session, GenerateOptions options) {
    session.truncate(0);
    session.append(some_ids(9));
    Spoken spoken;
    options.on_text = [&](TokenId, std::string_view text) {
        spoken.text += text;
        return true;
    };
    spoken.result = session.generate(options);
    return spoken;
}

}  // namespace

TEST_CASE("a grammar holds at any temperature, greedy too, and ends the answer" * needs_fixtures_and_time()) {
    auto model = std::make_shared<Model>(open_model(fixtures() + "/gguf/llama3.gguf"));
    model->tokenizer = std::make_shared<Bytes>();
    Engine engine(model, strict());
    Session session(engine);
    const auto grammar_of = [](const char* text) {
        return std::make_shared<const grammar::Program>(grammar::parse_gbnf(text));
    };
    for (const float temperature : {0.0f, 1.5f}) {
        CAPTURE(temperature);
        GenerateOptions options;
        options.sampling = {.temperature = temperature, .seed = 3};
        options.output_grammar = grammar_of("root ::= [0-9]{3} [a-f]{2} \"é\"");
        const Spoken fixed = spoken(session, options);
        CAPTURE(fixed.text);
        CHECK(std::regex_match(fixed.text, std::regex("[0-9]{3}[a-f]{2}é")));
        CHECK(fixed.result.reason == StopReason::end_of_generation);
        CHECK(fixed.result.tokens.size() == 7);
        CHECK(spoken(session, options).text == fixed.text);

        // With a longer way on the model may end or not; penalties choose within the grammar.
        options.output_grammar = grammar_of("root ::= [ab]+");
        options.max_tokens = 20;
        options.sampling.presence_penalty = 100;
        options.sampling.repetition_window = 20;
        const Spoken open = spoken(session, options);
        CHECK(open.text.find_first_not_of("ab") == std::string::npos);
        CHECK(open.text.size() >= 1);
        if (open.text.size() > 1) CHECK(open.text[0] != open.text[1]);
    }
    GenerateOptions lost;
    lost.output_grammar = grammar_of("root ::= \"\\x00\"");  // the byte that is no text here
    CHECK(status_of([&] { spoken(session, lost); }) == Status::failed);
}

TEST_CASE("stop texts, and DRY against loops" * needs_fixtures_and_time()) {
    auto model = std::make_shared<Model>(open_model(fixtures() + "/gguf/llama3.gguf"));
    model->tokenizer = std::make_shared<Bytes>();
    Engine engine(model, strict());
    Session session(engine);
    GenerateOptions options;
    options.max_tokens = 40;
    // Greedy and with two letters only, a small model runs in circles.
    options.output_grammar =
        std::make_shared<const grammar::Program>(grammar::parse_gbnf("root ::= [ab]{40}"));
    const std::string circles = spoken(session, options).text;
    REQUIRE(circles.size() == 40);
    options.sampling.dry_multiplier = 100;
    options.sampling.dry_allowed_length = 5;
    const std::string dry = spoken(session, options).text;
    CHECK(dry != circles);
    CHECK(spoken(session, options).text == dry);
    const auto repeats = [](const std::string& text) {  // of six letters
        size_t count = 0;
        for (size_t i = 0; i + 6 <= text.size(); ++i) count += text.find(text.substr(i, 6)) < i;
        return count;
    };
    CAPTURE(circles);
    CAPTURE(dry);
    CHECK(repeats(dry) < repeats(circles) / 2);

    options.stop = {circles.substr(3, 3)};
    options.sampling.dry_multiplier = 0;
    const Spoken stopped = spoken(session, options);
    CHECK(stopped.text == circles.substr(0, circles.find(options.stop[0])));
    CHECK(stopped.result.reason == StopReason::stop_string);
}

TEST_CASE("sampling values out of range are refused by name" * needs_fixtures()) {
    Engine engine(tiny(), strict());
    Session session(engine);
    session.append(some_ids(5));
    const float nan = std::numeric_limits<float>::quiet_NaN();
    struct Row {
        SamplingOptions sampling;
        const char* named;
    };
    const Row rows[] = {
        {{.temperature = nan}, "temperature"},
        {{.top_p = 0}, "top-p"},
        {{.min_p = -0.1f}, "min-p"},
        {{.repetition_penalty = 0}, "repetition penalty"},
        {{.repetition_window = 257}, "window"},
        {{.frequency_penalty = nan}, "frequency penalty"},
        {{.presence_penalty = INFINITY}, "presence penalty"},
        {{.logit_bias = {{1 << 20, 1}}}, "logit bias"},
        {{.logit_bias = {{-1, 1}}}, "logit bias"},
        {{.logit_bias = {{1, nan}}}, "logit bias"},
        {{.logit_bias = {{1, INFINITY}}}, "logit bias"},
        {{.logit_bias = {{1, 2}, {1, 3}}}, "token 1"},
        {{.typical_p = 0}, "typical-p"},
        {{.xtc_probability = 1.5f}, "XTC probability"},
        {{.xtc_threshold = 0}, "XTC threshold"},
        {{.mirostat_tau = -1}, "mirostat tau"},
        {{.mirostat_eta = nan}, "mirostat eta"},
        {{.dry_multiplier = -1}, "DRY multiplier"},
        {{.dry_base = 0.5f}, "DRY base"},
        {{.dry_multiplier = 1, .dry_breakers = {""}}, "DRY breakers"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.named);
        GenerateOptions options;
        options.sampling = row.sampling;
        options.max_tokens = 1;
        std::string text;
        try {
            session.generate(options);
        } catch (const Error& error) {
            text = error.what();
            CHECK(error.status() == Status::bad_argument);
        }
        CHECK(text.find("[sampling] expected ") == 0);
        CHECK(text.find(row.named) != std::string::npos);
    }
    CHECK(session.tokens().size() == 5);
}

TEST_CASE("bad input meets a status and loses nothing" * needs_fixtures()) {
    EngineOptions options = strict();
    options.context = 64;
    Engine engine(tiny(), options);
    Session session(engine);
    CHECK(status_of([&] { session.generate({}); }) == Status::bad_argument);
    session.append(some_ids(10));
    const std::vector<float> before = session.logits();
    CHECK(status_of([&] { session.append(std::vector<TokenId>{5, -1}); }) == Status::bad_argument);
    CHECK(status_of([&] { session.append(std::vector<TokenId>{1 << 20}); }) == Status::bad_argument);
    CHECK(status_of([&] { session.append(some_ids(55)); }) == Status::context_full);
    const std::atomic<bool> cancel{true};
    CHECK(status_of([&] { session.append(some_ids(3), &cancel); }) == Status::cancelled);
    CHECK(session.tokens().size() == 10);
    CHECK(session.logits() == before);
    const GenerateResult full =
        session.generate({.sampling = {}, .max_tokens = 0, .ignore_end = true, .on_token = {}});
    CHECK(full.reason == StopReason::context_full);
    CHECK(session.tokens().size() == 64);
    const GenerateResult still = session.generate({});
    CHECK(still.reason == StopReason::context_full);
    CHECK(still.tokens.empty());
    CHECK(still.stop.empty());
    options.context = 1u << 30;
    CHECK(status_of([&] { Engine too_long(tiny(), options); }) == Status::bad_argument);
}

TEST_CASE("an answer ends with the context, too, where rotations depend on the length or nothing is kept" *
          needs_fixtures()) {
    for (const char* name : {"llama-dynamic-ntk", "reformer"}) {
        CAPTURE(name);
        EngineOptions options = strict();
        options.context = 60;
        Engine engine(std::make_shared<Model>(open_model(fixtures() + "/models/" + name)), options);
        Session session(engine);
        session.append(some_ids(56));
        const GenerateResult full =
            session.generate({.sampling = {}, .max_tokens = 0, .ignore_end = true, .on_token = {}});
        CHECK(full.reason == StopReason::context_full);
        CHECK(full.tokens.size() == 4);
        CHECK(session.tokens().size() == 60);
        CHECK(session.logits().size() == engine.model().architecture.vocab);
    }
}

TEST_CASE("a callback or a flag stops generation" * needs_fixtures_and_time()) {
    Engine engine(tiny(), strict());
    Session session(engine);
    session.append(some_ids(5));
    int seen = 0;
    const auto third = [&](TokenId) { return ++seen < 3; };
    const GenerateResult stopped =
        session.generate({.sampling = {}, .max_tokens = 20, .ignore_end = true, .on_token = third});
    CHECK(stopped.reason == StopReason::cancelled);
    CHECK(stopped.tokens.size() == 3);
}

TEST_CASE("weights that hold NaN give a status, never a wild index" * needs_fixtures()) {
    const auto source = fixtures() + "/gguf/llama3.gguf";
    const auto broken = std::filesystem::temp_directory_path() / "scoria_nan.gguf";
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        std::filesystem::copy_file(source, broken, std::filesystem::copy_options::overwrite_existing);
        const TensorView norm = tiny()->weights.at({Role::output_norm});
        {
            std::fstream file(broken, std::ios::in | std::ios::out | std::ios::binary);
            file.seekp(std::streamoff(norm.offset));
            for (uint32_t i = 0; i < norm.cols; ++i)
                file.write(reinterpret_cast<const char*>(&bad), sizeof bad);
        }
        const auto model = std::make_shared<const Model>(open_model(broken));
        Engine engine(model, strict());
        Session session(engine);
        session.append(some_ids(5));
        const Status status = status_of(
            [&] { session.generate({.sampling = {}, .max_tokens = 4, .ignore_end = true, .on_token = {}}); });
        CHECK((status == Status::non_finite || (status == Status::ok && std::isinf(bad))));
    }
    std::filesystem::remove(broken);
}

TEST_CASE("vulkan: beams that are stopped are the best so far" * needs_fixtures()) {
    Engine engine(std::make_shared<const Model>(open_model(fixtures() + "/models/llama1")),
                  engine_options(Precision::strict));
    constexpr uint32_t most = 64;
    std::vector<Beam> found;
    const auto search_for = [&](std::chrono::milliseconds time) {
        std::atomic<bool> cancel{time.count() == 0};
        std::thread watch([&] {
            std::this_thread::sleep_for(time);
            cancel = true;
        });
        const Status status = status_of([&] {
            found =
                beam_search(engine, {}, some_ids(9), {.width = 4, .max_tokens = most, .ends = {}}, &cancel);
        });
        watch.join();
        return status;
    };
    CHECK(search_for(std::chrono::milliseconds(0)) == Status::cancelled);
    bool stopped = false;  // with something found: how soon depends on the machine
    for (int ms = 1; ms < 60'000 && !stopped; ms *= 2) {
        found.clear();
        const Status status = search_for(std::chrono::milliseconds(ms));
        CHECK(status == (found.empty() ? Status::cancelled : Status::ok));
        stopped = !found.empty() && found.front().tokens.size() < most;
        if (!found.empty() && !stopped) break;
    }
    CHECK(stopped);
}

TEST_CASE("vulkan: a prefix that was cut is computed anew, with what follows now" * needs_fixtures()) {
    EngineOptions options = deterministic(1);
    options.context = 64;
    Engine engine(std::make_shared<const Model>(open_model(fixtures() + "/models/prefix-lm")), options);
    const std::vector<TokenId> ids{3, 40, 11, 8, 5, 60, 17, 19, 1, 42};
    Session fresh(engine), cut(engine);
    for (Session* session : {&fresh, &cut}) session->set_prefix(uint32_t(ids.size()));
    fresh.append(ids);
    cut.append(std::vector<TokenId>{3, 40, 11, 8, 5, 6, 7, 9, 10, 12});
    cut.truncate(5);
    cut.append(std::span(ids).subspan(5));
    CHECK(cut.logits() == fresh.logits());
}

TEST_CASE("vulkan: what an encoder made of its source outlives the tokens, whoever shares the cache" *
          needs_fixtures()) {
    EngineOptions options = deterministic(3);
    options.context = 96;
    options.prompt_chunk = 16;
    Engine engine(std::make_shared<const Model>(open_model(fixtures() + "/models/t5")), options);
    const auto source_of = [](uint32_t count) {
        std::vector<TokenId> ids(count);
        for (uint32_t i = 0; i < count; ++i) ids[i] = TokenId(3 + (i * 37 + i * i + count) % 200);
        return ids;
    };
    const std::vector<TokenId> source = source_of(40), start{0, 7, 11};
    Session session(engine), other(engine);
    session.encode(source);
    session.append(start);
    const std::vector<float> expected = session.logits();
    session.truncate(0);
    other.encode(source_of(80));  // takes what it gave back
    session.append(start);
    CHECK(session.logits() == expected);
    session.truncate(0);
    Session traced(engine);
    traced.trace(
        start, [](const PlannedKernel&, const TraceFetch&) {}, source_of(30));
    session.append(start);
    CHECK(session.logits() == expected);
    session.encode(source);  // anew
    session.append(start);
    CHECK(session.logits() == expected);
}

TEST_CASE("vulkan: beams of an encoder-decoder" * needs_fixtures()) {
    const std::string folder = fixtures() + "/models/marian";
    Engine engine(std::make_shared<const Model>(open_model(folder)), engine_options(Precision::strict));
    const Safetensors golden(folder + "/golden.safetensors");
    const std::vector<TokenId> source = read_ids(golden, "short.encoder_input_ids"),
                               prompt = read_ids(golden, "short.decoder_input_ids"),
                               greedy = read_ids(golden, "short.greedy");
    const auto beams = [&](uint32_t width) {
        return beam_search(engine, source, prompt, {.width = width, .max_tokens = 12, .ends = {}});
    };
    CHECK(std::ranges::equal(beams(1).front().tokens, std::span(greedy).first(12)));
    const std::vector<Beam> found = beams(3);
    REQUIRE(found.size() == 3);
    CHECK(found.front().log_probability >= beams(1).front().log_probability);
    for (const Beam& beam : found) {  // each beam's sum is what the model says of its tokens
        Session session(engine);
        session.encode(source);
        session.append(prompt);
        double sum = 0;
        for (const TokenId token : beam.tokens) {
            const std::vector<float> logits = session.logits();
            double total = 0;
            for (const float x : logits) total += std::exp(double(x));
            sum += double(logits[size_t(token)]) - std::log(total);
            session.append({&token, 1});
        }
        CHECK(beam.log_probability == doctest::Approx(sum).epsilon(1e-4));
    }
}
