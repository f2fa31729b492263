// Requests of the OpenAI API as they come over the wire, checked. What a field means is said by that API;
// those it has not are llama.cpp's and vLLM's (top_k, min_p, chat_template_kwargs, grammar, ...). Fields that
// are unknown are left alone, as clients send many; what is known and cannot be done is refused.
#pragma once

#include "chat_template.h"
#include "grammar/grammar.h"
#include "reply_parts.h"
#include "session.h"
#include "tokenizer/json.h"

#include <variant>

namespace scoria::server {

using Json = nlohmann::ordered_json;

/// What answers are like that say nothing else.
struct AnswerDefaults {
    GenerateOptions options;
    bool seeded = false;  // options.sampling.seed is theirs; else each has another one
};

/// How to answer.
struct AnswerRequest {
    std::vector<GenerateOptions> answers;  // one for each that is wanted of a prompt
    bool stream = false;
    bool usage_at_end = false;               // of a stream
    std::optional<grammar::Grammar> format;  // of them all, in place of their output_grammar
};

struct ChatRequest : AnswerRequest {
    Conversation conversation;
    std::string must_call;  // a function's name, or "*" for any; empty: none has to be called
};

struct CompletionRequest : AnswerRequest {
    std::vector<std::variant<std::string, std::vector<TokenId>>> prompts;
};

/// As llama.cpp's server and vLLM have it: what of a conversation is asked for, or of a text.
struct TokenizeRequest {
    std::optional<std::string> text;  // none: a conversation's, which parse_chat() reads
    bool add_special = false, parse_special = true;
    bool with_pieces = false;
};

struct EmbeddingRequest {
    std::vector<std::variant<std::string, std::vector<TokenId>>> inputs;
    bool base64 = false;
    std::optional<uint32_t> dimensions;
    std::optional<std::string> prompt_name;
};

/// As Jina's and Cohere's APIs have it, and others after them.
struct RankRequest {
    std::string query;
    std::vector<std::string> documents;
    size_t top = 0;  // the best so many alone; 0: all
    bool returns_documents = false;
    std::optional<std::string> prompt_name;
};

/// Errors: bad_argument, bad_file where it is no JSON; unsupported.
Json parse_body(const std::string& body);
ChatRequest parse_chat(const Json& body, const AnswerDefaults& defaults, uint32_t tokens);
CompletionRequest parse_completion(const Json& body, const AnswerDefaults& defaults, uint32_t tokens);
TokenizeRequest parse_tokenize(const Json& body);
std::vector<TokenId> parse_detokenize(const Json& body);
EmbeddingRequest parse_embedding(const Json& body);
RankRequest parse_rank(const Json& body);

/// The grammar of a text that calls one of the conversation's functions in this form: the one of that name,
/// or any for "*". Errors: bad_argument; unsupported.
grammar::Grammar call_grammar(const Json& tools, const std::string& name, const ReplyForm& form);

/// The grammar of a thought up to its end marker (ASCII), and behind it of what `rules` say.
grammar::Grammar behind_thought(grammar::Grammar rules, std::string_view end);

}  // namespace scoria::server
