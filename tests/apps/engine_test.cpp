// The verbs that run a model, on the device that the environment selects.
#include "program.h"

#include "file.h"
#include "support/made_folder.h"
#include "test_env.h"

#include "safetensors.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <tuple>

using namespace scoria;
using namespace scoria::test;
using nlohmann::json;

namespace {

const std::string tiny = fixtures() + "/gguf/llama1.gguf";
const std::string golden = fixtures() + "/models/llama1/golden.safetensors";

std::vector<std::string> strict(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--precision", "strict"});
    return arguments;
}

/// Every float of the last tensor in the file becomes a NaN.
void write_poisoned_model(const std::string& path) {
    std::ifstream in(tiny, std::ios::binary);
    std::string bytes(std::istreambuf_iterator<char>(in), {});
    REQUIRE(bytes.size() > 4096);
    std::memset(bytes.data() + bytes.size() - 4096, 0xFF, 4096);
    std::ofstream out(path, std::ios::binary);
    out << bytes;
    REQUIRE(out.flush());
}

}  // namespace

TEST_CASE("devices and plan report as JSON" * needs_fixtures()) {
    const Outcome devices = run_scoria({"devices", "--json"});
    REQUIRE(devices.code == 0);
    const json list = json::parse(devices.out);
    REQUIRE(!list.empty());
    CHECK(list[0].contains("caps"));
    const Outcome plan = run_scoria({"plan", "-m", tiny, "--json", "--ctx", "64"});
    REQUIRE(plan.code == 0);
    const json bytes = json::parse(plan.out);
    CHECK(bytes["total"] ==
          bytes["weights"].get<uint64_t>() + bytes["kv"].get<uint64_t>() + bytes["scratch"].get<uint64_t>());
    CHECK(bytes["context"] == 64);
    const Outcome little = run_scoria({"plan", "-m", tiny, "--json", "--ctx", "64", "--gpu-memory", "1K"});
    CHECK(little.code == 1);
    CHECK(json::parse(little.out)["heap_budget"] == 1024);
}

TEST_CASE("plan says what each kind of layer caches" * needs_fixtures()) {
    struct Row {
        const char *family, *says;  // of 4096 positions; windows of 24 are read by 512 tokens at a time
    };
    const Row rows[] = {{"mistral", "2 layers: window, 544 positions"},
                        {"gemma3-text", "5 layers: window, 544 positions"},
                        {"gemma3-text", "1 layer: full, 4096 positions"},
                        {"hunyuan-large", "2 layers: full, 4096 positions"},
                        {"hunyuan-large", "2 layers: shared "},
                        {"deepseek-v2", "2 layers: latent, 4096 positions"}};
    for (const Row& row : rows) {
        CAPTURE(row.family);
        const ScratchFolder folder;
        const std::string from = fixtures() + "/models/" + row.family;
        json config = json::parse(read_file(from + "/config.json", 1 << 20));
        config["max_position_embeddings"] = 4096;
        std::ofstream(folder.path("config.json")) << config;
        std::filesystem::copy_file(from + "/model.safetensors", folder.path("model.safetensors"));
        const Outcome plan = run_scoria({"plan", "-m", folder.path(), "--ctx", "4096"});
        CHECK_MESSAGE(plan.out.find(row.says) != std::string::npos, plan.out, plan.err);
    }
}

