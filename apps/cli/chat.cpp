// chat: a conversation in the terminal. What the cache already holds of the rendered history is kept.
#include "common.h"
#include "generation.h"
#include "io.h"
#include "messages.h"
#include "verbs.h"

#include "console.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>

namespace scoria::cli {
namespace {

constexpr const char* help_text = "/exit  leave (Ctrl-D too)\n/reset  forget the conversation\n/help  this\n"
                                  "Ctrl-C  stop an answer\n";

/// A line of stdin without its end; nothing at the end of input.
std::optional<std::string> read_line(bool prompt) {
    while (true) {
        std::atomic<bool>& interrupted = install_interrupt_flag();
        interrupted = false;
        if (prompt) write_note("> ");
        std::string line;
        int c = 0;
        while ((c = std::fgetc(stdin)) != EOF && c != '\n') line += char(c);
        const bool ended = c == EOF && line.empty();
        if (ended && interrupted) {
            std::clearerr(stdin);
            note("\n(/exit or Ctrl-D leaves)");
            continue;
        }
        if (ended) return std::nullopt;
        if (line.ends_with('\r')) line.pop_back();
        return line;
    }
}

class Conversation {
  public:
    Conversation(Engine& engine, const GenerationFlags& flags, std::string system)
        : model_(engine.model()), session_(engine), flags_(flags), system_(std::move(system)) {
        reset();
    }

    void reset() {
        messages_.clear();
        if (!system_.empty()) messages_.push_back({"system", system_});
    }

    /// Streams the answer to `text`. When it fails or is stopped before any token, `text` is forgotten.
    void say(const std::string& text) {
        std::atomic<bool>& interrupted = install_interrupt_flag();
        interrupted = false;
        messages_.push_back({"user", text});
        try {
            append_history(interrupted);
            const Answer answer = stream_answer(session_, flags_, interrupted, true);
            write_out("\n");
            note_stop(answer, session_.capacity());
            messages_.push_back({"assistant", answer.text});
        } catch (const Error& error) {
            messages_.pop_back();
            if (error.status() != Status::cancelled && error.status() != Status::context_full) throw;
            if (error.status() == Status::context_full)
                note("scoria: ", error.what(), " (/reset starts anew)");
            else
                note("(stopped)");
        }
    }

  private:
    // Keeps the longest common prefix of cache and history, but computes the last token anew: its logits
    // are what the answer starts from.
    void append_history(const std::atomic<bool>& cancel) {
        const std::vector<TokenId> ids =
            encode_prompt(*model_.tokenizer, model_.chat_template.render(messages_));
        if (ids.empty())
            fail(Status::failed, "chat", "expected the template to render something, got nothing");
        const std::span<const TokenId> held = session_.tokens();
        const auto differs = std::mismatch(held.begin(), held.end(), ids.begin(), ids.end()).second;
        const size_t keep = std::min<size_t>(differs - ids.begin(), ids.size() - 1);
        session_.truncate(uint32_t(keep));
        session_.append(std::span(ids).subspan(keep), &cancel);
    }

    const Model& model_;
    Session session_;
    GenerationFlags flags_;
    std::string system_;
    std::vector<Message> messages_;
};

struct ChatOptions {
    std::string system;
    GenerationFlags generation;
};

int chat(ChatOptions& options, const Common& common) {
    const std::shared_ptr<const Model> model = load_model(common);
    (void)tokenizer_of(*model);
    if (model->chat_template.empty())
        fail(Status::unsupported, "chat",
             "expected a chat template in the model, got none (`scoria run --raw` continues a text)");
    open_draft(options.generation.speculation, model, common);
    EngineOptions engine_flags = engine_options(common);
    engine_flags.shows = options.generation.speculation.takes();
    engine_flags.rehearse = {usual_prompt, options.generation.sampling.temperature == 0};
    const std::unique_ptr<Engine> engine = load_engine(model, engine_flags, common);
    load_proposer(options.generation.speculation, *engine, common);
    Conversation conversation(*engine, options.generation, options.system);
    const bool terminal = is_terminal(stdin) && is_terminal(stderr);
    if (terminal) write_note(help_text);
    while (const std::optional<std::string> line = read_line(terminal)) {
        if (line->empty()) continue;
        if (*line == "/exit" || *line == "/quit" || *line == "/bye") break;
        if (*line == "/reset")
            conversation.reset();
        else if (line->front() == '/')
            write_note(help_text);
        else
            conversation.say(*line);
    }
    return finish(*engine);
}

}  // namespace

Action define_chat(CLI::App& app, const Common& common) {
    auto options = std::make_shared<ChatOptions>();
    app.add_option("--system", options->system, "the system message (default: the template's own)");
    add_generation_flags(app, options->generation);
    app.footer(help_text);
    return [options, &common] {
        if (common.json) fail(Status::bad_argument, "chat", "expected no --json, which `scoria run` has");
        compile_grammar(options->generation);
        return chat(*options, common);
    };
}

}  // namespace scoria::cli
