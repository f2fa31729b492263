#include "tokenizer/tokenizer_json_steps.h"

#include "tokenizer/base64.h"
#include "tokenizer/utf8.h"

namespace scoria {
namespace {

using nlohmann::json;

template <class T> T field(const json& object, const char* name, T otherwise) {
    return json_field<T>(object, name, std::move(otherwise), tokenizer_json);
}

std::string required(const json& object, const char* name) {
    json_member(object, name, tokenizer_json);
    return field<std::string>(object, name, "");
}

[[noreturn]] void refuse(std::string_view part, std::string_view type) {
    fail(Status::unsupported, tokenizer_json, part, ": this build does not support ", type);
}

/// Calls `read` for each member of a sequence.
template <class Read> void each(const json& object, const char* list, const Read& read) {
    const json& members = json_member(object, list, tokenizer_json);
    if (!members.is_array()) fail(Status::bad_file, tokenizer_json, list, ": expected a list");
    for (const json& member : members) read(member);
}

Pattern read_pattern(const json& step) {
    const json& pattern = json_member(step, "pattern", tokenizer_json);
    Pattern out;
    if (pattern.is_object() && pattern.contains("Regex"))
        out.regex.emplace(required(pattern, "Regex"));
    else
        out.text = required(pattern, "String");
    if (!out.regex && out.text.empty())
        fail(Status::bad_file, tokenizer_json, "pattern: expected a text, got none");
    return out;
}

Matches read_behavior(const json& step, std::string_view otherwise) {
    const std::string name = field<std::string>(step, "behavior", std::string(otherwise));
    constexpr std::pair<std::string_view, Matches> names[] = {
        {"Removed", Matches::removed},
        {"Isolated", Matches::isolated},
        {"MergedWithPrevious", Matches::merged_with_previous},
        {"MergedWithNext", Matches::merged_with_next},
        {"Contiguous", Matches::contiguous}};
    for (const auto& [known, matches] : names)
        if (name == known) return matches;
    refuse("behavior", name);
}

/// The mark and prefix of Metaspace, as pre-tokenizer and as decoder; old files say add_prefix_space.
Metaspace read_metaspace(const json& step) {
    Metaspace out;
    out.mark = field<std::string>(step, "replacement", std::string(space_mark));
    if (out.mark.empty())
        fail(Status::bad_file, tokenizer_json, "replacement: expected a character, got none");
    const bool old_prefix = field(step, "add_prefix_space", true);
    const std::string scheme = field<std::string>(step, "prepend_scheme", old_prefix ? "always" : "never");
    if (scheme != "always" && scheme != "first" && scheme != "never") refuse("prepend_scheme", scheme);
    out.prefix = scheme == "always"  ? Metaspace::Prefix::always
                 : scheme == "first" ? Metaspace::Prefix::first
                                     : Metaspace::Prefix::never;
    out.split = field(step, "split", true);
    return out;
}

FramePart tokens_part(std::vector<TokenId> ids, uint32_t type) {
    return {FramePart::Kind::tokens, std::move(ids), type};
}

TokenId checked_id(const json& id, const Pipeline& p) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= p.tokens.size()) {
        fail(Status::bad_file, tokenizer_json, "post_processor: expected an id below ", p.tokens.size(),
             ", got ", id.dump().substr(0, 40));
    }
    return id.get<TokenId>();
}

Frame read_template(const json& step, const char* name, const Pipeline& p) {
    Frame frame;
    each(step, name, [&](const json& part) {
        if (part.contains("Sequence")) {
            const json& sequence = part["Sequence"];
            const bool second = required(sequence, "id") == "B";
            frame.push_back({second ? FramePart::Kind::second_text : FramePart::Kind::first_text,
                             {},
                             field<uint32_t>(sequence, "type_id", 0)});
            return;
        }
        const json& special = json_member(part, "SpecialToken", tokenizer_json);
        const json& known = json_member(step, "special_tokens", tokenizer_json);
        const json& entry = json_member(known, required(special, "id").c_str(), tokenizer_json);
        std::vector<TokenId> ids;
        each(entry, "ids", [&](const json& id) { ids.push_back(checked_id(id, p)); });
        frame.push_back(tokens_part(std::move(ids), field<uint32_t>(special, "type_id", 0)));
    });
    if (frame.empty()) fail(Status::bad_file, tokenizer_json, name, ": expected a text, got none");
    return frame;
}

}  // namespace

