// look as its users meet it: numbers that must hold, a page that needs nothing else, and bad input.
#include "program.h"
#include "test_env.h"

#include "safetensors.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

using namespace scoria;
using namespace scoria::test;
using nlohmann::json;

namespace {

const std::string models = fixtures() + "/models/", ggufs = fixtures() + "/gguf/";

std::string text_of(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
}

/// Every source and link of the page is data or inside of it.
void check_self_contained(const std::string& html) {
    CHECK(html.find("<script") == std::string::npos);
    CHECK(html.find("url(") == std::string::npos);
    CHECK(html.find("@import") == std::string::npos);
    for (const auto& [attribute, wanted] :
         {std::pair("src=\"", "data:image/png;base64,"), std::pair("href=\"", "#")})
        for (size_t at = html.find(attribute); at != std::string::npos; at = html.find(attribute, at + 1))
            if (html.compare(at + std::string(attribute).size(), std::string(wanted).size(), wanted) != 0)
                FAIL_CHECK("not of the page: ", html.substr(at, 60));
    // A link leads to something.
    for (size_t at = html.find("href=\"#"); at != std::string::npos; at = html.find("href=\"#", at + 1)) {
        const size_t begin = at + 7, end = html.find('"', begin);
        const std::string id = html.substr(begin, end - begin);
        const bool found = html.find("id=\"" + id + "\"") != std::string::npos ||
                           html.find("id=" + id + ">") != std::string::npos;
        if (!found) FAIL_CHECK("no id ", id);
    }
}

struct Shown {
    const char* what;
    std::string model, ids;
    std::vector<std::string> more;
    size_t maps, lens;
    bool sinks = false;
    const char* note = nullptr;
};

}  // namespace

TEST_CASE("look shows every head, and rows of attention sum to one" * needs_fixtures()) {
    const ScratchFolder folder;
    const std::string few = "3,50,7,200,9";
    std::string many = "1";
    for (int i = 1; i < 100; ++i) many += "," + std::to_string(i * 7 % 200);  // more than a batch
    const Shown all[] = {
        {"a decoder", ggufs + "llama3.gguf", many, {}, 0, 3},
        {"layers and heads", ggufs + "llama3.gguf", few, {"--layers", "1", "--heads", "0,2-3"}, 3, 1},
        {"a quantised cache", ggufs + "llama3.gguf", few, {"--kv", "q8_0", "--layers", "0"}, 0, 2},
        {"an encoder", ggufs + "bert.gguf", few, {}, 0, 0},
        {"source and answer", ggufs + "t5.gguf", few, {"--answer-ids", "5,6"}, 0, 0},
        {"sinks", ggufs + "gpt-oss.gguf", few, {}, 0, 0, true, "sink"},
        {"latent attention", models + "deepseek-v2-lite", few, {}, 0, 0},
        {"biases by query", models + "transformer-xl", few, {}, 0, 0},
        {"averaged keys", models + "compressive-transformer", many, {}, 0, 0, false, "averages"},
        {"no matrix", models + "reformer", few, {}, 0, 0, false, "No attention maps"},
    };
    for (const Shown& shown : all) {
        CAPTURE(shown.what);
        const std::string page = folder.path("page.html");
        std::vector<std::string> arguments{"look",    "-m",     shown.model, "--ids",
                                           shown.ids, "--json", "-o",        page};
        arguments.insert(arguments.end(), shown.more.begin(), shown.more.end());
        const Outcome outcome = run_scoria(arguments);
        CAPTURE(outcome.err);
        REQUIRE(outcome.code == 0);
        const json report = json::parse(outcome.out);
        if (shown.maps) CHECK(report["attention"].size() == shown.maps);
        if (shown.lens) CHECK(report["lens"].size() == shown.lens);
        CHECK(report["attention"].empty() == (std::string(shown.what) == "no matrix"));
        for (const json& map : report["attention"])
            for (const auto& row : map["weights"].get<std::vector<std::vector<double>>>()) {
                double sum = 0;
                for (const double weight : row) sum += weight;
                if (shown.sinks ? !(sum > 0 && sum < 1) : std::abs(sum - 1) > 1e-4)
                    FAIL_CHECK(map["kind"], " layer ", map["layer"], " head ", map["head"], ": ", sum);
            }
        for (const json& norm : report["norms"]) {
            CHECK(norm["mean"].get<double>() > 0);
            CHECK(norm["max"].get<double>() >= norm["mean"].get<double>());
        }
        if (shown.note) CHECK(report["notes"].dump().find(shown.note) != std::string::npos);
        check_self_contained(text_of(page));
    }
}

