// The tokenizer that a GGUF vocabulary means: one of six models, set up as the original was.
#include "tokenizer/vocabulary.h"

#include "fail.h"
#include "tokenizer/byte_characters.h"
#include "tokenizer/gguf_pre_tokenizers.h"
#include "tokenizer/pipeline.h"
#include "tokenizer/utf8.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace scoria {
namespace {

constexpr std::string_view where = "gguf";

bool is_user_defined(const Vocabulary& v, size_t i) { return v.types[i] == TokenType::user_defined; }

/// Spellings for a model: "" for the tokens of `left_out`.
template <class LeftOut> std::vector<std::string> spellings(const Vocabulary& v, const LeftOut& left_out) {
    std::vector<std::string> tokens = v.tokens;
    for (size_t i = 0; i < tokens.size(); ++i)
        if (left_out(i)) tokens[i].clear();
    return tokens;
}

/// Tokens beyond the model's, and which of them take the spaces beside them; that GGUF does not say, so it
/// goes by the model's name, as llama.cpp does.
std::vector<AddedToken> added_tokens(const Vocabulary& v) {
    std::string name = v.name;
    for (char& letter : name)
        letter = static_cast<char>(letter >= 'A' && letter <= 'Z' ? letter + 32 : letter);
    const auto one_of = [](std::string_view text, std::initializer_list<std::string_view> parts) {
        return std::ranges::any_of(parts,
                                   [&](std::string_view part) { return text.find(part) != text.npos; });
    };
    const bool jina = one_of(v.pre, {"jina-v2-de", "jina-v2-es", "jina-v2-code"}) ||
                      one_of(v.architecture, {"nomic-bert-moe", "jina-bert-v3"});
    const bool phi3 = one_of(name, {"phi-3", "phi3"});
    const bool modern_bert = one_of(name, {"modern-bert"});
    std::vector<AddedToken> added;
    for (size_t i = 0; i < v.tokens.size(); ++i) {
        const bool special = v.is_special(static_cast<TokenId>(i));
        if (v.tokens[i].empty() || (!special && !is_user_defined(v, i))) continue;
        AddedToken token{.text = v.tokens[i], .id = static_cast<TokenId>(i), .special = special};
        token.lstrip = (jina && token.text == "<mask>") || (modern_bert && token.text == "[MASK]");
        if (phi3) {
            token.rstrip = token.text != "<unk>" && token.text != "<s>" && token.text != "<|endoftext|>";
            // Not special in the original, which so finds it in any text.
            if (token.text == "</s>") token.special = false;
        }
        added.push_back(std::move(token));
    }
    return added;
}

/// The frame of `before`, text, `after`; a second text follows like the first.
void set_frames(Pipeline& p, std::vector<TokenId> before, std::vector<TokenId> after) {
    using Kind = FramePart::Kind;
    for (auto* ids : {&before, &after}) std::erase(*ids, -1);
    p.single = {{Kind::tokens, before, 0}, {Kind::first_text}, {Kind::tokens, after, 0}};
    p.pair = {{Kind::tokens, before, 0}, {Kind::first_text, {}, 0}, {Kind::tokens, after, 0}};
    const bool bert = !before.empty() && !after.empty();  // [CLS] A [SEP] B [SEP]
    if (!bert) p.pair.push_back({Kind::tokens, before, 1});
    p.pair.push_back({Kind::second_text, {}, 1});
    p.pair.push_back({Kind::tokens, after, 1});
}

void set_ends(Pipeline& p, const Vocabulary& v, bool adds_bos, bool adds_eos) {
    set_frames(p, {v.add_bos.value_or(adds_bos) ? v.bos : -1}, {v.add_eos.value_or(adds_eos) ? v.eos : -1});
}

Pipeline byte_bpe(const Vocabulary& v) {
    const std::string pre = !v.pre.empty() ? v.pre : v.model == "gpt2" ? "default" : v.model;
    const GgufPreTokenizer* row = gguf_pre_tokenizer(pre);
    if (row == nullptr)
        fail(Status::unsupported, where, "tokenizer.ggml.pre: this build does not know ", pre);
    Pipeline p;
    p.kind = cat(v.model, " (", pre, ")");
    if (row->nfc) p.normalizer.emplace_back(NormalForm::nfc);
    if (row->plain) p.normalizer.emplace_back(Replace{{" ", {}}, std::string(space_mark)});
    for (const std::string_view expression : row->expressions)
        p.pre_tokenizer.emplace_back(split_by(expression));

    std::vector<RankBpe::Merge> merges;
    merges.reserve(v.merges.size());
    for (const std::string_view merge : v.merges) {
        const size_t space = merge.find(' ', 1);  // a token may begin with a space, none ends in one
        merges.push_back({merge.substr(0, space), space == merge.npos ? "" : merge.substr(space + 1)});
    }
    RankBpe::Options options;
    options.whole_words = row->whole_words;
    options.spell_bytes = !row->plain;
    options.byte_fallback = row->plain;
    options.unknown = row->plain ? v.unknown : -1;
    options.fuse_unknown = true;
    auto model = std::make_unique<RankBpe>(v.tokens, merges, options, "gguf] [tokenizer.ggml.merges");
    if (row->plain && model->spellings().words_are_apart()) p.pre_tokenizer.emplace_back(SplitMarkedWords());
    p.model = std::move(model);

    p.tokens = v.tokens;
    for (size_t i = 0; i < p.tokens.size(); ++i) {
        if (v.types[i] != TokenType::normal && v.types[i] != TokenType::unused &&
            v.types[i] != TokenType::byte)
            continue;
        if (!row->plain)
            p.tokens[i] = from_byte_characters(p.tokens[i]).value_or(p.tokens[i]);
        else if (const auto byte = spelled_byte(p.tokens[i]))
            p.tokens[i].assign(1, static_cast<char>(*byte));
        else
            p.tokens[i] = replace_all(p.tokens[i], space_mark, " ");
    }
    set_ends(p, v, row->adds_bos, false);
    if (row->adds_sep || v.add_separator.value_or(false)) {
        const bool adds_bos = v.add_bos.value_or(true);
        set_frames(p, {adds_bos ? v.bos : -1}, {v.separator >= 0 ? v.separator : v.eos});
    }
    return p;
}

/// Errors: bad_file, for a byte token that spells none.
std::string byte_of(const Vocabulary& v, size_t i) {
    const auto byte = spelled_byte(v.tokens[i]);
    if (!byte)
        fail(Status::bad_file, where, "tokenizer.ggml.tokens: expected a byte token <0xXX>, got \"",
             v.tokens[i], "\" at ", i);
    return std::string(1, static_cast<char>(*byte));
}

/// Bytes of SentencePiece's tokens. Errors: bad_file, as above.
std::vector<std::string> unmarked_tokens(const Vocabulary& v) {
    std::vector<std::string> tokens = v.tokens;
    for (size_t i = 0; i < tokens.size(); ++i) {
        if (v.types[i] == TokenType::byte) {
            tokens[i] = byte_of(v, i);
        } else if (v.types[i] == TokenType::normal || v.types[i] == TokenType::unused) {
            tokens[i] = replace_all(tokens[i], space_mark, " ");
        }
    }
    return tokens;
}

void require_scores(const Vocabulary& v) {
    if (v.scores.empty()) fail(Status::bad_file, where, "tokenizer.ggml.scores is missing");
}

Pipeline sentencepiece_bpe(const Vocabulary& v) {
    require_scores(v);
    Pipeline p;
    p.kind = "llama (SentencePiece BPE)";
    p.tokens = unmarked_tokens(v);
    const bool prefix = v.add_space_prefix.value_or(true);
    p.normalizer.emplace_back(SentencePieceRules{{"", where}, prefix, false, true, false, {}});
    std::vector<bool> unused;
    for (const TokenType type : v.types) unused.push_back(type == TokenType::unused);
    auto model = std::make_unique<ScoreBpe>(
        spellings(v, [&](size_t i) { return v.is_special(static_cast<TokenId>(i)); }),
        std::vector<float>(v.scores.begin(), v.scores.end()), unused, std::vector<bool>(v.tokens.size()),
        ScoreBpe::Options{.unknown = v.unknown});
    if (model->spellings().words_are_apart()) p.pre_tokenizer.emplace_back(SplitMarkedWords());
    p.model = std::move(model);
    if (prefix) p.decoder.emplace_back(DropFirstSpace());
    p.hidden_count = true;
    set_ends(p, v, true, false);
    return p;
}

Pipeline unigram(const Vocabulary& v) {
    require_scores(v);
    Pipeline p;
    p.kind = "t5 (SentencePiece unigram)";
    p.tokens = unmarked_tokens(v);
    std::vector<bool> user_defined(v.tokens.size());
    std::vector<std::pair<std::string_view, TokenId>> symbols;
    double least = 0;
    bool any = false;
    for (size_t i = 0; i < v.tokens.size(); ++i) {
        user_defined[i] = is_user_defined(v, i);
        if (user_defined[i] && utf8::is_valid(v.tokens[i]))
            symbols.push_back({v.tokens[i], static_cast<TokenId>(i)});
        if (v.types[i] != TokenType::normal) continue;
        least = any ? std::min(least, v.scores[i]) : v.scores[i];
        any = true;
    }
    const bool prefix = v.add_space_prefix.value_or(true);
    p.normalizer.emplace_back(SentencePieceRules{
        {v.charsmap, where}, prefix, v.remove_extra_spaces.value_or(true), true, false, Trie(symbols)});
    const auto left_out = [&](size_t i) {
        return v.types[i] != TokenType::normal && v.types[i] != TokenType::user_defined;
    };
    p.model = std::make_unique<Unigram>(spellings(v, left_out), v.scores, user_defined, least,
                                        Unigram::Options{.unknown = v.unknown});
    if (prefix) p.decoder.emplace_back(DropFirstSpace());
    p.hidden_count = true;
    set_ends(p, v, false, true);
    return p;
}

/// Log probabilities count in steps of 1e-4, and a character that is no token, or none of a token, as -1000
/// (the published code's).
Pipeline plamo2(const Vocabulary& v) {
    constexpr double step = 1e-4, least = -1000;
    require_scores(v);
    Pipeline p;
    p.kind = "plamo2 (unigram)";
    p.tokens = v.tokens;
    std::vector<double> steps;
    for (size_t i = 0; i < v.tokens.size(); ++i) {
        steps.push_back(std::round(v.scores[i] / step));
        if (v.types[i] == TokenType::byte) p.tokens[i] = byte_of(v, i);
    }
    const auto left_out = [&](size_t i) {  // the converter pads with unused ones
        return v.is_special(static_cast<TokenId>(i)) || v.types[i] == TokenType::unused;
    };
    p.model = std::make_unique<Unigram>(
        spellings(v, left_out), std::move(steps), std::vector<bool>(v.tokens.size()),
        std::round(least / step),
        Unigram::Options{.unknown = v.unknown, .byte_fallback = true, .first_longest = true});
    set_ends(p, v, false, false);
    return p;
}

Pipeline word_piece(const Vocabulary& v) {
    Pipeline p;
    p.kind = "bert (WordPiece)";
    const bool lowercase = v.lowercase.value_or(true);
    p.normalizer.emplace_back(BertRules{true, true, v.strip_accents.value_or(lowercase), lowercase});
    p.pre_tokenizer.emplace_back(SplitCharacters{utf8::is_space, Matches::removed});
    p.pre_tokenizer.emplace_back(SplitCharacters{utf8::is_punctuation, Matches::isolated});
    // GGUF marks the starts of words, vocab.txt what is inside them.
    std::vector<std::string> tokens = v.tokens;
    p.tokens = v.tokens;
    for (size_t i = 0; i < tokens.size(); ++i) {
        if (tokens[i].starts_with(space_mark)) {
            tokens[i].erase(0, space_mark.size());
            p.tokens[i] = " " + tokens[i];
        } else if (!tokens[i].starts_with('[') || !tokens[i].ends_with(']') || tokens[i].size() < 3) {
            tokens[i].insert(0, "##");
        }
    }
    const auto given_or = [&](TokenId id, std::string_view spelling) {
        if (id >= 0) return id;
        const auto found = std::ranges::find(v.tokens, spelling);
        return found == v.tokens.end() ? -1 : static_cast<TokenId>(found - v.tokens.begin());
    };
    p.model = std::make_unique<WordPiece>(std::move(tokens),
                                          WordPiece::Options{.unknown = given_or(v.unknown, "[UNK]")});
    p.decoder.emplace_back(TidySpaces());
    p.bos = given_or(v.bos >= 0 ? v.bos : v.classifier, "[CLS]");
    const TokenId separator = given_or(v.separator, "[SEP]");
    set_frames(p, {v.add_bos.value_or(true) ? p.bos : -1}, {v.add_separator.value_or(true) ? separator : -1});
    return p;
}

/// Of a token spelled as in Python: \n, \\, \xFF. Errors: bad_file.
std::string python_bytes(std::string_view text) {
    std::string bytes;
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '\\') {
            bytes += text[i];
            continue;
        }
        const char kind = ++i < text.size() ? text[i] : '\0';
        constexpr std::string_view names = "nrt", meant = "\n\r\t";
        unsigned value = 0;
        if (const size_t known = names.find(kind); known != names.npos) {
            bytes += meant[known];
        } else if (kind != 'x') {
            bytes += kind;
        } else if (const char* digits = text.data() + i + 1;
                   text.size() - i > 2 && std::from_chars(digits, digits + 2, value, 16).ptr == digits + 2) {
            bytes += static_cast<char>(value);
            i += 2;
        } else {
            fail(Status::bad_file, where, "tokenizer.ggml.tokens: expected two digits after \\x, got ", text);
        }
    }
    return bytes;
}