TEST_CASE("forward writes what the golden holds" * needs_fixtures()) {
    const ScratchFolder folder;
    const std::string output = folder.path("out.safetensors");
    const Outcome outcome = run_scoria(strict({"forward", "-m", tiny, "--inputs", golden, "--case", "short",
                                               "--hidden", "--greedy", "24", "-o", output, "--json"}));
    CAPTURE(outcome.err);
    REQUIRE(outcome.code == 0);
    const Safetensors expected(golden), actual(output);
    CHECK(actual.read<int64_t>("greedy") == expected.read<int64_t>("short.greedy"));
    CHECK(json::parse(outcome.out)["greedy"] == expected.read<int64_t>("short.greedy"));
    for (const char* name : {"logits", "hidden.0", "hidden.1", "hidden.2"}) {
        CAPTURE(name);
        const std::vector<float> want = expected.read<float>(std::string("short.") + name),
                                 got = actual.read<float>(name);
        REQUIRE(want.size() == got.size());
        CHECK(actual.array(name).shape == expected.array(std::string("short.") + name).shape);
        double error = 0, scale = 0;
        for (size_t i = 0; i < want.size(); ++i) {
            error += (double(got[i]) - want[i]) * (double(got[i]) - want[i]);
            scale += double(want[i]) * want[i];
        }
        CHECK(error <= 1e-6 * scale);  // the bound of the strict class
    }
    CHECK(actual.array("last_hidden_state").shape == std::vector<uint64_t>{7, 64});
}

TEST_CASE("forward takes the rotations of its inputs" * needs_fixtures()) {
    const ScratchFolder folder;
    const std::string model = fixtures() + "/models/reformer", inputs = folder.path("in.safetensors"),
                      output = folder.path("out.safetensors");
    const Safetensors expected(model + "/golden.safetensors");
    const std::vector<int64_t> ids = expected.read<int64_t>("long.input_ids");
    std::vector<float> rotations = expected.read<float>("rotations");
    const auto run = [&](std::vector<uint64_t> shape) {
        write_safetensors(inputs, std::vector<NamedArray>{{"long.input_ids", {ids.size()}, ids},
                                                          {"rotations", std::move(shape), rotations}});
        return run_scoria(
            strict({"forward", "-m", model, "--inputs", inputs, "--case", "long", "-o", output}));
    };
    const auto error = [&] {
        const std::vector<float> got = Safetensors(output).read<float>("logits"),
                                 want = expected.read<float>("long.logits");
        REQUIRE(got.size() == want.size());
        double most = 0;
        for (size_t i = 0; i < want.size(); ++i) most = std::max(most, std::abs(double(got[i]) - want[i]));
        return most;
    };
    REQUIRE(run({4, 16, 2, 4}).code == 0);
    CHECK(error() < 1e-3);
    std::ranges::reverse(rotations);
    REQUIRE(run({4, 16, 2, 4}).code == 0);
    CHECK(error() > 0.1);
    const Outcome wrong = run({4, 16, 1, 8});
    CHECK(wrong.code == 2);
    CHECK(wrong.err.find("expected [4, 16, 2, 4]") != std::string::npos);
}

TEST_CASE("weights from a memory map give the same bits" * needs_fixtures()) {
    const ScratchFolder folder;
    const std::string plain = folder.path("plain"), mapped = folder.path("mapped");
    for (const std::string& model : {tiny, fixtures() + "/models/llama1"}) {
        CAPTURE(model);
        CHECK(run_scoria({"forward", "-m", model, "--ids", "1,2,3", "-o", plain}).code == 0);
        CHECK(run_scoria({"forward", "-m", model, "--ids", "1,2,3", "-o", mapped, "--mmap"}).code == 0);
        CHECK(read_file(plain) == read_file(mapped));
    }
}

TEST_CASE("what a model cannot do ends with a reason" * needs_fixtures()) {
    const ScratchFolder folder;
    const std::string output = folder.path("out.safetensors");
    std::string many = "1";
    for (int i = 0; i < 80; ++i) many += ",5";
    const Outcome full = run_scoria({"forward", "-m", tiny, "--ids", many, "--ctx", "64", "-o", output});
    CHECK(full.code == 1);
    CHECK(full.err.find("context") != std::string::npos);
    const Outcome outside = run_scoria({"forward", "-m", tiny, "--ids", "1,256", "-o", output});
    CHECK(outside.code == 2);
    CHECK(outside.err.find("256") != std::string::npos);
    CHECK(!std::filesystem::exists(output));

    const std::string poisoned = folder.path("nan.gguf");
    write_poisoned_model(poisoned);
    const Outcome nan = run_scoria({"run", "-m", poisoned, "--raw", "-p", "x", "-n", "4", "--temp", "0"});
    CHECK(nan.code == 1);
    CHECK(nan.err.find("finite") != std::string::npos);
}

