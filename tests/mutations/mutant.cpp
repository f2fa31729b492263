// The quick tier of validation with mutated shaders: every <variant>.spv of a folder takes the place of the
// build's module of that name.
//   mutant FOLDER OP...     exit code 0: all cases passed; 1: caught, the first failure on stdout; 2: misuse
#include "file.h"
#include "reflect.h"
#include "shaders.h"
#include "validate/check.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <filesystem>
#include <iostream>
#include <set>

using namespace scoria;

namespace {

struct Caught {
    std::string how;
};

struct Replacement {
    std::string name;
    vk::Reflection reflection;
    vk::ShaderModule module;
};

/// Kept until the process ends: pipelines refer to them.
std::deque<Replacement>& replacements() {
    static std::deque<Replacement> all;
    return all;
}

void replace(const std::filesystem::path& path) {
    const std::string bytes = read_file(path.string());
    std::vector<uint32_t> words(bytes.size() / 4);
    std::memcpy(words.data(), bytes.data(), words.size() * 4);
    Replacement& made =
        replacements().emplace_back(Replacement{path.stem().string(), vk::reflect(std::move(words))});
    made.module = made.reflection.module(made.name);
    for (uint16_t i = 0; i < uint16_t(Shader::count); ++i)
        if (shader_name(Shader(i)) == made.name) return replace_shader_module(Shader(i), made.module);
    fail(Status::bad_argument, made.name, "expected the name of a shader variant");
}

void validate_ops(const std::set<std::string>& ops) {
    vk::DeviceOptions options;
    options.poison = true;
    vk::Device device(options);
    vk::Pipelines pipelines(device);
    validate::CheckContext context(device, pipelines, validate::Tier::quick, 1);
    context.on_result = [](const validate::CheckResult& result) {
        if (!result.passed)
            throw Caught{cat(result.op, " ", result.variant, ", ", result.shape, ": ", result.detail)};
    };
    for (const validate::OpCheck& check : validate::op_checks())
        if (ops.contains(check.op)) check.run(context);
    std::cout << context.results().size() << " cases passed\n";
}

}  // namespace

int main(int argc, char** argv) {
    try {
        if (argc < 3) fail(Status::bad_argument, "mutant", "expected FOLDER OP...");
        for (const auto& entry : std::filesystem::directory_iterator(argv[1]))
            if (entry.path().extension() == ".spv") replace(entry.path());
        if (replacements().empty()) fail(Status::bad_argument, argv[1], "expected .spv files, got none");
    } catch (const std::exception& error) {
        std::cerr << error.what() << "\n";
        return 2;
    }
    try {
        validate_ops({argv + 2, argv + argc});
        return 0;
    } catch (const Caught& caught) {
        std::cout << caught.how << "\n";
    } catch (const std::exception& error) {  // a driver that refuses or hangs is a failure, too
        std::cout << error.what() << "\n";
    }
    return 1;
}
