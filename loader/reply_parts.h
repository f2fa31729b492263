// What in a model's text is its answer, what its thoughts, and what a call of a tool.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace scoria {

/// Around a part of a text; both empty where a model has no such parts.
struct Markers {
    std::string_view begin, end;
    bool special = false;     // they are control tokens, which the text must spell
    std::string_view sign{};  // of a template whose model writes them, where it has neither or both mislead
};

/// How a model's text is marked, as far as its chat template shows.
struct ReplyForm {
    Markers thought{}, call{};
    bool channels =
        false;  // gpt-oss: messages of <|channel|>NAME to=RECIPIENT<|message|>... (its "harmony" format)
    bool opens_thought = false;  // the prompt began the thought itself
    bool bare_calls = false;     // an answer that is JSON of calls, one object or an array, is meant as such
    std::map<std::string, std::map<std::string, std::string>>
        tools{};  // [function][parameter]: JSON types, where known
    /// Whether the text must spell control tokens.
    bool special() const { return channels || thought.special || call.special; }
};

/// tools: as a request has them, or null.
ReplyForm reply_form(std::string_view chat_template, std::string_view prompt,
                     const nlohmann::ordered_json& tools);

/// JSON that a model or a client wrote, discarded if it is none or nested too deep to copy.
nlohmann::ordered_json shallow_json(std::string_view text);

struct ReplyPart {
    enum class Kind : uint8_t { content, thought, call };
    Kind kind = Kind::content;
    std::string text;    // of a call: its arguments, JSON
    std::string name{};  // of the function called
    std::string id{};    // that the model gave the call, where its template reads names out of ids (Kimi K2)
    bool operator==(const ReplyPart&) const = default;
};

/// Takes a text in pieces, and gives its parts away as soon as they are certain; calls as a whole. What is
/// marked as a call and is none stays content. White space beside markers is dropped.
class ReplyParts {
  public:
    explicit ReplyParts(ReplyForm form);
    std::vector<ReplyPart> push(std::string_view text);
    std::vector<ReplyPart> finish();
    bool in_thought() const { return state_ == State::thought; }

  private:
    enum class State : uint8_t { start, content, thought, call };
    struct Turn {
        std::string_view marker;
        State to;
    };
    std::vector<Turn> turns() const;  // that a marker may bring in this state
    /// What is held may be calls without markers: nothing was shown, of this part.
    bool may_be_call() const {
        return form_.bare_calls && (state_ == State::start || (state_ == State::content && !began_));
    }
    void drop_held(size_t bytes);
    bool take_marker(std::vector<ReplyPart>& parts);
    void take_text(std::string_view text, std::vector<ReplyPart>& parts);
    void take_call(std::string_view text, std::vector<ReplyPart>& parts);
    void take_channels(std::vector<ReplyPart>& parts);
    void take_header(std::string_view header);
    void take_body(const std::string& text, std::vector<ReplyPart>& parts);

    ReplyForm form_;
    State state_;
    std::string held_;       // not looked at, or perhaps the beginning of a marker; all of a call
    size_t searched_ = 0;    // bytes of it in which no marker begins
    std::string space_;      // white space that counts if text follows
    bool began_ = false;     // this part has shown text
    std::string recipient_;  // of a call in channels
};

}  // namespace scoria
