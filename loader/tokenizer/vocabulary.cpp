#include "tokenizer/vocabulary.h"

#include "fail.h"
#include "tokenizer/pipeline.h"

#include <cmath>
#include <set>

namespace scoria {
namespace {

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
    if (model == nullptr || *model == "none" || *model == "no_vocab")
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
    vocabulary.separator = token_id(metadata, "seperator", tokens->size());  // the format's own spelling
    vocabulary.classifier = token_id(metadata, "cls", tokens->size());
    vocabulary.add_bos = metadata.boolean("tokenizer.ggml.add_bos_token");
    vocabulary.add_eos = metadata.boolean("tokenizer.ggml.add_eos_token");
    vocabulary.add_separator = metadata.boolean("tokenizer.ggml.add_sep_token");
    vocabulary.add_space_prefix = metadata.boolean("tokenizer.ggml.add_space_prefix");
    vocabulary.remove_extra_spaces = metadata.boolean("tokenizer.ggml.remove_extra_whitespaces");
    vocabulary.lowercase = metadata.boolean("tokenizer.ggml.normalizer.lowercase");
    vocabulary.strip_accents = metadata.boolean("tokenizer.ggml.normalizer.strip_accents");
    if (const auto bytes = metadata.integers("tokenizer.ggml.precompiled_charsmap")) {
        for (const int64_t byte : *bytes) vocabulary.charsmap += static_cast<char>(byte);
    }
    if (const std::string* name = metadata.text("general.name")) vocabulary.name = *name;
    if (const std::string* name = metadata.text("general.architecture")) vocabulary.architecture = *name;

    const std::vector<TokenId> known = find_ends(*tokens);
    std::set<TokenId> ends(known.begin(), known.end());
    for (const char* name : {"eos", "eot", "eom"}) {
        const TokenId id = token_id(metadata, name, tokens->size());
        if (id >= 0) ends.insert(id);
    }
    for (const TokenId id : known) {
        // Some converters call such a token normal; llama.cpp, whose ids the fixtures hold, overrides that
        // too.
        TokenType& type = vocabulary.types[static_cast<size_t>(id)];
        if (type == TokenType::normal) type = TokenType::control;
    }
    vocabulary.ends.assign(ends.begin(), ends.end());
    return vocabulary;
}

}  // namespace scoria
