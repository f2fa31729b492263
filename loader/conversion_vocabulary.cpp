// tokenizer.json under GGUF's keys: byte-level BPE ("gpt2", whose splitting GGUF knows by name) and BPE over
// text with byte fallback ("llama", which joins by scores; the rank of a merge gives the same order), and
// WordPiece of BERT ("bert"), and SentencePiece's unigram ("t5").
#include "conversion_folder.h"
#include "conversion_read_back.h"

#include "fail.h"
#include "file.h"
#include "hf_folder.h"
#include "model.h"
#include "tokenizer/base64.h"
#include "tokenizer/gguf_pre_tokenizers.h"
#include "tokenizer/json.h"
#include "tokenizer/vocabulary.h"

#include <algorithm>
#include <cstring>

namespace scoria {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Appends the steps of a pre-tokenizer or normalizer, sequences flattened.
void flatten(const json& step, const char* list, std::vector<json>& out) {
    if (!step.is_object()) return;
    if (!step.contains(list)) return out.push_back(step);
    for (const json& part : step[list]) flatten(part, list, out);
}

std::vector<json> pre_tokenizers_of(const json& file) {
    std::vector<json> steps;
    flatten(file.value("pre_tokenizer", json()), "pretokenizers", steps);
    return steps;
}
std::vector<json> normalizers_of(const json& file) {
    std::vector<json> steps;
    flatten(file.value("normalizer", json()), "normalizers", steps);
    return steps;
}

std::string kind_of(const json& step) { return json_field(step, "type", std::string(), "tokenizer.json"); }

/// GGUF's name for how a byte-level tokenizer splits text. Errors: unsupported, with the expressions.
std::string_view pre_tokenizer_name(const json& file, const std::string& where) {
    const std::string_view gpt2 = gguf_pre_tokenizer("gpt-2")->expressions.front();
    const std::vector<json> normalizers = normalizers_of(file);
    std::vector<std::string> expressions;
    for (const json& step : pre_tokenizers_of(file)) {
        const std::string kind = kind_of(step);
        if (kind == "Split" && step.contains("pattern") && step["pattern"].contains("Regex") &&
            step["pattern"]["Regex"].is_string())
            expressions.push_back(step["pattern"]["Regex"]);
        else if (kind == "Digits" && json_field(step, "individual_digits", false, where))
            expressions.push_back(R"(\p{N})");
        else if (kind == "ByteLevel" && json_field(step, "use_regex", true, where))
            expressions.emplace_back(gpt2);
        else if (kind != "ByteLevel")
            fail(Status::unsupported, where, "pre_tokenizer ", kind, " has no name in GGUF");
    }
    const bool nfc = normalizers.size() == 1 && kind_of(normalizers.front()) == "NFC";
    if (!normalizers.empty() && !nfc)
        fail(Status::unsupported, where, "normalizer ", kind_of(normalizers.front()), " has no name in GGUF");
    const bool whole_words = json_field(json_member(file, "model", where), "ignore_merges", false, where);
    for (const std::string_view name : gguf_pre_tokenizer_names()) {
        const GgufPreTokenizer& row = *gguf_pre_tokenizer(name);
        if (!row.plain && !row.adds_sep && row.nfc == nfc && row.whole_words == whole_words &&
            std::ranges::equal(row.expressions, expressions))
            return name;
    }
    std::string all;
    for (const std::string& expression : expressions) all += " " + expression;
    fail(Status::unsupported, where, "GGUF has no name for the pre_tokenizer", all);
}

/// Whether a text begins as if a space stood before it.
bool adds_space(const json& file, const std::string& where) {
    const auto adds = [&](const json& step) {
        const bool mark = kind_of(step) == "Metaspace" && json_field(step, "add_prefix_space", true, where) &&
                          json_field(step, "prepend_scheme", std::string("always"), where) != "never";
        return mark || kind_of(step) == "Prepend";
    };
    return std::ranges::any_of(normalizers_of(file), adds) ||
           std::ranges::any_of(pre_tokenizers_of(file), adds);
}

struct Tokens {
    std::vector<std::string> texts;
    std::vector<int32_t> types;
};

Tokens read_tokens(const json& file, uint32_t vocab, const std::string& where) {
    Tokens tokens;
    for (uint32_t i = 0; i < vocab; ++i) tokens.texts.push_back(cat("[PAD", i, "]"));
    tokens.types.assign(vocab, static_cast<int32_t>(TokenType::unused));
    const auto put = [&](uint64_t id, const std::string& text, TokenType type) {
        if (id >= vocab)
            fail(Status::bad_file, where, text, ": expected an id below vocab_size ", vocab, ", got ", id);
        tokens.texts[id] = text;
        tokens.types[id] = static_cast<int32_t>(type);
    };
    const auto put_special = [&] {
        for (const json& added : file.value("added_tokens", json::array())) {
            const std::string text = json_field(added, "content", std::string(), where);
            const bool special = json_field(added, "special", false, where);
            put(json_field(added, "id", uint32_t{UINT32_MAX}, where), text,
                special ? TokenType::control : TokenType::user_defined);
        }
    };
    const json& model = json_member(file, "model", where);
    const json& table = json_member(model, "vocab", where);
    if (table.is_array()) {  // Unigram: [piece, score] by id
        for (uint64_t id = 0; id < table.size(); ++id) put(id, table[id].at(0), TokenType::normal);
        put_special();
        if (const uint64_t id = json_field(model, "unk_id", uint32_t{UINT32_MAX}, where); id < vocab)
            tokens.types[id] = static_cast<int32_t>(TokenType::unknown);
        return tokens;
    }
    for (const auto& [text, id] : table.items()) {
        if (!id.is_number_unsigned()) fail(Status::bad_file, where, text, ": expected an id");
        const bool byte = text.size() == 6 && text.starts_with("<0x") && text.back() == '>';
        put(id, text, byte ? TokenType::byte : TokenType::normal);
    }
    put_special();
    if (const std::string unknown = json_field(model, "unk_token", std::string(), where);
        table.contains(unknown))
        put(table[unknown], unknown, TokenType::unknown);
    return tokens;
}

/// "left right", best first; files spell a pair as one string or as two.
std::vector<std::string> read_merges(const json& model, const std::string& where) {
    std::vector<std::string> merges;
    for (const json& merge : json_member(model, "merges", where)) {
        if (merge.is_string())
            merges.push_back(merge);
        else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
            merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
        else
            fail(Status::bad_file, where, "merges: expected pairs");
    }
    return merges;
}

/// SentencePiece joins the pair whose result has the highest score: minus the rank of the first merge that
/// makes it. Pieces that no merge makes come last.
std::vector<float> scores_of(const Tokens& tokens, const std::vector<std::string>& merges) {
    std::map<std::string, float> ranks;
    for (size_t i = 0; i < merges.size(); ++i) {
        std::string joined = merges[i];
        joined.erase(joined.find(' '), 1);
        ranks.emplace(std::move(joined), -static_cast<float>(i));
    }
    std::vector<float> scores;
    for (const std::string& text : tokens.texts) {
        const auto found = ranks.find(text);
        scores.push_back(found != ranks.end() ? found->second : -static_cast<float>(merges.size()));
    }
    return scores;
}

void set_id(GgufWriter& out, const char* key, TokenId id) {
    if (id >= 0) out.set(key, static_cast<uint32_t>(id));
}

/// WordPiece marks what is inside words with ##, GGUF what begins them.
void add_word_piece(const json& file, Tokens& tokens, const std::string& where, GgufWriter& out) {
    const json& model = json_member(file, "model", where);
    const json& normalizer = json_member(file, "normalizer", where);
    if (json_field(model, "continuing_subword_prefix", std::string("##"), where) != "##" ||
        !normalizer.is_object() || kind_of(normalizer) != "BertNormalizer" ||
        !json_field(normalizer, "clean_text", true, where) ||
        !json_field(normalizer, "handle_chinese_chars", true, where) ||
        kind_of(json_member(file, "pre_tokenizer", where)) != "BertPreTokenizer")
        fail(Status::unsupported, where,
             "WordPiece: GGUF knows BertNormalizer, BertPreTokenizer and the prefix ## alone");
    for (size_t i = 0; i < tokens.texts.size(); ++i) {
        if (tokens.types[i] != static_cast<int32_t>(TokenType::normal)) continue;
        std::string& text = tokens.texts[i];
        text = text.starts_with("##") ? text.substr(2) : "\u2581" + text;
    }
    const bool lowercase = json_field(normalizer, "lowercase", true, where);
    out.set("tokenizer.ggml.model", "bert");
    out.set("tokenizer.ggml.pre", "default");
    out.set("tokenizer.ggml.normalizer.lowercase", lowercase);
    out.set("tokenizer.ggml.normalizer.strip_accents",
            json_field(normalizer, "strip_accents", lowercase, where));
    constexpr std::pair<const char*, const char*> specials[] = {
        {"[CLS]", "tokenizer.ggml.bos_token_id"},
        {"[SEP]", "tokenizer.ggml.seperator_token_id"},  // the format's own spelling
        {"[PAD]", "tokenizer.ggml.padding_token_id"},
        {"[MASK]", "tokenizer.ggml.mask_token_id"}};
    for (const auto& [text, key] : specials)
        if (const auto found = std::ranges::find(tokens.texts, text); found != tokens.texts.end())
            out.set(key, static_cast<uint32_t>(found - tokens.texts.begin()));
}

/// SentencePiece's unigram, whose normalizer GGUF holds as it is.
void add_unigram(const json& file, const Tokens& tokens, const std::string& where, GgufWriter& out) {
    std::string charsmap;
    bool one_space = false;
    for (const json& step : normalizers_of(file))
        if (kind_of(step) == "Precompiled")
            charsmap =
                from_base64(json_field(step, "precompiled_charsmap", std::string(), where)).value_or("");
        else if (step.value("pattern", json()) == json{{"Regex", " {2,}"}})
            one_space = true;
        else
            fail(Status::unsupported, where, "normalizer ", kind_of(step), " has no name in GGUF");
    for (const json& step : pre_tokenizers_of(file))
        if (kind_of(step) == "WhitespaceSplit")
            one_space = true;
        else if (kind_of(step) != "Metaspace")
            fail(Status::unsupported, where, "pre_tokenizer ", kind_of(step), " has no name in GGUF");
    std::vector<float> scores;
    const json& table = json_member(json_member(file, "model", where), "vocab", where);
    for (const json& piece : table) scores.push_back(piece.at(1).get<float>());
    scores.resize(tokens.texts.size());
    out.set("tokenizer.ggml.model", "t5");
    out.set("tokenizer.ggml.pre", "default");
    out.set("tokenizer.ggml.scores", scores);
    out.set("tokenizer.ggml.add_space_prefix", adds_space(file, where));
    out.set("tokenizer.ggml.remove_extra_whitespaces", one_space);
    if (charsmap.empty()) return;
    constexpr uint32_t u8 = 0, array = 9;  // GGUF's numbers
    const uint64_t count = charsmap.size();
    std::string value(sizeof u8 + sizeof count, '\0');
    std::memcpy(value.data(), &u8, sizeof u8);
    std::memcpy(value.data() + sizeof u8, &count, sizeof count);
    value += charsmap;
    out.set_raw("tokenizer.ggml.precompiled_charsmap", array, std::as_bytes(std::span(value)));
}

/// Two of the tokens that end an answer, of those that no reader knows by their spelling.
void add_ends(const Tokens& tokens, const Tokenizer& tokenizer, TokenId eos, GgufWriter& out) {
    const std::vector<TokenId> known = find_ends(tokens.texts);
    const char* const names[] = {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"};
    auto name = std::begin(names);
    for (TokenId id = 0; id < TokenId(tokenizer.size()) && name != std::end(names); ++id)
        if (tokenizer.ends_generation(id) && id != eos && !std::ranges::binary_search(known, id))
            set_id(out, *name++, id);
}

/// What is written must be read as what makes the same tokens of every text; so of these. Errors:
/// unsupported.
void check_vocabulary(const Tokenizer& folder, const GgufWriter& out, const std::string& where) {
    constexpr const char* texts[] = {"",
                                     "Hello world",
                                     " leading",
                                     "trailing ",
                                     "a  b",
                                     "  two",
                                     "tab\tand",
                                     "\n\n line\r\n",
                                     "I'm we'LL",
                                     "1234567.89",
                                     "Ünïcode ǅ ﬁ Å",
                                     "漢字かな 中文",
                                     "\xF0\x9F\x99\x82 \xF0\x90\x80\x80",
                                     "x_y-z/#?!<s>",
                                     "Привет العربية ٣٤"};
    const std::shared_ptr<const Tokenizer> written = make_tokenizer(read_vocabulary(metadata_read_back(out)));
    for (const char* text : texts) {
        if (*text == ' ' && written->kind().starts_with("llama")) continue;
        const EncodeOptions plain{.add_special = true, .parse_special = false};
        const std::vector<TokenId> ours = folder.encode(text, plain), its = written->encode(text, plain);
        const auto shown = [](const std::vector<TokenId>& ids) {
            std::string all;
            for (const TokenId id : ids) all += cat(all.empty() ? "" : " ", id);
            return all;
        };
        if (ours != its)
            fail(Status::unsupported, where, "GGUF has no tokenizer like it: expected the ids ", shown(ours),
                 " for \"", text, "\", got ", shown(its));
    }
}

}  // namespace

void add_folder_vocabulary(const fs::path& folder, uint32_t vocab, GgufWriter& out) {
    const fs::path path = folder / "tokenizer.json";
    if (!fs::exists(path)) {
        if (fs::exists(folder / "tokenizer.model"))
            fail(Status::unsupported, folder.string(),
                 "expected tokenizer.json; tokenizer.model alone is not converted");
        return out.set("tokenizer.ggml.model", "none");  // without the key others refuse the file
    }
    const std::string where = path.string();
    const json file = parse_json(read_file(where, 1 << 28), where);
    const json& model = json_member(file, "model", where);
    const std::string type = json_field(model, "type", std::string("BPE"), where);
    if (type != "BPE" && type != "WordPiece" && type != "Unigram")
        fail(Status::unsupported, where, "model: expected BPE, Unigram or WordPiece, got ", type);
    const std::shared_ptr<const Tokenizer> tokenizer = open_tokenizer(folder);
    Tokens tokens = read_tokens(file, vocab, where);
    const std::vector<std::string> merges =
        type == "BPE" ? read_merges(model, where) : std::vector<std::string>();
    if (type == "WordPiece") {
        add_word_piece(file, tokens, where, out);
    } else if (type == "Unigram") {
        add_unigram(file, tokens, where, out);
    } else if (json_field(model, "byte_fallback", false, where)) {
        out.set("tokenizer.ggml.model", "llama");
        out.set("tokenizer.ggml.pre", "default");
        out.set("tokenizer.ggml.scores", scores_of(tokens, merges));
        out.set("tokenizer.ggml.add_space_prefix", adds_space(file, where));
    } else {
        out.set("tokenizer.ggml.model", "gpt2");
        out.set("tokenizer.ggml.pre", pre_tokenizer_name(file, where));
        out.set("tokenizer.ggml.merges", merges);
    }
    out.set("tokenizer.ggml.tokens", tokens.texts);
    out.set("tokenizer.ggml.token_type", tokens.types);
    set_id(out, "tokenizer.ggml.bos_token_id", tokenizer->bos());
    const std::vector<TokenId> framed = tokenizer->encode("", {.add_special = true, .parse_special = false});
    const bool adds_eos = type != "WordPiece" && !framed.empty() && framed.back() != tokenizer->bos();
    const TokenId eos = adds_eos ? framed.back() : tokenizer->eos();
    set_id(out, "tokenizer.ggml.eos_token_id", eos);
    add_ends(tokens, *tokenizer, eos, out);
    const auto unknown = std::ranges::find(tokens.types, static_cast<int32_t>(TokenType::unknown));
    if (unknown != tokens.types.end())
        out.set("tokenizer.ggml.unknown_token_id", static_cast<uint32_t>(unknown - tokens.types.begin()));
    out.set("tokenizer.ggml.add_bos_token", tokenizer->adds_bos());
    if (adds_eos || type == "Unigram") out.set("tokenizer.ggml.add_eos_token", adds_eos);
    const std::vector<TokenId> suppressed = stated_tokens(folder, suppressed_key, vocab);
    if (!suppressed.empty()) out.set(gguf_suppressed_key, suppressed);
    if (const std::string chat = chat_template_of(folder); !chat.empty())
        out.set("tokenizer.chat_template", chat);
    check_vocabulary(*tokenizer, out, where);
}

}  // namespace scoria
