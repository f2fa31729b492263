// See run_many.h.
#include "run_many.h"

#include "batcher.h"
#include "clock.h"
#include "io.h"
#include "messages.h"

#include "console.h"

#include <nlohmann/json.hpp>

#include <deque>
#include <random>

namespace scoria::cli {
namespace {

struct Prompt {
    size_t line;  // from 1 on
    std::string text;
};

std::deque<Prompt> read_prompts(const std::string& file) {
    std::deque<Prompt> prompts;
    const std::string all = without_mark(read_text(file));
    size_t line = 0;
    for (size_t begin = 0; begin < all.size(); ++line) {
        const size_t end = std::min(all.find('\n', begin), all.size());
        std::string text = all.substr(begin, end - begin);
        begin = end + 1;
        if (text.ends_with('\r')) text.pop_back();
        if (text.empty()) continue;
        if (text.starts_with('"')) {
            const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
            if (!json.is_string())
                fail(Status::bad_file, cat(file, ", line ", line + 1), "expected a JSON string, got ", text);
            text = json.get<std::string>();
        }
        prompts.push_back({line + 1, std::move(text)});
    }
    if (prompts.empty()) fail(Status::bad_argument, "run", "expected prompts in ", file, ", got none");
    return prompts;
}

class Answers {
  public:
    Answers(Engine& engine, std::deque<Prompt> prompts, const PromptForm& form, const GenerationFlags& flags)
        : engine_(engine), batcher_(engine), prompts_(std::move(prompts)), form_(form), flags_(flags) {}

    /// Whether there were no errors.
    bool run(const std::atomic<bool>& interrupted) {
        while (batcher_.size() < engine_.options().sequences && next(interrupted)) {
        }
        while (batcher_.step()) {
        }
        return errors_ == 0;
    }
    size_t tokens() const { return tokens_; }

  private:
    bool next(const std::atomic<bool>& interrupted) {
        while (!prompts_.empty() && !interrupted) {
            const Prompt prompt = std::move(prompts_.front());
            prompts_.pop_front();
            try {
                begin(prompt, interrupted);
                return true;
            } catch (const Error& error) {
                report(prompt.line, error);
            }
        }
        return false;
    }
    void begin(const Prompt& prompt, const std::atomic<bool>& interrupted) {
        auto session = std::make_shared<Session>(engine_);
        const std::vector<TokenId> ids = session->begin(prompt_ids(engine_.model(), prompt.text, form_));
        const uint64_t seed = flags_.seeded ? flags_.sampling.seed : std::random_device()();
        const auto text = std::make_shared<std::string>();
        GenerateOptions options = generate_options(flags_, seed, interrupted);
        options.on_text = [text](TokenId, std::string_view piece) {
            *text += piece;
            return true;
        };
        batcher_.add(*session, ids, std::move(options),
                     [this, session, text, seed, line = prompt.line,
                      &interrupted](const GenerateResult& result, const std::exception_ptr& error) mutable {
                         session.reset();  // its part of the cache is the next one's
                         done(line, *text, seed, result, error);
                         next(interrupted);
                     });
    }
    void done(size_t line, const std::string& text, uint64_t seed, const GenerateResult& result,
              const std::exception_ptr& error) {
        try {
            if (error) std::rethrow_exception(error);
        } catch (const Error& thrown) {
            return report(line, thrown);
        }
        tokens_ += result.tokens.size();
        nlohmann::json answer{{"line", line},
                              {"text", text},
                              {"stop", stop_name(result.reason)},
                              {"tokens", result.tokens.size()},
                              {"reused", result.reused},
                              {"seed", seed}};
        if (!result.logprobs.empty())
            answer["logprobs"] = logprobs_json(result.logprobs, tokenizer_of(engine_.model()));
        write(answer);
    }
    void report(size_t line, const Error& error) {
        ++errors_;
        write({{"line", line}, {"error", error.what()}});
    }
    static void write(const nlohmann::json& json) { print(json_text(json), '\n'); }

