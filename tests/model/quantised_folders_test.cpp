// Quantised Hugging Face folders: a tiny llama in each way, with the logits of the weights that public
// libraries restore (made_quantised.py, which made made_quantised.jsonl).
#include "made_models.h"
#include "reference/executor.h"
#include "support/device.h"
#include "support/golden.h"
#include "tokenizer/base64.h"

using namespace scoria;
using namespace scoria::test;

namespace {

struct QuantisedFolder {
    MadeModel model;
    std::string kept;  // the type of its matrices
};

/// Any, of the name.
std::string packed(const std::string& name, uint64_t count) {
    uint64_t seed = 0xCBF29CE484222325;
    for (const char c : name) seed = (seed ^ uint8_t(c)) * 0x100000001B3;
    std::string bytes;
    for (uint64_t i = 1; i <= count; ++i) {
        uint64_t z = seed + i * 0x9E3779B97F4A7C15;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
        bytes += char((z ^ (z >> 31)) >> 40 & 255);
    }
    return bytes;
}

std::vector<QuantisedFolder> quantised_folders() {
    std::vector<QuantisedFolder> all;
    std::ifstream lines(std::string(SCORIA_SOURCE_DIR) + "/tests/model/made_quantised.jsonl");
    for (std::string line; std::getline(lines, line);) {
        const nlohmann::json json = nlohmann::json::parse(line);
        QuantisedFolder made{{json["name"], "llama", {}, json["ids"], {}}, json["kept"]};
        made.model.folder.config = json["config"];
        const nlohmann::json& told = json["quantization"];
        if (told.contains("quant_method"))
            made.model.folder.config["quantization_config"] = told;
        else
            made.model.folder.files["hf_quant_config.json"] = nlohmann::json{{"quantization", told}}.dump();
        for (const auto& [name, tensor] : json["tensors"].items()) {
            const std::string type = tensor[0];
            const std::vector<uint64_t> shape = tensor[1];
            uint64_t size = type == "I32" ? 4 : 1;
            for (const uint64_t each : shape) size *= each;
            made.model.folder.tensors[name] = {type, shape,
                                               tensor.size() == 2 ? packed(name, size)
                                               : tensor[2].is_null()
                                                   ? bytes_of(name, shape)
                                                   : from_base64(tensor[2].get<std::string>()).value()};
        }
        for (const auto& [row, values] : json["logits"].items())
            made.model.logits[std::stoul(row)] = values.get<std::vector<double>>();
        all.push_back(std::move(made));
    }
    return all;
}

}  // namespace

TEST_CASE("reference: quantised folders have the logits of their restored weights") {
    const std::vector<QuantisedFolder> all = quantised_folders();
    CHECK(all.size() == 22);
    for (const QuantisedFolder& made : all) {
        CAPTURE(made.model.name);
        const TemporaryFolder folder(made.model.folder);
        const Model model = open_model(folder.path());
        CHECK(model.unused.empty());
        for (const Role role : {Role::q, Role::k, Role::v, Role::o, Role::gate, Role::up, Role::down})
            CHECK(tensor_type_info(model.weights.at({role, 0}).type).name == made.kept);
        reference::Executor executor(model);
        CHECK(largest_error(made.model.logits, executor.forward(made.model.ids).logits) <= 2e-5);
    }
}

TEST_CASE("vulkan: quantised folders have the logits of their restored weights" *
          doctest::skip(few_models() || floor_tier())) {
    for (const QuantisedFolder& made : quantised_folders()) {
        CAPTURE(made.model.name);
        const TemporaryFolder folder(made.model.folder);
        Engine engine(std::make_shared<const Model>(open_model(folder.path())),
                      engine_options(Precision::strict));
        Session session(engine);
        CHECK(largest_error(made.model.logits, session.forward(made.model.ids, false).logits) <=
              strict_error);
        CHECK(engine.device().validation_errors() == 0);
    }
}
