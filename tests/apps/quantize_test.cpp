// quantize as its users meet it: every type loads and runs, and what is refused leaves everything as it was.
#include "program.h"
#include "test_env.h"

#include "file.h"
#include "importance.h"
#include "safetensors.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>

namespace fs = std::filesystem;
using namespace scoria;
using namespace scoria::test;

namespace {

const std::string tiny = fixtures() + "/gguf/llama3.gguf";  // rows of 64 and 112 weights

std::vector<float> outputs_of(const std::string& model, const ScratchFolder& folder, const char* name) {
    const std::string out = folder.path("logits.safetensors");
    const Outcome outcome =
        run_scoria({"forward", "-m", model, "--ids", "1,17,99,5,42,7", "-o", out, "--precision", "strict"});
    CAPTURE(outcome.err);
    REQUIRE(outcome.code == 0);
    return Safetensors(out).read<float>(name);
}
std::vector<float> logits_of(const std::string& model, const ScratchFolder& folder) {
    return outputs_of(model, folder, "logits");
}

}  // namespace

TEST_CASE("quantize: every type loads and runs" * needs_fixtures()) {
    const ScratchFolder folder;
    const std::vector<float> expected = logits_of(tiny, folder);
    struct Case {
        const char* type;
        double bound;  // of the root mean square of the logits' error over that of the logits
    };
    // Six times the relative error of gaussian weights in the type that rows of 64 get: this net multiplies
    // it by 3.4 to 5.5.
    constexpr Case cases[] = {{"F32", 1e-6},  {"f16", 2e-3},   {"BF16", 2e-2},   {"Q8_0", 0.032},
                              {"INT8", 0.04}, {"Q6_K", 0.032}, {"Q5_K", 0.22},   {"Q5_K_S", 0.22},
                              {"Q5_1", 0.22}, {"Q5_0", 0.26},  {"Q4_K", 0.26},   {"Q4_K_S", 0.26},
                              {"Q4_1", 0.44}, {"Q4_0", 0.5},   {"IQ4_NL", 0.45}, {"Q3_K_M", 0.45},
                              {"Q2_K", 0.5}};
    for (const Case& c : cases) {
        CAPTURE(std::string(c.type));
        const std::string out = folder.path("out.gguf");
        const Outcome outcome = run_scoria({"quantize", tiny, out, "--type", c.type, "--force", "--json"});
        CAPTURE(outcome.err);
        REQUIRE(outcome.code == 0);
        const nlohmann::json report = nlohmann::json::parse(outcome.out);
        CHECK(report["bytes"] == fs::file_size(out));
        const std::vector<float> logits = logits_of(out, folder);
        REQUIRE(logits.size() == expected.size());
        double error = 0, total = 0;
        for (size_t i = 0; i < logits.size(); ++i) {
            error += std::pow(double{logits[i]} - expected[i], 2);
            total += std::pow(double{expected[i]}, 2);
        }
        CHECK(std::sqrt(error / total) <= c.bound);
    }
}

TEST_CASE("quantize: a Hugging Face folder" * needs_fixtures()) {
    const ScratchFolder folder;
    const std::string out = folder.path("out.gguf");
    const Outcome outcome = run_scoria({"quantize", fixtures() + "/models/qwen3", out, "--type", "F32"});
    CAPTURE(outcome.err);
    REQUIRE(outcome.code == 0);
    CHECK(logits_of(out, folder) == logits_of(fixtures() + "/gguf/qwen3.gguf", folder));
    const Outcome refused = run_scoria({"quantize", fixtures() + "/models/opt", out + "2", "--type", "F32"});
    CHECK(refused.code == 1);
    CHECK(refused.err.find("model_type") != std::string::npos);
}

TEST_CASE("quantize: folders of every family say the same as GGUF" * needs_fixtures()) {
    const ScratchFolder folder;
    for (const char* name : {"bloom",
                             "cohere",
                             "bert",
                             "cohere-plus",
                             "cohere2",
                             "falcon-7b-style",
                             "falcon2-11b-style",
                             "gemma",
                             "glm4",
                             "gpt-neox",
                             "gpt2",
                             "granite",
                             "hunyuan-dense",
                             "hunyuan-moe",
                             "llama-linear-scaling",
                             "llama-yarn",
                             "llama3",
                             "llama3.2-tied",
                             "mistral",
                             "mixtral",
                             "mpt",
                             "nemotron",
                             "olmo",
                             "olmo2",
                             "olmoe",
                             "phi",
                             "phi3",
                             "phi3-longrope",
                             "phi4",
                             "modernbert",
                             "qwen2",
                             "qwen2-moe",
                             "qwen2.5-tied",
                             "qwen3",
                             "qwen3-moe",
                             "roberta",
                             "smollm2",
                             "smollm3",
                             "stablelm",
                             "starcoder2"}) {
        CAPTURE(std::string(name));
        const std::string in = fixtures() + "/models/" + name, out = folder.path("out.gguf");
        const Outcome outcome = run_scoria({"quantize", in, out, "--type", "F32", "--force"});
        CAPTURE(outcome.err);
        REQUIRE(outcome.code == 0);
        const bool encodes = std::string_view(name).find("bert") != std::string_view::npos;
        const char* output = encodes ? "last_hidden_state" : "logits";
        const std::vector<float> logits = outputs_of(out, folder, output),
                                 expected = outputs_of(in, folder, output);
        REQUIRE(logits.size() == expected.size());
        double error = 0, total = 0;
        for (size_t i = 0; i < logits.size(); ++i) {
            error += std::pow(double{logits[i]} - expected[i], 2);
            total += std::pow(double{expected[i]}, 2);
        }
        CHECK(error <= 1e-10 * total);
    }
}