TEST_CASE("forward with adapters" * needs_fixtures()) {
    const ScratchFolder folder;
    const std::string name = "base_model.model.model.layers.0.self_attn.q_proj.lora_";
    std::vector<float> a(2 * 64), b(64 * 2);
    for (size_t i = 0; i < a.size(); ++i) a[i] = float(i % 7) / 7 - 0.4f, b[i] = float(i % 5) / 5 - 0.4f;
    const NamedArray arrays[] = {{name + "A.weight", {2, 64}, a}, {name + "B.weight", {64, 2}, b}};
    write_safetensors(folder.path("adapter_model.safetensors"), arrays);
    std::ofstream(folder.path("adapter_config.json")) << R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4})";
    const std::string adapter = folder.path();
    const auto logits = [&](const std::vector<std::string>& adapters) {
        const std::string output = folder.path("out.safetensors");
        std::vector<std::string> arguments = strict({"forward", "-m", tiny, "--ids", "3,5,7", "-o", output});
        for (const std::string& each : adapters) arguments.insert(arguments.end(), {"--lora", each});
        const Outcome outcome = run_scoria(arguments);
        CAPTURE(outcome.err);
        REQUIRE(outcome.code == 0);
        return Safetensors(output).read<float>("logits");
    };
    const auto apart = [](const std::vector<float>& x, const std::vector<float>& y) {
        float most = 0;
        for (size_t i = 0; i < x.size(); ++i) most = std::max(most, std::abs(x[i] - y[i]));
        return most;
    };
    const std::vector<float> plain = logits({}), adapted = logits({adapter});
    CHECK(apart(plain, adapted) > 1e-2f);
    CHECK(apart(plain, logits({adapter + ":0"})) < 1e-5f);
    CHECK(apart(adapted, logits({adapter + ":0.25", adapter + "/adapter_model.safetensors:.75"})) < 1e-4f);
    const Outcome inspected = run_scoria({"inspect", adapter, "--json"});
    REQUIRE(inspected.code == 0);
    CHECK(json::parse(inspected.out)["weights"][0]["scale"] == 2);
    const Outcome as_model = run_scoria({"forward", "-m", adapter, "--ids", "3", "-o", folder.path("x")});
    CHECK(as_model.code == 1);
    CHECK(as_model.err.find("got a LoRA adapter") != std::string::npos);
    const Outcome missing = run_scoria({"plan", "-m", tiny, "--lora", folder.path("none") + ":2"});
    CHECK(missing.code == 1);
    CHECK(missing.err.find(folder.path("none") + "]") != std::string::npos);
    CHECK(run_scoria({"quantize", tiny, folder.path("out.gguf"), "-t", "Q8_0", "--lora", adapter}).code == 1);
}

TEST_CASE("a seed gives the same answer, a limit ends it" * needs_fixtures()) {
    const std::vector<std::string> arguments = {"run", "-m", tiny,     "--raw", "-p",    "x",
                                                "-n",  "8",  "--seed", "7",     "--json"};
    const Outcome first = run_scoria(arguments), second = run_scoria(arguments);
    REQUIRE(first.code == 0);
    REQUIRE(second.code == 0);
    const json answer = json::parse(first.out);
    CHECK(answer["ids"] == json::parse(second.out)["ids"]);
    CHECK(answer["ids"].size() <= 8);
    CHECK(answer["seed"] == 7);
}

TEST_CASE("a model without a chat template continues the text" * needs_fixtures()) {
    const auto run = [](std::vector<std::string> more) {
        more.insert(more.begin(), {"run", "-m", tiny, "-p", "abab", "-n", "4", "--temp", "0"});
        return run_scoria(more);
    };
    const Outcome plain = run({}), raw = run({"--raw"}), system = run({"--system", "x"});
    CHECK(plain.code == 0);
    CHECK(raw.code == 0);
    CHECK(plain.out == raw.out);
    CHECK(plain.err.find("no chat template") != std::string::npos);
    CHECK(raw.err.find("no chat template") == std::string::npos);
    CHECK(system.code == 1);
    CHECK(system.err.find("--system") != std::string::npos);
}

