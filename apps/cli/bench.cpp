// bench: prompt and generation speed, cold and warm first token, what a decode step costs; or each op alone.
#include "bench_batch.h"
#include "bench_scaling.h"
#include "clock.h"
#include "common.h"
#include "io.h"
#include "proposers.h"
#include "values.h"
#include "verbs.h"

#include "file.h"
#include "instruments/synthetic_model.h"
#include "text_table.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace scoria::cli {
namespace {

struct BenchOptions {
    std::vector<uint32_t> prompts{512}, generates{128}, depths{0}, chunks{0}, batches;
    std::vector<std::string> kvs;  // empty: --kv
    uint32_t repetitions = 3;
    bool profile = false, ops = false;
    std::string op;                              // of --ops alone
    std::string synthetic, type = "q4_K";        // size and type of a model without a file
    std::vector<std::string> scaling;            // sizes of synthetic models
    std::string format = "table", plots, trace;  // folder, file
    SpeculationFlags speculation;
    uint32_t longest_prompt() const { return *std::ranges::max_element(prompts); }
};

class Bench {
  public:
    Bench(Engine& engine, const BenchOptions& options)
        : session_(engine), options_(options), vocab_(engine.model().architecture.vocab),
          encodes_(!engine.model().architecture.encoder.empty()),
          warm_(engine.device().caps().is_cpu() ? 0 : 0.5) {
        const uint64_t needed =
            uint64_t{*std::ranges::max_element(options.depths)} +
            std::max<uint64_t>(options.longest_prompt(),
                               uint64_t{*std::ranges::max_element(options.generates)} + 2);
        if (needed > session_.capacity())
            fail(Status::context_full, "bench", "expected at most ", session_.capacity(),
                 " positions (--ctx), got ", needed);
    }

    /// Seconds from now to the first token after the prompt.
    double first_token() {
        const auto start = Clock::now();
        session_.truncate(0);
        take_prompt(std::max(options_.prompts.front(), 1u));
        generate(1);
        return seconds_since(start);
    }

    BenchRow prompt(uint32_t tokens, uint32_t depth) {
        BenchRow row{.test = cat("pp", tokens), .tokens = tokens, .depth = depth};
        measure(row, depth, [&] { take_prompt(tokens); });
        return row;
    }

    BenchRow generation(uint32_t tokens, uint32_t depth) {
        BenchRow row{.test = cat("tg", tokens), .tokens = tokens, .depth = depth};
        measure(row, std::max(depth, 1u), [&] {
            // The first is sampled from logits that stand; each of the others takes a pass.
            const GenerateResult made = generate(tokens + 1, [this] { started_ = Clock::now(); });
            row.proposed += made.proposed;
            row.accepted += made.accepted;
        });
        if (!options_.speculation.proposer) row.bytes_per_token = session_.stats().weight_bytes_per_token;
        return row;
    }

    StepStats stats() const { return session_.stats(); }

    /// A step and the last chunk of a prompt behind `depth` tokens, each dispatch by itself, which what is
    /// measured above is spared.
    StepStats profile(uint32_t depth) {
        session_.set_profile(true);
        start_at(depth);
        if (const uint32_t tokens = options_.longest_prompt()) take_prompt(tokens);
        const std::vector<vk::DispatchTime> of_prompt = session_.stats().prompt_profile;
        start_at(std::max(depth, 1u));
        if (std::ranges::max(options_.generates) > 0) generate(2);  // the first is sampled from what stands
        StepStats stats = session_.stats();
        stats.prompt_profile = of_prompt;
        session_.set_profile(false);
        return stats;
    }

  private:
    /// An encoder-decoder's prompt is the encoder's.
    void take_prompt(uint32_t tokens) {
        if (encodes_) session_.encode(some_ids(tokens, vocab_));
        session_.append(some_ids(encodes_ ? 1 : tokens, vocab_));
    }
    /// `first`: called with the first of them.
    GenerateResult generate(uint32_t tokens, const std::function<void()>& first = {}) {
        GenerateOptions options;
        options.max_tokens = tokens;
        options.ignore_end = true;
        if (first)
            options.on_token = [&first, came = false](TokenId) mutable {
                if (!std::exchange(came, true)) first();
                return true;
            };
        options_.speculation.apply(options);
        GenerateResult made = session_.generate(options);
        if (made.tokens.size() != tokens)
            fail(Status::failed, "bench", "expected ", tokens, " tokens, got ", made.tokens.size());
        return made;
    }

    void start_at(uint32_t depth) {
        session_.truncate(0);
        if (encodes_) session_.encode(some_ids(std::max(options_.prompts.front(), 1u), vocab_));
        if (depth > 0) session_.append(some_ids(depth, vocab_));
    }

