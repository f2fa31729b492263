// Models that rank beside transformers' sequence classifiers and sentence-transformers' CrossEncoder
// (made_rankers.py, which made made_rankers.jsonl).
#include "dense_layers.h"
#include "embedding_texts.h"
#include "made_gguf.h"
#include "quantise/convert.h"
#include "ranker.h"
#include "reference/executor.h"
#include "support/compare.h"
#include "support/device.h"
#include "support/golden.h"

using namespace scoria;
using namespace scoria::test;

namespace {

constexpr double most_error = 2e-5;  // of a number near 1, from angles in float32
/// Of those that are classifiers alone, what also goes through a GGUF file.
constexpr const char* converted[] = {"bert", "roberta", "xlm-roberta", "llama", "mistral", "qwen2", "qwen3"};

struct MadeRanker {
    std::string name;
    HfFolder folder;
    std::vector<TokenId> ids, types;
    double logit = 0;
    struct Pair {
        std::string query, document, prompt;
        double score = 0;
        std::vector<TokenId> ids, types;
    };
    std::vector<Pair> pairs;
};

std::vector<MadeRanker> made_rankers(bool of_pairs) {
    std::vector<MadeRanker> all;
    std::ifstream lines(std::string(SCORIA_SOURCE_DIR) + "/tests/model/made_rankers.jsonl");
    for (std::string line; std::getline(lines, line);) {
        const nlohmann::json json = nlohmann::json::parse(line);
        if (json.contains("pairs") != of_pairs) continue;
        MadeRanker made{.name = json["name"]};
        made.folder.config = json["config"];
        for (const auto& [name, shape] : json["tensors"].items())
            made.folder.tensors[name] = {"F32", shape, bytes_of(name, shape)};
        if (of_pairs) {
            made.folder.files = json["files"];
            for (const auto& pair : json["pairs"])
                made.pairs.push_back({pair[0], pair[1], pair[2], pair[3], pair[4], pair[5]});
        } else {
            made.ids = json["ids"].get<std::vector<TokenId>>();
            made.types = json["types"].get<std::vector<TokenId>>();
            made.logit = json["logit"];
        }
        all.push_back(std::move(made));
    }
    return all;
}

MadeRanker made_ranker(const std::string& name) {
    for (MadeRanker& made : made_rankers(true))
        if (made.name == name) return std::move(made);
    fail(Status::failed, "test", name, " is missing");
}

double logit_of(const MadeRanker& made, const Model& model) {
    reference::Executor executor(model);
    const std::vector<double> hidden =
        executor.forward(made.ids, reference::Outputs::all, {}, made.types).last_hidden;
    const std::vector<float> floats(hidden.begin(), hidden.end());
    const std::vector<double> values = DenseLayers(*model.tensors, model.ranking->layers)(
        pooled(floats, model.architecture.output_width(), model.ranking->pooling));
    CHECK(values.size() == 1);
    return values.front();
}

}  // namespace

TEST_CASE("reference: classifiers of folders, and of the GGUF files that they become") {
    const std::vector<MadeRanker> all = made_rankers(false);
    CHECK(all.size() == 24);
    for (const MadeRanker& made : all) {
        CAPTURE(made.name);
        const TemporaryFolder folder(made.folder);
        const Model model = open_model(folder.path());
        CHECK(model.unused.empty());
        REQUIRE(model.ranking.has_value());
        CHECK(!model.architecture.has_head);
        CHECK(std::abs(logit_of(made, model) - made.logit) <= most_error);
        if (!std::ranges::count(converted, made.name)) continue;
        const std::filesystem::path path = folder.path() / "made.gguf";
        convert(*open_conversion_source(folder.path()), path.string(), {.recipe = find_recipe("F32")});
        const Model gguf = open_model(path);
        REQUIRE(gguf.ranking.has_value());
        CHECK(!gguf.ranking->logistic);
        CHECK(std::abs(logit_of(made, gguf) - made.logit) <= most_error);
    }
}

TEST_CASE("reference: one label may be a vector") {
    for (MadeRanker& made : made_rankers(false)) {
        HfFolder::Tensor& labels = made.folder.tensors["classifier.weight"];
        if (made.name != "bert") continue;
        labels.shape = {48};
        const TemporaryFolder folder(made.folder);
        CHECK(std::abs(logit_of(made, open_model(folder.path())) - made.logit) <= most_error);
        labels.shape = {2, 24};
        CHECK(refusal_of(made.folder).find("classifier.weight: expected [2, 48], got [2, 24]") !=
              std::string::npos);
    }
}

