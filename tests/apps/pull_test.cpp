// pull over HTTP, against a server that drops connections, lies and corrupts (model_server.py).
#include "program.h"
#include "test_env.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

using namespace scoria::test;
namespace fs = std::filesystem;

namespace {

void write_text(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << text;
}
std::string text_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

class Server {
  public:
    explicit Server(const std::string& folder)
        : pipe_(popen(("exec python3 " SCORIA_SOURCE_DIR "/tests/apps/model_server.py " + folder).c_str(),
                      "r")) {
        REQUIRE(std::fscanf(pipe_, "%d %d", &port_, &pid_) == 2);
    }
    ~Server() {
        kill(pid_, SIGTERM);
        pclose(pipe_);
    }
    std::string url(const std::string& path) const {
        return "http://127.0.0.1:" + std::to_string(port_) + "/" + path;
    }

  private:
    std::FILE* pipe_;
    int port_ = 0, pid_ = 0;
};

struct Machine {
    ScratchFolder folder;
    std::string cache = folder.path("cache");
    std::string bytes;
    Server server;

    Machine() : bytes(make_files(folder)), server(folder.path("served")) {}
    static std::string make_files(const ScratchFolder& folder) {
        std::mt19937 random(3);
        std::string bytes(400'000, 0);
        for (char& c : bytes) c = char(random());
        write_text(folder.path("served/model.gguf"), bytes);
        return bytes;
    }
    Outcome run(std::vector<std::string> arguments, std::map<std::string, std::string> more = {}) const {
        more.try_emplace("XDG_CACHE_HOME", cache);
        more.try_emplace("HF_ENDPOINT", server.url(""));
        more.try_emplace("no_proxy", "127.0.0.1");
        return run_scoria(arguments, {.environment = more});
    }
    Outcome pull(const std::string& path, std::vector<std::string> more = {}) const {
        more.insert(more.begin(), {"pull", server.url(path)});
        return run(more);
    }
};

constexpr const char* wrong_digest = "0000000000000000000000000000000000000000000000000000000000000000";

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

TEST_CASE("pull: what a server does wrong is survived or said") {
    const Machine machine;
    struct Row {
        const char* path;
        int code;
        const char* says;  // on stderr
    };
    const Row rows[] = {
        {"ok/model.gguf", 0, ""},
        {"drop/model.gguf", 0, "trying again"},
        {"forget/model.gguf", 0, "trying"},
        {"pairs/model.gguf", 0, ""},
        {"change/model.gguf", 0, "trying again"},
        {"dated/model.gguf", 0, ""},
        {"grow/model.gguf", 1, "expected a piece of 400000 bytes, got one of 400001"},
        {"short/model.gguf", 1, "no byte more"},
        {"missing/nothing.gguf", 1, "404"},
        {"gated/model.gguf", 1, "HF_TOKEN"},
        {"away/model.gguf", 1, "attempts"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.path);
        const Outcome outcome = machine.pull(row.path);
        CAPTURE(outcome.err);
        CHECK(outcome.code == row.code);
        CHECK(outcome.err.find(row.says) != std::string::npos);
        if (row.code == 0) CHECK(text_of(first_line(outcome.out)) == machine.bytes);
    }
    CHECK(machine.run({"pull", machine.server.url("gated/model.gguf")}, {{"HF_TOKEN", "secret"}}).code == 0);
    CHECK(machine.run({"pull", machine.server.url("gated/x.gguf")}, {{"HF_TOKEN", "secret"}}).code == 1);
    CHECK(machine.run({"list"}).out.find(machine.server.url("drop/model.gguf") + " ") != std::string::npos);
    CHECK(machine.run({"rm", machine.server.url("drop/model.gguf")}).code == 0);
    CHECK(machine.run({"list"}).out.find("drop/model.gguf") == std::string::npos);
    const Outcome alone = machine.pull("drop/model.gguf", {"--connections", "1"});
    CHECK(alone.code == 0);
    CHECK(text_of(first_line(alone.out)) == machine.bytes);
    CHECK(machine.pull("ok/model.gguf", {"--connections", "0"}).code == 2);
    CHECK(machine.run({"pull", "ftp://127.0.0.1/x.gguf"}).code == 2);
    CHECK(machine.run({"pull", "http://127.0.0.1:1/x.gguf"}).code == 1);
    const Outcome malformed = machine.pull("ok/a b.gguf");
    CHECK(malformed.code == 2);
    CHECK(malformed.err.find("trying again") == std::string::npos);
}

TEST_CASE("pull: an interrupted pull goes on where it ended, if the file is still the same") {
    const Machine machine;
    struct Row {
        const char *before, *after;
        bool changed;
    };
    const Row rows[] = {
        {"short", "rest", false},  // all bytes, and then it waits for more
        {"gone", "rest", false},   // one piece
        {"gone", "ok", true},
        {"bare", "ok", true},  // what nothing identifies is fetched anew
    };
    for (const Row& row : rows) {
        CAPTURE(row.before);
        CAPTURE(row.changed);
        std::string bytes = machine.bytes;
        write_text(machine.folder.path("served/model.gguf"), bytes);
        REQUIRE(machine.pull(std::string(row.before) + "/model.gguf").code == 1);
        fs::path partial;
        for (const auto& entry : fs::recursive_directory_iterator(machine.cache))
            if (entry.path().extension() == ".partial") partial = entry.path();
        REQUIRE(!partial.empty());
        const std::string folder = partial.parent_path().string();
        const std::string listed = machine.run({"list"}).out;
        CHECK(listed.find("partly") != std::string::npos);
        CHECK(listed.find(folder) == std::string::npos);
        if (fs::file_size(partial) > 250'000) fs::resize_file(partial, 250'000);
        std::string moved = folder;
        moved.replace(moved.rfind(row.before), std::strlen(row.before), row.after);
        fs::rename(folder, moved);
        if (row.changed) std::ranges::reverse(bytes);
        write_text(machine.folder.path("served/model.gguf"), bytes);
        const Outcome outcome = machine.pull(std::string(row.after) + "/model.gguf");
        CAPTURE(outcome.err);
        CHECK(outcome.code == 0);
        CHECK(text_of(first_line(outcome.out)) == bytes);
        CHECK(!fs::exists(moved + "/model.gguf.partial"));
        CHECK(machine.run({"list"}).out.find(moved) != std::string::npos);
        fs::remove_all(moved);
    }
}

TEST_CASE("pull: a checksum that was asked for") {
    const Machine machine;
    const Outcome wrong = machine.pull("corrupt/model.gguf", {"--sha256", wrong_digest});
    const size_t got = wrong.err.find("got ");
    REQUIRE(wrong.err.find("SHA-256") < got);
    std::string digest = wrong.err.substr(got + 4, 64);
    for (char& c : digest) c = char(std::toupper(c));
    CHECK(machine.pull("corrupt/model.gguf", {"--sha256", digest}).code == 0);
    digest.back() = 'g';
    for (const std::string& none : {std::string("abc"), digest}) {
        const Outcome outcome = machine.pull("away/model.gguf", {"--sha256", none});
        CHECK(outcome.code == 2);
        CHECK(outcome.err.find("64 hex digits") != std::string::npos);
    }
    for (const char* name : {"org/one", "smollm2"})
        CHECK(machine.run({"pull", name, "--sha256", wrong_digest}).err.find("expected a URL") !=
              std::string::npos);
}

TEST_CASE("pull: what is said of a hub goes with a hub's name alone") {
    const Machine machine;
    for (const char* name : {"http://127.0.0.1:9/a.gguf", "smollm2"})
        for (const char* flag : {"--hub", "--revision"}) {
            const Outcome outcome = machine.run({"pull", name, flag, "x"});
            CHECK(outcome.code == 2);
            CHECK(outcome.err.find(std::string("expected org/repo beside ") + flag) != std::string::npos);
        }
}

TEST_CASE("list: a path for what is whole alone") {
    const ScratchFolder folder;
    struct Row {
        const char* repository;
        std::vector<const char*> files;
        bool whole;
    };
    const Row rows[] = {
        {"one", {"a.gguf"}, true},
        {"begun", {"a.gguf.partial"}, false},
        {"another", {"a.gguf", "b.gguf.partial"}, true},
        {"parts", {"a-00001-of-00002.gguf", "a-00002-of-00002.gguf.partial"}, false},
        {"folder", {"config.json", "model.safetensors"}, true},
        {"refused", {"config.json"}, false},
    };
    for (const Row& row : rows)
        for (const char* file : row.files)
            write_text(folder.path("scoria/models/hub/org/") + row.repository + "/" + file, "bytes");
    const Outcome list = run_scoria({"list"}, {.environment = {{"XDG_CACHE_HOME", folder.path()}}});
    for (const Row& row : rows) {
        CAPTURE(row.repository);
        const std::string name = std::string("org/") + row.repository;
        CHECK(list.out.find("\n" + name + " ") != std::string::npos);
        CHECK((list.out.find("hub/" + name) != std::string::npos) == row.whole);
    }
}

TEST_CASE("pull: models of a hub" * needs_fixtures()) {
    const Machine machine;
    const std::string served = machine.folder.path("served/");
    for (const char* repository : {"one", "liar", "climber", "null", "busy"}) {
        fs::create_directories(served + repository);
        fs::copy_file(fixtures() + "/gguf/llama1.gguf", served + repository + "/llama1.gguf");
    }
    for (const char* name : {"a", "b"}) {
        fs::create_directories(served + "two");
        fs::copy_file(fixtures() + "/gguf/llama1.gguf", served + "two/" + name + ".gguf");
    }
    fs::create_directories(served + "folder");
    for (const char* name : {"config.json", "model.safetensors", "golden.json"})
        fs::copy_file(fixtures() + "/models/llama1/" + name, served + "folder/" + name);
    const char* const beside[] = {"generation_config.json", "config_sentence_transformers.json",
                                  "sentence_bert_config.json", "chat_template.json", "hf_quant_config.json"};
    for (const char* name : beside) write_text(served + "folder/" + name, R"({"quantization": {}})");
    fs::create_directories(served + "folder/2_Pooling");
    write_text(served + "folder/2_Pooling/config.json", "{}");
    fs::create_directories(served + "empty");
    fs::create_directories(served + "odd/a#b");
    fs::copy_file(fixtures() + "/gguf/llama1.gguf", served + "odd/a#b/my 20%20?.gguf");

    const Outcome one = machine.run({"pull", "org/one"});
    CAPTURE(one.err);
    REQUIRE(one.code == 0);
    CHECK(text_of(first_line(one.out)) == text_of(served + "one/llama1.gguf"));
    CHECK(machine.run({"inspect", "org/one"}).code == 0);
    CHECK(machine.run({"list"}).out.find("org/one") != std::string::npos);
    CHECK(machine.run({"pull", "org/one", "--offline"}).code == 0);
    CHECK(machine.run({"rm", "org/one"}).code == 0);
    CHECK(machine.run({"pull", "org/one", "--offline"}).code == 1);
    CHECK(!fs::exists(machine.cache + "/scoria/models/hub/org/one"));  // it only looks
    CHECK(machine.run({"pull", "org/one"}, {{"HF_HUB_OFFLINE", "YES"}}).code == 1);
    CHECK(machine.run({"list"}, {{"HF_HUB_OFFLINE", "maybe"}}).code == 0);
    CHECK(machine.run({"inspect", "org/one"}).code == 1);

    const Outcome folder = machine.run({"pull", "org/folder"});
    CHECK(folder.code == 0);
    CHECK(!fs::exists(fs::path(first_line(folder.out)) / "golden.json"));  // not the loader's business
    for (const char* name : beside) CHECK(fs::exists(fs::path(first_line(folder.out)) / name));
    CHECK(fs::exists(fs::path(first_line(folder.out)) / "2_Pooling/config.json"));
    CHECK(machine.run({"inspect", "org/folder"}).code == 0);

    const Outcome two = machine.run({"pull", "org/two"});
    CHECK(two.code == 2);
    CHECK(two.err.find("org/two:b.gguf") != std::string::npos);
    CHECK(machine.run({"pull", "org/two:b.gguf"}).code == 0);
    CHECK(machine.run({"inspect", "org/two:b.gguf"}).code == 0);
    CHECK(machine.run({"pull", "org/two:c.gguf"}).code == 2);

    // A split model comes and goes as a whole, what an interrupted pull left of it with it.
    const std::string parts = machine.cache + "/scoria/models/hub/org/parts/";
    fs::create_directories(served + "parts");
    for (const char* name : {"a-00001-of-00002.gguf", "a-00002-of-00002.gguf", "b.gguf"})
        fs::copy_file(fixtures() + "/gguf/llama1.gguf", served + "parts/" + name);
    CHECK(machine.run({"pull", "org/parts:b.gguf"}).code == 0);
    CHECK(machine.run({"pull", "org/parts:a-00001-of-00002.gguf"}).code == 0);
    CHECK(fs::exists(parts + "a-00002-of-00002.gguf"));
    CHECK(machine.run({"rm", "org/parts:a-00001-of-00002.gguf"}).code == 0);
    CHECK(!fs::exists(parts + "a-00002-of-00002.gguf"));
    for (const char* left : {"c.gguf.partial", "c.gguf.partial.etag"}) write_text(parts + left, "x");
    CHECK(machine.run({"rm", "org/parts:c.gguf"}).code == 0);
    CHECK(!fs::exists(parts + "c.gguf.partial"));
    CHECK(!fs::exists(parts + "c.gguf.partial.etag"));
    CHECK(machine.run({"rm", "org/parts:c.gguf"}).code == 1);
    CHECK(machine.run({"inspect", "org/parts"}).code == 0);  // the one that is left

    const Outcome liar = machine.run({"pull", "org/liar"});
    CHECK(liar.code == 1);
    CHECK(liar.err.find("SHA-256") != std::string::npos);
    CHECK(machine.run({"inspect", "org/liar"}).code == 1);
    CHECK(machine.run({"pull", "org/climber"}).code == 0);
    CHECK(!fs::exists(machine.cache + "/scoria/models/hub/escaped.gguf"));
    CHECK(machine.run({"pull", "org/empty"}).code == 1);
    for (const char* revision : {"main", "refs/pr/1"}) {
        const Outcome odd = machine.run({"pull", "org/odd", "--revision", revision});
        CAPTURE(odd.err);
        CHECK(odd.code == 0);
        CHECK(first_line(odd.out).ends_with("/a#b/my 20%20?.gguf"));
    }
    const Outcome null = machine.run({"pull", "org/null"});
    CHECK(null.code == 1);
    CHECK(null.err.find("[pull] expected a commit as \"sha\", got null") != std::string::npos);
    const Outcome busy = machine.run({"pull", "org/busy"});
    CHECK(busy.code == 0);
    CHECK(busy.err.find("429; trying again") != std::string::npos);
    CHECK(machine.run({"pull", "org/../x"}).code == 2);
    CHECK(machine.run({"pull", "org/one"}, {{"HF_ENDPOINT", ""}}).code == 2);
}