    // The first round compiles pipelines and is not counted, nor are those in which a GPU raises its clock.
    template <class Work> void measure(BenchRow& row, uint32_t depth, const Work& work) {
        const auto first = Clock::now();
        for (uint32_t round = 0; round <= options_.repetitions;) {
            start_at(depth);
            started_ = Clock::now();
            work();
            if (round > 0) row.seconds.push_back(seconds_since(started_));
            if (round > 0 || seconds_since(first) >= warm_) ++round;
        }
    }

    Session session_;
    const BenchOptions& options_;
    uint32_t vocab_;
    bool encodes_;
    Clock::time_point started_{};  // what is measured
    double warm_;                  // seconds until a GPU's clock is as high as it gets
};

struct Report {
    std::vector<BenchRow> rows;
    double cold_first_token = 0, warm_first_token = 0,
           load = 0;  // seconds; cold counts from the start of the verb
    StepStats step;
};

nlohmann::json report_json(const Report& report, Engine& engine, const EngineOptions& flags) {
    const auto profile_json = [](const std::vector<vk::DispatchTime>& times) {
        nlohmann::json rows = nlohmann::json::array();
        for (const ProfileRow& row : profile_rows(times))
            rows.push_back({{"dispatch", row.label},
                            {"groups", row.groups},
                            {"count", row.count},
                            {"microseconds", row.microseconds}});
        return rows;
    };
    const StepStats& step = report.step;
    return {{"model", engine.model().name},
            {"device", engine.device().caps().name},
            {"driver", engine.device().caps().driver_info},
            {"precision", precision_name(flags.precision)},
            {"context", engine.memory_plan().context},
            {"rows", rows_json(report.rows)},
            {"load_seconds", report.load},
            {"first_token_cold_seconds", report.cold_first_token},
            {"first_token_warm_seconds", report.warm_first_token},
            {"step",
             {{"dispatches", step.dispatches},
              {"barriers", step.barriers},
              {"submissions", step.slices},
              {"dispatches_per_layer", step.dispatches_per_layer},
              {"submit_cpu_us", step.submit_cpu_us},
              {"weight_bytes_per_token", step.weight_bytes_per_token}}},
            {"pipelines", step.pipelines},
            {"pipeline_seconds", step.pipeline_seconds},
            {"profile", profile_json(step.profile)},
            {"prompt_profile", profile_json(step.prompt_profile)}};
}

std::string report_text(const Report& report, const std::string& format) {
    std::string out = rows_text(report.rows, format);
    if (format != "table") return out;
    out += cat("first token after ", fixed(report.cold_first_token, 2), " s from the start (loading ",
               fixed(report.load, 2), " s), ", fixed(report.warm_first_token, 3), " s when loaded\n");
    for (const BenchRow& row : report.rows)
        if (row.proposed > 0) out += cat(row.test, ": ", speculation_text(row.proposed, row.accepted), "\n");
    const auto profile_text = [](const char* of, const std::vector<vk::DispatchTime>& times) {
        if (times.empty()) return std::string();
        TextTable profile({of, "workgroups", "count", "us"});
        for (const ProfileRow& row : profile_rows(times))
            profile.add({row.label, cat(row.groups), cat(row.count), fixed(row.microseconds, 1)});
        return "\n" + profile.text();
    };
    return out + profile_text("dispatch of a step", report.step.profile) +
           profile_text("of a prompt's last chunk", report.step.prompt_profile);
}

void note_step(const StepStats& step) {
    note("decode step: ", step.dispatches, " dispatches (", fixed(step.dispatches_per_layer, 2),
         " per layer), ", step.barriers, " barriers, submit ", fixed(step.submit_cpu_us, 1),
         " us of CPU, reads ", fixed(double(step.weight_bytes_per_token) / 1e6, 1), " MB of weights");
    note("pipelines: ", step.pipelines, " created, ", fixed(step.pipeline_seconds, 2), " s compiling");
}

TensorType named_type(const std::string& name) {
    std::string names;
    for (const TensorTypeInfo& info : tensor_types()) {
        if (CLI::detail::to_lower(name) == CLI::detail::to_lower(info.name)) return info.type;
        names += cat(names.empty() ? "" : ", ", info.name);
    }
    fail(Status::bad_argument, "bench", "expected --type to be one of {", names, "}, got '", name, "'");
}

/// All rows on one engine.
void add_rows(Bench& bench, const BenchOptions& options, const Engine& engine, std::vector<BenchRow>& rows) {
    const EngineOptions& flags = engine.options();
    const KvType kv = flags.kv_type();
    const auto add = [&](BenchRow row) {
        row.kv = kv_type_names[size_t(kv)];
        row.chunk = engine.memory_plan().chunk;
        rows.push_back(std::move(row));
    };
    for (const uint32_t depth : options.depths) {
        for (const uint32_t tokens : options.prompts)
            if (tokens > 0) add(bench.prompt(tokens, depth));
        for (const uint32_t tokens : options.generates)
            if (tokens > 0) add(bench.generation(tokens, depth));
    }
}

void write_files(const BenchOptions& options, const Report& report, const Engine& engine,
                 const vk::Caps& caps) {
    const std::string& model = engine.model().name;
    if (!options.plots.empty()) {
        plot_rows(options.plots, report.rows, cat(model, " on ", caps.name));
        if (!report.step.profile.empty()) plot_layers(options.plots, report.step);
    }
    if (options.trace.empty()) return;
    const std::string trace = chrome_trace(report.step, model);
    write_file_atomic(options.trace, std::as_bytes(std::span(trace)));
}

/// Errors: bad_argument, for a flag that another would make mean nothing.
void check_flags(const CLI::App& app) {
    check_alone(app, {{"--ops",
                       {"--model", "--lora", "--ctx", "--kv", "--prompt", "--tokens", "--depth", "--chunk",
                        "--kvs", "--batch", "--repetitions", "--profile", "--trace", "--type", "--synthetic",
                        "--scaling", "--lookup", "--mtp", "--draft"}},
                      {"--scaling",
                       {"--model", "--lora", "--prompt", "--tokens", "--chunk", "--kvs", "--batch",
                        "--profile", "--trace", "--synthetic", "--op", "--lookup", "--mtp", "--draft"}},
                      {"--synthetic", {"--model", "--lora"}}});
    check_company(app, {{"--op", {"--ops"}}, {"--type", {"--synthetic", "--scaling"}}});
    check_speculation_flags(app);
}

/// One engine for each type of cache and size of chunk.
int bench(BenchOptions& options, const Common& common) {
    const auto start = Clock::now();
    const std::shared_ptr<const Model> model =
        options.synthetic.empty()
            ? load_model(common)
            : std::make_shared<const Model>(synthetic_model(options.synthetic, named_type(options.type)));
    if (!options.batches.empty() && !model->architecture.encoder.empty())
        fail(Status::bad_argument, "bench", "expected a decoder beside --batch, got ",
             model->architecture.family);
    open_draft(options.speculation, model, common);
    Report report;
    std::unique_ptr<Engine> engine;
    int code = 0;
    for (const std::string& kv : options.kvs.empty() ? std::vector{common.kv} : options.kvs)
        for (const uint32_t chunk : options.chunks) {
            engine.reset();  // before the next one asks for memory
            Common each = common;
            each.kv = kv;
            EngineOptions flags = engine_options(each);
            flags.prompt_chunk = chunk;
            flags.shows = options.speculation.takes();
            engine = load_engine(model, flags, each);
            load_proposer(options.speculation, *engine, each);
            const bool first = report.rows.empty();
            if (first) report.load = seconds_since(start);
            {
                Bench bench(*engine, options);
                bench.first_token();
                if (first) {
                    report.cold_first_token = seconds_since(start);
                    report.warm_first_token = bench.first_token();
                }
                add_rows(bench, options, *engine, report.rows);
                report.step = options.profile ? bench.profile(options.depths.back()) : bench.stats();
            }
            code = std::max(code, finish(*engine));
            if (options.batches.empty()) continue;
            engine.reset();
            flags.sequences = std::ranges::max(options.batches) + 1;
            engine = load_engine(model, flags, each);
            for (BenchRow& row : bench_batches(*engine, {options.batches, options.generates, options.prompts,
                                                         options.depths, options.repetitions}))
                report.rows.push_back(std::move(row));
            code = std::max(code, finish(*engine));
        }
    if (common.json || options.format == "json")
        print(json_text(report_json(report, *engine, engine->options()), 1), '\n');
    else
        print(report_text(report, options.format));
    if (options.profile && report.step.profile.empty() && report.step.prompt_profile.empty())
        note("scoria: this device has no timestamps: no profile");
    write_files(options, report, *engine, engine->device().caps());
    if (common.verbose) note_step(report.step);
    return code;
}

int bench_all_ops(const BenchOptions& options, const Common& common) {
    vk::DeviceOptions device_flags = device_options(common);
    device_flags.cache_folder = engine_options(common).device.cache_folder;
    vk::Device device(device_flags);
    vk::Pipelines pipelines(device);
    const vk::Caps& caps = device.caps();
    if (common.verbose || caps.is_cpu())
        note("ops on ", caps.name, caps.is_cpu() ? " (a CPU driver: no GPU is used)" : "");
    const OpBenchReport report =
        bench_ops(device, pipelines, {engine_options(common).precision, options.op}, [&](const OpRate& rate) {
            if (common.verbose)
                note(rate.op, ' ', rate.variant, ", ", rate.shape, ": ", fixed(rate.microseconds, 1), " us");
        });
    pipelines.save_cache();
    if (common.json || options.format == "json") {
        nlohmann::json json = ops_json(report);
        json["device"] = caps.name;
        json["driver"] = caps.driver_info;
        print(json_text(json, 1), '\n');
    } else {
        print(ops_text(report, options.format));
        if (options.format != "csv")
            print("\nread ", fixed(report.roof.gigabytes_per_second, 2), " GB/s; matmul ",
                  fixed(report.roof.gigaflops, 1), " GFLOP/s (", report.roof.fastest, "); empty dispatch ",
                  fixed(report.roof.dispatch_us, 2), " us, behind a barrier ",
                  fixed(report.roof.barrier_us, 2), " us\n");
    }
    if (!report.timestamps) note("scoria: this device has no timestamps: times are the host's");
    if (!options.plots.empty()) plot_roofline(options.plots, report, caps.name);
    return finish(device);
}

}  // namespace

