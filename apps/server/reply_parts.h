// What in a model's text is its answer, what its thoughts, and what a call of a tool.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace scoria::server {

/// How a model's text is marked, as far as its chat template shows.
struct ReplyForm {
    enum class Calls : uint8_t {
        none,
        marked,  // <tool_call> around {"name", "arguments"}, or around <function=NAME><parameter=KEY>
        bare,    // an answer that is such JSON, one object or an array
    };
    bool thinks = false;         // <think> and </think>
    bool opens_thought = false;  // the prompt wrote <think> itself
    Calls calls = Calls::none;
    std::map<std::string, std::map<std::string, std::string>> types{};  // [function][parameter]: JSON types
};

/// tools: as a request has them, or null.
ReplyForm reply_form(std::string_view chat_template, std::string_view prompt,
                     const nlohmann::ordered_json& tools);

struct ReplyPart {
    enum class Kind : uint8_t { content, thought, call };
    Kind kind = Kind::content;
    std::string text;    // of a call: its arguments, JSON
    std::string name{};  // of the function called
    bool operator==(const ReplyPart&) const = default;
};

/// Takes a text in pieces, and gives its parts away as soon as they are certain; calls as a whole. What is
/// marked as a call and is none stays content. White space beside markers is dropped.
class ReplyParts {
  public:
    explicit ReplyParts(ReplyForm form);
    std::vector<ReplyPart> push(std::string_view text);
    std::vector<ReplyPart> finish();

  private:
    enum class State : uint8_t { start, content, thought, call };
    struct Marker {
        std::string_view text;
        State to;
    };
    std::vector<Marker> markers() const;  // that may come in this state
    bool take_marker(std::vector<ReplyPart>& parts);
    void take_text(std::string_view text, std::vector<ReplyPart>& parts);
    void take_call(std::string_view text, std::vector<ReplyPart>& parts);

    ReplyForm form_;
    State state_;
    std::string held_;    // not looked at, or perhaps the beginning of a marker; all of a call
    std::string space_;   // white space that counts if text follows
    bool began_ = false;  // this part has shown text
};

}  // namespace scoria::server
