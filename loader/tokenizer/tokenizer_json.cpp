// tokenizer.json: vocabulary, merges and added tokens here, the lists of steps in tokenizer_json_steps.cpp.
#include "tokenizer/sources.h"

#include "tokenizer/tokenizer_json_steps.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_set>

namespace scoria {
namespace {

using nlohmann::json;

template <class T> T field(const json& object, const char* name, T otherwise) {
    return json_field<T>(object, name, std::move(otherwise), tokenizer_json);
}

/// Puts `text` at `id`. Ids may leave gaps, though not such that a small file fills the memory.
void place(std::vector<std::string>& tokens, const std::string& text, const json& id, size_t count) {
    const size_t most = 2 * count + (1 << 17);
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= most) {
        fail(Status::bad_file, tokenizer_json, "expected an id below ", most, " for \"", text.substr(0, 80),
             "\", got ", id.dump().substr(0, 40));
    }
    const size_t index = id.get<size_t>();
    if (index >= tokens.size()) tokens.resize(index + 1);
    if (tokens[index].empty()) tokens[index] = text;
}

/// The vocabulary by id, from an object of ids by token.
std::vector<std::string> read_vocab(const json& model) {
    const json& vocab = json_member(model, "vocab", tokenizer_json);
    if (!vocab.is_object() || vocab.empty())
        fail(Status::bad_file, tokenizer_json, "model.vocab: expected an object");
    std::vector<std::string> tokens;
    for (const auto& [text, id] : vocab.items()) place(tokens, text, id, vocab.size());
    return tokens;
}

TokenId find_token(const std::vector<std::string>& tokens, const std::string& text) {
    const auto found = text.empty() ? tokens.end() : std::ranges::find(tokens, text);
    return found == tokens.end() ? -1 : static_cast<TokenId>(found - tokens.begin());
}

TokenId unknown_token(const json& model, const std::vector<std::string>& tokens, std::string otherwise) {
    return find_token(tokens, field<std::string>(model, "unk_token", std::move(otherwise)));
}

std::vector<RankBpe::Merge> read_merges(const json& model) {
    const json& list = json_member(model, "merges", tokenizer_json);
    if (!list.is_array()) fail(Status::bad_file, tokenizer_json, "model.merges: expected a list");
    std::vector<RankBpe::Merge> merges;
    merges.reserve(list.size());
    for (const json& merge : list) {
        if (merge.is_string()) {
            const std::string_view text = merge.get_ref<const std::string&>();
            const size_t gap = text.find(' ');
            merges.push_back({text.substr(0, gap), gap == text.npos ? "" : text.substr(gap + 1)});
        } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
            merges.push_back(
                {merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>()});
        } else {
            fail(Status::bad_file, tokenizer_json, "model.merges: expected two tokens, got ",
                 merge.dump().substr(0, 80));
        }
    }
    return merges;
}

void read_bpe(const json& model, Pipeline& p) {
    if (const auto dropout = model.find("dropout");
        dropout != model.end() && dropout->is_number() && dropout->get<double>() != 0)
        fail(Status::unsupported, tokenizer_json,
             "model.dropout: this build does not support merging at random");
    p.tokens = read_vocab(model);
    RankBpe::Options options;
    options.unknown = unknown_token(model, p.tokens, "");
    options.fuse_unknown = field(model, "fuse_unk", false);
    options.byte_fallback = field(model, "byte_fallback", false);
    options.whole_words = field(model, "ignore_merges", false);
    options.prefix = field<std::string>(model, "continuing_subword_prefix", "");
    options.suffix = field<std::string>(model, "end_of_word_suffix", "");
    if (!p.pre_tokenizer.empty() && std::holds_alternative<SpellBytes>(p.pre_tokenizer.back())) {
        options.spell_bytes = true;
        p.pre_tokenizer.pop_back();
    }
    const bool per_piece = options.whole_words || !options.prefix.empty() || !options.suffix.empty();
    auto bpe = std::make_unique<RankBpe>(p.tokens, read_merges(model), std::move(options),
                                         "tokenizer.json] [model.merges");
    if (!per_piece && bpe->spellings().words_are_apart()) p.pre_tokenizer.emplace_back(SplitMarkedWords());
    p.model = std::move(bpe);
}

