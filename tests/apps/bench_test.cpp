// bench as its users meet it: models without a file, rows in every format, ops beside their roofline.
#include "program.h"
#include "test_env.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

using namespace scoria::test;
using nlohmann::json;

namespace {

std::string text_of(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
}

Outcome bench(std::vector<std::string> more) {
    more.insert(more.begin(), "bench");
    return run_scoria(more);
}

const std::vector<std::string> small{"--synthetic", "0.02B", "-p", "8", "-n", "2", "-r", "1", "--ctx", "256"};
std::vector<std::string> with(std::vector<std::string> more) {
    more.insert(more.begin(), small.begin(), small.end());
    return more;
}

}  // namespace

TEST_CASE("bench measures models without a file, by depth, cache and chunk") {
    const ScratchFolder folder;
    const std::string trace = folder.path("trace.json");
    const Outcome outcome = bench(with({"-d", "0,40", "--kvs", "f16,q8_0", "--chunk", "4,64", "--json",
                                        "--plot", folder.path("plots"), "--trace", trace}));
    CAPTURE(outcome.err);
    REQUIRE(outcome.code == 0);
    const json report = json::parse(outcome.out);
    CHECK(report["model"] == "synthetic 0.02B Q4_K");
    std::set<std::string> kinds;
    for (const json& row : report["rows"]) {
        kinds.insert(row["test"].get<std::string>() + " " + row["depth"].dump() + " " + row["kv"].dump() +
                     " " + row["chunk"].dump());
        CHECK(row["tokens_per_second"].get<double>() > 0);
        CHECK(row["repetitions"] == 1);
        CHECK(row.contains("gb_per_second") == (row["test"] == "tg2"));
    }
    CHECK(report["rows"].size() == 16);
    CHECK(kinds.size() == 16);
    CHECK(kinds.contains("pp8 40 \"q8_0\" 4"));
    for (const char* name : {"depth.png", "layers.png"})
        CHECK(text_of(folder.path("plots") + "/" + name).substr(1, 3) == "PNG");
    const json events = json::parse(text_of(trace))["traceEvents"];
    std::set<int> layers;
    double end = 0;
    uint32_t of_step = 0, of_prompt = 0;
    for (const json& event : events) {
        if (event["ph"] == "M") {  // a process begins: the step, then the prompt's chunk
            end = 0;
            continue;
        }
        CHECK(event["ph"] == "X");
        CHECK(event["args"]["groups"].get<uint32_t>() > 0);
        ++(event["pid"] == 0 ? of_step : of_prompt);
        CHECK(event["ts"].get<double>() >= end);
        end = event["ts"].get<double>() + event["dur"].get<double>() - 0.5;  // of a microsecond: rounding
        layers.insert(event["args"]["layer"].get<int>());
    }
    CHECK(of_step == report["step"]["dispatches"]);
    CHECK(of_prompt > 0);
    CHECK(layers == std::set<int>{-1, 0, 1, 2, 3});
}

TEST_CASE("bench measures answers at once, and what they wait beside a prompt") {
    const Outcome outcome = bench(with({"-b", "1,3", "-d", "0,8", "--json"}));
    CAPTURE(outcome.err);
    REQUIRE(outcome.code == 0);
    const json report = json::parse(outcome.out);
    std::map<std::string, int> rows;
    for (const json& row : report["rows"]) {
        ++rows[row["test"]];
        CHECK(row["tokens_per_second"].get<double>() > 0);
        const bool beside = row["test"].get<std::string>().starts_with("pp8 beside");
        REQUIRE(row.contains("wait_ms") == beside);
        if (!beside) continue;
        CHECK(row["wait_ms"]["p50"].get<double>() > 0);
        CHECK(row["wait_ms"]["p95"] >= row["wait_ms"]["p50"]);
        CHECK(row["wait_ms"]["max"] >= row["wait_ms"]["p95"]);
    }
    CHECK(rows ==
          std::map<std::string, int>{
              {"pp8", 2}, {"tg2", 2}, {"tg2x1", 2}, {"tg2x3", 2}, {"pp8 beside 1", 2}, {"pp8 beside 3", 2}});
}

