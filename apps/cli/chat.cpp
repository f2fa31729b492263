// chat: a conversation in the terminal. What the cache already holds of the rendered history is kept.
#include "common.h"
#include "generation.h"
#include "io.h"
#include "messages.h"
#include "models.h"
#include "reply_parts.h"
#include "verbs.h"

#include "console.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <utility>

namespace scoria::cli {
namespace {

constexpr const char* help_text =
    "/exit  leave (Ctrl-D too)\n/reset  forget the conversation\n/save FILE  write it down, for --messages\n"
    "/help  this\nCtrl-C  stop an answer\n";

/// An answer as it comes: thoughts dim on a terminal, and else on stderr, since who reads stdout wants the
/// answer.
class Shown {
  public:
    explicit Shown(ReplyForm form) : parts_(std::move(form)) {}
    void push(std::string_view text) { show(parts_.push(text)); }
    void finish() {
        show(parts_.finish());
        end_thought();
        write_out("\n");
    }
    /// What a template is told of it.
    nlohmann::ordered_json message() const {
        nlohmann::ordered_json message{{"role", "assistant"}, {"content", answer_}};
        if (!thought_.empty()) message["reasoning_content"] = thought_;
        return message;
    }

  private:
    void show(const std::vector<ReplyPart>& parts) {
        for (const ReplyPart& part : parts) {
            const bool thinks = part.kind == ReplyPart::Kind::thought;
            if (!thinks) end_thought();
            thinks_ = thinks;
            (thinks ? thought_ : answer_) += part.text;
            if (!thinks)
                write_out(part.text);
            else if (terminal_)
                write_raw(cat("\x1b[2m", shown(part.text), "\x1b[0m"));
            else
                write_note(part.text);
        }
    }
    void end_thought() {
        if (!std::exchange(thinks_, false)) return;
        if (terminal_)
            write_out("\n\n");
        else
            write_note("\n");
    }

    ReplyParts parts_;
    const bool terminal_ = is_terminal(stdout);
    bool thinks_ = false;
    std::string answer_, thought_;
};

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

class Talk {
  public:
    Talk(Engine& engine, const GenerationFlags& flags, std::string system, Conversation begun)
        : model_(engine.model()), session_(engine), flags_(flags), system_(std::move(system)),
          all_(std::move(begun)) {
        if (all_.messages.empty()) reset();
    }

    void reset() {
        all_.messages = nlohmann::ordered_json::array();
        if (!system_.empty()) all_.messages.push_back({{"role", "system"}, {"content", system_}});
    }

    /// As --messages reads it. Errors: failed.
    void save(const std::string& path) const {
        nlohmann::ordered_json json{{"messages", all_.messages}};
        if (!all_.tools.is_null()) json["tools"] = all_.tools;
        if (!all_.documents.is_null()) json["documents"] = all_.documents;
        if (!all_.variables.empty()) json["variables"] = all_.variables;
        write_text(path, json_text(json, 1) + "\n");
    }

    /// Streams the answer to `text`. When it fails or is stopped before any token, `text` is forgotten.
    void say(const std::string& text) {
        std::atomic<bool>& interrupted = install_interrupt_flag();
        interrupted = false;
        all_.messages.push_back({{"role", "user"}, {"content", text}});
        try {
            const ChatPrompt prompt = append_history(interrupted);
            const ReplyForm form = reply_form(model_.chat_template.source(), prompt.text, nullptr);
            Shown seen(form);
            const Answer answer = stream_answer(
                session_, flags_, interrupted, [&](std::string_view piece) { seen.push(piece); },
                form.special());
            seen.finish();
            note_stop(answer, session_.capacity());
            all_.messages.push_back(seen.message());
        } catch (const Error& error) {
            all_.messages.erase(all_.messages.size() - 1);
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
    ChatPrompt append_history(const std::atomic<bool>& cancel) {
        ChatPrompt prompt = model_.chat_template.render(all_);
        const std::vector<TokenId> ids = encode_prompt(*model_.tokenizer, prompt);
        if (ids.empty())
            fail(Status::failed, "chat", "expected the template to render something, got nothing");
        const std::span<const TokenId> held = session_.tokens();
        const auto differs = std::mismatch(held.begin(), held.end(), ids.begin(), ids.end()).second;
        const size_t keep = std::min<size_t>(differs - ids.begin(), ids.size() - 1);
        session_.truncate(uint32_t(keep));
        session_.append(std::span(ids).subspan(keep), &cancel);
        return prompt;
    }

    const Model& model_;
    Session session_;
    GenerationFlags flags_;
    std::string system_;
    Conversation all_;
};

struct ChatOptions {
    std::string system, messages;
    GenerationFlags generation;
};

/// What --messages begins with. Errors: bad_file, bad_argument.
Conversation begun(const ChatOptions& options) {
    if (options.messages.empty()) return {};
    Conversation all = parse_conversation(options.messages, read_text(options.messages));
    const auto role = [](const nlohmann::ordered_json& message) {
        return message["role"].get<std::string>();
    };
    if (all.messages.empty() || role(all.messages.back()) == "user")
        fail(Status::bad_file, options.messages, "expected a conversation that ends with an answer, got ",
             all.messages.empty() ? "none" : "one that ends with a question");
    if (!options.system.empty() && role(all.messages.front()) == "system")
        fail(Status::bad_argument, "chat", "expected --system or a system message in --messages, got both");
    if (!options.system.empty())
        all.messages.insert(all.messages.begin(), {{"role", "system"}, {"content", options.system}});
    return all;
}

/// What cannot be saved is said, and the conversation goes on.
void save(const Talk& talk, const std::string& path, const Common& common) try {
    check_no_model("chat", common.model, path);
    talk.save(path);
    note("saved to ", path);
} catch (const Error& error) {
    note("scoria: ", error.what());
}

int chat(ChatOptions& options, const Common& common) {
    Conversation history = begun(options);
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
    Talk talk(*engine, options.generation, options.system, std::move(history));
    const bool terminal = is_terminal(stdin) && is_terminal(stderr);
    if (terminal) write_note(help_text);
    while (const std::optional<std::string> line = read_line(terminal)) {
        if (line->empty()) continue;
        if (*line == "/exit" || *line == "/quit" || *line == "/bye") break;
        if (*line == "/reset")
            talk.reset();
        else if (line->starts_with("/save "))
            save(talk, line->substr(6), common);
        else if (line->front() == '/')
            write_note(help_text);
        else
            talk.say(*line);
    }
    return finish(*engine);
}

}  // namespace

Action define_chat(CLI::App& app, const Common& common) {
    auto options = std::make_shared<ChatOptions>();
    app.add_option("--system", options->system, "the system message (default: the template's own)");
    app.add_option("--messages", options->messages,
                   "go on with this conversation: a JSON file as /save and `scoria template` have it");
    add_generation_flags(app, options->generation);
    app.footer(help_text);
    return [options, &app, &common] {
        check_generation_flags(app);
        if (common.json) fail(Status::bad_argument, "chat", "expected no --json, which `scoria run` has");
        compile_grammar(options->generation);
        return chat(*options, common);
    };
}

}  // namespace scoria::cli