void read_normalizer(const json& step, std::vector<NormalizerStep>& out) {
    if (step.is_null()) return;
    const std::string type = required(step, "type");
    if (type == "Sequence") {
        each(step, "normalizers", [&](const json& member) { read_normalizer(member, out); });
    } else if (type == "NFC") {
        out.emplace_back(NormalForm::nfc);
    } else if (type == "NFD") {
        out.emplace_back(NormalForm::nfd);
    } else if (type == "NFKC") {
        out.emplace_back(NormalForm::nfkc);
    } else if (type == "NFKD") {
        out.emplace_back(NormalForm::nfkd);
    } else if (type == "Lowercase") {
        out.emplace_back(Lowercase());
    } else if (type == "StripAccents") {
        out.emplace_back(StripAccents());
    } else if (type == "ByteLevel") {
        out.emplace_back(ByteCharacters());
    } else if (type == "Nmt") {
        out.emplace_back(Nmt());
    } else if (type == "Strip") {
        out.emplace_back(StripSpaces{field(step, "strip_left", true), field(step, "strip_right", true)});
    } else if (type == "Prepend") {
        out.emplace_back(Prepend{required(step, "prepend")});
    } else if (type == "Replace") {
        out.emplace_back(Replace{read_pattern(step), required(step, "content")});
    } else if (type == "Precompiled") {
        const auto bytes = from_base64(required(step, "precompiled_charsmap"));
        if (!bytes) fail(Status::bad_file, tokenizer_json, "precompiled_charsmap: expected base64");
        out.emplace_back(Precompiled{Charsmap(*bytes, tokenizer_json)});
    } else if (type == "BertNormalizer") {
        const bool lowercase = field(step, "lowercase", true);
        out.emplace_back(BertRules{field(step, "clean_text", true), field(step, "handle_chinese_chars", true),
                                   field(step, "strip_accents", lowercase), lowercase});
    } else {
        refuse("normalizer", type);
    }
}

void read_pre_tokenizer(const json& step, std::vector<PreTokenizerStep>& out) {
    if (step.is_null()) return;
    const std::string type = required(step, "type");
    if (type == "Sequence") {
        each(step, "pretokenizers", [&](const json& member) { read_pre_tokenizer(member, out); });
    } else if (type == "ByteLevel") {
        if (field(step, "add_prefix_space", true)) out.emplace_back(PrefixSpace());
        if (field(step, "use_regex", true)) out.emplace_back(split_by(gpt2_expression));
        out.emplace_back(SpellBytes());
    } else if (type == "Metaspace") {
        out.emplace_back(read_metaspace(step));
    } else if (type == "Split") {
        Pattern pattern = read_pattern(step);
        const Matches matches = read_behavior(step, "Isolated");
        const bool inverted = field(step, "invert", false);
        if (pattern.regex)
            out.emplace_back(split_by(required(step["pattern"], "Regex"), matches, inverted));
        else
            out.emplace_back(Split{std::move(pattern), matches, inverted});
    } else if (type == "Digits") {
        const bool alone = field(step, "individual_digits", false);
        out.emplace_back(SplitCharacters{utf8::is_number, alone ? Matches::isolated : Matches::contiguous});
    } else if (type == "Punctuation") {
        out.emplace_back(SplitCharacters{utf8::is_punctuation, read_behavior(step, "Isolated")});
    } else if (type == "Whitespace") {
        // \w+|[^\w\s]+, with \w as Rust has it.
        constexpr std::string_view words = R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200c}\x{200d}]+)"
                                           R"(|[^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200c}\x{200d}\s]+)";
        out.emplace_back(split_by(words, Matches::removed, true));
    } else if (type == "WhitespaceSplit") {
        out.emplace_back(SplitCharacters{utf8::is_space, Matches::removed});
    } else if (type == "BertPreTokenizer") {
        out.emplace_back(SplitCharacters{utf8::is_space, Matches::removed});
        out.emplace_back(SplitCharacters{utf8::is_punctuation, Matches::isolated});
    } else if (type == "CharDelimiterSplit") {
        const std::string delimiter = required(step, "delimiter");
        if (delimiter.empty())
            fail(Status::bad_file, tokenizer_json, "delimiter: expected a character, got none");
        out.emplace_back(Split{{delimiter, {}}, Matches::removed, false});
    } else if (type == "UnicodeScripts") {
        out.emplace_back(SplitScripts());
    } else if (type == "FixedLength") {
        const uint32_t length = field<uint32_t>(step, "length", 5);
        if (length == 0) fail(Status::bad_file, tokenizer_json, "length: expected at least 1, got 0");
        out.emplace_back(FixedLength{length});
    } else {
        refuse("pre_tokenizer", type);
    }
}