Action define_bench(CLI::App& app, const Common& common) {
    auto options = std::make_shared<BenchOptions>();
    const auto list = [&](const char* name, auto& values, const char* help) {
        return app.add_option(name, values, help)->delimiter(',')->expected(1, -1);
    };
    list("-p,--prompt", options->prompts, "tokens of the prompt tests, e.g. 128,512; 0: none (default: 512)");
    list("-n,--tokens", options->generates, "tokens of the generation tests; 0: none (default: 128)");
    list("-d,--depth", options->depths, "tokens in the cache before each test (default: 0)");
    list("--chunk", options->chunks, "tokens of a prompt computed at a time (default: 512)");
    list("--kvs", options->kvs, "types of the cache, in place of --kv")
        ->check(CLI::IsMember(std::vector<std::string>(std::begin(kv_type_names), std::end(kv_type_names))));
    list("-b,--batch", options->batches,
         "numbers of answers at once, 1 to 63: rows such as tg128x8, of the tokens of all, and \"pp512 "
         "beside 8\", a prompt that joins them, until its first token; \"wait ms\" is the 95th percentile "
         "of what the others wait for a token meanwhile")
        ->check(CLI::Range(1, 63));  // an engine has 64: one is the prompt that joins them
    app.add_option("-r,--repetitions", options->repetitions,
                   "measured rounds, after one that is not (default: 3)")
        ->check(CLI::Range(1u, 1000u));
    app.add_option("--synthetic", options->synthetic,
                   "no file but weights without meaning, made for a Llama of this size: " +
                       synthetic_sizes());
    app.add_option("--type", options->type, "type of synthetic weights (default: q4_K)");
    app.add_option("--format", options->format, "table, markdown, csv or json (default: table)")
        ->check(
            CLI::IsMember(std::vector<std::string>(std::begin(report_formats), std::end(report_formats))));
    app.add_option("--plot", options->plots,
                   "a folder for pictures: speed by depth, time by layer (--profile), roofline (--ops)");
    list("--scaling", options->scaling,
         "synthetic models of these sizes: how time grows with the model, and of the first with --depth "
         "(default: "
         "0 to 4096) and batch");
    app.add_flag("--profile", options->profile,
                 "time of every dispatch of a decode step, and of a prompt's last chunk");
    add_speculation_flags(app, options->speculation);
    app.add_option("--trace", options->trace,
                   "writes that step for chrome://tracing or Perfetto to this file; implies --profile")
        ->check(writable());
    app.add_flag("--ops", options->ops,
                 "no model: each op alone, beside the bandwidth and the matmul peak of this device");
    app.add_option("--op", options->op, "with --ops: this one alone");
    app.footer("JSON: {\"rows\": [{\"test\": \"pp512\", \"tokens_per_second\": ...}, ...], ...}");
    return [options, &common, &app] {
        check_flags(app);
        if (!options->plots.empty()) make_folders(options->plots);  // or no need to measure
        if (options->ops) return bench_all_ops(*options, common);
        if (!options->scaling.empty()) {
            std::vector<uint32_t> depths = options->depths;
            if (app.count("--depth") == 0) depths = {0, 512, 1024, 2048, 4096};
            return bench_scaling({options->scaling, named_type(options->type), depths, options->repetitions,
                                  options->format, options->plots},
                                 common);
        }
        options->profile = options->profile || !options->trace.empty();
        return bench(*options, common);
    };
}

}  // namespace scoria::cli