TEST_CASE("the last row of the lens is the model's own answer" * needs_fixtures()) {
    const ScratchFolder folder;
    for (const char* name : {"llama3.gguf", "gemma3-text.gguf", "mixtral.gguf", "phi.gguf"}) {
        CAPTURE(name);
        const std::string ids = "3,50,7,200,9,11,4", file = folder.path("logits.safetensors");
        const json report = json::parse(run_scoria({"look", "-m", ggufs + name, "--ids", ids, "--json"}).out);
        REQUIRE(run_scoria({"forward", "-m", ggufs + name, "--ids", ids, "-o", file}).code == 0);
        const Safetensors forward(file);
        const std::vector<float> logits = forward.read<float>("logits");
        const auto vocab = std::ptrdiff_t(forward.array("logits").shape[1]);
        const json& answer = report["lens"].back()["positions"];
        REQUIRE(answer.size() == 7);
        for (std::ptrdiff_t t = 0; t < 7; ++t) {
            const auto row = logits.begin() + t * vocab;
            const auto best = std::max_element(row, row + vocab);
            double sum = 0;
            for (std::ptrdiff_t i = 0; i < vocab; ++i) sum += std::exp(double(row[i]) - double(*best));
            CHECK(answer[size_t(t)][0]["id"] == best - row);
            CHECK(answer[size_t(t)][0]["probability"].get<double>() ==
                  doctest::Approx(1 / sum).epsilon(1e-5));
        }
        CHECK(report["lens"].front()["positions"] != answer);
    }
}

TEST_CASE("look writes pictures, and refuses what it cannot show" * needs_fixtures()) {
    const ScratchFolder folder;
    const std::string tiny = ggufs + "llama3.gguf", pictures = folder.path("pictures");
    CHECK(run_scoria({"look", "-m", tiny, "--ids", "1,2,3", "--layers", "0", "--png", pictures}).code == 0);
    for (const char* name : {"attention-self", "attention-self-layer0-head0", "norms", "lens"})
        CHECK(text_of(pictures + "/" + name + ".png").substr(1, 3) == "PNG");
    CHECK(!std::filesystem::exists(pictures + "/attention-self-layer1-head0.png"));
    std::string long_ids = "1";
    for (int i = 0; i < 256; ++i) long_ids += ",1";
    const std::pair<std::vector<std::string>, const char*> bad[] = {
        {{"--ids", "1,x"}, "'x'"},
        {{"--ids", "1,2", "-p", "x"}, "got two"},
        {{"--ids", "99999999"}, "99999999"},
        {{"--ids", long_ids}, "1 to 256 tokens of text, got 257"},
        {{"--ids", "1,2", "--layers", "1-"}, "--layers such as"},
        {{"--ids", "1,2", "--layers", "3-1"}, "--layers such as"},
        {{"--ids", "1,2", "--layers", "0,"}, "--layers such as"},
        {{"--ids", "1,2", "--layers", "-1"}, "--layers"},
        {{"--ids", "1,2", "--layers", "70000"}, "--layers such as"},
        {{"--ids", "1,2", "--layers", "99"}, "layers below"},
        {{"--ids", "1,2", "--heads", "99"}, "heads below"},
        {{"--ids", "1,2", "--answer", "x"}, "expected an encoder-decoder"},
    };
    for (const auto& each : bad) {
        const auto& [more, says] = each;
        std::vector<std::string> arguments{"look", "-m", tiny, "-o", folder.path("never.html")};
        arguments.insert(arguments.end(), more.begin(), more.end());
        const Outcome outcome = run_scoria(arguments);
        CAPTURE(each.second);
        CAPTURE(outcome.err);
        CHECK(outcome.code == 2);
        CHECK(outcome.err.find(says) != std::string::npos);
    }
    CHECK(!std::filesystem::exists(folder.path("never.html")));
}