TEST_CASE("an answer begins as asked for" * needs_fixtures()) {
    const ScratchFolder folder;
    const std::string file = folder.path("prompts");
    std::ofstream(file) << "xyz\n";
    const auto run = [&](const std::string& model, std::vector<std::string> more) {
        more.insert(more.begin(), {"run", "-m", model, "-n", "4", "--temp", "0", "--raw"});
        const Outcome outcome = run_scoria(more);
        REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
        return json::parse(outcome.out);
    };
    // A decoder's prompt ends with it; an encoder-decoder's second stack begins with it.
    const json plain = run(tiny, {"-p", "xyz", "--json"}),
               asked = run(tiny, {"-p", "xyz", "--begin", "<s>", "--json"});
    CHECK(asked["prompt_tokens"] == plain["prompt_tokens"].get<int>() + 1);
    CHECK(asked["ids"] != plain["ids"]);
    const std::string pair = fixtures() + "/gguf/t5.gguf";
    const json begun = run(pair, {"-p", "xyz", "--begin", "</s>", "--json"});
    CHECK(begun["text"] != run(pair, {"-p", "xyz", "--json"})["text"]);
    const Outcome refused = run_scoria({"run", "-m", tiny, "-p", "xyz", "--from", "<s>"});
    CHECK(refused.code == 2);
    CHECK(refused.err.find("--from: expected a translator") != std::string::npos);
    CHECK(begun["text"] == run(pair, {"--prompts", file, "--begin", "</s>"})["text"]);
}

TEST_CASE("every line of a file is answered as it is alone" * needs_fixtures()) {
    const ScratchFolder folder;
    const std::string file = folder.path("prompts");
    const std::vector<std::string> texts{"abab", "x", "a longer one, of more tokens", "two\nlines", "y"};
    const auto write = [&](const std::string& text) { std::ofstream(file, std::ios::binary) << text; };
    write("\xEF\xBB\xBF"
          "abab\nx\r\n\na longer one, of more tokens\n\"two\\nlines\"\ny");
    const std::vector<std::string> common{"-m", tiny, "--raw", "-n", "20", "--deterministic", "--seed", "5"};
    const auto run = [&](std::vector<std::string> more) {
        more.insert(more.begin(), "run");
        more.insert(more.end(), common.begin(), common.end());
        return run_scoria(more);
    };
    for (const char* parallel : {"1", "3"}) {
        const Outcome many = run({"--prompts", file, "--parallel", parallel, "--logprobs", "2"});
        CAPTURE(many.err);
        REQUIRE(many.code == 0);
        std::istringstream lines(many.out);
        std::map<int, json> answers;
        for (std::string line; std::getline(lines, line);) {
            const json answer = json::parse(line);
            answers[answer["line"].get<int>()] = answer;
        }
        REQUIRE(answers.size() == texts.size());
        const int numbers[] = {1, 2, 4, 5, 6};
        for (size_t i = 0; i < texts.size(); ++i) {
            const json alone = json::parse(run({"-p", texts[i], "--json", "--logprobs", "2"}).out);
            const json& got = answers[numbers[i]];
            for (const char* key : {"text", "stop", "seed", "logprobs"}) CHECK(got[key] == alone[key]);
            CHECK(got["tokens"] == alone["ids"].size());
        }
    }
    // One that is too long is an error of its own.
    write("x\n" + std::string(2000, 'b') + "\ny\n");
    const Outcome some = run({"--prompts", file, "--ctx", "64", "--parallel", "2"});
    CHECK(some.code == 1);
    CHECK(std::ranges::count(some.out, '\n') == 3);
    CHECK(some.out.find("\"line\":2") != std::string::npos);
    CHECK(some.out.find("expected at most 64 more tokens") != std::string::npos);
    for (const auto& [text, code, error] : {std::tuple{"\"x\n", 1, "line 1"}, {"\n\n", 2, "got none"}}) {
        write(text);
        const Outcome refused = run({"--prompts", file});
        CHECK(refused.code == code);
        CHECK(refused.err.find(error) != std::string::npos);
        CHECK(refused.out.empty());
    }
}