TEST_CASE("a GGUF file that answers yes or no behind a form of its own") {
    const nlohmann::json
        keys = nlohmann::json::parse(
            R"({"context_length": 64, "embedding_length": 48, "block_count": 1, "feed_forward_length": 40, "pooling_type": 4,
            "attention.head_count": 3, "attention.head_count_kv": 3, "attention.key_length": 16,
            "attention.value_length": 16, "attention.layer_norm_rms_epsilon": 0.02, "rope.freq_base": 10000.0})"),
        tensors = nlohmann::json::parse(
            R"({"token_embd.weight": [7, 48], "output_norm.weight": [48], "cls.output.weight": [2, 48],
            "blk.0.attn_norm.weight": [48], "blk.0.ffn_norm.weight": [48], "blk.0.attn_q.weight": [48, 48],
            "blk.0.attn_k.weight": [48, 48], "blk.0.attn_v.weight": [48, 48], "blk.0.attn_output.weight": [48, 48],
            "blk.0.attn_q_norm.weight": [16], "blk.0.attn_k_norm.weight": [16], "blk.0.ffn_gate.weight": [40, 48],
            "blk.0.ffn_up.weight": [40, 48], "blk.0.ffn_down.weight": [48, 40]})");
    GgufFile file = made_gguf(keys, "qwen3.", tensors);
    file.metadata["general.architecture"] = std::string("qwen3");
    file.metadata["qwen3.classifier.output_labels"] = std::vector<std::string>{"yes", "no"};
    file.metadata["tokenizer.chat_template.rerank"] = std::string("a{query}b{document}c{query}");
    add_vocabulary(file, {"a", "b", "c", "x", "y", "z", "q"}, {});
    const TemporaryFile on_disk(file.bytes());
    const Model model = open_model(on_disk.path());
    REQUIRE(model.ranking.has_value());
    CHECK(model.ranking->odds);
    CHECK(model.ranking->logistic);
    CHECK(model.ranking->pooling == Pooling::last);
    CHECK_NOTHROW(Ranker(model).check());
    const auto ids = [&](size_t most) { return encode_ranked(model, {}, "q", "xyz", {}, most).pair.ids; };
    CHECK(ids(64) == std::vector<TokenId>{0, 6, 1, 3, 4, 5, 2, 6});
    CHECK(ids(6) == std::vector<TokenId>{0, 6, 1, 3, 2, 6});
    CHECK_THROWS_WITH_AS(
        ids(5), doctest::Contains("expected a query that leaves a document room in 5 tokens"), Error);
}

TEST_CASE("tokens of pairs, cut where they are too many") {
    size_t cut = 0;
    for (const MadeRanker& made : made_rankers(true)) {
        CAPTURE(made.name);
        const TemporaryFolder folder(made.folder);
        const Model model = open_model(folder.path());
        const EmbeddingTexts texts = embedding_texts_of(model);
        for (const MadeRanker::Pair& pair : made.pairs) {
            CAPTURE(pair.document);
            const RankedPair ranked = encode_ranked(model, texts, pair.query, pair.document, pair.prompt, 66);
            CHECK(ranked.pair.ids == pair.ids);
            CHECK(ranked.pair.types == pair.types);
            cut += ranked.was_cut;
        }
    }
    CHECK(cut > 3);
}

TEST_CASE("what cannot be ranked is refused") {
    struct Case {
        const char* name;
        void (*change)(HfFolder& folder);
        const char* query;
        const char* expected;
    };
    const Case cases[] = {
        {"answers", [](HfFolder&) {},
         "how many people live in berlin ? how many people live in berlin ? how many people live in",
         "expected a query that leaves a document room in 24 tokens"},
        {"answers", [](HfFolder& folder) { folder.files.erase("chat_template.jinja"); }, "art",
         "expected a chat template"},
        {"cross-encoder",
         [](HfFolder& folder) {
             folder.tensors["classifier.weight"] = {"F32", {3, 48}, bytes_of("classifier.weight", {3, 48})};
             folder.tensors["classifier.bias"] = {"F32", {3}, bytes_of("classifier.bias", {3})};
         },
         "art", "expected a classifier of 1 label, got 3"},
        {"cross-encoder", [](HfFolder& folder) { folder.tensors.erase("classifier.weight"); }, "art",
         "expected a model made for ranking"},
        {"cross-encoder", [](HfFolder& folder) { folder.tensors.erase("bert.pooler.dense.weight"); }, "art",
         "expected a model made for ranking"},
        {"cross-encoder",
         [](HfFolder& folder) {
             folder.config["architectures"] = {"BertModel", "BertForTokenClassification"};
         },
         "art", "expected a model made for ranking"},
    };
    for (const Case& c : cases) {
        CAPTURE(c.expected);
        MadeRanker made = made_ranker(c.name);
        c.change(made.folder);
        const TemporaryFolder folder(made.folder);
        const Model model = open_model(folder.path());
        const Ranker ranker(model);
        CHECK_THROWS_WITH_AS(
            [&] {
                ranker.check();
                encode_ranked(model, embedding_texts_of(model), c.query, "art", {}, 66);
            }(),
            doctest::Contains(c.expected), Error);
    }
    struct File {
        const char *name, *file, *from, *to, *expected;
    };
    const File files[] = {
        {"answers", "1_LogitScore/config.json", "true_token_id", "token",
         "true_token_id: expected the id of a token"},
        {"answers", "1_LogitScore/config.json", "25", "225", "expected tokens that have logits, got 225"},
        {"cross-encoder", "config_sentence_transformers.json", "Sigmoid", "Tanh",
         "activation_fn: expected Sigmoid or Identity"},
    };
    for (const File& f : files) {
        CAPTURE(f.expected);
        MadeRanker made = made_ranker(f.name);
        std::string& text = made.folder.files.at(f.file);
        text.replace(text.find(f.from), std::string(f.from).size(), f.to);
        CHECK(refusal_of(made.folder).find(f.expected) != std::string::npos);
    }
}

TEST_CASE("vulkan: pairs of texts" * doctest::skip(few_models() || floor_tier())) {
    for (const MadeRanker& made : made_rankers(true)) {
        CAPTURE(made.name);
        const TemporaryFolder folder(made.folder);
        const auto model = std::make_shared<const Model>(open_model(folder.path()));
        Engine engine(model, engine_options(Precision::strict));
        Session session(engine);
        const Ranker ranker(*model);
        for (const MadeRanker::Pair& pair : made.pairs) {
            CAPTURE(pair.document);
            CHECK(std::abs(ranker.score(session, pair.query, pair.document, pair.prompt).score -
                           pair.score) <= strict_error);
        }
        CHECK(engine.device().validation_errors() == 0);
    }
}
