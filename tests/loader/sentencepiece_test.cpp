// SentencePiece models against the library itself, on texts that no fixture holds.
#include "file.h"
#include "model.h"
#include "test_env.h"
#include "tokenizer/sources.h"
#include "tokenizer/utf8.h"

#include <doctest/doctest.h>
#include <sentencepiece_processor.h>

#include <random>

using namespace scoria;
using namespace scoria::test;

TEST_CASE("SentencePiece's library gives the same ids and texts") {
    constexpr char32_t odd[] = {0x301,  0xFB01, 0xFF21,  0x3000, 0x2028, 0xA0,   0x200B, 0x2581, 0x4E2D,
                                0x30AB, 0xAC00, 0x1F600, 0xE9,   0x130,  0x2460, 0x85,   '\t',   '\n'};
    const std::string alice = read_file(fixtures() + "/text/alice.txt");
    struct Case {
        std::string name, kind;  // bytes of a second trainer_spec, which changes the model_type alone
    };
    const std::string word = "\x12\x02\x18\x03", character = "\x12\x02\x18\x04";
    for (const Case& c : {Case{"spm-bpe", ""},
                          {"spm-unigram", ""},
                          {"spm-bpe-byte-fallback", ""},
                          {"spm-bpe", word},
                          {"spm-unigram", word},
                          {"spm-bpe-byte-fallback", word},
                          {"spm-bpe", character},
                          {"spm-unigram", character},
                          {"spm-bpe-byte-fallback", character}}) {
        CAPTURE(c.name);
        CAPTURE(c.kind);
        const std::string bytes =
            read_file(fixtures() + "/hf_tokenizers/" + c.name + "/tokenizer.model", 1 << 24) + c.kind;
        sentencepiece::SentencePieceProcessor library;
        REQUIRE(library.LoadFromSerializedProto(bytes).ok());
        const auto tokenizer = make_tokenizer(read_sentencepiece(bytes), "test");
        std::mt19937 random(1);
        for (int round = 0; round < 500; ++round) {
            const size_t first = random() % (alice.size() - 400);
            std::string text;
            for (const char letter : alice.substr(first, random() % 300)) {
                text += letter;
                if (random() % 8 == 0) utf8::append(text, odd[random() % std::size(odd)]);
                if (random() % 16 == 0) text += "  ";
            }
            CAPTURE(text);
            const std::vector<int> ids = library.EncodeAsIds(text);
            REQUIRE(tokenizer->encode(text, {.add_special = false, .parse_special = false}) == ids);
            REQUIRE(tokenizer->decode(ids, false) == library.DecodeIds(ids));
        }
    }
}
