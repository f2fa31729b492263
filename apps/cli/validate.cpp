// validate: every kernel, every variant this device supports, against the double-precision reference.
#include "common.h"
#include "compile_report.h"
#include "io.h"
#include "messages.h"
#include "models.h"
#include "validate_shader.h"
#include "values.h"
#include "verbs.h"

#include "file.h"
#include "validate/model_check.h"
#include "validate/report_html.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <tuple>

namespace scoria::cli {
namespace {

struct ValidateOptions {
    std::string op, ids, text, json, html;
    uint32_t part = 0, parts = 1;
    bool quick = false, full = false;
    double soak = 0;  // seconds
    uint64_t seed = 1;
    bool compile_only = false, races = false;
    ShaderOptions shader;
};

std::string op_names() {
    std::string names;
    for (const validate::OpCheck& check : validate::op_checks())
        names += cat(names.empty() ? "" : ", ", check.op);
    return names;
}

/// Of results of the same case the one that is nearest to its bound, or failed. What has the same name is
/// told apart by its place among its like.
void keep_worst(std::vector<validate::CheckResult>& kept, std::vector<validate::CheckResult>&& fresh) {
    using Name = std::tuple<std::string, std::string, std::string>;
    std::map<Name, std::vector<size_t>> places;
    for (size_t i = 0; i < kept.size(); ++i)
        places[{kept[i].op, kept[i].variant, kept[i].shape}].push_back(i);
    std::map<Name, size_t> seen;
    for (validate::CheckResult& result : fresh) {
        const Name name{result.op, result.variant, result.shape};
        const std::vector<size_t>& same = places[name];
        const size_t place = seen[name]++;
        if (place >= same.size())
            kept.push_back(std::move(result));
        else if (validate::CheckResult& before = kept[same[place]];
                 before.passed && (!result.passed || result.share() > before.share()))
            before = std::move(result);
    }
}

validate::Tier tier_of(const ValidateOptions& options) {
    return options.full ? validate::Tier::full : validate::Tier::quick;
}

/// "K/N": the K-th (from 1) of N parts. Errors: anything else.
std::pair<uint32_t, uint32_t> part_of(std::string_view text) {
    uint32_t part = 0, parts = 0;
    const char* end = text.data() + text.size();
    const auto [slash, error] = std::from_chars(text.data(), end, part);
    const bool first = error == std::errc{} && slash != end && *slash == '/';
    const auto second = std::from_chars(first ? slash + 1 : end, end, parts);
    if (second.ec != std::errc{} || second.ptr != end || part < 1 || part > parts)
        fail(Status::bad_argument, "validate", "expected --part K/N, K of 1 to N, got '", text, "'");
    return {part - 1, parts};
}

validate::Run validate_device(const vk::DeviceOptions& device_options, const ValidateOptions& options,
                              const Common& common) {
    vk::Device device(device_options);
    note("validating on ", device.caps().name, ", ", device.caps().driver_info);
    vk::Pipelines pipelines(device);
    validate::Run run{validate::device_facts(device), {}};
    const auto start = std::chrono::steady_clock::now();
    const auto seconds = [&] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    uint64_t rounds = 0;
    bool alive = true;
    do {
        validate::CheckContext context(device, pipelines, tier_of(options), options.seed + rounds++);
        context.keep_maps = !options.html.empty();
        context.part = options.part;
        context.parts = options.parts;
        for (const validate::OpCheck& check : validate::op_checks()) {
            if (!alive || (!options.op.empty() && options.op != check.op)) continue;
            if (common.verbose) note("checking ", check.op);
            alive = validate::run_check(context, check);
        }
        keep_worst(run.results, std::move(context.results()));
        if (options.soak > 0)
            note("round ", rounds, ", ", fixed(seconds(), 0), " s: ", validate::count_failed(run.results),
                 " failed");
    } while (alive && seconds() < options.soak);
    if (options.soak > 0) run.facts["rounds"] = rounds;
    run.facts["seconds"] = std::round(seconds() * 10) / 10;
    pipelines.save_cache();
    if (alive && finish(device) != 0 && validate::count_failed(run.results) == 0)
        run.results.push_back({.op = "device", .variant = "-", .shape = "", .detail = "validation layer"});
    return run;
}

/// One run on the device that was asked for, or one on each.
std::vector<validate::Run> on_devices(const Common& common, bool races,
                                      const std::function<validate::Run(const vk::DeviceOptions&)>& run) {
    vk::DeviceOptions one = device_options(common);
    one.races = races;
    if (common.device != "all") return {run(one)};
    std::vector<validate::Run> runs;
    const std::vector<vk::ListedDevice> devices = vk::list_devices();
    for (size_t i = 0; i < devices.size(); ++i) {
        one.select = cat(i);
        std::string why = devices[i].unusable;
        try {
            if (why.empty()) runs.push_back(run(one));
        } catch (const Error& error) {
            if (error.status() != Status::unsupported) throw;
            why = error.what();
        }
        if (!why.empty()) note("left out: ", devices[i].caps.name, ": ", why);
    }
    if (runs.empty()) fail(Status::unsupported, "validate", "expected a device that can run it, got none");
    return runs;
}

/// Writes the reports that were asked for; returns the exit code.
int report(std::span<const validate::Run> runs, nlohmann::ordered_json facts, const ValidateOptions& options,
           const Common& common) {
    facts.update(validate::build_facts());
    if (!options.json.empty()) write_text(options.json, json_text(validate::report_json(runs, facts), 1));
    if (!options.html.empty()) {
        const std::string html = validate::report_html(runs, facts);
        write_file_atomic(options.html, std::as_bytes(std::span(html)));
    }
    size_t cases = 0, failed = 0;
    for (const validate::Run& run : runs) {
        if (options.json != "-" && runs.size() == 1)
            print(validate::report_table(run.results, common.verbose));
        write_note(validate::failure_text(run.results));
        cases += run.results.size();
        failed += validate::count_failed(run.results);
    }
    if (options.json != "-" && runs.size() > 1) print(validate::comparison_table(runs));
    note(cases, " cases, ", failed, " failed");
    return failed == 0 ? 0 : 1;
}

int validate_ops(const ValidateOptions& options, const Common& common) {
    const std::vector<validate::Run> runs =
        on_devices(common, options.races,
                   [&](const vk::DeviceOptions& device) { return validate_device(device, options, common); });
    nlohmann::ordered_json facts{{"tier", options.full ? "full" : "quick"}, {"seed", options.seed}};
    if (!options.op.empty()) facts["op"] = options.op;
    if (options.parts > 1) facts["part"] = cat(options.part + 1, "/", options.parts);
    return report(runs, std::move(facts), options, common);
}

int validate_own(const ValidateOptions& options, const Common& common) {
    check_report_path(options.shader, options.json);
    check_report_path(options.shader, options.html);
    const std::vector<validate::Run> runs =
        on_devices(common, options.races, [&](const vk::DeviceOptions& device) {
            return validate_shader(options.shader, options.seed, !options.html.empty(), device);
        });
    return report(runs, {{"seed", options.seed}}, options, common);
}

std::vector<TokenId> check_ids(const Model& model, const ValidateOptions& options) {
    if (!options.ids.empty()) return parse_ids("validate", options.ids);
    if (!options.text.empty()) return tokenizer_of(model).encode(options.text);
    // Ids of no meaning serve as well: both executors get the same.
    std::vector<TokenId> ids;
    for (uint32_t i = 0; i < 7; ++i) ids.push_back(TokenId((i * 7919u + 11) % model.architecture.vocab));
    return ids;
}

int validate_model(const ValidateOptions& options, const Common& common) {
    for (const std::string& path : {options.json, options.html})
        check_no_model("validate", common.model, path);
    const std::shared_ptr<const Model> model = load_model(common);
    const std::vector<TokenId> ids = check_ids(*model, options);
    const EngineOptions flags = engine_options(common);
    const std::unique_ptr<Engine> engine = load_engine(model, flags, common);
    const validate::ModelCheck check = validate::check_model(*engine, ids);
    validate::Run run{validate::device_facts(engine->devices()), check.ops};
    run.facts["fused_away"] = check.fused_away;
    if (check.first_diverging) run.facts["first_diverging"] = check.name_of_first();
    const int code =
        report(std::span(&run, 1), {{"model", model->name}, {"precision", precision_name(flags.precision)}},
               options, common);
    if (check.first_diverging) note("scoria: the first tensor that diverges: ", check.name_of_first());
    if (check.fused_away > 0) note(check.fused_away, " tensors are fused away (--no-fusion stores them)");
    return std::max(code, finish(*engine));
}

/// Errors: bad_argument, for a flag that another would make mean nothing.
void check_flags(const CLI::App& app) {
    check_alone(app, {{"--shader", {"--model", "--compile-only", "--op", "--full", "--soak"}},
                      {"--model", {"--op", "--full", "--soak", "--seed"}},
                      {"--compile-only", {"--html", "--soak", "--seed", "--ids", "--prompt"}},
                      {"--ids", {"--prompt"}}});
    for (const char* flag : {"--ids", "--prompt", "--lora", "--ctx", "--kv", "--no-fusion", "--no-tune",
                             "--self-test", "--mmap", "--gpu-memory", "--precision", "--deterministic"})
        check_company(app, {{flag, {"-m"}}});
}

}  // namespace

Action define_validate(CLI::App& app, const Common& common) {
    auto options = std::make_shared<ValidateOptions>();
    app.add_option("--op", options->op, "only this op");
    const CLI::Option* part = app.add_option_function<std::string>(
        "--part",
        [options](const std::string& text) { std::tie(options->part, options->parts) = part_of(text); },
        "K/N: the K-th of N parts of the cases, so that several processes share the work");
    CLI::Option* quick = app.add_flag("--quick", options->quick, "the telling cases, in seconds (default)");
    app.add_flag("--full", options->full, "all cases, every type on every variant")->excludes(quick);
    app.add_option("--soak", options->soak, "repeats with other inputs for so many seconds")
        ->check(CLI::Range(0.0, 1e7));
    app.add_option("--json", options->json, "writes the report as JSON to a file, or stdout without one")
        ->expected(0, 1)
        ->default_str("-")
        ->check(writable(true));
    app.add_option("--html", options->html, "writes the report as a page with tables and pictures of errors")
        ->check(writable());
    CLI::Option* only_compiles =
        app.add_flag("--compile-only", options->compile_only,
                     "only make the pipelines and report what the driver's compiler says of them");
    app.add_flag("--races", options->races,
                 "data races in shared memory are failures, too (needs a Khronos validation layer of 1.4.350 "
                 "or later)")
        ->excludes(only_compiles);
    app.add_option("--seed", options->seed, "seed of the inputs (default: 1)");
    add_shader_flags(app, options->shader);
    app.add_option("--ids", options->ids, "tokens for -m, e.g. 1,2,3 (default: seven)");
    app.add_option("-p,--prompt", options->text, "text for -m instead of --ids");
    app.footer("--device all puts every device's results side by side. With -m the whole model runs on the "
               "device and in the reference, and every stored tensor is "
               "compared.");
    return [options, part, &app, &common] {
        check_flags(app);
        if (!options->html.empty() && options->html == options->json)
            fail(Status::bad_argument, "validate", "expected two files for --json and --html, got ",
                 options->html);
        if (common.model.empty() && !common.variants.empty())
            fail(Status::bad_argument, "validate",
                 "expected -m beside --variant: without a model every variant is taken");
        if (part->count() > 0 &&
            (!common.model.empty() || !options->shader.shader.empty() || options->compile_only))
            fail(Status::bad_argument, "validate", "expected --part of our kernels' cases alone");
        if (!common.model.empty() && options->races)
            fail(Status::bad_argument, "validate", "expected --races without -m: it is about kernels");
        if (!options->op.empty() && std::ranges::none_of(validate::op_checks(), [&](const auto& check) {
                return options->op == check.op;
            }))
            fail(Status::bad_argument, "validate", "expected --op to be one of {", op_names(), "}, got '",
                 options->op, "'");
        if (options->compile_only) return compile_only(common, tier_of(*options), options->op, options->json);
        if (!options->shader.shader.empty()) return validate_own(*options, common);
        return common.model.empty() ? validate_ops(*options, common) : validate_model(*options, common);
    };
}

}  // namespace scoria::cli
