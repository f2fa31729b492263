// Families that no fixture has: tiny models whose weights are made of their tensors' names, with the logits
// that transformers computes of them (made_models.py, which made made_models.jsonl).
#include "conversion_families.h"
#include "fail.h"
#include "loader/hf_builder.h"
#include "quantise/convert.h"
#include "reference/executor.h"
#include "support/compare.h"
#include "support/device.h"
#include "support/golden.h"

#include <cstring>
#include <fstream>

using namespace scoria;
using namespace scoria::test;

namespace {

/// Angles of transformers are float32's.
constexpr double made_error = 2e-5;

/// splitmix64 of a name's FNV-1a hash, scaled so that the stream keeps its size.
std::string bytes_of(const std::string& name, const std::vector<uint64_t>& shape) {
    uint64_t seed = 0xCBF29CE484222325, count = 1;
    for (const char c : name) seed = (seed ^ uint8_t(c)) * 0x100000001B3;
    for (const uint64_t size : shape) count *= size;
    const bool matrix = shape.size() > 1 && shape[0] > 1;
    const bool norm = name.find("norm") != name.npos && name.ends_with("weight");
    const double root = std::sqrt(double(shape.back()));
    std::vector<float> values;
    for (uint64_t i = 1; i <= count; ++i) {
        uint64_t z = seed + i * 0x9E3779B97F4A7C15;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
        const double u = double((z ^ (z >> 31)) >> 40) / double(1 << 23) - 1;
        values.push_back(float(matrix ? u * 2.5 / root : norm ? 1 + 0.3 * u : 0.3 * u));
    }
    std::string bytes(4 * count, '\0');
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

struct MadeModel {
    std::string name, family;
    HfFolder folder;
    std::vector<TokenId> ids;
    std::map<size_t, std::vector<double>> logits;  // by row
};

std::vector<MadeModel> made_models() {
    std::vector<MadeModel> all;
    std::ifstream lines(std::string(SCORIA_SOURCE_DIR) + "/tests/model/made_models.jsonl");
    for (std::string line; std::getline(lines, line);) {
        const nlohmann::json json = nlohmann::json::parse(line);
        MadeModel made{json["name"], json["config"]["model_type"], {}, json["ids"], {}};
        made.folder.config = json["config"];
        for (const auto& [name, sizes] : json["tensors"].items()) {
            const std::vector<uint64_t> shape = sizes;
            made.folder.tensors[name] = {"F32", shape, bytes_of(name, shape)};
        }
        for (const auto& [row, values] : json["logits"].items())
            made.logits[std::stoul(row)] = values.get<std::vector<double>>();
        all.push_back(std::move(made));
    }
    return all;
}

double error_of(const MadeModel& made, const auto& logits) {
    double most = 0;
    for (const auto& [row, expected] : made.logits)
        most = std::max(
            most, largest_error(expected, std::span(logits).subspan(row * expected.size(), expected.size())));
    return most;
}

/// The folder as a GGUF file of the same numbers, or nothing: not all families have an architecture there.
std::optional<Model> as_gguf(const Model& model, const std::filesystem::path& folder) {
    const auto families = conversion::conversion_families();
    if (std::ranges::find(families, model.architecture.family, &conversion::ConversionFamily::model_type) ==
        families.end())
        return std::nullopt;
    const std::filesystem::path path = folder / "made.gguf";
    convert(*open_conversion_source(folder), path.string(), {.recipe = find_recipe("F32")});
    return open_model(path);
}

}  // namespace

TEST_CASE("reference: families without fixtures have the logits of transformers") {
    const std::vector<MadeModel> all = made_models();
    CHECK(all.size() == 29);
    for (const MadeModel& made : all) {
        CAPTURE(made.name);
        const TemporaryFolder folder(made.folder);
        const Model model = open_model(folder.path());
        CHECK(model.unused.empty());
        reference::Executor executor(model);
        const reference::Result result = executor.forward(made.ids);
        CHECK(error_of(made, result.logits) <= made_error);
        if (const std::optional<Model> gguf = as_gguf(model, folder.path())) {
            reference::Executor from_gguf(*gguf);
            const reference::Result again = from_gguf.forward(made.ids);
            if (gguf->architecture.has_head)
                CHECK(error_of(made, again.logits) <= made_error);
            else
                CHECK(largest_error(result.last_hidden, again.last_hidden) <= made_error);
        }
    }
}

TEST_CASE("vulkan: families without fixtures have the logits of transformers") {
    for (const MadeModel& made : made_models()) {
        CAPTURE(made.name);
        const TemporaryFolder folder(made.folder);
        Engine engine(std::make_shared<const Model>(open_model(folder.path())),
                      engine_options(Precision::strict));
        Session session(engine);
        CHECK(error_of(made, session.forward(made.ids, false).logits) <= strict_error);
        CHECK(engine.device().validation_errors() == 0);
    }
}
