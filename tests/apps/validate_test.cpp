// validate as its users meet it: reports in files, own shaders, own data.
#include "process.h"
#include "program.h"
#include "test_env.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <iterator>

using namespace scoria::test;
using nlohmann::json;

namespace {

const std::string examples = std::string(SCORIA_SOURCE_DIR) + "/tools/examples/";

std::string text_of(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
}

/// A file of NumPy's format 1 with float32 values.
void write_npy(const std::string& path, const std::string& shape, const std::vector<float>& values) {
    std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + shape + "), }";
    header.resize(117, ' ');
    header += '\n';
    std::ofstream out(path, std::ios::binary);
    out << std::string("\x93NUMPY\x01\x00\x76\x00", 10) << header;
    out.write(reinterpret_cast<const char*>(values.data()), std::streamsize(4 * values.size()));
}

struct Run {
    std::vector<std::string> arguments;
    int code;
    const char* says;  // on either stream
};

void check(const Run& run) {
    std::vector<std::string> arguments{"validate"};
    arguments.insert(arguments.end(), run.arguments.begin(), run.arguments.end());
    const Outcome outcome = run_scoria(arguments);
    CAPTURE(outcome.out);
    CAPTURE(outcome.err);
    CHECK(outcome.code == run.code);
    CHECK((outcome.out + outcome.err).find(run.says) != std::string::npos);
}

}  // namespace

TEST_CASE("validate writes its report as JSON and as a page") {
    const ScratchFolder folder;
    const std::string page = folder.path("r.html"), file = folder.path("r.json");
    check({{"--op", "pack", "--html", page, "--json", file}, 0, "pack"});
    const json report = json::parse(text_of(file));
    CHECK(report["schema"] == "scoria.validate/2");
    CHECK(report["tier"] == "quick");
    CHECK(report["passed"] == true);
    CHECK(report["runs"].size() == 1);
    CHECK(report["runs"][0]["results"][0]["op"] == "pack");
    CHECK(report["runs"][0].contains("caps"));
    CHECK(text_of(page).find("data:image/png;base64,") != std::string::npos);
    CHECK(json::parse(run_scoria({"validate", "--op", "pack", "--json"}).out)["failed"] == 0);
    check({{"--op", "pack", "--device", "all"}, 0, "pack"});
    check({{"--op", "pack", "--soak", "0.5"}, 0, "round 2"});
    check({{"--op", "pack", "--variant", "pack=plain"}, 2, "expected -m beside --variant"});
}

TEST_CASE("several processes share the cases of validate") {
    const auto cases = [](const char* part) {
        const Outcome outcome = run_scoria({"validate", "--op", "norm", "--part", part, "--json"});
        return json::parse(outcome.out)["runs"][0]["results"].size();
    };
    const size_t all = cases("1/1"), first = cases("1/3");
    CHECK(first >= all / 3);
    CHECK(first + cases("2/3") + cases("3/3") == all);
    for (const char* part : {"0/1", "3/2", "1", "1/", "a/b", "1/2/3"})
        check({{"--part", part}, 2, "expected --part K/N"});
    check({{"--part", "1/2", "--compile-only"}, 2, "expected --part of our kernels' cases"});
}

TEST_CASE("somebody's own shader is held against the reference") {
    const ScratchFolder folder;
    const std::string manifest = folder.path("m.json");
    std::ofstream(manifest) << R"({"cases": [{"rows": 3, "cols": 64}]})";
    const std::string unknown = folder.path("unknown.json");
    std::ofstream(unknown) << R"({"bidnings": {}})";
    const std::string broken = folder.path("broken.comp");
    std::ofstream(broken) << "#version 460\nvoid main() { x = 1; }\n";
    const std::string texels = folder.path("texels.comp");
    std::ofstream(texels) << "#version 460\nlayout(binding = 0) uniform usamplerBuffer x;\n"
                             "layout(binding = 1) buffer O { uint o[]; };\n"
                             "void main() { o[0] = texelFetch(x, 0).x; }\n";
    const std::string uniforms = folder.path("uniforms.comp");
    std::ofstream(uniforms) << "#version 460\nlayout(binding = 0) uniform X { uint x; };\n"
                               "layout(binding = 1) buffer O { uint o[]; };\nvoid main() { o[0] = x; }\n";
    const std::string no_shader = folder.path("no.spv");
    std::ofstream(no_shader) << "SPIR";
    const Run runs[] = {
        {{"--shader", examples + "rms_norm.comp", "--as", "rms_norm"}, 0, "10 cases, 0 failed"},
        {{"--shader", examples + "rms_norm_tail.comp", "--as", "rms_norm"}, 1, "never written"},
        {{"--shader", examples + "rms_norm_tail.comp", "--as", "rms_norm", "--manifest", manifest},
         0,
         "1 cases"},
        {{"--shader", examples + "linear_f16.comp", "--as", "linear"}, 0, "0 failed"},
        {{"--shader", examples + "rms_norm.comp", "--as", "layer_norm"}, 1, "worst element"},
        {{"--shader", examples + "rms_norm.comp", "--as", "softmax"}, 2, "binding 1"},
        {{"--shader", examples + "rms_norm.comp", "--as", "conjure"}, 2, "rms_norm, layer_norm"},
        {{"--shader", examples + "rms_norm.comp"}, 2, "--as"},
        {{"--shader", examples + "rms_norm.comp", "--as", "rms_norm", "--manifest", unknown}, 1, "bidnings"},
        {{"--shader", broken, "--as", "rms_norm"}, 1, "broken.comp"},
        {{"--shader", texels, "--as", "rms_norm"}, 1, "got a texel buffer"},
        {{"--shader", uniforms, "--as", "rms_norm"}, 1, "got a uniform buffer"},
        {{"--shader", no_shader, "--as", "rms_norm"}, 1, "SPIR-V"},
        {{"--shader", "/nonexistent.comp", "--as", "rms_norm"}, 1, "/nonexistent.comp"},
    };
    for (const Run& run : runs) {
        CAPTURE(run.arguments[1]);
        check(run);
    }
    const Outcome none = run_scoria({"validate", "--shader", examples + "rms_norm.comp", "--as", "rms_norm"},
                                    {.environment = {{"PATH", "/nonexistent"}}});
    CHECK(none.code == 1);
    CHECK(none.err.find("glslangValidator") != std::string::npos);
}

