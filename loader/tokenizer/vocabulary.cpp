#include "tokenizer/vocabulary.h"

#include "fail.h"
#include "tokenizer/utf8.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace scoria {
namespace {

// A spelling is compared at every position of a text, so its length bounds that work.
constexpr size_t most_spelling_bytes = 1024;

// Texts by which published vocabularies end a turn, a message or a file without naming the token in a key.
constexpr std::string_view end_spellings[] = {
    "</s>",          "<|endoftext|>", "<|im_end|>",  "<|end|>",         "<|eot_id|>",
    "<|eom_id|>",    "<end_of_turn>", "<EOT>",       "<|end_of_text|>", "<reponame>",
    "<|repo_name|>", "<|file_sep|>",  "<|fim_pad|>", "<|return|>",      "<|call|>",
};

TokenId token_id(const GgufMetadata& metadata, std::string_view name, size_t tokens) {
    const std::string key = cat("tokenizer.ggml.", name, "_token_id");
    const std::optional<uint64_t> id = metadata.integer(key);
    if (!id) return -1;
    if (*id >= tokens) fail(Status::bad_file, "gguf", key, ": expected an id below ", tokens, ", got ", *id);
    return static_cast<TokenId>(*id);
}

std::vector<TokenType> read_types(const GgufMetadata& metadata, size_t tokens) {
    constexpr std::string_view key = "tokenizer.ggml.token_type";
    const std::optional<std::vector<int64_t>> values = metadata.integers(key);
    if (!values) return std::vector<TokenType>(tokens, TokenType::normal);
    if (values->size() != tokens)
        fail(Status::bad_file, "gguf", key, ": expected ", tokens, " values, got ", values->size());
    std::vector<TokenType> types;
    types.reserve(tokens);
    for (const int64_t value : *values) {
        if (value < 0 || value > 6) fail(Status::bad_file, "gguf", key, ": expected 0 to 6, got ", value);
        types.push_back(value == 0 ? TokenType::normal : static_cast<TokenType>(value));  // 0: undefined
    }
    return types;
}

}  // namespace

Vocabulary read_vocabulary(const GgufMetadata& metadata) {
    Vocabulary vocabulary;
    const std::string* model = metadata.text("tokenizer.ggml.model");
    if (model == nullptr)
        fail(Status::unsupported, "gguf", "tokenizer.ggml.model: the file has no vocabulary");
    vocabulary.model = *model;
    if (const std::string* pre = metadata.text("tokenizer.ggml.pre")) vocabulary.pre = *pre;

    const std::vector<std::string>* tokens = metadata.texts("tokenizer.ggml.tokens");
    if (tokens == nullptr || tokens->empty())
        fail(Status::bad_file, "gguf", "tokenizer.ggml.tokens is missing or empty");
    vocabulary.tokens = *tokens;
    vocabulary.types = read_types(metadata, tokens->size());
    if (const std::vector<std::string>* merges = metadata.texts("tokenizer.ggml.merges"))
        vocabulary.merges = *merges;
    vocabulary.scores = metadata.numbers("tokenizer.ggml.scores").value_or(std::vector<double>());
    if (!vocabulary.scores.empty() && vocabulary.scores.size() != tokens->size()) {
        fail(Status::bad_file, "gguf", "tokenizer.ggml.scores: expected ", tokens->size(), " values, got ",
             vocabulary.scores.size());
    }

    for (const double score : vocabulary.scores) {
        if (std::isnan(score))
            fail(Status::bad_file, "gguf", "tokenizer.ggml.scores: expected numbers, got a NaN");
    }

    vocabulary.bos = token_id(metadata, "bos", tokens->size());
    vocabulary.eos = token_id(metadata, "eos", tokens->size());
    vocabulary.unknown = token_id(metadata, "unknown", tokens->size());
    vocabulary.add_bos = metadata.boolean("tokenizer.ggml.add_bos_token");
    vocabulary.add_eos = metadata.boolean("tokenizer.ggml.add_eos_token");
    vocabulary.add_space_prefix = metadata.boolean("tokenizer.ggml.add_space_prefix");

    std::set<TokenId> ends;
    for (const char* name : {"eos", "eot", "eom"}) {
        const TokenId id = token_id(metadata, name, tokens->size());
        if (id >= 0) ends.insert(id);
    }
    for (size_t i = 0; i < tokens->size(); ++i) {
        if (std::ranges::find(end_spellings, std::string_view((*tokens)[i])) == std::end(end_spellings))
            continue;
        ends.insert(static_cast<TokenId>(i));
        // Some converters call such a token normal; llama.cpp, whose ids the fixtures hold, overrides that
        // too.
        if (vocabulary.types[i] == TokenType::normal) vocabulary.types[i] = TokenType::control;
    }
    vocabulary.ends.assign(ends.begin(), ends.end());
    return vocabulary;
}

