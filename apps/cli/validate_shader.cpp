// See validate_shader.h.
#include "validate_shader.h"

#include "io.h"

#include "file.h"
#include "process.h"
#include "validate/npy.h"
#include "validate/own_shader.h"

#include <CLI/CLI.hpp>

#include <cstring>
#include <filesystem>

namespace scoria::cli {
namespace {

/// SPIR-V of a file of GLSL or HLSL by the first compiler on PATH.
std::string compiled(const std::string& path) {
    const ScratchFile out;
    const bool hlsl = path.ends_with(".hlsl");
    const std::string folder = cat("-I", std::filesystem::absolute(path_of(path)).parent_path().string());
    std::vector<std::vector<std::string>> compilers;
    for (const char* glslang : {"glslang", "glslangValidator"}) {
        // Its HLSL becomes what SPIR-V 1.4, Vulkan 1.2's, has no more.
        compilers.push_back({glslang, "-V", "--target-env", hlsl ? "vulkan1.1" : "vulkan1.2", "--quiet", "-S",
                             "comp", folder, "-o", out.path(), path});
        if (hlsl) compilers.back().insert(compilers.back().end(), {"-D", "-e", "main"});
    }
    compilers.push_back(
        {"glslc", "--target-env=vulkan1.2", "-fshader-stage=compute", folder, "-o", out.path(), path});
    for (const std::vector<std::string>& command : compilers) {
        const std::optional<int> code = run_program(command);
        if (!code) continue;
        if (*code != 0)
            fail(Status::failed, path, "expected ", command[0], " to compile it, got exit code ", *code);
        return read_file(out.path());
    }
    fail(Status::failed, path,
         "expected glslang, glslangValidator or glslc on PATH to compile it, got none; an .spv needs no "
         "compiler");
}

/// SPIR-V that is none of a compiler's, or damaged, can end SPIRV-Cross and drivers.
void check_spirv(const std::string& path) {
    const std::optional<int> code =
        run_program({"spirv-val", "--target-env", "vulkan1.3", "--scalar-block-layout", path});
    if (!code)
        note("scoria: no spirv-val on PATH: ", path, " is taken as it is");
    else if (*code != 0)
        fail(Status::bad_file, path, "expected valid SPIR-V, got exit code ", *code,
             " of spirv-val (--no-spirv-val: where that is "
             "older than the shader's extensions)");
}

std::vector<uint32_t> shader_words(const ShaderOptions& options) {
    const std::string& path = options.shader;
    read_file(path);  // says what is wrong with the file before a compiler does
    const bool is_binary = path.ends_with(".spv");
    if (is_binary && !options.unchecked) check_spirv(path);
    const std::string bytes = is_binary ? read_file(path) : compiled(path);
    if (bytes.size() % 4 != 0)
        fail(Status::bad_file, path, "expected SPIR-V of whole words, got ", bytes.size(), " bytes");
    std::vector<uint32_t> words(bytes.size() / 4);
    std::memcpy(words.data(), bytes.data(), bytes.size());
    return words;
}

/// `--manifest`, else the .json beside the shader.
std::string manifest_path(const ShaderOptions& options) {
    return options.manifest.empty() ? path_of(options.shader).replace_extension(".json").string()
                                    : options.manifest;
}

validate::ShaderManifest manifest_for(const ShaderOptions& options) {
    const std::string path = manifest_path(options);
    if (options.manifest.empty() && !std::filesystem::exists(path_of(path))) return {};
    return validate::parse_manifest(read_file(path, 1 << 20), path);
}

/// NAME=FILE.npy
std::pair<std::string, std::string> split_input(const std::string& input) {
    const size_t equals = input.find('=');
    if (equals == std::string::npos || equals == 0)
        fail(Status::bad_argument, "--input", "expected NAME=FILE.npy, got '", input, "'");
    return {input.substr(0, equals), input.substr(equals + 1)};
}

validate::OwnData::Array read_array(const std::string& path) {
    validate::NpyArray array = validate::read_npy(path);
    return {std::move(array.shape), std::move(array.values)};
}

validate::OwnData own_data(const ShaderOptions& options) {
    validate::OwnData data;
    for (const std::string& input : options.inputs) {
        const auto [name, path] = split_input(input);
        if (!data.inputs.try_emplace(name, read_array(path)).second)
            fail(Status::bad_argument, "--input", "expected each input once, got '", name, "' again");
    }
    if (!options.reference.empty()) data.expected = read_array(options.reference);
    data.dump = options.dump;
    if (!options.dump.empty()) make_folders(options.dump);
    return data;
}

}  // namespace

void add_shader_flags(CLI::App& app, ShaderOptions& options) {
    std::string ops;
    for (const validate::ShaderOp& op : validate::shader_ops()) ops += op.name + ", ";
    CLI::Option* shader = app.add_option("--shader", options.shader,
                                         "a compute shader of yours, GLSL, .hlsl or .spv, instead of ours");
    CLI::Option* as = app.add_option("--as", options.as, "what it computes: " + ops + "custom");
    shader->needs(as);
    as->needs(shader);
    app.add_option("--manifest", options.manifest,
                   "JSON that says what names do not (default: the .json beside the shader)")
        ->needs(shader);
    app.add_option("--input", options.inputs, "NAME=FILE.npy: your own input; may be repeated")
        ->needs(shader);
    app.add_option("--reference", options.reference, "FILE.npy: what the output ought to be")->needs(shader);
    app.add_option("--dump", options.dump,
                   "a folder for inputs, expected and actual values of the first case that fails, as .npy")
        ->needs(shader);
    app.add_flag("--no-spirv-val", options.unchecked, "take an .spv as it is, however a driver may take it")
        ->needs(shader);
}

void check_report_path(const ShaderOptions& options, const std::string& report) {
    std::vector<std::string> kept{manifest_path(options), options.shader, options.reference};
    for (const std::string& input : options.inputs) kept.push_back(split_input(input).second);
    const auto whole = [](const std::string& path) {
        std::error_code unknown;
        return std::filesystem::weakly_canonical(std::filesystem::absolute(path_of(path), unknown), unknown);
    };
    for (const std::string& path : kept)
        if (!report.empty() && report != "-" && !path.empty() && whole(path) == whole(report))
            fail(Status::bad_argument, report,
                 "expected another name for the report: this one is the shader's, its manifest's or its "
                 "data's");
    for (const std::string& path : kept)
        if (!options.dump.empty() && path.ends_with(".npy") &&
            whole(path).parent_path() == whole(options.dump))
            fail(Status::bad_argument, "--dump", "expected another folder than that of ", path);
}

validate::Run validate_shader(const ShaderOptions& options, uint64_t seed, bool keep_maps,
                              const vk::DeviceOptions& device_options) {
    const validate::ShaderManifest manifest = manifest_for(options);
    const validate::ShaderOp op = validate::find_shader_op(options.as, manifest);
    const validate::OwnData data = own_data(options);
    const vk::Reflection shader = vk::reflect(shader_words(options));
    for (const vk::Access access : shader.bindings)
        if (access == vk::Access::uniform || access == vk::Access::texels)
            fail(Status::bad_file, "shader", "expected storage buffers only, got a ",
                 access == vk::Access::uniform ? "uniform" : "texel", " buffer");
    const std::string name = path_of(options.shader).filename().string();
    vk::Device device(device_options);
    vk::Pipelines pipelines(device);
    validate::CheckContext context(device, pipelines, validate::Tier::quick, seed);
    context.keep_maps = keep_maps;
    validate::check_shader(context, name, shader, op, manifest, data);
    validate::Run run{validate::device_facts(device), std::move(context.results())};
    run.facts["shader"] = options.shader;
    run.facts["as"] = op.name;
    run.facts["tolerance"] = manifest.tolerance;
    return run;
}

}  // namespace scoria::cli
