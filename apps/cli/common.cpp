// Common flags, and the loading that all verbs share.
#include "common.h"

#include "console.h"
#include "file.h"
#include "io.h"
#include "lora.h"
#include "models.h"
#include "paths.h"
#include "validate/report.h"
#include "values.h"

#include <CLI/CLI.hpp>

namespace scoria::cli {
namespace {

constexpr std::pair<const char*, Precision> precisions[] = {
    {"strict", Precision::strict}, {"balanced", Precision::balanced}, {"fast", Precision::fast}};

constexpr std::pair<const char*, SelfTest> self_tests[] = {
    {"auto", SelfTest::automatic}, {"always", SelfTest::always}, {"never", SelfTest::never}};

/// A path may hold colons: the last one counts if a number follows it and no such file exists.
AdapterChoice parse_adapter(const std::string& text) {
    AdapterChoice choice{path_of(text), 1};
    const size_t colon = text.rfind(':');
    std::error_code ignored;
    if (colon == std::string::npos || std::filesystem::exists(choice.path, ignored)) return choice;
    if (const std::optional<double> scale = decimal_number(std::string_view(text).substr(colon + 1))) {
        choice.scale = *scale;
        choice.path = path_of(text.substr(0, colon));
    }
    return choice;
}

}  // namespace

void add_common_flags(CLI::App& app, Common& common) {
    const char* group = "Common options";
    const auto add = [&](const char* name, auto& value, const char* help) {
        return app.add_option(name, value, help)->group(group);
    };
    add("-m,--model", common.model, "GGUF file or name of a pulled model (default: smollm2)");
    add("--lora", common.adapters,
        "PATH[:SCALE]: adds a LoRA adapter (PEFT folder or GGUF) at run time; may be repeated")
        ->expected(1)
        ->take_all();
    add("--device", common.device,
        "index from `scoria devices`, or part of a name (default: the best); several indices, such as 0,1, "
        "share "
        "the model by layers");
    add("--caps", common.caps, "JSON profile that narrows what the device can do")->check(CLI::ExistingFile);
    add("--variant", common.variants,
        "OP=NAME: runs this variant of an op wherever it is valid (a wrong name lists all); may be repeated")
        ->expected(1)
        ->take_all();
    add("--self-test", common.self_test,
        "when kernels are proven on this device: auto (at first use on a GPU), always (anew, on CPU drivers "
        "too) "
        "or never; default: auto")
        ->check(CLI::IsMember({"auto", "always", "never"}));
    add("--precision", common.precision,
        "the least exact arithmetic allowed: strict (f32), balanced (f16) or fast (also 8-bit activations, "
        "where the device has integer dot products); default: balanced")
        ->check(CLI::IsMember({"strict", "balanced", "fast"}));
    add("--kv", common.kv,
        "type of the key/value cache: f32, f16, bf16, q8_0 or q4_0 (default: f32 if strict, else f16)")
        ->check(CLI::IsMember(std::vector<std::string>(std::begin(kv_type_names), std::end(kv_type_names))));
    add("--ctx", common.context,
        "positions of context (default: the least of the model's, what fits, and 8192)");
    add("--gpu-memory", common.gpu_memory,
        "device memory to use, such as 6G (default: what the driver offers); weights beyond it stay in host "
        "memory; of several devices one each, such as 6G,2G")
        ->expected(1)
        ->take_all()
        ->delimiter(',')
        ->transform(CLI::AsSizeValue(false));
    const auto flag = [&](const char* name, bool& value, const char* help) {
        app.add_flag(name, value, help)->group(group);
    };
    flag("--deterministic", common.deterministic,
         "equal bits however tokens are batched; prompts are slower");
    flag("--no-tune", common.no_tune, "default variants, whatever `scoria tune` found");
    flag("--no-fusion", common.no_fusion, "run every op of the graph by itself");
    flag("--validation", common.validation, "enable the Khronos validation layer; its errors are failures");
    flag("--mmap", common.mmap,
         "read weights from a memory map; a file that shrinks meanwhile ends the program (SIGBUS)");
    if (!app.get_option_no_throw("--json")) flag("--json", common.json, "report as JSON");
    flag("--verbose", common.verbose, "say more on stderr");
}

vk::DeviceOptions device_options(const Common& common) {
    vk::DeviceOptions options;
    options.select = common.device;
    options.caps_profile = common.caps;
    options.validation = common.validation;
    return options;
}

EngineOptions engine_options(const Common& common) {
    EngineOptions options;
    options.device = device_options(common);
    options.device.cache_folder = cache_folder();
    for (const auto& [name, self_test] : self_tests)
        if (common.self_test == name) options.self_test = self_test;
    for (const auto& [name, precision] : precisions)
        if (common.precision == name) options.precision = precision;
    for (size_t i = 0; i < std::size(kv_type_names); ++i)
        if (common.kv == kv_type_names[i]) options.kv = KvType(i);
    options.context = common.context;
    if (common.gpu_memory.size() == 1)
        options.memory_budget = common.gpu_memory[0];
    else
        options.memory_budgets = common.gpu_memory;
    options.variants = common.variants;
    options.tuned = !common.no_tune;
    options.fusion = !common.no_fusion;
    options.deterministic = common.deterministic;
    return options;
}

const char* precision_name(Precision precision) {
    for (const auto& [name, value] : precisions)
        if (value == precision) return name;
    return "?";
}

std::shared_ptr<const Model> load_model(const Common& common, ModelPart part) {
    const Reads reads = common.mmap ? Reads::mapped : Reads::positioned;
    const auto model =
        std::make_shared<Model>(open_model(resolve_model(common.model), reads, Floats8::blocks, part));
    std::vector<AdapterChoice> adapters;
    for (const std::string& text : common.adapters) adapters.push_back(parse_adapter(text));
    attach_adapters(*model, adapters);
    return model;
}

std::shared_ptr<const Tokenizer> load_tokenizer(const Common& common) {
    const std::filesystem::path path = resolve_model(common.model);
    std::shared_ptr<const Tokenizer> tokenizer = open_tokenizer(path);
    if (!tokenizer) fail(Status::unsupported, path.string(), "expected a vocabulary, got none");
    return tokenizer;
}

const Tokenizer& tokenizer_of(const Model& model) {
    if (!model.tokenizer) fail(Status::unsupported, model.path.string(), "expected a vocabulary, got none");
    return *model.tokenizer;
}

void begin_windows(std::span<TokenId> ids, size_t length, const Tokenizer& tokenizer) {
    if (!tokenizer.adds_bos()) return;
    for (size_t first = 0; first < ids.size(); first += length) ids[first] = tokenizer.bos();
}

std::unique_ptr<Engine> load_engine(std::shared_ptr<const Model> model, const EngineOptions& options,
                                    const Common& common) {
    EngineOptions with_progress = options;
    Progress progress("loading");
    // A self-test that a signal ends would be taken for a crash of the driver at the next start.
    const std::atomic<bool>& interrupted = install_interrupt_flag();
    const auto check_interrupt = [&] {
        if (interrupted) fail(Status::cancelled, "engine", "interrupted while it was made");
    };
    with_progress.progress = [&](uint64_t done, uint64_t total) {
        check_interrupt();
        progress.update(done, total);
    };
    auto engine = std::make_unique<Engine>(std::move(model), with_progress);
    remove_interrupt_flag();
    check_interrupt();
    if (common.verbose || is_terminal(stderr)) progress.finish();
    const vk::Caps& caps = engine->device().caps();
    // A CPU driver is never used silently.
    if (common.verbose || is_terminal(stderr) || caps.is_cpu())
        note(engine->model().name, " on ", validate::device_names(engine->devices()),
             caps.is_cpu() ? " (a CPU driver: no GPU is used)" : "", ", precision ",
             precision_name(options.precision), ", context ", engine->memory_plan().context);
    return engine;
}

int finish(const vk::Device& device) {
    const uint64_t errors = device.validation_errors();
    if (errors == 0) return 0;
    for (const std::string& message : device.validation_messages()) note(message);
    note("scoria: expected silent validation layers, got ", errors, " errors");
    return 1;
}

int finish(Engine& engine) {
    int code = 0;
    for (const vk::Device* device : engine.devices()) code = std::max(code, finish(*device));
    return code;
}

}  // namespace scoria::cli