TEST_CASE("SPIR-V that is damaged never reaches a driver") {
    const ScratchFolder folder;
    const std::string whole = folder.path("whole.spv"), damaged = folder.path("damaged.spv");
    const auto compiled = scoria::run_program({"glslangValidator", "-V", "--quiet", "--target-env",
                                               "vulkan1.2", examples + "rms_norm.comp", "-o", whole});
    REQUIRE(compiled == 0);
    std::string words = text_of(whole);
    words.replace(12, 4, std::string("\1\0\0\0", 4));  // the bound of ids
    std::ofstream(damaged, std::ios::binary) << words;
    check({{"--shader", whole, "--as", "rms_norm"}, 0, "0 failed"});
    check({{"--shader", whole, "--as", "rms_norm", "--no-spirv-val"}, 0, "0 failed"});
    check({{"--shader", damaged, "--as", "rms_norm"}, 1, "exit code 1 of spirv-val"});
}

TEST_CASE("a race whose results are right is told where the validation layer can") {
    const auto validate = [](const char* shader) {
        return run_scoria({"validate", "--shader", examples + shader, "--as", "rms_norm", "--races"});
    };
    const Outcome race = validate("rms_norm_race.comp");
    CHECK(race.code == 1);
    if (race.err.find("[vulkan]") != std::string::npos) {
        const bool none = race.err.find("vulkan-validationlayers") != std::string::npos;
        CHECK((none || race.err.find("of version 1.4.350 or later") != std::string::npos));
        return;
    }
    CHECK(race.err.find("SharedMemoryDataRace") != std::string::npos);
    CHECK(validate("rms_norm.comp").code == 0);
}

TEST_CASE("somebody's own data are inputs and reference") {
    const ScratchFolder folder;
    std::vector<float> x, weight, out;
    for (int i = 0; i < 5; ++i) weight.push_back(1.0f + float(i));
    for (int row = 0; row < 2; ++row) {
        double squares = 0;
        for (int i = 0; i < 5; ++i) {
            x.push_back(float(row + 1) * float(i - 2));
            squares += double(x.back()) * double(x.back());
        }
        for (size_t i = 0; i < 5; ++i)
            out.push_back(
                float(double(x[size_t(row) * 5 + i]) / std::sqrt(squares / 5 + 1e-5) * double(weight[i])));
    }
    const auto npy = [&](const char* name) { return folder.path(std::string(name) + ".npy"); };
    write_npy(npy("x"), "2, 5", x);
    write_npy(npy("flat"), "10,", x);
    write_npy(npy("weight"), "5,", weight);
    write_npy(npy("out"), "2, 5", out);
    out[7] += 0.01f;
    write_npy(npy("wrong"), "2, 5", out);
    std::ofstream(npy("short")) << text_of(npy("x")).substr(0, 140);
    const auto run = [&](const char* input, const char* reference, int code, const char* says) {
        check({{"--shader", examples + "rms_norm.comp", "--as", "rms_norm", "--input", "x=" + npy(input),
                "--input", "weight=" + npy("weight"), "--reference", npy(reference)},
               code,
               says});
    };
    run("x", "out", 0, "1 cases, 0 failed");
    run("x", "wrong", 1, "element 2 of row 1");
    run("flat", "out", 2, "expected the shape [rows, cols], got [10]");
    run("weight", "out", 2, "expected the shape");
    run("short", "out", 1, "bytes of data");
    const std::string as_any = folder.path("any.json");
    std::ofstream(as_any)
        << R"({"tensors": {"a": "n m", "b": "m"}, "output": {"c": "n m"}, "values": {"eps": 1e-5},)"
        << R"( "bindings": {"a": 0, "b": 1, "c": 2}, "push": {"cols": "m"}, "groups": ["n"]})";
    check({{"--shader", examples + "rms_norm.comp", "--as", "custom", "--manifest", as_any, "--input",
            "a=" + npy("x"), "--input", "b=" + npy("weight"), "--reference", npy("out")},
           0,
           "custom"});
}
