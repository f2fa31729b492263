// perplexity: mean negative log likelihood of a text's tokens, each given the ones before it in its window.
#include "common.h"
#include "io.h"
#include "verbs.h"

#include "console.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace scoria::cli {
namespace {

constexpr size_t chunk_tokens =
    128;  // bounds the logits on the host: 128 rows of a 152K vocabulary are 78 MB

struct PerplexityOptions {
    std::string text, file;
    uint32_t tokens = 0;
};

/// -log softmax(logits)[id], in double.
double negative_log_likelihood(std::span<const float> logits, TokenId id) {
    const double most = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (const float logit : logits) sum += std::exp(double(logit) - most);
    return most + std::log(sum) - double(logits[size_t(id)]);
}

/// Appends the losses of window[1..] given what precedes each in the window.
void window_losses(Session& session, std::span<const TokenId> window, std::vector<double>& losses) {
    session.truncate(0);
    for (size_t first = 0; first < window.size(); first += chunk_tokens) {
        const std::span<const TokenId> chunk =
            window.subspan(first, std::min(chunk_tokens, window.size() - first));
        const ForwardResult result = session.forward(chunk, false);
        for (size_t t = 0; t < chunk.size() && first + t + 1 < window.size(); ++t)
            losses.push_back(negative_log_likelihood(
                std::span(result.logits).subspan(t * result.vocab, result.vocab), window[first + t + 1]));
    }
}

int perplexity(const PerplexityOptions& options, const Common& common) {
    const std::shared_ptr<const Model> model = load_model(common);
    if (model->architecture.bidirectional() || !model->architecture.encoder.empty())
        fail(Status::unsupported, "perplexity", "expected a model that continues a text, got ",
             model->architecture.family);
    const Tokenizer& tokenizer = tokenizer_of(*model);
    std::vector<TokenId> ids = tokenizer.encode(prompt_text("perplexity", options.text, options.file),
                                                {.add_special = true, .parse_special = false});
    if (options.tokens > 0 && options.tokens < ids.size()) ids.resize(options.tokens);
    if (ids.size() < 2)
        fail(Status::bad_argument, "perplexity", "expected a text of at least 2 tokens, got ", ids.size());

    const EngineOptions engine_flags = engine_options(common);
    const std::unique_ptr<Engine> engine = load_engine(model, engine_flags, common);
    Session session(*engine);
    const size_t window = session.capacity();
    if (window < 2)
        fail(Status::bad_argument, "perplexity", "expected a context of at least 2 tokens (--ctx), got ",
             window);
    begin_windows(ids, window, tokenizer);
    const auto start = std::chrono::steady_clock::now();
    std::vector<double> losses;
    for (size_t first = 0; first + 1 < ids.size(); first += window)
        window_losses(session, std::span(ids).subspan(first, std::min(window, ids.size() - first)), losses);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

    double mean = 0, variance = 0;
    for (const double loss : losses) mean += loss / double(losses.size());
    for (const double loss : losses)
        variance += (loss - mean) * (loss - mean) / double(std::max<size_t>(losses.size() - 1, 1));
    const double error = std::sqrt(variance / double(losses.size())), value = std::exp(mean);
    if (!std::isfinite(mean))
        fail(Status::non_finite, "perplexity", "expected a finite mean, got non-finite logits");
    if (common.json)
        print(nlohmann::json{{"tokens", ids.size()},
                             {"predicted", losses.size()},
                             {"window", window},
                             {"mean_nll", mean},
                             {"nll_error", error},
                             {"perplexity", value},
                             {"perplexity_error", value * error},
                             {"precision", precision_name(engine_flags.precision)},
                             {"seconds", seconds}}
                  .dump(1),
              '\n');
    else
        print("perplexity ", fixed(value, 4), " +- ", fixed(value * error, 4), ", mean NLL ", fixed(mean, 5),
              " +- ", fixed(error, 5), ", ", losses.size(), " predictions, window ", window, ", precision ",
              precision_name(engine_flags.precision), '\n');
    if (common.verbose) note(fixed(double(ids.size()) / seconds, 1), " tok/s");
    return finish(*engine);
}

}  // namespace

Action define_perplexity(CLI::App& app, const Common& common) {
    auto options = std::make_shared<PerplexityOptions>();
    app.add_option("-p,--prompt", options->text, "the text (-: stdin)");
    app.add_option("-f,--file", options->file, "a file with the text");
    app.add_option("-n,--tokens", options->tokens, "only the first N tokens");
    app.footer("The text is cut into windows of --ctx tokens; the first token of a window is not predicted,\n"
               "and is BOS where the vocabulary adds it. The error is one standard error of the mean.");
    return [options, &common] { return perplexity(*options, common); };
}

}  // namespace scoria::cli