TEST_CASE("guesses change no answer, and are counted" * needs_fixtures()) {
    std::vector<std::string> arguments = {"run",    "-m", tiny,     "--raw", "-p",     "xyxyxy",
                                          "-n",     "30", "--seed", "7",     "--json", "--deterministic",
                                          "--temp", "0.2"};
    const auto answer = [](const std::vector<std::string>& all) {
        const Outcome outcome = run_scoria(all);
        CAPTURE(outcome.err);
        REQUIRE(outcome.code == 0);
        return json::parse(outcome.out);
    };
    const json plain = answer(arguments);
    CHECK(plain["proposed"] == 0);
    arguments.insert(arguments.end(), {"--draft", tiny});
    const json drafted = answer(arguments);
    CHECK(drafted["ids"] == plain["ids"]);
    CHECK(drafted["proposed"] > 10);
    CHECK(drafted["accepted"] == drafted["proposed"]);
    const Outcome twice = run_scoria({"run", "-m", tiny, "--raw", "-p", "x", "--draft", tiny, "--lookup"});
    CHECK(twice.code == 2);
    const Outcome beams = run_scoria({"run", "-m", tiny, "--raw", "-p", "x", "--lookup", "--beams", "2"});
    CHECK(beams.code == 2);
    CHECK(beams.err.find("expected --beams without --lookup") != std::string::npos);
    for (const std::vector<std::string>& flags : {std::vector<std::string>{"--json-schema", "{}"},
                                                  {"--stop", "x"},
                                                  {"--logit-bias", "5=1"},
                                                  {"--temp", "0.5"},
                                                  {"--seed", "1"},
                                                  {"--presence-penalty", "1"}}) {
        std::vector<std::string> ignored{"run", "-m", tiny, "--raw", "-p", "x", "--beams", "2"};
        ignored.insert(ignored.end(), flags.begin(), flags.end());
        CHECK(run_scoria(ignored).code == 2);
    }
    const Outcome bench = run_scoria({"bench", "-m", tiny, "-p", "0", "-n", "150", "-r", "1", "--lookup",
                                      "--draft-tokens", "7", "--json"});
    CAPTURE(bench.err);
    REQUIRE(bench.code == 0);
    CHECK(json::parse(bench.out)["rows"][0]["proposed"] > 0);
}

TEST_CASE("a layer that guesses ahead, of the model itself or of a file" * needs_fixtures()) {
    const MadeFolder made("made_ahead.jsonl"), eagle("made_features.jsonl"),
        target("made_features.jsonl", true);
    for (const std::vector<std::string>& flags : {std::vector<std::string>{"-m", made.path(), "--mtp"},
                                                  {"-m", made.path(), "--mtp", made.path()},
                                                  {"-m", target.path(), "--draft", eagle.path()}}) {
        std::vector<std::string> arguments{"bench", "-p", "0", "-n", "40", "-r", "1", "--json"};
        arguments.insert(arguments.end(), flags.begin(), flags.end());
        const Outcome bench = run_scoria(arguments);
        CAPTURE(bench.err);
        REQUIRE(bench.code == 0);
        CHECK(json::parse(bench.out)["rows"][0]["proposed"] > 0);
    }
    const Outcome none = run_scoria({"run", "-m", tiny, "--raw", "-p", "x", "--mtp"});
    CHECK(none.code == 1);
    CHECK(none.err.find("expected a model with a layer that guesses further tokens, got none") !=
          std::string::npos);
    CHECK(run_scoria({"run", "-m", tiny, "--raw", "-p", "x", "--mtp", "--lookup"}).code == 2);
}

