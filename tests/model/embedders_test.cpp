// Embeddings of tiny models beside those of sentence-transformers, or of the code that is published with a
// model (made_embedders.py, which made made_embedders.jsonl).
#include "conversion_families.h"
#include "embedding.h"
#include "made_gguf.h"
#include "quantise/convert.h"
#include "reference/executor.h"
#include "support/compare.h"
#include "support/device.h"
#include "support/golden.h"

using namespace scoria;
using namespace scoria::test;

namespace {

constexpr double most_error = 2e-5;  // of numbers below 1, from angles in float32

struct MadeEmbedder {
    std::string name;
    std::optional<HfFolder> folder;
    GgufFile file;
    std::vector<TokenId> ids;
    std::vector<double> embedding;
};

void add_dense(HfFolder& folder, const nlohmann::json& dense, const std::string& path,
               nlohmann::json& modules, uint64_t& cols) {
    const uint64_t rows = dense[0];
    const std::string activation = dense[2];
    folder.files[path + "/config.json"] = nlohmann::json{
        {"in_features", cols},
        {"out_features", rows},
        {"bias", dense[1]},
        {"activation_function",
         "torch.nn.modules." + activation}}.dump();
    std::map<std::string, HfFolder::Tensor> tensors;
    tensors["linear.weight"] = {"F32", {rows, cols}, bytes_of(path + ".linear.weight", {rows, cols})};
    if (dense[1]) tensors["linear.bias"] = {"F32", {rows}, bytes_of(path + ".linear.bias", {rows})};
    folder.files[path + "/model.safetensors"] = safetensors_bytes(tensors);
    modules.push_back({{"path", path}, {"type", "sentence_transformers.models.Dense"}});
    cols = rows;
}

HfFolder folder_of(const nlohmann::json& json) {
    HfFolder folder;
    folder.config = json["config"];
    for (const auto& [name, shape] : json["tensors"].items())
        folder.tensors[name] = {"F32", shape, bytes_of(name, shape)};
    nlohmann::json modules = nlohmann::json::parse(
        R"([{"path": "", "type": "sentence_transformers.models.Transformer"},
            {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}])");
    folder.files["1_Pooling/config.json"] = nlohmann::json{{"pooling_mode", json["pooling"]}}.dump();
    uint64_t cols = 48, place = 2;
    for (const nlohmann::json& dense : json["dense"])
        add_dense(folder, dense, cat(place++, "_Dense"), modules, cols);
    modules.push_back(
        {{"path", cat(place, "_Normalize")}, {"type", "sentence_transformers.models.Normalize"}});
    folder.files["modules.json"] = modules.dump();
    return folder;
}

std::vector<MadeEmbedder> made_embedders() {
    std::vector<MadeEmbedder> all;
    std::ifstream lines(std::string(SCORIA_SOURCE_DIR) + "/tests/model/made_embedders.jsonl");
    for (std::string line; std::getline(lines, line);) {
        const nlohmann::json json = nlohmann::json::parse(line);
        MadeEmbedder made{json["name"], {}, {}, json["ids"], json["embedding"]};
        if (json["config"].contains("general.architecture"))
            made.file = made_gguf(json["config"], "", json["tensors"]);
        else
            made.folder = folder_of(json);
        all.push_back(std::move(made));
    }
    return all;
}

HfFolder made_folder(const std::string& name) {
    for (const MadeEmbedder& made : made_embedders())
        if (made.name == name) return *made.folder;
    fail(Status::failed, "test", name, " is missing");
}

/// The model, while what it was made of stands.
struct OnDisk {
    std::optional<TemporaryFolder> folder;
    std::optional<TemporaryFile> file;
    explicit OnDisk(const MadeEmbedder& made) {
        if (made.folder)
            folder.emplace(*made.folder);
        else
            file.emplace(made.file.bytes());
    }
    std::filesystem::path path() const {
        return folder ? folder->path() : std::filesystem::path(file->path());
    }
};