TEST_CASE("quantize: refusals change nothing" * needs_fixtures()) {
    const ScratchFolder folder;
    const std::string copy = folder.path("model.gguf"), other = folder.path("other.gguf");
    fs::copy_file(tiny, copy);
    std::ofstream(other) << "mine";
    fs::create_hard_link(copy, folder.path("link.gguf"));
    struct Case {
        std::vector<std::string> arguments;
        int code;
        std::string expected;
    };
    const Case cases[] = {
        {{copy, other, "--type", "Q8_0"}, 2, "--force"},
        {{copy, copy, "--type", "Q8_0", "--force"}, 2, "expected another file"},
        {{copy, folder.path("link.gguf"), "--type", "Q8_0", "--force"}, 2, "expected another file"},
        {{copy, folder.path("new.gguf"), "--type", "Q9_X"}, 2, "Q4_K_M"},
        {{copy, folder.path("new.gguf")}, 2, "--type"},
        {{folder.path("none.gguf"), folder.path("new.gguf"), "--type", "Q8_0"}, 1, "none.gguf"},
        {{copy, folder.path("no/new.gguf"), "--type", "Q8_0"}, 1, "cannot be created"},
        {{copy, folder.path("new.gguf"), "--type", "Q8_0", "--imatrix", other}, 1, "other.gguf"},
        {{other, folder.path("new.gguf"), "--type", "Q8_0"}, 1, ""},
        {{copy, folder.path("new.gguf"), "--type", "Q8_0", "--threads", "-1"}, 2, "--threads"},
    };
    for (const Case& c : cases) {
        std::vector<std::string> arguments = {"quantize"};
        arguments.insert(arguments.end(), c.arguments.begin(), c.arguments.end());
        const Outcome outcome = run_scoria(arguments);
        CAPTURE(outcome.err);
        CHECK(outcome.code == c.code);
        CHECK(outcome.err.find(c.expected) != std::string::npos);
        CHECK(outcome.out.empty());
        CHECK(fs::file_size(copy) == fs::file_size(tiny));
        CHECK(fs::file_size(other) == 4);
        CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 3);
    }
}

TEST_CASE("no verb writes over the model that it reads" * needs_fixtures()) {
    const ScratchFolder folder;
    const std::string file = folder.path("model.gguf"), weights = folder.path("model.safetensors"),
                      folder_of_weights = folder.path("");
    fs::copy_file(tiny, file);
    fs::copy_file(fixtures() + "/models/llama3/model.safetensors", weights);
    fs::copy_file(fixtures() + "/models/llama3/config.json", folder.path("config.json"));
    std::ofstream(folder.path("text")) << "x";
    const std::vector<std::string> ends[] = {
        {"look", "--ids", "1,2", "-o"},
        {"forward", "--ids", "1,2", "-o"},
        {"validate", "--ids", "1,2", "--json"},
        {"validate", "--ids", "1,2", "--html"},
        {"imatrix", "-f", folder.path("text"), "--force", "-o"},
    };
    for (const auto& [model, out] : {std::pair(file, file), std::pair(folder_of_weights, weights)})
        for (std::vector<std::string> arguments : ends) {
            const std::string before = read_file(out);
            arguments.insert(arguments.end(), {out, "-m", model});
            const Outcome outcome = run_scoria(arguments);
            CAPTURE(arguments[0]);
            CAPTURE(outcome.err);
            CHECK(outcome.code == 2);
            CHECK(outcome.err.find("expected another name to write to than the model's") !=
                  std::string::npos);
            CHECK(read_file(out) == before);
        }
}

TEST_CASE("imatrix: every window begins as a text does" * needs_fixtures()) {
    const ScratchFolder folder;
    std::ofstream(folder.path("text")) << "x x x x x x x";  // [CLS], unknown, ...
    const auto measure = [&](const char* tokens) {
        const std::string out = folder.path(tokens);
        const Outcome outcome =
            run_scoria({"imatrix", "-m", fixtures() + "/gguf/bert.gguf", "-f", folder.path("text"), "-o", out,
                        "-n", tokens, "--window", "4", "--precision", "strict"});
        CAPTURE(outcome.err);
        REQUIRE(outcome.code == 0);
        return read_importance(out);
    };
    const ImportanceMatrix one = measure("4"), two = measure("8");
    CHECK(one.size() > 5);
    CHECK(two == one);  // two equal windows
}

