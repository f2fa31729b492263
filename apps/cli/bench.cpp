// bench: prompt and generation speed, cold and warm first token, and what a decode step costs.
#include "clock.h"
#include "common.h"
#include "io.h"
#include "proposers.h"
#include "verbs.h"

#include "text_table.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>

namespace scoria::cli {
namespace {

struct BenchOptions {
    uint32_t prompt = 512, generate = 128, depth = 0, repetitions = 3;
    bool profile = false;
    SpeculationFlags speculation;
};

struct Row {
    std::string test;
    uint32_t tokens = 0;
    std::vector<double> seconds{};  // per repetition
    uint64_t bytes_per_token = 0;   // weights read; 0: not said, since a pass over several reads them once
    uint32_t proposed = 0, accepted = 0;  // tokens guessed, of all rounds
    double mean() const {
        double sum = 0;
        for (const double s : seconds) sum += tokens / s;
        return sum / double(seconds.size());
    }
    double deviation() const {
        double sum = 0;
        for (const double s : seconds) sum += (tokens / s - mean()) * (tokens / s - mean());
        return seconds.size() < 2 ? 0 : std::sqrt(sum / double(seconds.size() - 1));
    }
    double gigabytes_per_second() const { return double(bytes_per_token) * mean() / 1e9; }
};

/// Ids spread over the vocabulary; speed does not depend on which.
std::vector<TokenId> some_ids(uint32_t count, uint32_t vocab) {
    std::vector<TokenId> ids(count);
    for (uint32_t i = 0; i < count; ++i) ids[i] = TokenId((uint64_t{i} * 2654435761u + 12345) % vocab);
    return ids;
}

class Bench {
  public:
    Bench(Engine& engine, const BenchOptions& options)
        : session_(engine), options_(options), vocab_(engine.model().architecture.vocab),
          encodes_(!engine.model().architecture.encoder.empty()) {
        const uint64_t needed =
            uint64_t{options.depth} + std::max<uint64_t>(options.prompt, uint64_t{options.generate} + 1);
        if (needed > session_.capacity())
            fail(Status::context_full, "bench", "expected at most ", session_.capacity(),
                 " positions (--ctx), got ", needed);
    }

    /// Seconds from now to the first token after the prompt.
    double first_token() {
        const auto start = Clock::now();
        session_.truncate(0);
        take_prompt(std::max(options_.prompt, 1u));
        generate(1);
        return seconds_since(start);
    }

    Row prompt() {
        Row row{.test = cat("pp", options_.prompt), .tokens = options_.prompt};
        measure(row, options_.depth, [&] { take_prompt(options_.prompt); });
        return row;
    }

    Row generation() {
        Row row{.test = cat("tg", options_.generate), .tokens = options_.generate};
        measure(row, std::max(options_.depth, 1u), [&] {
            const GenerateResult made = generate(options_.generate);
            row.proposed += made.proposed;
            row.accepted += made.accepted;
        });
        if (!options_.speculation.proposer) row.bytes_per_token = session_.stats().weight_bytes_per_token;
        return row;
    }

    StepStats stats() const { return session_.stats(); }

  private:
    /// An encoder-decoder's prompt is the encoder's.
    void take_prompt(uint32_t tokens) {
        if (encodes_) session_.encode(some_ids(tokens, vocab_));
        session_.append(some_ids(encodes_ ? 1 : tokens, vocab_));
    }
    GenerateResult generate(uint32_t tokens) {
        GenerateOptions options;
        options.max_tokens = tokens;
        options.ignore_end = true;
        options_.speculation.apply(options);
        GenerateResult made = session_.generate(options);
        if (made.tokens.size() != tokens)
            fail(Status::failed, "bench", "expected ", tokens, " tokens, got ", made.tokens.size());
        return made;
    }

    // The first round compiles pipelines and is not counted.
    template <class Work> void measure(Row& row, uint32_t depth, const Work& work) {
        for (uint32_t round = 0; round <= options_.repetitions; ++round) {
            session_.truncate(0);
            if (encodes_) session_.encode(some_ids(std::max(options_.prompt, 1u), vocab_));
            if (depth > 0) session_.append(some_ids(depth, vocab_));
            const auto start = Clock::now();
            work();
            if (round > 0) row.seconds.push_back(seconds_since(start));
        }
    }