void read_decoder(const json& step, std::vector<DecoderStep>& out) {
    if (step.is_null()) {
        out.emplace_back(JoinWithSpaces());
        return;
    }
    const std::string type = required(step, "type");
    if (type == "Sequence") {
        each(step, "decoders", [&](const json& member) { read_decoder(member, out); });
    } else if (type == "ByteLevel") {
        out.emplace_back(DecodeByteCharacters());
    } else if (type == "ByteFallback") {
        out.emplace_back(DecodeByteFallback());
    } else if (type == "Fuse") {
        out.emplace_back(Fuse());
    } else if (type == "Replace") {
        out.emplace_back(DecodeReplace{read_pattern(step), required(step, "content")});
    } else if (type == "Strip") {
        const std::string content = field<std::string>(step, "content", " ");
        if (content.empty())
            fail(Status::bad_file, tokenizer_json, "content: expected a character, got none");
        out.emplace_back(
            DecodeStrip{content, field<uint32_t>(step, "start", 0), field<uint32_t>(step, "stop", 0)});
    } else if (type == "Metaspace") {
        const Metaspace metaspace = read_metaspace(step);
        out.emplace_back(DecodeMetaspace{metaspace.mark, metaspace.prefix != Metaspace::Prefix::never});
    } else if (type == "WordPiece") {
        out.emplace_back(
            DecodeWordPiece{field<std::string>(step, "prefix", "##"), field(step, "cleanup", true)});
    } else if (type == "BPEDecoder") {
        const std::string suffix = field<std::string>(step, "suffix", "</w>");
        if (suffix.empty()) fail(Status::bad_file, tokenizer_json, "suffix: expected a text, got none");
        out.emplace_back(DecodeSuffix{suffix});
    } else if (type == "CTC") {
        out.emplace_back(DecodeCtc{field<std::string>(step, "pad_token", "<pad>"),
                                   field<std::string>(step, "word_delimiter_token", "|"),
                                   field(step, "cleanup", true)});
    } else {
        refuse("decoder", type);
    }
}

void read_post_processor(const json& step, Pipeline& out) {
    if (step.is_null()) return;
    const std::string type = required(step, "type");
    if (type == "Sequence") {
        int framing = 0;
        each(step, "processors", [&](const json& member) {
            if (required(member, "type") != "ByteLevel" && ++framing > 1)
                refuse("post_processor", "several that add tokens");
            read_post_processor(member, out);
        });
    } else if (type == "TemplateProcessing") {
        out.single = read_template(step, "single", out);
        out.pair = read_template(step, "pair", out);
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
        const auto id = [&](const char* name) {
            const json& token = json_member(step, name, tokenizer_json);  // ["[SEP]", 102]
            if (!token.is_array() || token.size() != 2)
                fail(Status::bad_file, tokenizer_json, name, ": expected a token and its id");
            return std::vector<TokenId>{checked_id(token[1], out)};
        };
        const bool bert = type == "BertProcessing";
        const std::vector<TokenId> first = id("cls"), last = id("sep");
        using Kind = FramePart::Kind;
        out.single = {tokens_part(first, 0), {Kind::first_text, {}, 0}, tokens_part(last, 0)};
        out.pair = out.single;
        if (!bert) out.pair.push_back(tokens_part(last, 0));
        out.pair.push_back({Kind::second_text, {}, bert ? 1u : 0u});
        out.pair.push_back(tokens_part(last, bert ? 1 : 0));
    } else if (type != "ByteLevel") {  // which only moves offsets
        refuse("post_processor", type);
    }
}

}  // namespace scoria