TEST_CASE("perplexity: every window begins with BOS where the vocabulary adds it" * needs_fixtures()) {
    const ScratchFolder folder;
    std::string bytes = read_file(tiny);
    const std::string key = "tokenizer.ggml.add_bos_token";
    REQUIRE(bytes.find(key) != std::string::npos);
    bytes[bytes.find(key) + key.size() + sizeof(uint32_t)] = 1;  // behind the type of the value
    std::ofstream(folder.path("bos.gguf"), std::ios::binary) << bytes;
    const auto measure = [&](const char* tokens) {
        const Outcome outcome =
            run_scoria({"perplexity", "-m", folder.path("bos.gguf"), "-p", "x x x x x x x", "-n", tokens,
                        "--ctx", "4", "--precision", "strict", "--json"});
        CAPTURE(outcome.err);
        REQUIRE(outcome.code == 0);
        return nlohmann::json::parse(outcome.out);
    };
    const nlohmann::json one = measure("4"), three = measure("12");  // BOS and three tokens, thrice
    CHECK(one["predicted"] == 3);
    CHECK(three["predicted"] == 9);
    CHECK(three["mean_nll"].get<double>() == doctest::Approx(one["mean_nll"].get<double>()).epsilon(1e-9));
    CHECK(run_scoria({"perplexity", "-m", tiny, "-p", "x x x", "--ctx", "1"}).code == 2);
    const Outcome both_ways = run_scoria({"perplexity", "-m", fixtures() + "/models/bert", "-p", "x x x"});
    CHECK(both_ways.code == 1);
    CHECK(both_ways.err.find("[perplexity] expected a model that continues a text") != std::string::npos);
}

TEST_CASE("convert: pooled heads are the mean of those they replace" * needs_fixtures()) {
    const ScratchFolder folder;
    const std::string model = fixtures() + "/models/llama1", once = folder.path("once"),
                      twice = folder.path("twice");
    const auto convert = [](const std::string& in, const std::string& out, const char* heads) {
        return run_scoria({"convert", in, out, "--gqa", heads});
    };
    const Outcome outcome = convert(model, once, "2");
    CAPTURE(outcome.err);
    REQUIRE(outcome.code == 0);
    const Safetensors before(model + "/model.safetensors"), after(once + "/model.safetensors");
    for (const std::string name :
         {"model.layers.1.self_attn.k_proj.weight", "model.layers.0.self_attn.v_proj.weight"}) {
        const std::vector<float> from = before.read<float>(name), to = after.read<float>(name);
        REQUIRE(to.size() * 2 == from.size());
        const size_t head = from.size() / 4;  // four heads become two
        for (size_t i = 0; i < to.size(); ++i) {
            const size_t first = i / head * 2 * head + i % head;
            CHECK(to[i] == doctest::Approx((double{from[first]} + from[first + head]) / 2));
        }
    }
    CHECK(after.read<float>("lm_head.weight") == before.read<float>("lm_head.weight"));
    CHECK(!logits_of(once, folder).empty());

    fs::create_directory(twice + ".partial");
    const std::string left = twice + ".partial/model.safetensors.partial",  // by a run that was killed
        precious = twice + ".partial/notes.txt";                            // by somebody else
    std::ofstream(left) << "half";
    std::ofstream(precious) << "x";
    const Outcome in_the_way = convert(once, twice, "2");
    CHECK(in_the_way.code == 2);
    CHECK(in_the_way.err.find("notes.txt is in the way") != std::string::npos);
    CHECK(fs::exists(precious));
    fs::remove(precious);
    CHECK(convert(once, twice + "/", "2").code == 0);  // nothing to pool; a name as a shell completes it
    CHECK(!fs::exists(left));
    CHECK(logits_of(twice, folder) == logits_of(once, folder));

    struct Refusal {
        std::string in, out;
        const char *heads, *why;
    };
    for (const Refusal& c :
         {Refusal{model, once, "2", "exists"}, Refusal{model, folder.path("a"), "3", "divisor of 4"},
          Refusal{fixtures() + "/models/phi3", folder.path("b"), "1", "qkv_proj"},
          Refusal{fixtures() + "/models/t5", folder.path("c"), "2", "plain attention"},
          Refusal{fixtures() + "/models/longformer", folder.path("e"), "2", "as many as heads"},
          Refusal{fixtures() + "/models/bert", folder.path("g"), "2", "as many as heads of queries"},
          Refusal{fixtures() + "/models/reformer", folder.path("f"), "2", "got reformer"},
          Refusal{tiny, folder.path("d"), "1", "folder"}}) {
        const Outcome refused = convert(c.in, c.out, c.heads);
        CHECK((refused.code == 1 || refused.code == 2));
        CHECK(refused.err.find(c.why) != std::string::npos);
        if (c.out != once) CHECK(!fs::exists(c.out));
        CHECK(!fs::exists(c.out + ".partial"));
    }
}
