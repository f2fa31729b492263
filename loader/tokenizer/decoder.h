// Tokens back to text, as a list of steps (data, run by decode()): each changes the list of the tokens'
// texts, and what is left is joined.
#pragma once

#include "tokenizer/normalizer.h"

#include <string>
#include <variant>
#include <vector>

namespace scoria {

struct DecodeByteCharacters {};  // GPT-2's characters to bytes; what is not UTF-8 becomes U+FFFD
struct DecodeByteFallback {      // "<0x0A>" to a byte
    bool whole_runs =
        true;  // a run that is not UTF-8 becomes U+FFFD for each byte, not for its bad bytes only
};
struct Fuse {};            // all become one
struct JoinWithSpaces {};  // tokenizer.json without a decoder
struct DecodeReplace {
    Pattern pattern;
    std::string content;
};
struct DecodeStrip {  // up to so many of the character on each side
    std::string character;
    size_t start = 0, stop = 0;
};
struct DecodeMetaspace {
    std::string mark;
    bool prefixed = true;  // the first token's marks are the prefix
};
/// SentencePiece's own: a mark in front is the prefix, and where extra spaces are removed there are no
/// others.
struct DecodeSpaceMarks {
    bool drop_first = true, drop_leading = true;
};
struct DecodeWordPiece {
    std::string prefix = "##";
    bool cleanup = true;
};
struct DecodeSuffix {  // of the last character of a word: a space, but at the end
    std::string suffix;
};
struct DecodeCtc {
    std::string pad, word_delimiter;
    bool cleanup = true;
};
struct TidySpaces {};      // llama.cpp's clean-up: none before punctuation and contractions
struct DropFirstSpace {};  // of the first token, the prefix that encoding puts there

using DecoderStep = std::variant<DecodeByteCharacters, DecodeByteFallback, Fuse, JoinWithSpaces,
                                 DecodeReplace, DecodeStrip, DecodeMetaspace, DecodeSpaceMarks,
                                 DecodeWordPiece, DecodeSuffix, DecodeCtc, TidySpaces, DropFirstSpace>;

std::string decode(const std::vector<DecoderStep>& steps, std::vector<std::string> tokens);

/// The bytes that `token` adds inside a text; not always whole characters.
std::string decode_piece(const std::vector<DecoderStep>& steps, std::string token);

}  // namespace scoria
