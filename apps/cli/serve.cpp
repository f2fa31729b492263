// serve: the OpenAI API over HTTP, for one model.
#include "common.h"
#include "generation.h"
#include "http_server.h"
#include "io.h"
#include "other_caches.h"
#include "verbs.h"

#include "console.h"

#include <CLI/CLI.hpp>

#include <csignal>
#include <filesystem>
#include <thread>

namespace scoria::cli {
namespace {

struct ServeOptions {
    server::ServerOptions server;
    uint32_t parallel = 4;
    GenerationFlags generation;
};

/// Its file's name; of another program's model what that calls it, since Ollama's files are named by digests.
std::string usual_alias(const Model& model, const std::string& name) {
    const std::filesystem::path& path = model.path;
    if (find_other(name) == path) return name;
    return (std::filesystem::is_directory(path) ? path.filename() : path.stem()).string();
}

int serve(ServeOptions& options, const Common& common) {
    SpeculationFlags& speculation = options.generation.speculation;
    const std::shared_ptr<const Model> model = load_model(common);
    (void)tokenizer_of(*model);
    EngineOptions engine_flags = engine_options(common);
    open_draft(speculation, model, common);
    engine_flags.shows = speculation.takes();
    engine_flags.sequences = model->architecture.bidirectional() ? 1 : options.parallel;
    const std::unique_ptr<Engine> engine = load_engine(model, engine_flags, common);
    load_proposer(speculation, *engine, common);
    const std::atomic<bool>& interrupted = install_interrupt_flag();
    std::signal(SIGTERM, [](int) { std::raise(SIGINT); });  // as service managers end what they started
    options.server.defaults.options =
        generate_options(options.generation, options.generation.sampling.seed, interrupted);
    speculation.apply(options.server.defaults.options);
    options.server.defaults.seeded = options.generation.seeded;
    if (options.server.model.empty()) options.server.model = usual_alias(*model, common.model);
    if (common.verbose) options.server.log = [](const std::string& line) { note("scoria: ", line); };
    {
        server::HttpServer http(*engine, options.server);
        const std::string& host = options.server.host;
        note("scoria: listening on http://", host.find(':') == host.npos ? host : cat('[', host, ']'), ":",
             http.port(), " (Ctrl-C ends it)");
        std::atomic<bool> ended = false;
        std::thread server([&] {
            http.serve();
            ended = true;
        });
        while (!ended && !(interrupted && http.running()))
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
        http.stop();
        server.join();
        if (!interrupted)
            fail(Status::failed, "serve", "expected to go on listening, got an error of the socket");
    }
    return finish(*engine);
}

}  // namespace

Action define_serve(CLI::App& app, const Common& common) {
    auto options = std::make_shared<ServeOptions>();
    server::ServerOptions& http = options->server;
    app.add_option("--host", http.host, "the address to listen at (default: 127.0.0.1, this machine alone)");
    app.add_option("--port", http.port, "0: a free one (default: 8080)")->check(CLI::Range(0, 65535));
    app.add_option("--alias", http.model, "the model's name, as clients see it (default: its file's)");
    app.add_option("--parallel", options->parallel, "answers computed at a time (default: 4)")
        ->check(CLI::Range(1, 64));
    app.add_option("--waiting", http.most_waiting, "requests that may wait beside them (default: 64)")
        ->check(CLI::Range(0, 1024));
    app.add_option("--api-key", http.rules.key,
                   "ask for this key; better in the environment, where others do not see it")
        ->envname("SCORIA_API_KEY");
    app.add_option("--allow-host", http.rules.hosts,
                   "a name by which clients may call this machine; may be repeated")
        ->expected(1)
        ->take_all();
    app.add_option("--allow-origin", http.rules.origins,
                   "a web page's origin that may ask, https://example.org, or *; may be repeated")
        ->expected(1)
        ->take_all();
    add_generation_flags(app, options->generation);
    app.footer(
        "Flags that say how to sample are what a request has that says nothing else. With --lookup, --mtp "
        "or --draft each answer comes sooner, but they take turns: one after the other is computed.");
    return [options, &app, &common] {
        check_speculation_flags(app);
        compile_grammar(options->generation);
        return serve(*options, common);
    };
}

}  // namespace scoria::cli