/// `number` as the library reads its shortest spelling: all digits as one integer, times or divided by one
/// power of ten (serde_json without float_roundtrip), which may be the neighbour of the nearest double. Ways
/// to write a text that cost the same, such as 3+33 and 33+3, are told apart by such bits.
double as_the_library_reads(double number) {
    char text[40];
    const char* const end =
        std::to_chars(text, text + sizeof text, std::abs(number), std::chars_format::scientific).ptr;
    uint64_t digits = 0;
    int exponent = 0;
    const char* at = text;
    for (bool fraction = false; at != end && *at != 'e'; ++at) {
        if (*at == '.') {
            fraction = true;
            continue;
        }
        digits = digits * 10 + static_cast<uint64_t>(*at - '0');
        exponent -= fraction;
    }
    int written = 0;
    if (at == end || std::from_chars(at + (at[1] == '+' ? 2 : 1), end, written).ec != std::errc())
        return number;
    exponent += written;
    const std::string power = cat("1e", std::abs(exponent));
    double scale = 1;
    std::from_chars(power.data(), power.data() + power.size(), scale);
    const double read =
        exponent < 0 ? static_cast<double>(digits) / scale : static_cast<double>(digits) * scale;
    return std::copysign(read, number);
}

void read_unigram(const json& model, Pipeline& p) {
    const json& vocab = json_member(model, "vocab", tokenizer_json);
    if (!vocab.is_array() || vocab.empty())
        fail(Status::bad_file, tokenizer_json, "model.vocab: expected a list");
    std::vector<double> scores;
    double least = 0;
    for (const json& entry : vocab) {
        if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number()) {
            fail(Status::bad_file, tokenizer_json, "model.vocab: expected a token and its score, got ",
                 entry.dump().substr(0, 80));
        }
        p.tokens.push_back(entry[0].get<std::string>());
        scores.push_back(as_the_library_reads(entry[1].get<double>()));
        least = scores.size() == 1 ? scores[0] : std::min(least, scores.back());
    }
    const uint32_t none = UINT32_MAX, unknown = field<uint32_t>(model, "unk_id", none);
    if (unknown != none && unknown >= scores.size())
        fail(Status::bad_file, tokenizer_json, "model.unk_id: expected an id below ", scores.size(), ", got ",
             unknown);
    const Unigram::Options options{.unknown = unknown == none ? -1 : static_cast<TokenId>(unknown),
                                   .byte_fallback = field(model, "byte_fallback", false),
                                   .bytes_are_text = true,
                                   .single_precision = false};
    std::vector<std::string> spellings = p.tokens;
    std::unordered_set<std::string_view> later;  // of equals the library finds the last
    for (size_t i = spellings.size(); i-- > 0;)
        if (!later.insert(p.tokens[i]).second) spellings[i].clear();
    p.model = std::make_unique<Unigram>(std::move(spellings), std::move(scores),
                                        std::vector<bool>(p.tokens.size()), least, options);
}

void read_model(const json& model, Pipeline& p) {
    // Old files do not name the kind; only BPE's has merges.
    const std::string type =
        field<std::string>(model, "type", model.contains("merges") ? "BPE" : "WordPiece");
    p.kind = cat("tokenizer.json (", type, ")");
    if (type == "BPE") return read_bpe(model, p);
    if (type == "Unigram") return read_unigram(model, p);
    if (type != "WordPiece" && type != "WordLevel")
        fail(Status::unsupported, tokenizer_json, "model: this build does not support ", type);
    p.tokens = read_vocab(model);
    const TokenId unknown = unknown_token(model, p.tokens, type == "WordPiece" ? "[UNK]" : "<unk>");
    if (type == "WordLevel") {
        p.model = std::make_unique<WordLevel>(p.tokens, unknown);
        return;
    }
    p.model = std::make_unique<WordPiece>(
        p.tokens, WordPiece::Options{unknown, field<std::string>(model, "continuing_subword_prefix", "##"),
                                     field<uint32_t>(model, "max_input_chars_per_word", 100)});
}

void read_added_tokens(const json& root, Pipeline& p) {
    const auto list = root.find("added_tokens");
    if (list == root.end() || list->is_null()) return;
    if (!list->is_array()) fail(Status::bad_file, tokenizer_json, "added_tokens: expected a list");
    for (const json& entry : *list) {
        AddedToken token;
        token.text = field<std::string>(entry, "content", "");
        token.special = field(entry, "special", false);
        token.single_word = field(entry, "single_word", false);
        token.lstrip = field(entry, "lstrip", false);
        token.rstrip = field(entry, "rstrip", false);
        token.normalized = field(entry, "normalized", true);
        const json& id = json_member(entry, "id", tokenizer_json);
        place(p.tokens, token.text, id, p.tokens.size() + list->size());
        token.id = id.get<TokenId>();
        // The library decodes a token to what it looks for, whatever the model has under that id.
        p.tokens[static_cast<size_t>(token.id)] =
            token.normalized ? normalize(p.normalizer, token.text) : token.text;
        p.added.push_back(std::move(token));
    }
    // It hides what is spelled as a special token: another token of that spelling too, but none that
    // normalization has changed.
    std::unordered_set<std::string_view> special;
    for (const AddedToken& token : p.added)
        if (token.special) special.insert(token.text);
    for (const std::string& token : p.tokens) p.hidden.push_back(special.contains(token));
}

}  // namespace