    Session session_;
    const BenchOptions& options_;
    uint32_t vocab_;
    bool encodes_;
};

struct Report {
    std::vector<Row> rows;
    double cold_first_token = 0, warm_first_token = 0,
           load = 0;  // seconds; cold counts from the start of the verb
    StepStats step;
};

/// Time per label, most first.
std::vector<std::pair<std::string, std::pair<uint32_t, double>>> profile_rows(const StepStats& step) {
    std::map<std::string, std::pair<uint32_t, double>> sums;
    for (const vk::DispatchTime& time : step.profile) {
        auto& [count, microseconds] = sums[std::string(time.label)];
        ++count;
        microseconds += time.microseconds;
    }
    std::vector<std::pair<std::string, std::pair<uint32_t, double>>> rows(sums.begin(), sums.end());
    std::sort(rows.begin(), rows.end(),
              [](const auto& a, const auto& b) { return a.second.second > b.second.second; });
    return rows;
}

nlohmann::json report_json(const Report& report, Engine& engine, const EngineOptions& flags,
                           const BenchOptions& options) {
    nlohmann::json rows = nlohmann::json::array(), profile = nlohmann::json::array();
    for (const Row& row : report.rows) {
        nlohmann::json json = {{"test", row.test},
                               {"tokens_per_second", row.mean()},
                               {"deviation", row.deviation()},
                               {"repetitions", row.seconds.size()},
                               {"depth", options.depth}};
        if (row.bytes_per_token > 0) json["gb_per_second"] = row.gigabytes_per_second();
        if (options.speculation.proposer) json["proposed"] = row.proposed, json["accepted"] = row.accepted;
        rows.push_back(std::move(json));
    }
    for (const auto& [label, sum] : profile_rows(report.step))
        profile.push_back({{"dispatch", label}, {"count", sum.first}, {"microseconds", sum.second}});
    const StepStats& step = report.step;
    return {{"model", engine.model().name},
            {"device", engine.device().caps().name},
            {"driver", engine.device().caps().driver_info},
            {"precision", precision_name(flags.precision)},
            {"context", engine.memory_plan().context},
            {"rows", rows},
            {"load_seconds", report.load},
            {"first_token_cold_seconds", report.cold_first_token},
            {"first_token_warm_seconds", report.warm_first_token},
            {"step",
             {{"dispatches", step.dispatches},
              {"barriers", step.barriers},
              {"dispatches_per_layer", step.dispatches_per_layer},
              {"submit_cpu_us", step.submit_cpu_us},
              {"weight_bytes_per_token", step.weight_bytes_per_token}}},
            {"pipelines", step.pipelines},
            {"pipeline_seconds", step.pipeline_seconds},
            {"profile", profile}};
}

std::string report_text(const Report& report) {
    TextTable table({"test", "tok/s", "+-", "GB/s"});
    for (const Row& row : report.rows)
        table.add({row.test, fixed(row.mean(), 2), fixed(row.deviation(), 2),
                   row.bytes_per_token > 0 ? fixed(row.gigabytes_per_second(), 2) : "-"});
    std::string out = table.text();
    out += cat("first token after ", fixed(report.cold_first_token, 2), " s from the start (loading ",
               fixed(report.load, 2), " s), ", fixed(report.warm_first_token, 3), " s when loaded\n");
    for (const Row& row : report.rows)
        if (row.proposed > 0) out += cat(row.test, ": ", speculation_text(row.proposed, row.accepted), "\n");
    if (report.step.profile.empty()) return out;
    TextTable profile({"dispatch", "count", "us"});
    for (const auto& [label, sum] : profile_rows(report.step))
        profile.add({label, cat(sum.first), fixed(sum.second, 1)});
    return out + "\n" + profile.text();
}

void note_step(const StepStats& step) {
    note("decode step: ", step.dispatches, " dispatches (", fixed(step.dispatches_per_layer, 2),
         " per layer), ", step.barriers, " barriers, submit ", fixed(step.submit_cpu_us, 1),
         " us of CPU, reads ", fixed(double(step.weight_bytes_per_token) / 1e6, 1), " MB of weights");
    note("pipelines: ", step.pipelines, " created, ", fixed(step.pipeline_seconds, 2), " s compiling");
}

int bench(BenchOptions& options, const Common& common) {
    const auto start = Clock::now();
    const std::shared_ptr<const Model> model = load_model(common);
    EngineOptions flags = engine_options(common);
    flags.profile = options.profile;
    const std::unique_ptr<Engine> engine = load_engine(model, flags, common);
    load_proposer(options.speculation, *engine, common);
    Report report;
    report.load = seconds_since(start);
    Bench bench(*engine, options);
    bench.first_token();
    report.cold_first_token = seconds_since(start);
    report.warm_first_token = bench.first_token();
    if (options.prompt > 0) report.rows.push_back(bench.prompt());
    if (options.generate > 0) report.rows.push_back(bench.generation());
    report.step = bench.stats();
    if (common.json)
        print(report_json(report, *engine, flags, options).dump(1), '\n');
    else
        print(report_text(report));
    if (options.profile && report.step.profile.empty())
        note("scoria: this device has no timestamps: no profile");
    if (common.verbose) note_step(report.step);
    return finish(engine->device());
}

}  // namespace

Action define_bench(CLI::App& app, const Common& common) {
    auto options = std::make_shared<BenchOptions>();
    app.add_option("-p,--prompt", options->prompt, "tokens of the prompt test; 0: none (default: 512)");
    app.add_option("-n,--tokens", options->generate, "tokens of the generation test; 0: none (default: 128)");
    app.add_option("-d,--depth", options->depth, "tokens in the cache before each test (default: 0)");
    app.add_option("-r,--repetitions", options->repetitions,
                   "measured rounds, after one that is not (default: 3)")
        ->check(CLI::Range(1u, 1000u));
    app.add_flag("--profile", options->profile, "time of every dispatch of a decode step");
    add_speculation_flags(app, options->speculation);
    app.footer("JSON: {\"rows\": [{\"test\": \"pp512\", \"tokens_per_second\": ...}, ...], ...}");
    return [options, &common] { return bench(*options, common); };
}

}  // namespace scoria::cli