TEST_CASE("synthetic weights of every kind give finite logits, and every format has all rows") {
    for (const char* type : {"q4_0", "q8_0", "bf16"})
        CHECK(bench(with({"--type", type, "-n", "1"})).code == 0);
    const std::pair<const char*, char> formats[] = {{"csv", ','}, {"markdown", '|'}};
    for (const auto& [format, separator] : formats) {
        const Outcome outcome = bench(with({"--format", format, "-d", "0,8"}));
        CAPTURE(outcome.out);
        REQUIRE(outcome.code == 0);
        std::istringstream lines(outcome.out);
        std::set<std::ptrdiff_t> widths;
        size_t count = 0;
        for (std::string line; std::getline(lines, line); ++count)
            widths.insert(std::count(line.begin(), line.end(), separator));
        CHECK(widths.size() == 1);  // a table: equal columns
        CHECK(count == 4 + (separator == '|' ? 2 : 1));
    }
}

TEST_CASE("bench --ops holds every op against this device's roofline") {
    const ScratchFolder folder;
    const Outcome outcome = bench({"--ops", "--json", "--plot", folder.path()});
    CAPTURE(outcome.err);
    REQUIRE(outcome.code == 0);
    const json report = json::parse(outcome.out);
    for (const char* roof : {"read_gb_per_second", "matmul_gflops", "empty_dispatch_us"})
        CHECK(report[roof].get<double>() > 0);
    CHECK(report["empty_dispatch_behind_barrier_us"].get<double>() > 0);
    std::set<std::string> ops;
    for (const json& row : report["ops"]) {
        CAPTURE(row.dump());
        ops.insert(row["op"]);
        CHECK(row["microseconds"].get<double>() > 0);
        CHECK(row["bytes"].get<uint64_t>() > 0);
        CHECK(row["share"].get<double>() > 0);
        CHECK(row["share"].get<double>() <= 1.5);
    }
    CHECK(ops == std::set<std::string>{
                     "embed",  "norm",   "linear",          "rope_cache",    "attention",   "compress",
                     "hash",   "sort",   "chunk_attention", "glu",           "add",         "gate",
                     "map",    "pack",   "route",           "expert_linear", "head_linear", "expert_sum",
                     "select", "sample", "convolve",        "shift",         "scan",        "wkv",
                     "mix",    "choose"});
    CHECK(text_of(folder.path("roofline.png")).substr(1, 3) == "PNG");
    CHECK(bench({"--ops", "--op", "select", "--format", "csv"}).out.find("\nselect,") != std::string::npos);
}

TEST_CASE("bench refuses what it cannot measure") {
    const std::pair<std::vector<std::string>, const char*> bad[] = {
        {{"--synthetic", "2B"}, "0.02B, 0.1B, 0.4B, 1B"},
        {{"--synthetic", "0.02B", "--type", "q9"}, "Q4_K"},
        {{"--synthetic", "0.02B", "--kvs", "f16,q9"}, "q9"},
        {{"--synthetic", "0.02B", "-p", "8,x"}, "-p"},
        {{"--format", "xml"}, "xml"},
        {{"--op", "norm"}, "--ops"},
        {{"--ops", "--op", "conjure"}, "chunk_attention"},
        {{"--ops", "--synthetic", "0.02B"}, "--ops without --synthetic"},
        {{"--scaling", "0.02B,0.1B", "--batch", "2"}, "--scaling without --batch"},
        {{"--synthetic", "0.02B", "-m", "smollm2"}, "--synthetic without --model"},
        {{"--type", "q4_K"}, "--type"},
        {{"--synthetic", "0.02B", "-b", "64"}, "1 to 63"},
        {{"--scaling", "0.02B,0.02B"}, "got 1 and 5"},
        {{"--scaling", "0.02B,0.1B", "-d", "0,4294967295"}, "at most 131072 positions"},
        {{"--scaling", "0.02B,0.1B", "-d", "8,8"}, "got 2 and 1"},
    };
    for (const auto& each : bad) {
        const auto& [more, says] = each;
        const Outcome outcome = bench(more);
        CAPTURE(each.second);
        CAPTURE(outcome.err);
        CHECK(outcome.code == 2);
        CHECK(outcome.err.find(says) != std::string::npos);
    }
    const Outcome plots = bench(with({"--plot", "/dev/null/folder"}));
    CHECK(plots.code == 1);
    CHECK(plots.out.empty());  // before it measured
    const Outcome deep = bench(with({"-d", "300"}));
    CHECK(deep.code == 1);
    CHECK(deep.err.find("at most 256 positions") != std::string::npos);
}