Pipeline read_tokenizer_json(std::string_view text) {
    const json root = parse_json(text, tokenizer_json);
    const auto part = [&](const char* name) {
        const auto found = root.find(name);
        return found == root.end() ? json() : *found;
    };
    Pipeline p;
    read_normalizer(part("normalizer"), p.normalizer);
    read_pre_tokenizer(part("pre_tokenizer"), p.pre_tokenizer);
    read_model(json_member(root, "model", tokenizer_json), p);
    read_added_tokens(root, p);
    read_post_processor(part("post_processor"), p);
    read_decoder(part("decoder"), p.decoder);
    p.ends = find_ends(p.tokens);
    // What the frame begins with is the beginning, what it ends with the end.
    for (const bool front : {true, false}) {
        const FramePart& outer = front ? p.single.front() : p.single.back();
        if (!outer.ids.empty()) (front ? p.bos : p.eos) = front ? outer.ids.front() : outer.ids.back();
    }
    if (p.eos < 0 && p.ends.size() == 1) p.eos = p.ends[0];
    return p;
}

namespace {

/// Translators' tokenizers frame a text by the token of its language, whatever tokenizer.json says (published
/// NLLB has an older frame there): before it, or behind the token that ends it.
struct LanguageFrame {
    std::string_view tokenizer_class;  // or with "Fast" behind
    const char* otherwise;             // the language, where src_lang says nothing
    bool before;                       // unless legacy_behaviour
};
constexpr LanguageFrame language_frames[] = {{"NllbTokenizer", "eng_Latn", true},
                                             {"MBart50Tokenizer", "en_XX", true},
                                             {"MBartTokenizer", "en_XX", false}};

void apply_language(Pipeline& p, const json& config, std::string_view where) {
    std::string name = json_field(config, "tokenizer_class", std::string(), where);
    if (name.ends_with("Fast")) name.resize(name.size() - 4);
    const auto frame = std::ranges::find(language_frames, name, &LanguageFrame::tokenizer_class);
    if (frame == std::end(language_frames)) return;
    const json stated = config.value("src_lang", json());
    const std::string language = stated.is_string() ? stated.get<std::string>() : frame->otherwise;
    const TokenId id = find_token(p.tokens, language);
    if (id < 0) fail(Status::bad_file, where, "src_lang: expected a token, got ", language);
    const bool before = frame->before && !json_field(config, "legacy_behaviour", false, where);
    const FramePart of_language{FramePart::Kind::tokens, {id}}, end{FramePart::Kind::tokens, {p.eos}};
    if (p.eos < 0) fail(Status::bad_file, where, "eos_token: expected a token, got none");
    p.single = {{FramePart::Kind::first_text}, end};
    p.pair = {{FramePart::Kind::first_text}, {FramePart::Kind::second_text}, end};
    for (Frame* each : {&p.single, &p.pair}) each->insert(before ? each->begin() : each->end(), of_language);
}

}  // namespace

void apply_tokenizer_config(Pipeline& p, std::string_view text) {
    constexpr std::string_view where = "tokenizer_config.json";
    const json config = parse_json(text, where);
    const auto token = [&](const char* name) -> TokenId {
        const auto found = config.find(name);
        if (found == config.end()) return -1;
        const json& value = found->is_object() && found->contains("content") ? (*found)["content"] : *found;
        return value.is_string() ? find_token(p.tokens, value.get<std::string>()) : -1;
    };
    if (const TokenId id = token("bos_token"); id >= 0) p.bos = id;
    if (const TokenId id = token("eos_token"); id >= 0) {
        p.eos = id;
        if (std::ranges::find(p.ends, id) == p.ends.end()) p.ends.push_back(id);
    }
    apply_language(p, config, where);
    // A file with a frame of its own has said it all.
    if (p.single.size() > 1) return;
    const auto add = [&](const char* name, TokenId id, bool front) {
        if (!json_field(config, name, false, where) || id < 0) return;
        const FramePart part{FramePart::Kind::tokens, {id}, 0};
        p.single.insert(front ? p.single.begin() : p.single.end(), part);
        p.pair.insert(front ? p.pair.begin() : p.pair.end(), part);
    };
    add("add_bos_token", p.bos, true);
    add("add_eos_token", p.eos, false);
}

}  // namespace scoria