void SpellingTrie::insert(std::string_view spelling, TokenId id) {
    uint32_t node = 0;
    for (const char byte : spelling) {
        const auto [slot, added] = nodes_[node].next.try_emplace(byte, static_cast<uint32_t>(nodes_.size()));
        node = slot->second;
        if (added) nodes_.emplace_back();
    }
    if (nodes_[node].id < 0) nodes_[node].id = id;
}

std::pair<TokenId, size_t> SpellingTrie::match(std::string_view text) const {
    std::pair<TokenId, size_t> best{-1, 0};
    uint32_t node = 0;
    for (size_t i = 0; i < text.size(); ++i) {
        const auto next = nodes_[node].next.find(text[i]);
        if (next == nodes_[node].next.end()) break;
        node = next->second;
        if (nodes_[node].id >= 0) best = {nodes_[node].id, i + 1};
    }
    return best;
}

VocabularyTokenizer::VocabularyTokenizer(Vocabulary vocabulary)
    : vocabulary_(std::move(vocabulary)), pieces_(vocabulary_.tokens) {
    for (size_t i = 0; i < pieces_.size(); ++i) {
        const TokenId id = static_cast<TokenId>(i);
        const bool user_defined = vocabulary_.types[i] == TokenType::user_defined;
        if (pieces_[i].empty() || (!user_defined && !vocabulary_.is_special(id))) continue;
        if (pieces_[i].size() > most_spelling_bytes) {
            fail(Status::bad_file, "gguf", "tokenizer.ggml.tokens: expected special tokens of at most ",
                 most_spelling_bytes, " bytes, got ", pieces_[i].size(), " in token ", id);
        }
        special_.insert(pieces_[i], id);
        if (user_defined) always_.insert(pieces_[i], id);
    }
}

std::vector<TokenId> VocabularyTokenizer::encode(std::string_view text, const EncodeOptions& options) const {
    std::string repaired;
    if (!utf8::is_valid(text)) text = repaired = utf8::valid(text);

    std::vector<TokenId> out;
    if (options.add_special && vocabulary_.add_bos.value_or(false) && vocabulary_.bos >= 0)
        out.push_back(vocabulary_.bos);
    size_t start = 0;
    auto literal = options.literal.begin();
    for (size_t i = 0; i < text.size();) {
        while (literal != options.literal.end() && literal->end <= i) ++literal;
        const size_t trusted_end =
            literal == options.literal.end() ? text.size() : std::max(literal->begin, i);
        const bool trusted = i < trusted_end && options.parse_special;
        auto [id, length] =
            trusted ? special_.match(text.substr(i, trusted_end - i)) : always_.match(text.substr(i));
        if (id < 0 && trusted) std::tie(id, length) = always_.match(text.substr(i));
        if (id < 0) {
            ++i;
            continue;
        }
        if (i > start) encode_text(text.substr(start, i - start), out);
        out.push_back(id);
        start = i += length;
    }
    if (start < text.size()) encode_text(text.substr(start), out);
    if (options.add_special && vocabulary_.add_eos.value_or(false) && vocabulary_.eos >= 0)
        out.push_back(vocabulary_.eos);
    return out;
}

std::string VocabularyTokenizer::piece(TokenId id, bool special) const {
    if (id < 0 || static_cast<size_t>(id) >= pieces_.size()) {
        fail(Status::bad_argument, "tokenizer", "expected an id below ", pieces_.size(), ", got ", id);
    }
    return !special && vocabulary_.is_special(id) ? std::string() : pieces_[static_cast<size_t>(id)];
}

std::string VocabularyTokenizer::decode(std::span<const TokenId> ids, bool special) const {
    std::string text;
    for (const TokenId id : ids) text += piece(id, special);
    return text;
}

bool VocabularyTokenizer::ends_generation(TokenId id) const {
    return std::ranges::binary_search(vocabulary_.ends, id);
}

}  // namespace scoria