TEST_CASE("beams that fill the context say so, as other answers do" * needs_fixtures()) {
    const auto answer = [](const char* most, const char* beams) {
        std::vector<std::string> arguments{"run", "-m", tiny,    "--raw", "-p",      "x",   "--temp", "0",
                                           "-n",  most, "--ctx", "24",    "--beams", beams, "--json"};
        if (std::string(most) == "0") arguments.erase(arguments.begin() + 8, arguments.begin() + 10);
        return run_scoria(arguments);
    };
    for (const char* beams : {"1", "2"}) {
        CAPTURE(beams);
        const Outcome full = answer("0", beams), short_one = answer("4", beams);
        CAPTURE(full.err);
        REQUIRE(full.code == 0);
        CHECK(json::parse(full.out)["stop"] == "context");
        CHECK(full.err.find("stopped: the context of 24 tokens is full") != std::string::npos);
        CHECK(json::parse(short_one.out)["stop"] == "length");
        CHECK(short_one.err.find("stopped") == std::string::npos);
    }
}

TEST_CASE("bench reports rows" * needs_fixtures()) {
    const Outcome outcome = run_scoria({"bench", "-m", tiny, "-p", "16", "-n", "8", "-r", "2", "--json"});
    CAPTURE(outcome.err);
    REQUIRE(outcome.code == 0);
    const json report = json::parse(outcome.out);
    REQUIRE(report["rows"].size() == 2);
    CHECK(report["rows"][0]["test"] == "pp16");
    CHECK(report["rows"][1]["test"] == "tg8");
    for (const json& row : report["rows"]) CHECK(row["tokens_per_second"] > 0);
    const Outcome batches = run_scoria(
        {"bench", "-m", tiny, "-p", "0", "-n", "4", "-r", "1", "-b", "1,3", "-d", "0,9", "--format", "csv"});
    CAPTURE(batches.err);
    CHECK(batches.code == 0);
    for (const char* row : {"tg4,0", "tg4x1,0", "tg4x3,0", "tg4,9", "tg4x1,9", "tg4x3,9"})
        CHECK(batches.out.find(row) != std::string::npos);
}

TEST_CASE("the real model: an answer, stopped by Ctrl-C, and one whose reader left" *
          doctest::skip(default_model().empty())) {
    const std::vector<std::string> story = {"run",    "-m", default_model(), "-p", "Tell me a long story.",
                                            "--seed", "1"};
    const Outcome stopped = run_scoria(story, {.interrupt_after_bytes = 20});
    CAPTURE(stopped.err);
    CHECK(stopped.code == 0);
    CHECK(stopped.out.size() >= 20);
    const Outcome closed = run_scoria(story, {.closed_output = true});
    CHECK(closed.code == 1);
}

TEST_CASE("the real model: lines are embedded without their ends, and what is cut off has no part in it" *
          doctest::skip(default_model().empty())) {
    const ScratchFolder folder;
    const std::string lines = folder.path("lines"), eight = "one two three four five six seven eight";
    std::ofstream(lines, std::ios::binary) << eight << " nine ten\r\n"
                                           << eight << "\n"
                                           << "one two\r\none two\n";
    const Outcome outcome =
        run_scoria({"embed", "-m", default_model(), "--ctx", "8", "--truncate", "-f", lines, "--json"});
    CAPTURE(outcome.err);
    REQUIRE(outcome.code == 0);
    const nlohmann::json vectors = nlohmann::json::parse(outcome.out)["embeddings"];
    REQUIRE(vectors.size() == 4);
    CHECK(vectors[0] == vectors[1]);
    CHECK(vectors[2] == vectors[3]);
    CHECK(vectors[0] != vectors[2]);
    const Outcome raw =
        run_scoria({"run", "-m", default_model(), "--raw", "--system", "s", "-p", "x", "-n", "1"});
    CHECK(raw.code == 1);
    CHECK(raw.err.find("expected a chat template, got --raw") != std::string::npos);
}