Pipeline rwkv(const Vocabulary& v) {
    Pipeline p;
    p.kind = "rwkv (longest match)";
    p.tokens = v.tokens;
    for (size_t i = 0; i < p.tokens.size(); ++i)
        if (v.types[i] == TokenType::normal) p.tokens[i] = python_bytes(p.tokens[i]);
    std::vector<std::string> spelled = p.tokens;
    for (size_t i = 0; i < spelled.size(); ++i)
        if (v.types[i] != TokenType::normal) spelled[i].clear();
    p.model = std::make_unique<LongestMatch>(spelled, v.unknown);
    set_ends(p, v, false, false);
    return p;
}

}  // namespace

std::shared_ptr<const Tokenizer> make_tokenizer(const Vocabulary& v) {
    constexpr std::pair<std::string_view, Pipeline (*)(const Vocabulary&)> kinds[] = {
        {"gpt2", byte_bpe}, {"gemma4", byte_bpe}, {"llama", sentencepiece_bpe},
        {"t5", unigram},    {"bert", word_piece}, {"rwkv", rwkv},
        {"plamo2", plamo2}};
    const auto* kind = std::ranges::find(kinds, v.model, [](const auto& row) { return row.first; });
    if (kind == std::end(kinds)) {
        fail(Status::unsupported, where,
             "tokenizer.ggml.model: expected gpt2, gemma4, llama, t5, bert, rwkv or plamo2, got ", v.model);
    }
    Pipeline p = kind->second(v);
    p.added = added_tokens(v);
    for (TokenId id = 0; id < static_cast<TokenId>(v.tokens.size()); ++id)
        p.hidden.push_back(v.is_special(id) || std::ranges::binary_search(v.ends, id));
    if (p.bos < 0) p.bos = v.bos;
    p.eos = v.eos;
    p.ends = v.ends;
    return make_tokenizer(std::move(p), where);
}

}  // namespace scoria