    Engine& engine_;
    Batcher batcher_;
    std::deque<Prompt> prompts_;
    const PromptForm& form_;
    const GenerationFlags& flags_;
    size_t tokens_ = 0, errors_ = 0;
};

std::vector<TokenId> begin_ids(const Tokenizer& tokenizer, const PromptForm& form) {
    return tokenizer.encode(form.begin, {.add_special = false, .parse_special = true});
}

/// Puts the form's language in the place of the one that the tokenizer frames a text by.
void set_language(const Model& model, const PromptForm& form, std::vector<TokenId>& ids) {
    const Tokenizer& tokenizer = *model.tokenizer;
    std::vector<TokenId> frame = tokenizer.encode("", {.add_special = true});
    std::erase(frame, tokenizer.eos());
    const std::vector<TokenId> language =
        tokenizer.encode(form.from, {.add_special = false, .parse_special = true});
    if (model.architecture.encoder.empty() || frame.size() != 1 || language.size() != 1)
        fail(Status::bad_argument, "run",
             "--from: expected a translator whose tokenizer says a text's language, and the token of one, "
             "got ",
             form.from);
    std::ranges::replace(ids, frame[0], language[0]);
}

}  // namespace

std::shared_ptr<const Model> load_model(const Common& common, const PromptForm& form) {
    std::shared_ptr<const Model> model = load_model(common);
    if (form.begin.empty() || model->architecture.encoder.empty()) return model;
    const auto begun = std::make_shared<Model>(*model);
    begun->begins = begin_ids(tokenizer_of(*model), form);
    return begun;
}

std::vector<TokenId> prompt_ids(const Model& model, const std::string& text, const PromptForm& form) {
    const Tokenizer& tokenizer = tokenizer_of(model);
    const bool raw = form.raw || !model.architecture.encoder.empty();
    const bool plain = raw || model.chat_template.empty();
    if (plain && !form.system.empty())
        fail(Status::unsupported, "run", "--system: expected a chat template, got ",
             form.raw ? "--raw" : "a model without one");
    std::vector<TokenId> ids;
    if (plain) {
        // Raw text is text: what spells a special token there is no special token.
        ids = tokenizer.encode(text, {.add_special = true, .parse_special = false});
    } else {
        std::vector<Message> messages;
        if (!form.system.empty()) messages.push_back({"system", form.system});
        messages.push_back({"user", text});
        ids = encode_prompt(tokenizer, model.chat_template.render(messages));
    }
    if (ids.empty()) fail(Status::bad_argument, "run", "expected a prompt, got an empty text");
    if (!form.from.empty()) set_language(model, form, ids);
    if (model.architecture.encoder.empty())
        for (const TokenId id : begin_ids(tokenizer, form)) ids.push_back(id);
    return ids;
}

void note_form(const Model& model, const PromptForm& form) {
    if (!form.raw && model.architecture.encoder.empty() && model.chat_template.empty())
        note("scoria: the model has no chat template: it continues the text (--raw says so without this "
             "note)");
}

nlohmann::json logprobs_json(std::span<const TokenLogprobs> logprobs, const Tokenizer& tokenizer) {
    nlohmann::json rows = nlohmann::json::array();
    const auto row = [&](TokenId id, float logprob) {
        return nlohmann::json{{"id", id}, {"text", tokenizer.piece(id, true)}, {"logprob", logprob}};
    };
    for (const TokenLogprobs& token : logprobs) {
        rows.push_back(row(token.token, token.logprob));
        rows.back()["best"] = nlohmann::json::array();
        for (const auto& [id, logprob] : token.best) rows.back()["best"].push_back(row(id, logprob));
    }
    return rows;
}

int run_many(const ManyPrompts& prompts, const PromptForm& form, const GenerationFlags& flags,
             const Common& common) {
    std::deque<Prompt> all = read_prompts(prompts.file);
    const std::shared_ptr<const Model> model = load_model(common, form);
    note_form(*model, form);
    EngineOptions options = engine_options(common);
    options.sequences = uint32_t(std::min<size_t>(prompts.parallel, all.size()));
    const std::unique_ptr<Engine> engine = load_engine(model, options, common);
    const std::atomic<bool>& interrupted = install_interrupt_flag();
    Answers answers(*engine, std::move(all), form, flags);
    const auto start = Clock::now();
    const bool good = answers.run(interrupted);
    const double seconds = seconds_since(start);
    if (common.verbose)
        note(answers.tokens(), " tokens in ", fixed(seconds, 2), " s, ",
             fixed(double(answers.tokens()) / seconds, 1), " tok/s, prompts included");
    if (interrupted) throw Error(Status::cancelled, "[run] interrupted before the last prompt");
    return std::max(good ? 0 : 1, finish(*engine));
}

}  // namespace scoria::cli