TEST_CASE("a folder's max_seq_length cuts texts to embed, which is said" * needs_fixtures()) {
    const ScratchFolder folder;
    const std::string from = fixtures() + "/models/bert";
    for (const char* name : {"config.json", "model.safetensors"})
        std::filesystem::copy_file(from + "/" + name, folder.path(name));
    // The fixture's model has fewer tokens than any tokenizer there is.
    json vocabulary{{"[UNK]", 0}, {"[CLS]", 1}, {"[SEP]", 2}};
    for (char word = 'a'; word <= 'z'; ++word) vocabulary[std::string(1, word)] = vocabulary.size();
    const json special = json::parse(
        R"({"[CLS]": {"id": "[CLS]", "ids": [1], "tokens": ["[CLS]"]},
            "[SEP]": {"id": "[SEP]", "ids": [2], "tokens": ["[SEP]"]}})");
    const json frame = json::parse(
        R"([{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
            {"SpecialToken": {"id": "[SEP]", "type_id": 0}}])");
    std::ofstream(folder.path("tokenizer.json")) << json{
        {"added_tokens", json::array()},
        {"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
        {"post_processor",
         {{"type", "TemplateProcessing"}, {"single", frame}, {"pair", frame}, {"special_tokens", special}}},
        {"model", {{"type", "WordPiece"}, {"unk_token", "[UNK]"}, {"vocab", vocabulary}}}};
    const auto embedding = [&](const char* text) {
        const Outcome outcome = run_scoria({"embed", "-m", folder.path(), "-p", text});
        CAPTURE(outcome.err);
        CHECK(outcome.code == 0);
        return outcome;
    };
    const Outcome whole = embedding("a b c d e");
    std::ofstream(folder.path("sentence_bert_config.json")) << R"({"max_seq_length": 5})";
    const Outcome cut = embedding("a b c d e"), three = embedding("a b c");
    CHECK(cut.out == three.out);
    CHECK(cut.out != whole.out);
    CHECK(cut.err.find("1 of 1 texts cut to the 5 tokens") != std::string::npos);
    CHECK(three.err.find("cut to") == std::string::npos);
}

TEST_CASE("documents are ranked, the best first") {
    const MadeFolder made("made_rankers.jsonl");
    const json first = made.pairs()[0], second = made.pairs()[1];  // of one query
    REQUIRE(first[0] == second[0]);
    REQUIRE(first[3] > second[3]);
    const auto ranked = [&](const std::vector<std::string>& more) {
        std::vector<std::string> arguments{"rank", "-m",      made.path(), "-q",    first[0],
                                           "-p",   second[1], "-p",        first[1]};
        arguments.insert(arguments.end(), more.begin(), more.end());
        const Outcome outcome = run_scoria(arguments);
        CAPTURE(outcome.err);
        CHECK(outcome.code == 0);
        return outcome.out;
    };
    const json all = json::parse(ranked({"--json"}))["results"];
    REQUIRE(all.size() == 2);
    CHECK(all[0]["index"] == 1);
    CHECK(all[0]["score"].get<double>() == doctest::Approx(first[3].get<double>()).epsilon(0.01));
    CHECK(all[1]["score"].get<double>() == doctest::Approx(second[3].get<double>()).epsilon(0.01));
    const std::string line = ranked({"--top", "1"});
    CHECK(line.ends_with("\t" + first[1].get<std::string>() + "\n"));
    CHECK(std::ranges::count(line, '\n') == 1);
    const Outcome other = run_scoria({"rank", "-m", fixtures() + "/gguf/llama1.gguf", "-q", "a", "-p", "b"});
    CHECK(other.code == 1);
    CHECK(other.err.find("expected a model made for ranking") != std::string::npos);
}

TEST_CASE("the real model: an answer ends before a stop text that tokens share" *
          doctest::skip(default_model().empty())) {
    const auto ask = [&](const std::vector<std::string>& more) {
        std::vector<std::string> arguments = strict(
            {"run", "-m", default_model(), "--temp", "0", "--json", "-p", "What is the capital of France?"});
        arguments.insert(arguments.end(), more.begin(), more.end());
        const Outcome outcome = run_scoria(arguments);
        CAPTURE(outcome.err);
        REQUIRE(outcome.code == 0);
        return json::parse(outcome.out);
    };
    const json stopped = ask({"--stop", "never", "--stop", "ital o", "--logprobs", "1"});
    CHECK(stopped["text"] == "The cap");
    CHECK(stopped["stop"] == "stop");
    REQUIRE(stopped["logprobs"].size() == stopped["ids"].size());
    CHECK(stopped["logprobs"][1]["text"] == " capital");
    CHECK(stopped["logprobs"][1]["logprob"] == stopped["logprobs"][1]["best"][0]["logprob"]);
    const json paris = json::parse(run_scoria({"tokenize", "-m", default_model(), "-p", " Paris"}).out);
    const std::string text = ask({"--logit-bias", paris[0].dump() + "=-inf", "-n", "10"})["text"];
    CHECK(text.starts_with("The capital of France is"));
    CHECK(text.find(" Paris") == std::string::npos);
}

