// rank: documents by how well they answer a query, one line each, the best first.
#include "common.h"
#include "io.h"
#include "ranker.h"
#include "verbs.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace scoria::cli {
namespace {

struct RankOptions {
    std::string query, file;
    std::vector<std::string> documents;
    std::optional<std::string> prompt;
    size_t top = 0;
};

int rank(const RankOptions& options, const Common& common) {
    const std::vector<std::string> documents = listed_texts("rank", options.documents, options.file);
    const std::shared_ptr<const Model> model = load_model(common);
    const Ranker ranker(*model);
    ranker.check();
    const std::unique_ptr<Engine> engine = load_engine(model, engine_options(common), common);
    Session session(*engine);
    std::vector<double> scores;
    size_t cuts = 0;
    for (const std::string& document : documents) {
        const Ranker::Score found = ranker.score(session, options.query, document, options.prompt);
        scores.push_back(found.score);
        cuts += found.was_cut;
    }
    if (cuts) note("scoria: ", cuts, " of ", documents.size(), " pairs cut to what the model has room for");
    nlohmann::json results = nlohmann::json::array();
    for (const size_t index : ranked(scores, options.top)) {
        if (common.json)
            results.push_back({{"index", index}, {"score", scores[index]}, {"document", documents[index]}});
        else
            print(fixed(scores[index], 6), '\t', documents[index], '\n');
    }
    if (common.json)
        print(
            json_text(nlohmann::json{{"model", model->name}, {"query", options.query}, {"results", results}}),
            '\n');
    return finish(*engine);
}

}  // namespace

Action define_rank(CLI::App& app, const Common& common) {
    auto options = std::make_shared<RankOptions>();
    app.add_option("-q,--query", options->query, "what documents are to answer")->required();
    app.add_option("-p,--prompt", options->documents, "a document (-: stdin); may be given several times");
    app.add_option("-f,--file", options->file, "a file with one document per line (-: stdin)");
    app.add_option("--top", options->top, "the best so many alone");
    app.add_option("--prompt-name", options->prompt,
                   "the model's prompt of that name before the query (\"\": none); else as the model says");
    return [options, &common] { return rank(*options, common); };
}

}  // namespace scoria::cli
