// A tokenizer as data: added tokens -> normalizer -> pre-tokenizer -> model -> frame of special tokens, and
// the decoder back. Every kind of file is read into one of these.
#pragma once

#include "tokenizer/added_tokens.h"
#include "tokenizer/decoder.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/token_model.h"

#include <memory>
#include <string>
#include <vector>

namespace scoria {

/// What stands around one text or two: tokens, or (empty) the place of a text, each with its type id.
struct FramePart {
    enum class Kind : uint8_t { tokens, first_text, second_text } kind;
    std::vector<TokenId> ids;
    uint32_t type = 0;
};
using Frame = std::vector<FramePart>;

struct Pipeline {
    std::string kind;                 // for people
    std::vector<std::string> tokens;  // by id: what the decoder begins with
    std::vector<bool> hidden;         // by id: written only on request
    bool hidden_count = false;        // the decoder sees an empty text for one that is not written
    std::vector<AddedToken> added;
    std::vector<NormalizerStep> normalizer;
    std::vector<PreTokenizerStep> pre_tokenizer;
    std::unique_ptr<const TokenModel> model;
    Frame single = {{FramePart::Kind::first_text}};
    Frame pair = {{FramePart::Kind::first_text, {}, 0}, {FramePart::Kind::second_text, {}, 1}};
    std::vector<DecoderStep> decoder;
    TokenId bos = -1, eos = -1;
    std::vector<TokenId> ends;  // EOS and the tokens that end a turn
};

/// Errors: bad_file, naming `where`.
std::shared_ptr<const Tokenizer> make_tokenizer(Pipeline pipeline, std::string_view where);

}  // namespace scoria
