// Speculation on the device of SCORIA_DEVICE under SCORIA_CAPS: whatever is guessed, an answer is what it is
// without guesses, and a session afterwards stands as it would.
#include "speculation.h"

#include "fail.h"
#include "loader/hf_builder.h"
#include "support/device.h"
#include "support/golden.h"

#include <doctest/doctest.h>

#include <array>

using namespace scoria;
using namespace scoria::test;

namespace {

/// Token i is the byte i, of which 'z' ends an answer.
struct Letters : Tokenizer {
    explicit Letters(uint32_t size, std::string other = "") : size_(size), other_(std::move(other)) {}
    std::vector<TokenId> encode(std::string_view, const EncodeOptions&) const override { return {}; }
    std::string piece(TokenId id, bool) const override {
        return id == 7 && !other_.empty() ? other_ : std::string(1, char(id));
    }
    std::string decode(std::span<const TokenId>, bool) const override { return {}; }
    uint32_t size() const override { return size_; }
    TokenId bos() const override { return -1; }
    TokenId eos() const override { return 'z'; }
    bool adds_bos() const override { return false; }
    bool ends_generation(TokenId id) const override { return id == 'z'; }
    std::string_view kind() const override { return "letters"; }

  private:
    uint32_t size_;
    std::string other_;
};

std::shared_ptr<Model> small_model(const char* name = "gguf/llama3.gguf") {
    auto model = std::make_shared<Model>(open_model(fixtures() + "/" + name));
    model->tokenizer = std::make_shared<Letters>(model->architecture.vocab);
    return model;
}

EngineOptions small_engine(bool deterministic = true) {
    EngineOptions options = engine_options(Precision::strict);
    options.context = 160;
    options.deterministic = deterministic;
    return options;
}

std::vector<TokenId> prompt_of(size_t count) {
    std::vector<TokenId> ids(count);
    for (size_t i = 0; i < count; ++i) ids[i] = TokenId(3 + (i * 37 + i * i) % 190);
    return ids;
}

/// Knows the answer, and is wrong in every `period`-th token; 0: never.
struct Oracle : Proposer {
    std::vector<TokenId> all;  // prompt and answer
    size_t period = 0, asked = 0;
    bool promising(std::span<const TokenId>) const override { return true; }
    std::vector<TokenId> propose(std::span<const TokenId> tokens, uint32_t most,
                                 const SamplingOptions&) override {
        ++asked;
        std::vector<TokenId> guess;
        for (size_t i = tokens.size(); i < all.size() && guess.size() < most; ++i)
            guess.push_back(period && i % period == 0 ? all[i] ^ 1 : all[i]);
        return guess;
    }
};

struct Told {
    std::vector<TokenId> tokens;  // of the session
    std::string text;
    GenerateResult result;
    std::vector<float> logits;  // after it
};

Told told(Session& session, GenerateOptions options, size_t prompt = 20) {
    session.truncate(0);
    session.append(prompt_of(prompt));
    Told told;
    if (!options.on_text)
        options.on_text = [&](TokenId, std::string_view text) {
            told.text += text;
            return true;
        };
    told.result = session.generate(options);
    told.tokens = {session.tokens().begin(), session.tokens().end()};
    told.logits = session.logits();
    return told;
}

void check_same(const Told& plain, const Told& guessed, bool bits = true) {
    CHECK(guessed.tokens == plain.tokens);
    CHECK(guessed.text == plain.text);
    CHECK(guessed.result.reason == plain.result.reason);
    REQUIRE(guessed.result.logprobs.size() == plain.result.logprobs.size());
    if (!bits) return;
    CHECK(guessed.logits == plain.logits);
    for (size_t i = 0; i < plain.result.logprobs.size(); ++i) {
        CHECK(guessed.result.logprobs[i].token == plain.result.logprobs[i].token);
        CHECK(guessed.result.logprobs[i].logprob == plain.result.logprobs[i].logprob);
        CHECK(guessed.result.logprobs[i].best == plain.result.logprobs[i].best);
    }
}

std::shared_ptr<const grammar::Program> program_of(const char* text) {
    return std::make_shared<const grammar::Program>(grammar::parse_gbnf(text));
}

struct Way {
    const char* what;
    GenerateOptions options;
};

/// Everything that depends on the tokens before.
std::vector<Way> ways() {
    std::vector<Way> rows(9);
    for (Way& row : rows) {
        row.options.max_tokens = 28;
        row.options.ignore_end = true;
        row.options.sampling = {.temperature = 1, .top_k = 0, .top_p = 0.95f, .min_p = 0, .seed = 5};
    }
    rows[0].what = "greedy", rows[0].options.sampling.temperature = 0;
    rows[1].what = "top-p";
    rows[2].what = "penalties, logit bias, log-probabilities";
    rows[2].options.sampling.repetition_penalty = 1.3f;
    rows[2].options.sampling.frequency_penalty = 0.5f;
    rows[2].options.sampling.presence_penalty = 0.5f;
    rows[2].options.sampling.logit_bias = {{17, 3.0f}, {40, -INFINITY}};
    rows[2].options.logprobs = 3;
    rows[3].what = "mirostat", rows[3].options.sampling.mirostat_tau = 4;
    rows[4].what = "DRY, greedy", rows[4].options.sampling.temperature = 0;
    rows[4].options.sampling.dry_multiplier = 4;
    rows[5].what = "XTC, typical", rows[5].options.sampling.xtc_probability = 0.5f;
    rows[5].options.sampling.xtc_threshold = 0.01f;
    rows[5].options.sampling.typical_p = 0.9f;
    rows[6].what = "a grammar", rows[6].options.output_grammar = program_of("root ::= ([ab]{3} [0-9])+");
    rows[7].what = "a grammar that ends, greedy", rows[7].options.sampling.temperature = 0;
    rows[7].options.output_grammar = program_of("root ::= ([ab]{3} [0-9]){5} \"é\"");
    rows[8].what = "greedy penalties", rows[8].options.sampling.temperature = 0;
    rows[8].options.sampling.repetition_penalty = 1.5f;
    return rows;
}

std::string error_of(const std::function<void()>& call) {
    try {
        call();
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

}  // namespace

TEST_CASE("speculation: the ids of the seed, whatever is guessed and however tokens are chosen" *
          needs_fixtures_and_time()) {
    Engine engine(small_model(), small_engine());
    Session session(engine);
    std::vector<Way> rows = ways();
    if (few_models()) rows = {rows[2], rows[3], rows[7]};
    for (Way& way : rows) {
        CAPTURE(way.what);
        const Told plain = told(session, way.options);
        CHECK(plain.result.proposed == 0);
        for (const size_t period : {0, 3, 1}) {
            CAPTURE(period);
            Oracle oracle;
            oracle.all = plain.tokens;
            oracle.period = period;
            way.options.proposer = &oracle;
            const Told guessed = told(session, way.options);
            check_same(plain, guessed);
            CHECK(guessed.result.proposed > 0);
            if (period == 0) CHECK(guessed.result.accepted == guessed.result.proposed);
            if (period == 0) CHECK(oracle.asked < plain.result.tokens.size() / 3);
            if (period == 1) CHECK(guessed.result.accepted == 0);
            if (period > 1) CHECK(guessed.result.accepted < guessed.result.proposed);
        }
        PromptLookup lookup;
        way.options.proposer = &lookup;
        way.options.draft_tokens = 5;
        check_same(plain, told(session, way.options));
    }
    CHECK(engine.device().validation_errors() == 0);
}

TEST_CASE("speculation: an answer that stops within a guess" * needs_fixtures()) {
    Engine engine(small_model(), small_engine());
    Session session(engine);
    GenerateOptions options;
    options.max_tokens = 60;
    options.output_grammar = program_of("root ::= [ab]{60}");
    options.sampling = {.temperature = 1, .seed = 3};
    const Told whole = told(session, options);
    REQUIRE(whole.text.size() == 60);
    Oracle oracle;
    oracle.all = whole.tokens;
    const auto both = [&](GenerateOptions wanted, size_t prompt = 20) {
        const Told plain = told(session, wanted, prompt);
        wanted.proposer = &oracle;
        const Told guessed = told(session, wanted, prompt);
        check_same(plain, guessed);
        return guessed;
    };
    for (const uint32_t limit : {1u, 2u, 3u, 9u, 21u}) {  // tokens
        GenerateOptions limited = options;
        limited.max_tokens = limit;
        CHECK(both(limited).result.tokens.size() == limit);
    }
    GenerateOptions stopped = options;
    stopped.stop = {whole.text.substr(17, 6)};
    CHECK(both(stopped).result.reason == StopReason::stop_string);
    // The grammar lets no other token end it here.
    GenerateOptions ending = options;
    ending.output_grammar = program_of("root ::= [ab]+ \"z\"?");
    const Told plain_end = told(session, ending);
    oracle.all = plain_end.tokens;
    both(ending);
    oracle.all = whole.tokens;

    for (const int last : {2, 11}) {  // refused by the caller
        int seen = 0;
        GenerateOptions refused = options;
        refused.proposer = &oracle;
        refused.on_text = [&](TokenId, std::string_view) { return ++seen < last; };
        const Told guessed = told(session, refused);
        CHECK(guessed.result.reason == StopReason::cancelled);
        CHECK(guessed.result.tokens.size() == size_t(last));
        CHECK(std::ranges::equal(guessed.tokens, std::span(whole.tokens).first(guessed.tokens.size())));
    }

    // The end of the context, and a session that goes on after answers with guesses.
    GenerateOptions full;
    full.ignore_end = true;
    full.sampling = options.sampling;
    oracle.all = told(session, full, 144).tokens;
    REQUIRE(oracle.all.size() == 160);
    CHECK(both(full, 144).result.reason == StopReason::context_full);
    full.max_tokens = 7;
    const Told seven = both(full, 144);
    session.truncate(147);
    session.append(std::span(seven.tokens).subspan(147));
    CHECK(session.logits() == seven.logits);
}

TEST_CASE("speculation: several tokens at a time beside one, strict" * needs_fixtures_and_time()) {
    EngineOptions free = small_engine(false);
    for (const bool replay : {true, false}) {
        free.replay = replay;
        Engine engine(small_model(), free);
        Session session(engine);
        std::vector<Way> rows = ways();
        for (const size_t row : {0u, 2u}) {
            CAPTURE(rows[row].what);
            const Told plain = told(session, rows[row].options);
            Oracle oracle;
            oracle.all = plain.tokens;
            oracle.period = 5;
            rows[row].options.proposer = &oracle;
            check_same(plain, told(session, rows[row].options), false);
        }
    }
}

TEST_CASE("speculation: draft models" * needs_fixtures_and_time()) {
    const auto model = small_model();
    Engine engine(model, small_engine());
    const auto twin = std::make_shared<Engine>(model, small_engine());
    EngineOptions other_seed = small_engine();
    const auto stranger = std::make_shared<Engine>(small_model("gguf/llama1.gguf"), other_seed);
    Session session(engine);
    DraftModel same(twin, *model), different(stranger, *model);
    for (Way& way : ways()) {
        if (way.options.output_grammar || way.options.sampling.mirostat_tau > 0)
            continue;  // a draft knows no grammar, and its mirostat begins anew
        CAPTURE(way.what);
        const Told plain = told(session, way.options);
        way.options.proposer = &same;
        const Told by_twin = told(session, way.options);
        check_same(plain, by_twin);
        CHECK(by_twin.result.accepted == by_twin.result.proposed);
        CHECK(by_twin.result.proposed > 20);
        way.options.proposer = &different;
        const Told by_stranger = told(session, way.options);
        check_same(plain, by_stranger);
        CHECK(by_stranger.result.accepted < by_stranger.result.proposed / 2);
    }
    // A draft's context that ends first ends the guesses only.
    EngineOptions short_context = small_engine();
    short_context.context = 32;
    DraftModel brief(std::make_shared<Engine>(model, short_context), *model);
    GenerateOptions options{.max_tokens = 30, .ignore_end = true, .on_token = {}};
    const Told plain = told(session, options);
    options.proposer = &brief;
    check_same(plain, told(session, options));
    // Whoever cancels the answer does not wait for the draft's prompt.
    const std::atomic<bool> cancelled{true};
    same.prepare(session.impl(), &cancelled);
    CHECK_THROWS_WITH_AS(same.propose(prompt_of(30), 4, {}), doctest::Contains("cancelled"), Error);
    same.prepare(session.impl(), nullptr);
    CHECK(same.propose(prompt_of(30), 4, {}).size() == 4);
}

TEST_CASE("speculation: where others have the cache, a token is asked for before its guess or the next one" *
          needs_fixtures_and_time()) {
    const auto model = small_model();
    HfFolder profiles;
    profiles.files = {{"cpu.json", "{}"}, {"gpu.json", R"({"type": "discrete"})"}};  // two steps under way
    const TemporaryFolder folder(profiles);
    EngineOptions options = small_engine();
    options.context = options.shared_context = 96;
    options.sequences = 2;
    Oracle oracle;
    for (const char* profile : {"cpu.json", "gpu.json"}) {
        CAPTURE(profile);
        options.device.caps_profile = (folder.path() / profile).string();
        Engine engine(model, options);
        Session holder(engine), session(engine);
        session.append(prompt_of(10));
        session.generate(greedy(50));
        oracle.all = {session.tokens().begin(), session.tokens().end()};
        session.truncate(0);
        holder.append(prompt_of(40));  // two blocks of three: 22 tokens after the prompt may be computed
        for (Proposer* proposer : {static_cast<Proposer*>(nullptr), static_cast<Proposer*>(&oracle)}) {
            session.truncate(0);
            session.append(prompt_of(10));
            GenerateOptions until = greedy(60);
            size_t told = 0;
            until.on_token = [&](TokenId) { return ++told < 23; };
            until.proposer = proposer;
            CHECK(session.generate(until).tokens.size() == 23);
        }
    }
}

TEST_CASE("speculation: drafts of another vocabulary are refused by name") {
    Model target, draft;
    target.architecture.vocab = draft.architecture.vocab = 9;
    target.tokenizer = std::make_shared<Letters>(9);
    draft.tokenizer = std::make_shared<Letters>(8);
    CHECK(error_of([&] { check_draft(draft, target); }) ==
          "[draft] expected the model's vocabulary of 9 tokens, got one of 8");
    draft.tokenizer = std::make_shared<Letters>(9, "x");
    CHECK(error_of([&] { check_draft(draft, target); }) ==
          "[draft] expected the model's vocabulary, where token 7 is \"\a\", got one where it is \"x\"");
    draft.tokenizer = std::make_shared<Letters>(9);
    CHECK(error_of([&] { check_draft(draft, target); }) == "");
}

TEST_CASE("speculation: windows, rotations that change, an encoder's decoder; and what cannot go back" *
          needs_fixtures_and_time()) {
    struct Row {
        const char* name;
        bool guesses;
    };
    const Row rows[] = {{"mistral", true},
                        {"phi3-longrope", true},
                        {"mixtral", true},
                        {"t5", true},
                        {"transformer-xl", true},
                        {"reformer", false},
                        {"compressive-transformer", false}};
    if (few_models()) return;
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const std::string folder = fixtures() + "/models/" + row.name;
        REQUIRE(std::filesystem::exists(folder));
        EngineOptions options = small_engine();
        options.context = 0;
        options.prompt_chunk = 20;  // a window's ring is of 64 positions then, and answers wrap
        Engine engine(std::make_shared<const Model>(open_model(folder)), options);
        Session session(engine);
        const auto answer = [&](Proposer* proposer) {
            session.truncate(0);
            std::vector<TokenId> prompt = prompt_of(20);
            if (!engine.model().architecture.encoder.empty()) {
                session.encode(prompt);
                prompt = {TokenId(engine.model().architecture.decoder_start)};
            }
            session.append(prompt);
            const uint32_t length = std::min(80u, session.capacity() - uint32_t(prompt.size()));
            GenerateOptions generate{.max_tokens = length, .ignore_end = true, .on_token = {}};
            generate.proposer = proposer;
            const GenerateResult result = session.generate(generate);
            CHECK((result.proposed > 0) == (proposer && row.guesses));
            return std::pair(std::vector<TokenId>(session.tokens().begin(), session.tokens().end()),
                             session.logits());
        };
        const auto plain = answer(nullptr);
        for (const size_t period : {0, 4}) {
            Oracle oracle;
            oracle.all = plain.first;
            oracle.period = period;
            CHECK(answer(&oracle) == plain);
        }
    }
}

TEST_CASE("speculation: SmolLM2 with prompt lookup" * needs_fast_driver()) {
    const std::string path = real_model_or_message();
    if (path.empty() || few_models()) return;
    const auto model = std::make_shared<const Model>(open_model(path));
    const std::vector<TokenId> prompt = model->tokenizer->encode(
        "one two three four five six seven, one two three four five six seven, one two", {});
    EngineOptions options = engine_options(Precision::strict);
    options.context = 128;
    Engine engine(model, options);
    Session session(engine);
    for (const float temperature : {0.0f, 0.5f}) {
        CAPTURE(temperature);
        GenerateOptions generate;
        generate.max_tokens = 12;
        generate.sampling = {.temperature = temperature, .repetition_penalty = 1.02f, .seed = 2};
        const auto answer = [&] {
            session.truncate(0);
            session.append(prompt);
            return session.generate(generate);
        };
        const GenerateResult plain = answer();
        PromptLookup lookup;
        generate.proposer = &lookup;
        const GenerateResult guessed = answer();
        CHECK(guessed.tokens == plain.tokens);
        CHECK(guessed.accepted > 3);
    }
}
