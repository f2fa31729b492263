#include "tokenizer/decoder.h"

#include "tokenizer/byte_characters.h"
#include "tokenizer/spellings.h"
#include "tokenizer/utf8.h"

#include <algorithm>

namespace scoria {
namespace {

using Tokens = std::vector<std::string>;

std::string joined(const Tokens& tokens, std::string_view between = {}) {
    std::string out;
    for (size_t i = 0; i < tokens.size(); ++i) {
        if (i > 0) out += between;
        out += tokens[i];
    }
    return out;
}

std::string replaced(std::string text,
                     std::initializer_list<std::pair<std::string_view, std::string_view>> pairs) {
    for (const auto& [from, to] : pairs) text = replace_all(text, from, to);
    return text;
}

/// English spacing, as the library that reads tokenizer.json restores it.
std::string clean_up(std::string text) {
    return replaced(std::move(text), {{" .", "."},
                                      {" ?", "?"},
                                      {" !", "!"},
                                      {" ,", ","},
                                      {" ' ", "'"},
                                      {" n't", "n't"},
                                      {" 'm", "'m"},
                                      {" do not", " don't"},
                                      {" 's", "'s"},
                                      {" 've", "'ve"},
                                      {" 're", "'re"}});
}

Tokens run_step(DecodeByteCharacters, const Tokens& tokens) {
    std::string bytes;
    for (const std::string& token : tokens) bytes += from_byte_characters(token).value_or(token);
    return {utf8::valid(bytes)};
}

Tokens run_step(const DecodeByteFallback& step, const Tokens& tokens) {
    Tokens out;
    std::string bytes;
    const auto flush = [&] {
        if (bytes.empty()) return;
        const bool valid = utf8::is_valid(bytes);
        std::string text;
        for (std::string_view rest = bytes; !rest.empty();) {
            const utf8::Step next = utf8::step(rest);
            const bool kept = next.kind == utf8::Step::Kind::valid && (valid || !step.whole_runs);
            const size_t taken = kept ? next.bytes : 1;
            if (kept)
                text += rest.substr(0, taken);
            else
                utf8::append(text, utf8::replacement);
            rest.remove_prefix(taken);
        }
        out.push_back(std::move(text));
        bytes.clear();
    };
    for (const std::string& token : tokens) {
        if (const auto byte = spelled_byte(token)) {
            bytes += static_cast<char>(*byte);
        } else {
            flush();
            out.push_back(token);
        }
    }
    flush();
    return out;
}

Tokens run_step(Fuse, const Tokens& tokens) { return {joined(tokens)}; }
Tokens run_step(JoinWithSpaces, const Tokens& tokens) { return {joined(tokens, " ")}; }

Tokens run_step(const DecodeReplace& step, Tokens tokens) {
    for (std::string& token : tokens) token = replace_all(token, step.pattern, step.content);
    return tokens;
}

Tokens run_step(const DecodeStrip& step, Tokens tokens) {
    for (std::string& token : tokens) {
        for (size_t i = 0; i < step.start && token.starts_with(step.character); ++i)
            token.erase(0, step.character.size());
        for (size_t i = 0; i < step.stop && token.ends_with(step.character); ++i)
            token.resize(token.size() - step.character.size());
    }
    return tokens;
}

Tokens run_step(const DecodeMetaspace& step, Tokens tokens) {
    for (size_t i = 0; i < tokens.size(); ++i)
        tokens[i] = replace_all(tokens[i], step.mark, i == 0 && step.prefixed ? "" : " ");
    return tokens;
}

Tokens run_step(const DecodeSpaceMarks& step, Tokens tokens) {
    bool leading = step.drop_first;
    for (std::string& token : tokens) {
        if (leading && token.starts_with(space_mark)) {
            token.erase(0, space_mark.size());
            leading = step.drop_leading && token.empty();
        } else if (!token.empty()) {
            leading = false;
        }
        token = replace_all(token, space_mark, " ");
    }
    return tokens;
}

Tokens run_step(const DecodeWordPiece& step, Tokens tokens) {
    for (size_t i = 0; i < tokens.size(); ++i) {
        if (i > 0) {
            if (!step.prefix.empty() && tokens[i].starts_with(step.prefix))
                tokens[i].erase(0, step.prefix.size());
            else
                tokens[i].insert(0, 1, ' ');
        }
        if (step.cleanup) tokens[i] = clean_up(std::move(tokens[i]));
    }
    return tokens;
}

Tokens run_step(const DecodeSuffix& step, Tokens tokens) {
    for (size_t i = 0; i < tokens.size(); ++i)
        tokens[i] = replace_all(tokens[i], step.suffix, i + 1 == tokens.size() ? "" : " ");
    return tokens;
}

Tokens run_step(const DecodeCtc& step, Tokens tokens) {
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
    Tokens out;
    for (std::string& token : tokens) {
        if (!step.pad.empty()) token = replace_all(token, step.pad, "");
        if (step.cleanup) {
            token = clean_up(std::move(token));
            if (!step.word_delimiter.empty()) token = replace_all(token, step.word_delimiter, " ");
        }
        if (!token.empty()) out.push_back(std::move(token));
    }
    return out;
}

Tokens run_step(TidySpaces, const Tokens& tokens) {
    return {replaced(joined(tokens), {{" ?", "?"},
                                      {" !", "!"},
                                      {" .", "."},
                                      {" ,", ","},
                                      {" ' ", "'"},
                                      {" 's", "'s"},
                                      {" 'm", "'m"},
                                      {" 're", "'re"},
                                      {" 've", "'ve"}})};
}

Tokens run_step(DropFirstSpace, Tokens tokens) {
    if (!tokens.empty() && tokens[0].starts_with(' ')) tokens[0].erase(0, 1);
    return tokens;
}

}  // namespace

std::string decode(const std::vector<DecoderStep>& steps, std::vector<std::string> tokens) {
    for (const DecoderStep& step : steps) {
        tokens = std::visit([&](const auto& kind) { return run_step(kind, std::move(tokens)); }, step);
    }
    return joined(tokens);
}

std::string decode_piece(const std::vector<DecoderStep>& steps, std::string token) {
    bool fused = false;  // from here on steps look at the ends of the text
    for (const DecoderStep& step : steps) {
        if (std::holds_alternative<DecodeByteCharacters>(step)) {
            if (auto bytes = from_byte_characters(token)) token = std::move(*bytes);
            fused = true;
        } else if (std::holds_alternative<DecodeByteFallback>(step)) {
            if (const auto byte = spelled_byte(token)) token.assign(1, static_cast<char>(*byte));
        } else if (std::holds_alternative<JoinWithSpaces>(step)) {
            token.insert(0, 1, ' ');
        } else if (const auto* metaspace = std::get_if<DecodeMetaspace>(&step)) {
            token = run_step(DecodeMetaspace{metaspace->mark, false}, Tokens{token})[0];
        } else if (std::holds_alternative<DecodeSpaceMarks>(step)) {
            token = replace_all(token, space_mark, " ");
        } else if (const auto* suffix = std::get_if<DecodeSuffix>(&step)) {
            token = replace_all(token, suffix->suffix, " ");
        } else if (const auto* pieces = std::get_if<DecodeWordPiece>(&step)) {
            token = run_step(*pieces, Tokens{"", token})[1];
        } else if (const auto* ctc = std::get_if<DecodeCtc>(&step)) {
            token = joined(run_step(*ctc, Tokens{token}));
        } else if (const auto* replace = std::get_if<DecodeReplace>(&step)) {
            token = replace_all(token, replace->pattern, replace->content);
        } else if (const auto* strip = std::get_if<DecodeStrip>(&step)) {
            if (!fused) token = run_step(*strip, Tokens{token})[0];
        } else {
            fused = true;
        }
    }
    return token;
}

}  // namespace scoria