TEST_CASE("the real model: hot answers are still JSON of the schema" *
          doctest::skip(default_model().empty())) {
    const char* schema = R"({"type": "object", "properties": {"name": {"type": "string", "minLength": 1,
        "maxLength": 12}, "age": {"type": "integer", "minimum": 1, "maximum": 99}, "mood": {"enum": ["good", "bad"]}},
        "required": ["name", "age", "mood"]})";
    for (const char* seed : {"1", "2", "3"}) {
        const Outcome outcome = run_scoria({"run", "-m", default_model(), "-p", "Describe a person.",
                                            "--temp", "1.5", "--min-p", "0", "--top-p", "1", "--top-k", "0",
                                            "--seed", seed, "--json-schema", schema, "--json"});
        CAPTURE(outcome.err);
        REQUIRE(outcome.code == 0);
        const json answer = json::parse(outcome.out);
        CHECK(answer["stop"] == "end");
        const std::string text = answer["text"];
        CAPTURE(text);
        const json person = json::parse(text, nullptr, false);
        REQUIRE(person.is_object());
        CHECK(person.size() == 3);
        CHECK(person["name"].is_string());
        CHECK((person["age"] >= 1 && person["age"] <= 99));
        CHECK((person["mood"] == "good" || person["mood"] == "bad"));
    }
}

TEST_CASE("a conversation keeps going after commands" * doctest::skip(default_model().empty())) {
    const Outcome outcome = run_scoria(
        strict({"chat", "-m", default_model(), "--temp", "0", "-n", "8"}),
        {.input = "What is the capital of France?\n/help\n/reset\nWhat is the capital of France?\n/exit\n"});
    CAPTURE(outcome.err);
    CHECK(outcome.code == 0);
    CHECK(outcome.out == "The capital of France is Paris.\nThe capital of France is Paris.\n");
    CHECK(outcome.err.find("/reset") != std::string::npos);
}

TEST_CASE("a conversation is saved and gone on with" * doctest::skip(default_model().empty())) {
    const ScratchFolder folder;
    const std::string talk = folder.path("talk.json");
    const auto chat = [&](const std::string& input, std::vector<std::string> more = {}) {
        more.insert(more.begin(), {"chat", "-m", default_model(), "--temp", "0", "-n", "8"});
        return run_scoria(strict(more), {.input = input});
    };
    const std::string first = "The capital of France?", second = "And of Italy?";
    const Outcome whole = chat(first + "\n/save " + talk + "\n/save " + folder.path("none/x") + "\n/save " +
                               default_model() + "\n" + second + "\n");
    CAPTURE(whole.err);
    REQUIRE(whole.code == 0);
    CHECK(whole.err.find("cannot be created") != std::string::npos);
    CHECK(whole.err.find("expected another name to write to") != std::string::npos);
    const Outcome rest = chat(second + "\n", {"--messages", talk});
    CHECK(whole.out.ends_with("\n" + rest.out));
    CHECK(rest.out.size() > 5);

    std::ofstream(talk) << R"([{"role":"user","content":"Hi"}])";
    CHECK(chat("", {"--messages", talk}).err.find("ends with an answer") != std::string::npos);
    std::ofstream(talk) << R"([{"role":"system","content":"Hi"}])";
    CHECK(chat("", {"--messages", talk, "--system", "x"}).err.find("got both") != std::string::npos);
}
