// Layers that guess the token behind the next one: tiny models with one, whose logits a class of transformers
// computes (made_ahead.py, which made made_ahead.jsonl), and answers with their guesses.
#include "fail.h"
#include "hf_folder.h"
#include "loader/gguf_builder.h"
#include "made_models.h"
#include "quantise/convert.h"
#include "reference/executor.h"
#include "session_impl.h"
#include "speculation.h"
#include "support/device.h"
#include "support/golden.h"

using namespace scoria;
using namespace scoria::test;

namespace ahead {
namespace {

Model open_ahead(const std::filesystem::path& path) {
    return open_model(path, Reads::positioned, Floats8::blocks, ModelPart::ahead);
}

/// A model and one that guesses for it.
struct Made {
    MadeModel of;  // logits: of the one that guesses
    TemporaryFolder folder;
    std::unique_ptr<TemporaryFolder> apart;  // of that one, if it has its own
    std::shared_ptr<const Model> whole, layer;
    explicit Made(MadeModel model)
        : of(std::move(model)), folder(of.folder),
          whole(std::make_shared<const Model>(open_model(folder.path()))),
          layer(std::make_shared<const Model>(open_ahead(folder.path()))) {}
    Made(MadeModel model, const HfFolder& target)
        : of(std::move(model)), folder(target), apart(std::make_unique<TemporaryFolder>(of.folder)),
          whole(std::make_shared<const Model>(open_model(folder.path()))),
          layer(with_target(std::make_shared<const Model>(open_model(apart->path())), whole)) {}
    TokenId id_of(size_t logit) const {
        return layer->output_ids.empty() ? TokenId(logit) : layer->output_ids[logit];
    }
};

std::vector<std::unique_ptr<Made>> all_made() {
    std::vector<std::unique_ptr<Made>> all;
    for (MadeModel& made : made_models({}, "made_ahead.jsonl"))
        all.push_back(std::make_unique<Made>(std::move(made)));
    REQUIRE(all.size() == 5);
    return all;
}

/// Of made_features.jsonl, whose targets' values are of their names behind "target.".
std::vector<std::unique_ptr<Made>> all_features() {
    std::vector<std::unique_ptr<Made>> all;
    std::ifstream lines(std::string(SCORIA_SOURCE_DIR) + "/tests/model/made_features.jsonl");
    std::vector<MadeModel> drafts = made_models({}, "made_features.jsonl");
    for (MadeModel& draft : drafts) {
        std::string line;
        std::getline(lines, line);
        const nlohmann::json json = nlohmann::json::parse(line)["target"];
        HfFolder target;
        target.config = json["config"];
        for (const auto& [name, shape] : json["tensors"].items())
            target.tensors[name] = {"F32", shape, bytes_of("target." + name, shape)};
        if (const int64_t outputs = draft.folder.config["draft_vocab_size"]; outputs != 64) {
            std::vector<int64_t> above(static_cast<size_t>(outputs));  // how much an id is above its place
            for (size_t i = 0; i < above.size(); ++i) above[i] = static_cast<int64_t>(i / 2);
            draft.folder.tensors["d2t"] = {
                "I64",
                {uint64_t(outputs)},
                std::string(reinterpret_cast<const char*>(above.data()), 8 * above.size())};
            draft.folder.tensors["t2d"] = {"BOOL", {64}, std::string(64, '\0')};
        }
        all.push_back(std::make_unique<Made>(std::move(draft), target));
    }
    REQUIRE(all.size() == 2);
    return all;
}

std::vector<std::unique_ptr<Made>> all_that_guess() {
    std::vector<std::unique_ptr<Made>> all = all_made();
    for (auto& each : all_features()) all.push_back(std::move(each));
    return all;
}

/// What tokens come with: zeros, then what the model made of those before them; and zeros of its own.
std::vector<double> given_of(const Made& made, std::span<const TokenId> ids) {
    reference::Executor executor(*made.whole);
    const reference::Result result = executor.forward(ids);
    const Architecture& architecture = made.layer->architecture;
    const size_t hidden = made.whole->architecture.hidden,
                 own = architecture.features ? architecture.hidden : 0;
    std::vector<double> rows(architecture.takes.size() * hidden + own);
    for (size_t token = 0; token + 1 < ids.size(); ++token) {
        for (const uint32_t each : architecture.takes) {
            const std::vector<double>& from = each == read_by_head ? result.last_hidden : result.hidden[each];
            const auto row = from.begin() + std::ptrdiff_t(token * hidden);
            rows.insert(rows.end(), row, row + std::ptrdiff_t(hidden));
        }
        rows.resize(rows.size() + own);
    }
    return rows;
}

/// What the next token comes with, of what the layer made of the last one.
std::vector<double> given_next(const Made& made, const reference::Result& result) {
    const Architecture& architecture = made.layer->architecture;
    std::vector<double> row(architecture.features);
    const std::vector<double>& from = architecture.features ? result.hidden.back() : result.last_hidden;
    row.insert(row.end(), from.end() - std::ptrdiff_t(architecture.hidden), from.end());
    return row;
}

TokenId likeliest(const Made& made, std::span<const double> logits) {
    const auto last = logits.last(made.layer->architecture.logits());
    return made.id_of(size_t(std::ranges::max_element(last) - last.begin()));
}

void tell(Session& session, std::span<const double> given) {
    const std::vector<float> values(given.begin(), given.end());
    const size_t cols = values.size() / 24;
    for (size_t token = 0; token < 24; ++token)
        session.impl().given.put(token, std::span(values).subspan(token * cols, cols));
}

EngineOptions strict() {
    EngineOptions options = engine_options(Precision::strict);
    options.context = 160;
    options.deterministic = true;
    return options;
}

}  // namespace

TEST_CASE("reference: layers that guess ahead have the logits of transformers' layers") {
    for (const auto& made : all_that_guess()) {
        CAPTURE(made->of.name);
        CHECK(made->layer->unused.empty());
        CHECK(made->layer->architecture.layers.size() == 1);
        for (const TensorView& unused : made->whole->unused) CHECK(is_spare(*made->whole, unused));
        reference::Executor executor(*made->layer);
        executor.set_given(given_of(*made, made->of.ids));
        CHECK(largest_error(made->of.logits, executor.forward(made->of.ids).logits) <= 2e-5);
        executor.set_given({1});
        CHECK_THROWS_WITH_AS(executor.forward(made->of.ids), doctest::Contains("rows of"), Error);
    }
}

TEST_CASE("reference: a folder's layer that guesses ahead goes with it into a GGUF") {
    for (const auto& made : all_made()) {
        CAPTURE(made->of.name);
        const std::filesystem::path path = made->folder.path() / "made.gguf";
        convert(*open_conversion_source(made->folder.path()), path.string(), {.recipe = find_recipe("F32")});
        const Model whole = open_model(path);
        if (made->of.name == "mimo") {  // GGUF's qwen2 has none
            CHECK(whole.unused.empty());
            continue;
        }
        CHECK(whole.layers_ahead == 1);
        for (const TensorView& unused : whole.unused) CHECK(is_spare(whole, unused));
        const Model layer = open_ahead(path);
        CHECK(layer.unused.empty());
        reference::Executor executor(layer);
        executor.set_given(given_of(*made, made->of.ids));
        CHECK(largest_error(made->of.logits, executor.forward(made->of.ids).logits) <= 2e-5);
    }
}

TEST_CASE("reference: EAGLE-3 from GGUF has the logits of its folder") {
    for (const auto& made : all_features()) {
        CAPTURE(made->of.name);
        const HfFolder& folder = made->of.folder;
        const bool own = made->of.name != "eagle3";
        GgufFile file;
        file.metadata = {
            {"general.architecture", "eagle3"},
            {"eagle3.block_count", 1u},
            {"eagle3.context_length", 160u},
            {"eagle3.embedding_length", 48u},
            {"eagle3.feed_forward_length", 56u},
            {"eagle3.attention.head_count", 4u},
            {"eagle3.attention.head_count_kv", 2u},
            {"eagle3.attention.key_length", 16u},
            {"eagle3.attention.value_length", 16u},
            {"eagle3.attention.layer_norm_rms_epsilon", 0.02f},
            {"eagle3.rope.dimension_count", 16u},
            {"eagle3.target_hidden_size", 48u},
            {"eagle3.target_layers", own ? std::vector<int32_t>{1, 2, 4} : std::vector<int32_t>{2, 2, 2}},
            {"eagle3.norm_before_residual", own},
            {"eagle3.norm_before_fc", own}};
        const std::string layer = own ? "layers.0." : "midlayer.";
        const auto add = [&](const std::string& name, const std::string& from, bool turns = false) {
            const HfFolder::Tensor& tensor = folder.tensors.at(from);
            GgufFile::Tensor& to = file.tensors[name];
            to.dimensions.assign(tensor.shape.rbegin(), tensor.shape.rend());
            const size_t bytes = 4 * tensor.shape.back();
            for (uint64_t row = 0; turns && row < tensor.shape[0]; ++row)
                to.data += tensor.bytes.substr((row / 16 * 16 + row_of_halves(row % 16, 16)) * bytes, bytes);
            if (!turns) to.data = tensor.bytes;
        };
        add("output_norm.weight", "norm.weight");
        add("output.weight", "lm_head.weight");
        add("fc.weight", "fc.weight");
        for (const auto& [name, from] : {std::pair{"attn_norm", "input_layernorm"},
                                         {"attn_norm_2", "hidden_norm"},
                                         {"ffn_norm", "post_attention_layernorm"},
                                         {"attn_v", "self_attn.v_proj"},
                                         {"attn_output", "self_attn.o_proj"},
                                         {"ffn_gate", "mlp.gate_proj"},
                                         {"ffn_up", "mlp.up_proj"},
                                         {"ffn_down", "mlp.down_proj"}})
            add(cat("blk.0.", name, ".weight"), cat(layer, from, ".weight"));
        add("blk.0.attn_q.weight", layer + "self_attn.q_proj.weight", true);
        add("blk.0.attn_k.weight", layer + "self_attn.k_proj.weight", true);
        if (own) {
            add("token_embd.weight", "embed_tokens.weight");
            add("enc.output_norm.weight", "input_norm.weight");
        } else {
            GgufFile::Tensor& ids = file.tensors["d2t"];
            ids = {{40}, 27, {}};
            for (const TokenId id : made->layer->output_ids) put(ids.data, int64_t{id});
        }
        const TemporaryFile on_disk(file.bytes());
        const auto layer_model =
            with_target(std::make_shared<const Model>(open_model(on_disk.path())), made->whole);
        CHECK(layer_model->unused.empty());
        CHECK(layer_model->output_ids == made->layer->output_ids);
        CHECK(layer_model->architecture.takes == made->layer->architecture.takes);
        reference::Executor executor(*layer_model);
        executor.set_given(given_of(*made, made->of.ids));
        CHECK(largest_error(made->of.logits, executor.forward(made->of.ids).logits) <= 2e-5);
    }
}

TEST_CASE("vulkan: a layer that guesses ahead has the logits of transformers' layer") {
    for (const auto& made : all_that_guess()) {
        CAPTURE(made->of.name);
        Engine engine(made->layer, strict());
        Session session(engine);
        const std::vector<double> given = given_of(*made, made->of.ids);
        tell(session, given);
        CHECK(largest_error(made->of.logits, session.forward(made->of.ids, false).logits) <= strict_error);
        session.truncate(0);  // in parts, and then what tokens come with is told once more
        tell(session, given);
        session.append(std::span(made->of.ids).first(11));
        session.append(std::span(made->of.ids).subspan(11));
        CHECK(largest_error(made->of.logits.rbegin()->second, session.logits()) <= strict_error);
        CHECK(engine.device().validation_errors() == 0);
    }
}

TEST_CASE("vulkan: guesses are those of the layer ahead, of what the model shows and of its own") {
    for (const auto& made : all_that_guess()) {
        CAPTURE(made->of.name);
        EngineOptions options = strict();
        Engine plain(made->whole, options);
        options.shows = made->layer->architecture.takes;
        options.prompt_chunk = 16;  // rows come in several
        Engine showing(made->whole, options);
        Session session(showing), other(plain);
        session.append(std::span(made->of.ids).first(20));
        other.append(std::span(made->of.ids).first(20));
        const auto guessing = std::make_shared<Engine>(made->layer, strict());
        DraftModel draft(guessing, showing.model());

        struct Checked : Proposer {
            const Made& made;
            Proposer& draft;
            size_t asked = 0;
            Checked(const Made& of, Proposer& by) : made(of), draft(by) {}
            bool takes_rows() const override { return draft.takes_rows(); }
            bool promising(std::span<const TokenId> tokens) const override { return draft.promising(tokens); }
            void prepare(Session::Impl& target, const std::atomic<bool>* cancel) noexcept override {
                draft.prepare(target, cancel);
            }
            std::vector<TokenId> propose(std::span<const TokenId> tokens, uint32_t most,
                                         const SamplingOptions& sampling) override {
                const std::vector<TokenId> guess = draft.propose(tokens, most, sampling);
                reference::Executor executor(*made.layer);
                // EAGLE-3 begins with the second token, which comes with what was made of the first.
                const size_t skipped = made.layer->architecture.features ? 1 : 0;
                std::vector<double> given = given_of(made, tokens);
                given.erase(given.begin(),
                            given.begin() + std::ptrdiff_t(skipped * given.size() / tokens.size()));
                executor.set_given(given);
                reference::Result result = executor.forward(tokens.subspan(skipped));
                std::vector<TokenId> expected{likeliest(made, result.logits)};
                while (expected.size() < guess.size()) {
                    executor.set_given(given_next(made, result));
                    result = executor.forward(std::span(expected).last(1));
                    expected.push_back(likeliest(made, result.logits));
                }
                CHECK(guess == expected);
                ++asked;
                return guess;
            }
        } checked(*made, draft);
        GenerateOptions generate{.max_tokens = 40, .ignore_end = true};
        const std::vector<TokenId> expected = other.generate(generate).tokens;
        generate.proposer = &checked;
        generate.draft_tokens = 3;
        const GenerateResult result = session.generate(generate);
        CHECK(result.tokens == expected);
        CHECK(result.proposed > 0);
        CHECK(checked.asked > 2);
        CHECK(session.impl().shown.row(0).empty());  // taken
        // Another end, and devices whose memory was given up: all is known once more.
        guessing->evict();
        for (Session* each : {&session, &other}) {
            each->truncate(25);
            each->append(std::span(made->of.ids).first(2));
            each->evict();
        }
        GenerateOptions without{.max_tokens = 20, .ignore_end = true};
        const std::vector<TokenId> again = other.generate(without).tokens;
        CHECK(session.generate(generate).tokens.size() == 40);
        CHECK(std::ranges::equal(session.tokens().subspan(27, 20), again));
        session.append(std::span(made->of.ids).first(3));
        CHECK_FALSE(session.impl().shown.row(session.tokens().size() - 1).empty());
        (void)session.generate(without);  // nobody takes them
        CHECK(session.impl().shown.row(session.tokens().size() - 4).empty());
        CHECK(showing.device().validation_errors() == 0);
    }
}

TEST_CASE("a layer ahead is refused where there is none, and beside an engine that shows nothing") {
    const TemporaryFolder folder(made_model("glm4_moe").folder);
    CHECK_THROWS_WITH_AS(
        open_ahead(folder.path()),
        doctest::Contains("expected a model with a layer that guesses further tokens, got none"), Error);
    const Made made(std::move(made_models({}, "made_ahead.jsonl").front()));
    CHECK_THROWS_WITH_AS(check_draft(*made.layer, *made.whole),
                         doctest::Contains("expected an engine that shows 48 values of each token"), Error);
}

}  // namespace ahead
