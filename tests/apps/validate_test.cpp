// validate as its users meet it: reports in files, own shaders, own data.
#include "fail.h"
#include "process.h"
#include "program.h"
#include "test_env.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

using namespace scoria::test;
using nlohmann::json;

namespace {

const std::string examples = std::string(SCORIA_SOURCE_DIR) + "/tools/examples/";

std::string text_of(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
}

/// A file of NumPy's format with float32 values, doubles or int32 ones. `shape` ends in its bracket.
template <class T>
void write_npy(const std::string& path, const std::string& shape, const std::vector<T>& values,
               int version = 1, size_t length = 118) {
    const char* type = std::is_same_v<T, float> ? "<f4" : std::is_same_v<T, double> ? "<f8" : "<i4";
    std::string header =
        scoria::cat("{'descr': '", type, "', 'fortran_order': False, 'shape': (", shape, ", }");
    header.resize(length - 1, ' ');
    header += '\n';
    std::ofstream out(path, std::ios::binary);
    out << "\x93NUMPY" << char(version) << '\0' << char(length & 255) << char(length >> 8);
    if (version != 1) out << '\0' << '\0';
    out << header;
    out.write(reinterpret_cast<const char*>(values.data()), std::streamsize(sizeof(T) * values.size()));
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

/// A folder of somebody's with own.comp and its manifest; names of arrays are within it.
struct Own {
    std::string source, manifest;  // none if empty
    std::vector<std::string> arguments;
    int code;
    const char* says;
};

void check(const Own& own, const ScratchFolder& folder) {
    const std::string shader = folder.path("own.comp"), manifest = folder.path("own.json");
    std::ofstream(shader) << own.source;
    std::filesystem::remove(manifest);
    if (!own.manifest.empty()) std::ofstream(manifest) << own.manifest;
    std::vector<std::string> arguments{"--shader", shader};
    for (const std::string& each : own.arguments) {
        const size_t name = each.ends_with(".npy") ? each.find('=') + 1 : each.size();
        arguments.push_back(name == each.size() ? each
                                                : each.substr(0, name) + folder.path(each.substr(name)));
    }
    CAPTURE(own.source);
    CAPTURE(own.manifest);
    check({arguments, own.code, own.says});
}

/// One invocation per workgroup.
std::string glsl(const std::string& interface, const std::string& body) {
    return "#version 460\n#extension GL_EXT_shader_16bit_storage : enable\n"
           "#extension GL_EXT_shader_explicit_arithmetic_types : enable\n"
           "#extension GL_EXT_scalar_block_layout : enable\nlayout(local_size_x = 1) in;\n" +
           interface + "void main() {\n" + body + "}\n";
}
std::string block(int binding, const std::string& declaration, const char* layout = "std430") {
    return scoria::cat("layout(", layout, ", binding = ", binding, ") ", declaration, ";\n");
}
const std::string x_block = block(0, "readonly buffer X { float x[]; }"),
                  y_block = block(1, "buffer Y { float y[]; }"),
                  push_block = "layout(push_constant) uniform P { uint cols; float eps; };\n",
                  each = "for (uint i = 0; i < cols; ++i) ";
/// An RMS norm that writes `out`, of a row that begins at f.
std::string norm_body(const std::string& out = "y[f + i] = x[f + i] * k;") {
    return "uint f = gl_WorkGroupID.x * cols; float s = 0;\n" + each +
           "s += float(x[f + i]) * float(x[f + i]);\nif (isnan(s) || isinf(s)) return;\n"
           "float k = inversesqrt(s / cols + eps);\n" +
           each + out + "\n";
}
const std::string plain_norm = glsl(x_block + y_block + push_block, norm_body());
const std::vector<std::string> as_norm{"--as", "rms_norm"};

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
    std::filesystem::remove(file);
    check({{"--op", "pack", "--compile-only", "--json", file}, 0, "kernel"});
    CHECK(json::parse(text_of(file)).contains("executables"));
}

TEST_CASE("flags of validate that mean nothing beside another are refused") {
    const std::string shader = examples + "rms_norm.comp";
    const Run runs[] = {
        {{"--compile-only", "--html", "x.html"}, 2, "expected --compile-only without --html"},
        {{"--compile-only", "--soak", "1"}, 2, "without --soak"},
        {{"--compile-only", "--seed", "1"}, 2, "without --seed"},
        {{"--shader", shader, "--as", "rms_norm", "--compile-only"}, 2, "without --compile-only"},
        {{"--shader", shader, "--as", "rms_norm", "--op", "norm"}, 2, "without --op"},
        {{"--shader", shader, "--as", "rms_norm", "--full"}, 2, "without --full"},
        {{"--shader", shader, "--as", "rms_norm", "--soak", "1"}, 2, "without --soak"},
        {{"--shader", shader, "--as", "rms_norm", "-m", "x"}, 2, "without --model"},
        {{"-m", "x", "--full"}, 2, "without --full"},
        {{"-m", "x", "--soak", "1"}, 2, "without --soak"},
        {{"-m", "x", "--seed", "2"}, 2, "without --seed"},
        {{"-m", "x", "--op", "norm"}, 2, "without --op"},
        {{"--ids", "1,2"}, 2, "expected -m beside --ids"},
        {{"-p", "text"}, 2, "expected -m beside --prompt"},
        {{"-m", "x", "--ids", "1", "-p", "text"}, 2, "expected --ids without --prompt"},
    };
    for (const Run& run : runs) check(run);
}

TEST_CASE("several processes share the cases of validate") {
    const auto cases = [](const char* part, const char* op = "norm") {
        const Outcome outcome = run_scoria({"validate", "--op", op, "--part", part, "--json"});
        return json::parse(outcome.out)["runs"][0]["results"].size();
    };
    const size_t all = cases("1/1"), first = cases("1/3");
    CHECK(first >= all / 3);
    CHECK(first + cases("2/3") + cases("3/3") == all);
    for (const char* op : {"attention", "linear", "scan"}) CHECK(cases("2/40", op) > 0);
    for (const char* part : {"0/1", "3/2", "1", "1/", "a/b", "1/2/3"})
        check({{"--part", part}, 2, "expected --part K/N"});
    check({{"--part", "1/2", "--compile-only"}, 2, "expected --part of our kernels' cases"});
    const json report = json::parse(run_scoria({"validate", "--op", "pack", "--part", "1/2", "--json"}).out);
    CHECK(report.value("op", "") == "pack");
    CHECK(report.value("part", "") == "1/2");
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
        {{"--shader", examples + "linear_q4_0.comp", "--as", "linear"}, 0, "7 cases, 0 failed"},
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

TEST_CASE("SPIR-V without a compute shader's main is refused") {
    const ScratchFolder folder;
    const std::string vertex = folder.path("a.vert"), words = folder.path("a.spv");
    std::ofstream(vertex) << "#version 460\nvoid main() { gl_Position = vec4(0); }\n";
    const std::vector<std::string> compilations[] = {
        {"-e", "foo", "--source-entrypoint", "main", examples + "rms_norm.comp"}, {vertex}};
    for (std::vector<std::string> command : compilations) {
        command.insert(command.begin(), {"glslangValidator", "-V", "--quiet", "-o", words});
        REQUIRE(scoria::run_program(command) == 0);
        check({{"--shader", words, "--as", "rms_norm"},
               1,
               "expected one entry point, a compute shader's 'main'"});
    }
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
    write_npy(npy("x"), "2, 5)", x);
    write_npy(npy("flat"), "10,)", x);
    write_npy(npy("weight"), "5,)", weight);
    write_npy(npy("out"), "2, 5)", out);
    out[7] += 0.01f;
    write_npy(npy("wrong"), "2, 5)", out);
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

TEST_CASE("a manifest that cannot be meant is refused") {
    const ScratchFolder folder;
    const struct {
        std::string manifest;
        int code;
        const char* says;
    } rows[] = {
        {R"({"cases": [{"rows": 2.5, "cols": 8}]})", 2, "[manifest] rows: expected a whole number"},
        {R"({"cases": [{"rows": 3, "cols": -8}]})", 2, "got -8"},
        {R"({"cases": [{"rows": 0}]})", 2, "got 0"},
        {R"({"cases": [{"rows": 1e300, "cols": 1}]})", 2, "got 1e+300"},
        {R"({"cases": [{"rows": 1e6, "cols": 1e6}]})", 2, "got 1e+12"},
        {R"({"cases": [{"rows": 2, "cloumns": 8}]})", 2, "got 'cloumns'"},
        {R"({"cases": []})", 1, "cases: expected a list"},
        {R"({"cases": [{"rows": "7"}]})", 1, "expected an object of numbers"},
        {R"({"values": {"epsylon": 1}})", 2, "got 'epsylon'"},
        {R"({"values": {"local_size": 1}})", 2, "got 'local_size'"},
        {R"({"push": {"ne0": "cols"}})", 2, "expected byte offsets, or members of {cols, eps}, got 'ne0'"},
        {R"({"push": {"8": "cols"}})", 2, "got '8'"},
        {R"({"types": {"weigth": "q4_0"}})", 2, "expected tensors of {x, weight, out}, got 'weigth'"},
        {R"({"types": {"x": "q4"}})", 1, "types: expected one of {f32, f16, bf16, q4_0,"},
        {R"({"types": {"x": 4}})", 1, "expected an object of types"},
        {R"({"types": {"out": "q4_0"}})", 2, "expected an output of f32 or f16, got Q4_0"},
        {R"({"types": {"x": "q4_0"}, "cases": [{"cols": 45}]})", 2, "[x] expected rows of a multiple of 32"},
        {R"({"types": {"x": "q4_0"}, "values": {"cols": 45}})", 2, "for Q4_0, got 45"},
        {R"({"push": {"cols": 1.5}})", 2, "expected a whole number of 32 bits, got 1.5"},
        {R"({"constants": {"0": 1}})", 2, "constants: expected ids"},
        {R"({"groups": "rows"})", 1, "groups: expected a list"},
        {R"({"bindings": {"gamma": 0}})", 2, "got gamma at 0"},
        {R"({"bindings": {"x": 0, "weight": 0}})", 2, "at a binding of its own"},
        {R"({"bindings": {"x": 0.5}})", 1, "expected an object of bindings"},
        {R"({"bindings": {"x": -1}})", 1, "expected an object of bindings"},
        {R"({"tolerance": 0})", 1, "expected a number above 0, got 0"},
        {R"({"tolerance": true})", 1, "expected a number above 0"},
        {R"({"tensors": {"x": "n"}, "output": {"y": "n"}})", 2, "of --as custom alone"},
        {R"({"tensors": {"x": "n"}, "output": {"x": "n"}})", 1, "of another name"},
        {R"({"schema": "scoria.validate/2"})", 1, "got a report"},
        {R"({"push": {"a": )" + std::string(100000, '['), 1, "64 levels"},
        {R"({"cases": [{"rows": 2, "cols": 3, "epsilon": 1e-3}], "values": {"cols": 5}})", 0, "1 cases"},
    };
    for (const auto& row : rows) check(Own{plain_norm, row.manifest, as_norm, row.code, row.says}, folder);
    for (const char* kept : {"own.json", "own.comp"})
        for (const char* flag : {"--json", "--html"})
            check(Own{plain_norm, "", {"--as", "rms_norm", flag, folder.path(kept)}, 2, "another name"},
                  folder);
}

TEST_CASE("an interface that would be misread is refused") {
    const ScratchFolder folder;
    const auto x_as = [](const std::string& declaration, const char* layout = "std430") {
        return glsl(block(0, declaration, layout) + y_block + push_block, "y[0] = 0;");
    };
    const auto pushed = [](const std::string& members) {
        return glsl(x_block + y_block + "layout(push_constant) uniform P {" + members + "};\n",
                    "y[0] = eps;");
    };
    const auto constant = [](const std::string& declaration) {
        return glsl("layout(constant_id = 3) const " + declaration + ";\n" + x_block + y_block + push_block,
                    norm_body());
    };
    const std::string too_much = glsl(x_block + y_block + push_block + "shared float big[20000];\n",
                                      "big[cols] = x[0]; barrier(); y[0] = big[cols / 2];");
    const Own rows[] = {
        {x_as("buffer X { float x[]; } xs[2]"), "", as_norm, 1, "got an array of them at 0"},
        {x_as("buffer X { float x[]; } xs[1]"), "", as_norm, 1, "got an array of them at 0"},
        {x_as("buffer X { uint count; float x[]; }"), "", as_norm, 2, "[binding 0]"},
        {x_as("buffer X { layout(offset = 16) float x[]; }"), "", as_norm, 2, "an offset of 16"},
        {x_as("buffer X { float x[]; }", "std140"), "", as_norm, 2, "4 bytes that lie 16 bytes apart"},
        {x_as("buffer X { vec3 x[]; }"), "", as_norm, 2, "12 bytes that lie 16 bytes apart"},
        {glsl("struct B { float a; };\n" + block(0, "buffer X { B x[]; }") + y_block + push_block,
              "y[0] = 0;"),
         "", as_norm, 2, "elements that are no numbers"},
        {x_as("buffer X { uint8_t x[]; }"), "", as_norm, 2, "integers of 1 bytes"},
        {x_as("buffer X { double x[]; }"), "", as_norm, 1, "a capability that Scoria does not know\n"},
        {pushed("uvec2 cols; float eps;"), "", as_norm, 2, "got 'cols' of 8 bytes"},
        {pushed("uint head; float eps;"), "", {"--as", "rope"}, 2, "got 'head'"},
        {pushed("uint cols; uint eps;"), "", as_norm, 2, "whole number of 32 bits, got 1e-05"},
        {constant("double epsilon = 1e-5lf"), "", as_norm, 2, "got 'epsilon' of 8 bytes"},
        {constant("uint LOCAL = 16"), "", as_norm, 0, "0 failed"},
        {too_much, "", as_norm, 1, "bytes of shared memory, got 80000"},
        {too_much, "", {"--as", "rms_norm", "--device", "all"}, 1, "left out: "},
    };
    for (const Own& own : rows) check(own, folder);
}

TEST_CASE("shaders that are wrong in one respect fail, and right ones pass") {
    const ScratchFolder folder;
    const auto norm = [](const std::string& out) {
        return glsl(block(0, "buffer X { float x[]; }") + y_block + push_block, norm_body() + out);
    };
    const std::string half_y = glsl(x_block + block(1, "buffer Y { float16_t y[]; }") + push_block,
                                    norm_body("y[f + i] = float16_t(x[f + i] * k);"));
    const auto epsilon = [](const std::string& eps) {
        return glsl(x_block + y_block + "layout(push_constant) uniform P { uint cols" +
                        (eps == "eps * 0.1" ? "; float eps" : "") + "; };\n",
                    "uint f = gl_WorkGroupID.x * cols; float s = 0;\n" + each +
                        "s += x[f + i] * x[f + i];\n" + each +
                        "y[f + i] = x[f + i] * inversesqrt(s / cols + " + eps + ");\n");
    };
    const auto softmax = [](const std::string& scale, const std::string& member) {
        return glsl(x_block + y_block + "layout(push_constant) uniform P { uint cols" + member + "; };\n",
                    "uint f = gl_WorkGroupID.x * cols; float m = x[f], s = 0;\n" + each +
                        "m = max(m, x[f + i]);\n" + each + "s += exp((x[f + i] - m)" + scale + ");\n" + each +
                        "y[f + i] = exp((x[f + i] - m)" + scale + ") / s;\n");
    };
    const auto rope = [](const std::string& position, const std::string& theta) {
        return glsl(
            x_block + block(1, "readonly buffer Positions { uint positions[]; }") +
                block(2, "buffer Out { float y[]; }") +
                "layout(push_constant) uniform P { uint tokens, heads, head_dim, first; float theta; };\n",
            "uint g = gl_WorkGroupID.x, h = head_dim / 2, p = g % h, b = g / h * head_dim;\n"
            "uint t = g / h / heads; float a = float(" +
                position + ") * pow(" + theta +
                ", -2.0 * float(p) / float(head_dim)), c = cos(a), s = sin(a);\n"
                "y[b + p] = x[b + p] * c - x[b + p + h] * s;\n"
                "y[b + p + h] = x[b + p + h] * c + x[b + p] * s;\n");
    };
    const auto maximum = [&](const std::string& start) {
        return glsl(x_block + y_block + "layout(push_constant) uniform P { uint cols; };\n",
                    "uint f = gl_WorkGroupID.x * cols; float m = " + start + ", s = 0;\n" + each +
                        "m = max(m, x[f + i]);\n" + each + "s += exp(x[f + i] - m);\n" + each +
                        "y[f + i] = exp(x[f + i] - m) / s;\n");
    };
    // A running maximum of -inf is no number to subtract.
    const std::string online = [&] {
        return glsl(x_block + y_block + "layout(push_constant) uniform P { uint cols; };\n",
                    "uint f = gl_WorkGroupID.x * cols; float m = -1.0 / 0.0, s = 0;\n" + each +
                        "{ float n = max(m, x[f + i]); s = s * exp(m - n) + exp(x[f + i] - n); m = n; }\n" +
                        each + "y[f + i] = exp(x[f + i] - m) / s;\n");
    }();
    const auto argmax = [](const std::string& start, const std::string& is_more) {
        return glsl(x_block + block(1, "buffer Out { uint y[]; }") +
                        "layout(push_constant) uniform P { uint cols; };\n",
                    "uint f = gl_WorkGroupID.x * cols, best = 0; float m = " + start + ";\n" + each +
                        "if (x[f + i] " + is_more +
                        " m) { m = x[f + i]; best = i; }\ny[gl_WorkGroupID.x] = best;\n");
    };
    const auto embed = [](const std::string& row) {
        return glsl(block(0, "readonly buffer Ids { uint ids[]; }") +
                        block(1, "readonly buffer Table { float table[]; }") +
                        block(2, "buffer D { float data_d[]; }") +
                        "layout(push_constant) uniform P { uint cols; };\n",
                    "uint t = gl_WorkGroupID.x;\n" + each + "data_d[t * cols + i] = table[" + row +
                        " * cols + i];\n");
    };
    const auto add = [](const std::string& sum) {
        return glsl(block(0, "readonly buffer A { float a[]; }") +
                        block(1, "readonly buffer B { float b[]; }") + block(2, "buffer D { float d[]; }") +
                        "layout(push_constant) uniform P { uint n; };\n",
                    "uint i = gl_WorkGroupID.x; if (i < n) d[i] = " + sum + ";\n");
    };
    // Right where a workgroup is one subgroup, of whatever width.
    std::string one_subgroup =
        glsl("#extension GL_KHR_shader_subgroup_arithmetic : require\n" + x_block + y_block + push_block,
             "uint f = gl_WorkGroupID.x * cols, l = gl_LocalInvocationID.x, n = gl_WorkGroupSize.x;\n"
             "float s = 0;\nfor (uint i = l; i < cols; i += n) s += x[f + i] * x[f + i];\n"
             "float k = inversesqrt(subgroupAdd(s) / cols + eps);\n"
             "for (uint i = l; i < cols; i += n) y[f + i] = x[f + i] * k;\n");
    one_subgroup.replace(one_subgroup.find("local_size_x = 1"), 16,
                         "local_size_x = 256, local_size_x_id = 0");
    const std::vector<std::string> as_softmax{"--as", "softmax"}, as_rope{"--as", "rope"},
        as_argmax{"--as", "argmax"}, as_embed{"--as", "embed"}, as_add{"--as", "add"},
        beyond{"--as", "embed", "--input", "ids=ids.npy", "--input", "table=table.npy"};
    write_npy(folder.path("ids.npy"), "2,)", std::vector<int>{1, 2});
    write_npy(folder.path("table.npy"), "2, 3)", std::vector<float>(6, 1.0f));
    const Own rows[] = {
        {norm(""), "", as_norm, 0, "0 failed"},
        {norm("x[f] = 0;"), "", as_norm, 1, "element 0 of x, an input of 576, was overwritten"},
        {norm("if (f == 0) y[gl_NumWorkGroups.x * cols + 9000] = 1;"), "", as_norm, 1, "element 9576 of out"},
        {half_y, "", as_norm, 0, "0 failed"},
        {epsilon("eps * 0.1"), "", as_norm, 1, "cols 37 epsilon 0.03 rows 7"},
        {epsilon("1e-5"), "", as_norm, 0, "0 failed"},
        {softmax(" / scale", "; float scale"), "", as_softmax, 1, "10 cases, 1 failed"},
        {maximum("-3e38"), "", as_softmax, 0, "0 failed"},
        {maximum("-1e4"), "", as_softmax, 1, "10 cases, 1 failed"},
        {online, "", as_softmax, 1, "masked): "},
        {argmax("-1.0 / 0.0", ">"), "", as_argmax, 0, "9 cases, 0 failed"},
        {argmax("-1.0 / 0.0", ">="), "", as_argmax, 1, "zeros): "},
        {argmax("-1e4", ">"), "", as_argmax, 1, "sunken): "},
        {embed("ids[t]"), "", as_embed, 0, "5 cases, 0 failed"},
        {embed("t"), "", as_embed, 1, "FAILED"},
        {embed("ids[t]"), "", beyond, 2, "expected rows of the table, from 0 to 1, got 2"},
        {embed("ids[t]"), R"({"types": {"ids": "q4_0"}})", as_embed, 2, "[ids] expected rows of the table"},
        {add("a[i] + b[i]"), "", as_add, 0, "7 cases, 0 failed"},
        {add("a[i] - b[i]"), "", as_add, 1, "7 failed"},
        {softmax("", ""), "", as_softmax, 0, "0 failed"},
        {one_subgroup, R"({"constants": {"0": "subgroup_size"}})", as_norm, 0, "0 failed"},
        {one_subgroup, "", as_norm, 1, "FAILED"},
        {rope("positions[t]", "theta"), "", as_rope, 0, "0 failed"},
        {rope("first + t", "theta"), "", as_rope, 1, "FAILED"},
        {rope("positions[t]", "10000.0"), "", as_rope, 1, "5 cases, 1 failed"},
    };
    for (const Own& own : rows) check(own, folder);
}

TEST_CASE("a tensor's own name comes before what others are called") {
    const ScratchFolder folder;
    const std::string letters =
        glsl(block(0, "readonly buffer A { float weight[]; }") +
                 block(1, "readonly buffer B { float x[]; }") + block(2, "buffer C { float y[]; }") +
                 "layout(push_constant) uniform P { uint tokens, rows, cols; };\n",
             "uint r = gl_WorkGroupID.x, t = gl_WorkGroupID.y; float s = 0;\n" + each +
                 "s += weight[r * cols + i] * x[t * cols + i];\ny[t * rows + r] = s;\n");
    check(Own{letters, "", {"--as", "linear"}, 0, "0 failed"}, folder);
}

TEST_CASE("sizes that attention cannot have are refused, and its scale is that of its heads") {
    const ScratchFolder folder;
    const std::string attention = glsl(
        block(0, "readonly buffer Q { float q[]; }") + block(1, "readonly buffer K { float k[]; }") +
            block(2, "readonly buffer V { float v[]; }") + block(3, "buffer Out { float y[]; }") +
            "layout(push_constant) uniform P { uint tokens, keys, heads, kv_heads, head_dim; };\n"
            "float score(uint a, uint b) { float s = 0; for (uint i = 0; i < head_dim; ++i) s += q[a + i] * "
            "k[b + i];"
            " return s * inversesqrt(float(head_dim)); }\n",
        "uint h = gl_WorkGroupID.x, t = gl_WorkGroupID.y, a = (t * heads + h) * head_dim;\n"
        "float m = -1e30, s = 0;\n"
        "#define KEYS for (uint j = 0, b = h * kv_heads / heads * head_dim; j <= keys - tokens + t; ++j, b "
        "+= "
        "kv_heads * head_dim)\n"
        "KEYS m = max(m, score(a, b));\nKEYS s += exp(score(a, b) - m);\n"
        "for (uint i = 0; i < head_dim; ++i) { float o = 0; KEYS o += exp(score(a, b) - m) / s * v[b + i]; "
        "y[a + i] = o; }\n");
    std::string shallow = attention;
    shallow.replace(shallow.find("-1e30"), 5, "-100.");
    const std::vector<std::string> as{"--as", "attention"};
    const std::vector<float> one(64, 1.0f), two{3, -1, 2, 1, 3, 1};
    write_npy(folder.path("q.npy"), "1, 1, 2)", std::vector<float>{1, 2});
    write_npy(folder.path("k.npy"), "3, 1, 2)", two);
    write_npy(folder.path("v.npy"), "3, 1, 2)", two);
    const Own rows[] = {
        {attention, "", as, 0, "0 failed"},
        {shallow, "", as, 1, "6 cases, 1 failed"},
        {attention, R"({"cases": [{"tokens": 2, "keys": 9, "heads": 2, "kv_heads": 1, "head_dim": 64}]})", as,
         0, "0 failed"},
        {attention, R"({"cases": [{"heads": 3, "kv_heads": 2}]})", as, 2, "a multiple of kv_heads"},
        {attention, R"({"cases": [{"tokens": 20, "keys": 9}]})", as, 2, "as many keys as tokens"},
        {attention,
         "",
         {"--as", "attention", "--input", "q=q.npy", "--input", "k=k.npy", "--input", "v=v.npy"},
         0,
         "0 failed"},
    };
    for (const Own& own : rows) check(own, folder);
}

TEST_CASE("a buffer holds what the manifest says, rows of blocks or packed halves") {
    const ScratchFolder folder;
    const auto linear = [](const std::string& type, const std::string& weight) {
        return glsl("struct Q8 { float16_t d; int8_t q[32]; };\n" +
                        block(0, "readonly buffer Weight { " + type + " w[]; }") +
                        block(1, "readonly buffer X { float x[]; }") + block(2, "buffer Out { float y[]; }") +
                        "layout(push_constant) uniform P { uint tokens, rows, cols; };\n",
                    "uint r = gl_WorkGroupID.x, t = gl_WorkGroupID.y; float s = 0;\n"
                    "for (uint i = 0; i < cols; ++i) { uint at = r * cols + i; s += (" +
                        weight + ") * x[t * cols + i]; }\ny[t * rows + r] = s;\n");
    };
    const auto q8_0 = [&](const char* scale) {
        return linear("Q8", scoria::cat(scale, " * float(w[at / 32].q[at % 32])"));
    };
    write_npy(folder.path("x.npy"), "1, 32)", std::vector<float>(32, 1.0f));
    std::vector<float> codes(32, 1.0f);
    codes[0] = 127;
    write_npy(folder.path("w.npy"), "1, 32)", codes);
    write_npy(folder.path("out.npy"), "1, 1)", std::vector<float>{127 + 31});
    const std::vector<std::string> as{"--as", "linear"},
        own{"--as", "linear", "--input", "x=x.npy", "--input", "weight=w.npy", "--reference", "out.npy"};
    const std::string right = q8_0("float(w[at / 32].d)"), wrong = q8_0("abs(float(w[at / 32].d))"),
                      halves = linear("uint", "unpackHalf2x16(w[at / 2])[at % 2]"),
                      bfloats = linear("uint16_t", "uintBitsToFloat(uint(w[at]) << 16)");
    // Of an odd number the last is alone in its word.
    const std::string packed =
        glsl(block(0, "buffer A { uint a[]; }") + block(1, "readonly buffer B { uint b[]; }") +
                 "layout(push_constant) uniform P { uint n; };\n",
             "uint i = gl_WorkGroupID.x; if (2 * i < n) a[i] = packHalf2x16(unpackHalf2x16(a[i]) + "
             "unpackHalf2x16(b[i]));\n");
    const Own rows[] = {
        {packed, R"({"types": {"a": "f16", "b": "f16"}})", {"--as", "add"}, 0, "7 cases, 0 failed"},
        {right, R"({"types": {"weight": "q8_0"}})", as, 0, "7 cases, 0 failed"},
        {wrong, R"({"types": {"weight": "q8_0"}})", as, 1, "FAILED"},
        {right, R"({"types": {"weight": "q8_0"}})", own, 0, "1 cases, 0 failed"},
        {right, R"({"types": {"weight": "iq1_s"}})", own, 2, "expected rows of a multiple of 256"},
        {right, R"({"types": {"weight": "mxfp4"}})", own, 2,
         "values that Scoria can write as MXFP4, got 127"},
        {right, "", as, 2, "or \"types\" in a manifest, got elements that are no numbers"},
        {halves, R"({"types": {"weight": "f16"}})", as, 0, "7 cases, 0 failed"},
        {halves, "", as, 1, "FAILED"},
        {bfloats, R"({"types": {"weight": "bf16"}})", as, 0, "7 cases, 0 failed"},
        {bfloats, "", as, 2, "or \"types\" in a manifest, got integers of 2 bytes"},
    };
    for (const Own& one : rows) check(one, folder);
}

TEST_CASE("SPIR-V without names goes by bindings and byte offsets") {
    const ScratchFolder folder;
    const std::string words = folder.path("a.spv"), manifest = folder.path("a.json");
    REQUIRE(scoria::run_program({"glslangValidator", "-V", "--quiet", "-g0", "--target-env", "vulkan1.2",
                                 examples + "rms_norm.comp", "-o", words}) == 0);
    check({{"--shader", words, "--as", "rms_norm"}, 2, "got no name"});
    std::ofstream(manifest)
        << R"({"bindings": {"x": 0, "weight": 1, "out": 2}, "push": {"0": "cols", "4": "epsilon"}})";
    check({{"--shader", words, "--as", "rms_norm"}, 0, "0 failed"});
}

TEST_CASE("HLSL is compiled, too") {
    const ScratchFolder folder;
    const std::string shader = folder.path("a.hlsl");
    std::ofstream(shader) << "[[vk::binding(0)]] StructuredBuffer<float> x;\n"
                             "[[vk::binding(1)]] RWStructuredBuffer<float> y;\n"
                             "struct Push { uint rows, cols; };\n"
                             "[[vk::push_constant]] ConstantBuffer<Push> push;\n"
                             "[numthreads(32, 1, 1)] void main(uint3 id : SV_DispatchThreadID) {\n"
                             "    if (id.x < push.rows * push.cols) y[id.x] = x[id.x] + 0;\n}\n";
    std::ofstream(folder.path("a.json")) << R"({"tensors": {"x": "rows cols"}, "output": {"y": "rows cols"},)"
                                         << R"( "groups": ["rows*cols/local_size"]})";
    write_npy(folder.path("x.npy"), "3, 15)", std::vector<float>(45, 2.0f));
    check({{"--shader", shader, "--as", "custom", "--input", "x=" + folder.path("x.npy"), "--reference",
            folder.path("x.npy")},
           0,
           "0 failed"});
}

TEST_CASE("what the first case that fails computed with is kept for who asks") {
    const ScratchFolder folder;
    const std::string dump = folder.path("dump"), shader = examples + "rms_norm_tail.comp";
    check({{"--shader", examples + "rms_norm.comp", "--as", "rms_norm", "--dump", dump}, 0, "0 failed"});
    CHECK(std::filesystem::is_empty(dump));
    check({{"--shader", shader, "--as", "rms_norm", "--dump", dump}, 1, "never written"});
    CHECK(text_of(dump + "/out.actual.npy").substr(0, 80).find("'shape': (4,1,)") != std::string::npos);
    std::vector<std::string> again{"--shader",    shader,
                                   "--as",        "rms_norm",
                                   "--input",     "x=" + dump + "/x.npy",
                                   "--input",     "weight=" + dump + "/weight.npy",
                                   "--reference", dump + "/out.expected.npy"};
    check({again, 1, "cols 1 epsilon 1e-05 rows 4 own data"});
    again[1] = examples + "rms_norm.comp";
    check({again, 0, "1 cases, 0 failed"});
    check(
        {{"--shader", shader, "--as", "rms_norm", "--dump", dump + "/x.npy"}, 1, "x.npy] cannot be created"});
    again.insert(again.end(), {"--dump", dump});
    check({again, 2, "expected another folder"});
}

TEST_CASE("somebody's own data are taken as they are") {
    const ScratchFolder folder;
    constexpr float infinite = std::numeric_limits<float>::infinity(),
                    nan = std::numeric_limits<float>::quiet_NaN();
    const auto npy = [&](const char* name) { return folder.path(std::string(name) + ".npy"); };
    write_npy(npy("x"), "2, 3)", std::vector<float>{1, 2, 3, 4, 5, 6});
    write_npy(npy("row"), "3,)", std::vector<float>{1, 1, 2});
    write_npy(npy("sum"), "2, 3)", std::vector<float>{2, 3, 5, 5, 6, 8});
    write_npy(npy("nan"), "2, 3)", std::vector<float>{1, 2, 3, 4, nan, 6});
    write_npy(npy("beyond"), "2, 3)", std::vector<float>{1, -infinite, nan, 70000, 5, 65504});
    write_npy(npy("halves"), "2, 3)", std::vector<float>{1, -infinite, nan, infinite, 5, 65504});
    // Rounded once: by way of a float the first would be 1, a tie.
    write_npy(npy("doubles"), "2,)", std::vector<double>{1 + 0x1p-11 + 0x1p-40, 1});
    write_npy(npy("once"), "2,)", std::vector<float>{1 + 0x1p-10f, 1});
    write_npy(npy("ints"), "2, 3)", std::vector<int>{16777217, 3, 100001, 2147483647, -5, 7});
    write_npy(npy("near"), "2, 3)", std::vector<int>{16777216, 3, 100001, 2147483647, -5, 7});
    write_npy(npy("heads"), "2, 1, 4)", std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8});
    write_npy(npy("far"), "2,)", std::vector<int>{17, 3});
    const auto copied = [&](const char* x, const char* y, const char* manifest, const char* from,
                            const char* to, int code, const char* says) {
        const std::string source = glsl(block(0, std::string("readonly buffer X { ") + x + " x[]; }") +
                                            block(1, std::string("buffer Y { ") + y + " y[]; }"),
                                        std::string("uint i = gl_WorkGroupID.x; y[i] = ") + y + "(x[i]);\n");
        check(Own{source,
                  manifest,
                  {"--as", "custom", "--input", std::string("x=") + from, "--reference", to},
                  code,
                  says},
              folder);
    };
    const char* matrix = R"({"tensors": {"x": "n m"}, "output": {"y": "n m"}, "groups": ["n*m"]})";
    copied("float", "float", matrix, "x.npy", "x.npy", 0, "0 failed");
    copied("float16_t", "float", matrix, "beyond.npy", "halves.npy", 0, "0 failed");
    copied("float16_t", "float", R"({"tensors": {"x": "n"}, "output": {"y": "n"}, "groups": ["n"]})",
           "doubles.npy", "once.npy", 0, "0 failed");
    copied("int", "int", matrix, "ints.npy", "ints.npy", 0, "0 failed");
    copied("int", "int", matrix, "near.npy", "ints.npy", 1, "expected 16777217, got 16777216");
    copied("int", "int", matrix, "nan.npy", "ints.npy", 2, "expected whole numbers");
    copied("int", "int", matrix, "near.npy", "nan.npy", 2, "[y] expected whole numbers");
    copied("float", "float", R"({"tensors": {"x": "3 m"}, "output": {"y": "3 m"}, "groups": [1]})", "x.npy",
           "x.npy", 2, "expected the shape [3, m = 3], got [2, 3]");
    copied("float", "float", matrix, "x.npy", "row.npy", 2, "expected the shape");

    const std::string in_place =
        glsl(block(0, "buffer X { float x[]; }") + block(1, "readonly buffer A { float a[]; }") +
                 "layout(push_constant) uniform P { uint m; };\n",
             "uint i = gl_WorkGroupID.x; x[i] += a[i % m];\n");
    const std::string positions = glsl(
        x_block + block(1, "readonly buffer P { uint positions[]; }") + block(2, "buffer Out { float y[]; }"),
        "uint t = gl_WorkGroupID.x / 2, p = gl_WorkGroupID.x % 2, b = 4 * t + p;\n"
        "float a = float(positions[t]) * pow(10000.0, -0.5 * float(p)), c = cos(a), s = sin(a);\n"
        "y[b] = x[b] * c - x[b + 2] * s; y[b + 2] = x[b + 2] * c + x[b] * s;\n");
    const std::string half_norm = glsl(x_block + block(1, "buffer Y { float16_t y[]; }") + push_block,
                                       norm_body("y[f + i] = float16_t(x[f + i] * k);"));
    const std::vector<std::string> nan_x{"--as", "rms_norm", "--input", "x=nan.npy"};
    const Own rows[] = {
        {in_place,
         R"({"tensors": {"x": "n m", "a": "m"}, "output": {"out": "n m"}, "groups": ["n*m"]})",
         {"--as", "custom", "--input", "x=x.npy", "--input", "a=row.npy", "--reference", "sum.npy"},
         0,
         "0 failed"},
        {positions,
         "",
         {"--as", "rope", "--input", "x=heads.npy", "--input", "positions=far.npy"},
         0,
         "0 failed"},
        {plain_norm, "", nan_x, 1, "never written"},
        {half_norm, "", nan_x, 1, "never written"},
        {plain_norm,
         "",
         {"--as", "rms_norm", "--input", "x=x.npy", "--input", "x=x.npy"},
         2,
         "got 'x' again"},
        {plain_norm,
         "",
         {"--as", "rms_norm", "--input", "x=x.npy", "--input", "weight=row.npy"},
         2,
         "that the shader takes, got 'weight'"},
    };
    for (const Own& own : rows) check(own, folder);
}

TEST_CASE("arrays that NumPy would not write are refused") {
    const ScratchFolder folder;
    const struct {
        const char* shape;
        int version;
        size_t length;
        int code;
        const char* says;
    } rows[] = {
        {"2, 3)", 1, 118, 0, "0 failed"},
        {"2, 3)", 2, 118, 0, "0 failed"},
        {"2, 3)", 3, 118, 0, "0 failed"},
        {"2, 3)", 2, 65000, 0, "0 failed"},
        {"2, 3)", 0, 118, 1, "expected version 1 to 3 of the format, got 0"},
        {"2, 3)", 9, 118, 1, "got 9"},
        {"0, 3)", 1, 118, 1, "got (0, 3)"},
        {"-2, -3)", 1, 118, 1, "got (-2, -3)"},
        {"2, 3", 1, 118, 1, "got none that is whole"},
        {"99999999999, 99999999999)", 1, 118, 1, "got (99999999999, 99999999999)"},
    };
    for (const auto& row : rows) {
        write_npy(folder.path("x.npy"), row.shape, std::vector<float>{1, 2, 3, 4, 5, 6}, row.version,
                  row.length);
        check(Own{plain_norm, "", {"--as", "rms_norm", "--input", "x=x.npy"}, row.code, row.says}, folder);
    }
}