double error_of(const MadeEmbedder& made, const Model& model) {
    reference::Executor executor(model);
    const std::vector<double> hidden = executor.forward(made.ids).last_hidden;
    const std::vector<float> floats(hidden.begin(), hidden.end());
    return largest_error(made.embedding, Embedder(model).embedding(floats, model.pooling, true));
}

}  // namespace

TEST_CASE("reference: embeddings of folders, and of the GGUF files that they become") {
    const std::vector<MadeEmbedder> all = made_embedders();
    CHECK(all.size() == 12);
    for (const MadeEmbedder& made : all) {
        CAPTURE(made.name);
        const OnDisk on_disk(made);
        const Model model = open_model(on_disk.path());
        CHECK(model.unused.empty());
        CHECK(error_of(made, model) <= most_error);
        const auto* row = conversion::conversion_family(model.architecture);
        if (!made.folder || row == nullptr || !row->embeds || (!model.dense.empty() && !row->dense)) continue;
        const std::filesystem::path path = on_disk.path() / "made.gguf";
        convert(*open_conversion_source(on_disk.path()), path.string(), {.recipe = find_recipe("F32")});
        const Model gguf = open_model(path);
        CHECK(gguf.unused.empty());
        CHECK(error_of(made, gguf) <= most_error);
    }
}

TEST_CASE("vulkan: embeddings" * doctest::skip(few_models() || floor_tier())) {
    for (const MadeEmbedder& made : made_embedders()) {
        CAPTURE(made.name);
        const OnDisk on_disk(made);
        const auto model = std::make_shared<const Model>(open_model(on_disk.path()));
        Engine engine(model, engine_options(Precision::strict));
        Session session(engine);
        const ForwardResult result = session.forward(made.ids, false);
        CHECK(largest_error(made.embedding, Embedder(*model).embedding(result.last_hidden, model->pooling,
                                                                       true)) <= strict_error);
        CHECK(engine.device().validation_errors() == 0);
    }
}

TEST_CASE("vulkan: a decoder that was saved without its head generates nothing" *
          doctest::skip(floor_tier())) {
    const TemporaryFolder folder(made_folder("qwen3-bare"));
    Engine engine(std::make_shared<const Model>(open_model(folder.path())),
                  engine_options(Precision::strict));
    Session session(engine);
    CHECK_THROWS_WITH_AS(session.append(std::vector<TokenId>{5, 6}),
                         doctest::Contains("expected a model with an output head"), Error);
}

TEST_CASE("modules that are not computed are refused") {
    struct Case {
        const char *file, *from, *to, *expected;
    };
    const Case cases[] = {
        {"modules.json", "models.Dense", "models.CNN", "then Dense and Normalize, got CNN"},
        {"modules.json", "models.Pooling", "models.Dense", "then Dense and Normalize, got Dense"},
        {"modules.json", "2_Dense", "../2_Dense",
         "expected the name of a folder in this one, got ../2_Dense"},
        {"1_Pooling/config.json", "cls", "max", "expected one of the modes mean, cls and lasttoken, got max"},
        {"1_Pooling/config.json", "cls", "sum",
         "expected one of the modes mean, cls and lasttoken, got \"sum\""},
        {"2_Dense/config.json", "Tanh", "Softsign", "activation_function: expected Identity"},
        {"2_Dense/config.json", "48", "47", "linear.weight: expected [20, 47], got [20, 48]"},
        {"2_Dense/config.json", "out_features", "out", "out_features: expected 1 to"},
        {"2_Dense/model.safetensors", "linear.bias", "linear.base", "linear.bias is missing"},
        {"2_Dense/model.safetensors", "F32", "I32", "expected F32, F16 or BF16, got I32"},
    };
    for (const Case& c : cases) {
        CAPTURE(c.to);
        HfFolder folder = made_folder("bert");
        std::string& text = folder.files.at(c.file);
        text.replace(text.find(c.from), std::string(c.from).size(), c.to);
        const std::string error = refusal_of(folder);
        CAPTURE(error);
        CHECK(error.find(c.expected) != std::string::npos);
    }
}
