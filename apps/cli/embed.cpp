// embed: sentence embeddings, one line per text.
#include "common.h"
#include "embedding.h"
#include "embedding_texts.h"
#include "io.h"
#include "messages.h"
#include "verbs.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace scoria::cli {
namespace {

struct EmbedOptions {
    std::vector<std::string> texts;
    std::string file, pooling;
    std::optional<std::string> prompt;
    bool raw = false, truncate = false;
};

int embed(const EmbedOptions& options, const Common& common) {
    const std::vector<std::string> texts = listed_texts("embed", options.texts, options.file);
    const std::shared_ptr<const Model> model = load_model(common);
    const Tokenizer& tokenizer = tokenizer_of(*model);
    Pooling pooling = model->pooling;
    if (options.pooling == "mean") pooling = Pooling::mean;
    if (options.pooling == "first") pooling = Pooling::first;
    if (options.pooling == "last") pooling = Pooling::last;
    const EmbeddingTexts rules = embedding_texts_of(*model);
    std::vector<std::vector<TokenId>> sequences;
    size_t longer = 0;
    for (const std::string& text : texts) {
        EmbeddingTexts::Encoded encoded = rules.encoded(tokenizer, text, options.prompt);
        if (encoded.ids.empty())
            fail(Status::bad_argument, "embed", "expected texts of at least one token, got '", text,
                 "' as number ", sequences.size() + 1);
        sequences.push_back(std::move(encoded.ids));
        longer += encoded.was_cut;
    }
    if (longer)
        note("scoria: ", longer, " of ", texts.size(), " texts cut to the ", *rules.most_tokens,
             " tokens that the model is meant for");
    const std::unique_ptr<Engine> engine = load_engine(model, engine_options(common), common);
    Session session(*engine);
    const Embedder embedder(*model);
    nlohmann::json all = nlohmann::json::array();
    for (std::vector<TokenId>& ids : sequences) {
        if (options.truncate) cut(ids, frame_of(tokenizer), session.capacity(), rules.cuts_front);
        session.truncate(0);
        const std::vector<float> vector = embedder.embedding(session, ids, pooling, !options.raw);
        if (common.json)
            all.push_back(vector);
        else
            print(nlohmann::json(vector).dump(), '\n');
    }
    if (common.json)
        print(json_text(nlohmann::json{{"model", model->name},
                                       {"size", embedder.size()},
                                       {"normalised", !options.raw},
                                       {"embeddings", all}}),
              '\n');
    return finish(*engine);
}

}  // namespace

Action define_embed(CLI::App& app, const Common& common) {
    auto options = std::make_shared<EmbedOptions>();
    app.add_option("-p,--prompt", options->texts, "a text (-: stdin); may be given several times");
    app.add_option("-f,--file", options->file, "a file with one text per line (-: stdin)");
    app.add_option("--prompt-name", options->prompt,
                   "the model's prompt of that name before each text (\"\": none); else as the model says");
    app.add_option("--pooling", options->pooling, "mean, first or last token; else as the model says")
        ->check(CLI::IsMember({"mean", "first", "last"}));
    app.add_flag("--raw", options->raw, "do not scale embeddings to length 1");
    app.add_flag(
        "--truncate", options->truncate,
        "cut texts that are longer than the context, else refuse them; a folder's max_seq_length, or "
        "else its tokenizer's model_max_length, cuts texts in any case");
    return [options, &common] { return embed(*options, common); };
}

}  // namespace scoria::cli
