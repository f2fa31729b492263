// Tokenizers against the ids of the reference implementations, case by case.
#include "tokenizer/tokenizer.h"

#include "fail.h"
#include "file.h"
#include "gguf_builder.h"
#include "model.h"
#include "system.h"
#include "test_env.h"
#include "tokenizer/unicode.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cmath>

using namespace scoria;
using namespace scoria::test;
using nlohmann::json;

namespace {

/// The text of a case: `name`, or `name`_hex where it is not UTF-8.
std::string text_of(const json& entry, const std::string& name) {
    if (entry.contains(name)) return entry[name];
    const std::string hex = entry.at(name + "_hex");
    std::string bytes;
    for (size_t i = 0; i < hex.size(); i += 2)
        bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    return bytes;
}

bool has_text(const json& entry, const std::string& name) {
    return entry.contains(name) || entry.contains(name + "_hex");
}

std::string stream(const Tokenizer& tokenizer, std::span<const TokenId> ids) {
    StreamDecoder decoder(tokenizer, true);
    std::string text;
    for (const TokenId id : ids) text += decoder.push(id);
    return text + decoder.finish();
}

std::shared_ptr<const Tokenizer> letters() {
    GgufFile file;
    add_vocabulary(file, {"a", "b", "c", "ab", "abc", "<s>", "<u>", "\xC3\xA2"},
                   {"a b", "ab c"});  // U+00E2 spells byte E2
    file.metadata["tokenizer.ggml.token_type"] = std::vector<int32_t>{1, 1, 1, 1, 1, 3, 4, 1};
    file.metadata["tokenizer.ggml.bos_token_id"] = 5u;
    file.metadata["tokenizer.ggml.eos_token_id"] = 5u;
    file.metadata["tokenizer.ggml.add_bos_token"] = true;
    file.metadata["tokenizer.ggml.add_eos_token"] = true;
    return open_tokenizer(TemporaryFile(file.bytes()).path());
}

}  // namespace

TEST_CASE("published vocabularies give the reference's ids and bytes" * needs_fixtures()) {
    for (const std::string name :
         {"gpt-2", "llama-bpe", "qwen2", "falcon", "deepseek-llm", "llama-spm", "phi-3", "bert-bge"}) {
        CAPTURE(name);
        const auto tokenizer = open_tokenizer(fixtures() + "/tokenizers/" + name + ".gguf");
        const json fixture = json::parse(read_file(fixtures() + "/tokenizers/" + name + ".json"));
        const json& meta = fixture["meta"];
        CHECK(tokenizer->size() == meta["n_vocab"]);
        CHECK(tokenizer->bos() == meta["bos"]);
        CHECK(tokenizer->eos() == meta["eos"]);
        CHECK(tokenizer->adds_bos() == meta["add_bos"]);
        std::vector<TokenId> ends;
        for (TokenId id = 0; id < static_cast<TokenId>(tokenizer->size()); ++id) {
            if (tokenizer->ends_generation(id)) ends.push_back(id);
        }
        CHECK(ends == meta["eog"].get<std::vector<TokenId>>());
        for (const json& pair : fixture["pieces_hex"]) {
            const TokenId id = pair[0];
            CAPTURE(id);
            CHECK(tokenizer->piece(id, true) == text_of({{"piece_hex", pair[1]}}, "piece"));
        }
        for (const json& entry : fixture["cases"]) {
            const std::string text = text_of(entry, "text");
            CAPTURE(text);
            // Where two references disagree the original tokenizer is right: it composes (NFC), the other
            // does not.
            const auto plain = entry.value("ids_hf", entry["ids_plain"]).get<std::vector<TokenId>>();
            CHECK(tokenizer->encode(text, {.add_special = false, .parse_special = false}) == plain);
            const auto special = entry["ids_special"].get<std::vector<TokenId>>();
            if (!entry.contains("ids_hf")) CHECK(tokenizer->encode(text) == special);
            const auto ids = entry["ids_plain"].get<std::vector<TokenId>>();
            std::string joined;
            for (const TokenId id : ids) joined += tokenizer->piece(id, true);
            const bool differ = has_text(entry, "joined");
            CHECK(joined == text_of(entry, differ ? "joined" : "detok"));
            // For byte-level vocabularies the two differ where the reference drops spaces before punctuation,
            // which loses text; decode() gives the bytes. For SentencePiece it is the space in front.
            const bool drops_spaces = differ && meta["type"] == "bpe";
            CHECK(tokenizer->decode(ids, true) == text_of(entry, drops_spaces ? "joined" : "detok"));
            if (drops_spaces) continue;
            CHECK(tokenizer->decode(special, true) == text_of(entry, "detok_special"));
            CHECK(tokenizer->decode(special, false) == text_of(entry, "detok_skip_special"));
        }
    }
}

TEST_CASE("a hidden token in front keeps the first word's space, as in llama.cpp") {
    for (const std::string model : {"llama", "t5"}) {
        GgufFile file;
        add_vocabulary(file, {"<unk>", "<s>", "\u2581a"}, {});
        file.metadata["tokenizer.ggml.model"] = model;
        file.metadata["tokenizer.ggml.scores"] = std::vector<float>{0, 0, -1};
        file.metadata["tokenizer.ggml.token_type"] = std::vector<int32_t>{2, 3, 1};
        file.metadata["tokenizer.ggml.bos_token_id"] = 1u;
        const auto tokenizer = open_tokenizer(TemporaryFile(file.bytes()).path());
        CHECK(tokenizer->decode(std::vector<TokenId>{1, 2}, false) == " a");
        CHECK(tokenizer->decode(std::vector<TokenId>{2}, false) == "a");
    }
}

TEST_CASE("PLaMo 2's unigram takes the longest token first where sums are the same") {
    std::vector<std::string> tokens{"<|plamo:unk|>", "<|plamo:bos|>", "<|plamo:eos|>"};
    std::vector<int32_t> types{2, 3, 3};
    for (unsigned byte = 0; byte < 256; ++byte) {
        constexpr std::string_view digits = "0123456789ABCDEF";
        tokens.push_back(std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">");
        types.push_back(6);
    }
    std::vector<float> scores(tokens.size(), 0);
    const std::pair<const char*, float> words[] = {
        {"a", -1.5f},        {"aa", -3},         {"ab", -2.25f},      {"b", -1.25f},  {"日", -4},
        {"日本", -5},        {"本語", -5},       {"語", -4},          {" ", -2},      {"  ", -4},
        {" the", -3.00004f}, {"the", -1.00001f}, {"語日本語", -1200}, {"\u2581a", -2}};
    for (const auto& [word, score] : words) {
        tokens.push_back(word);
        scores.push_back(score);
        types.push_back(1);
    }
    tokens.push_back("[PAD1]");
    scores.push_back(-1000);
    types.push_back(5);
    GgufFile file;
    add_vocabulary(file, tokens, {});
    file.metadata["tokenizer.ggml.model"] = std::string("plamo2");
    file.metadata["tokenizer.ggml.scores"] = scores;
    file.metadata["tokenizer.ggml.token_type"] = types;
    file.metadata["tokenizer.ggml.bos_token_id"] = 1u;
    const auto tokenizer = open_tokenizer(TemporaryFile(file.bytes()).path());
    using Ids = std::vector<TokenId>;
    const std::pair<std::string, Ids> cases[] = {
        // by a dynamic program over all ways to write the text
        {"aaa", {260, 259}},
        {"aaaaa", {260, 260, 259}},
        {"abab", {261, 261}},
        {"日本語", {264, 266}},
        {"日本語日本語", {264, 266, 264, 266}},  // -1200 is worse than what it is made of
        {"é", {198, 172}},
        {"🙂a", {243, 162, 156, 133, 259}},
        {"   the  the", {268, 269, 268, 270}},
        {"<0x41>", {63, 51, 123, 55, 52, 65}},
        {"\u2581a", {272}},
        {"\uFEFFa", {242, 190, 194, 259}},
        {"", {}},
    };
    for (const auto& [text, ids] : cases) {
        CAPTURE(text);
        CHECK(tokenizer->encode(text) == ids);
        CHECK(tokenizer->decode(ids, true) == text);
    }
    for (const std::string never : {"<|plamo:bos|>", "[PAD1]"}) {
        CAPTURE(never);
        const Ids ids = tokenizer->encode(never, {.parse_special = false});
        CHECK(ids.size() > 1);
        CHECK(tokenizer->decode(ids, true) == never);
    }
}

TEST_CASE("the default model gives the golden's ids" * needs_fixtures()) {
    if (default_model().empty()) {
        MESSAGE("left out: SCORIA_MODEL names no model");
        return;
    }
    const Model model = open_model(default_model());
    const json golden = json::parse(read_file(fixtures() + "/smollm2/golden.json"));
    for (const TokenId id : golden["eog_token_ids"]) CHECK(model.tokenizer->ends_generation(id));
    for (const json& prompt : golden["prompts"]) {
        const std::string text = prompt[prompt.contains("rendered") ? "rendered" : "text"];
        CAPTURE(text);
        CHECK(model.tokenizer->encode(text) == prompt["ids"].get<std::vector<TokenId>>());
        const auto greedy = prompt["greedy"].get<std::vector<TokenId>>();
        CHECK(model.tokenizer->decode(greedy, false) == prompt["greedy_text"]);
    }
    const std::string alice = read_file(fixtures() + "/text/alice.txt");
    CHECK(model.tokenizer->decode(model.tokenizer->encode(alice), true) == alice);
}

TEST_CASE("normalization form C") {
    // Checked once against Python's unicodedata over every character and 100,000 random sequences.
    const std::pair<std::string, std::string> cases[] = {
        {"plain", "plain"},
        {"e\u0301", "\u00E9"},
        {"\u2126\u212B", "\u03A9\u00C5"},                // singletons
        {"s\u0307\u0323", "\u1E69"},                     // reordered, then composed twice
        {"a\u0315\u0300", "\u00E0\u0315"},               // a higher class does not block a lower one
        {"a\u0305\u0301", "a\u0305\u0301"},              // an equal one does
        {"\u0958", "\u0915\u093C"},                      // excluded from composition
        {"\u1112\u1161\u11AB \uD55C", "\uD55C \uD55C"},  // Hangul, by arithmetic
        {"\u0301e", "\u0301e"},
        {"", ""},
    };
    for (const auto& [text, composed] : cases) CHECK(utf8::nfc(text) == composed);
}

TEST_CASE("compatibility forms, and where their table ends") {
    const std::pair<const char*, const char*> cases[] = {
        {"\xC2\xA0", " "},                         // the first row
        {"\xEF\xAC\x83", "ffi"},                   // a ligature
        {"\xF0\x9F\xAF\xB9", "9"},                 // U+1FBF9, the last row
        {"\xF0\xBF\xBF\xBF", "\xF0\xBF\xBF\xBF"},  // U+3FFFF, behind all rows
        {"\xF4\x8F\xBF\xBF", "\xF4\x8F\xBF\xBF"},  // U+10FFFF
        {"\xF0\xAF\xA8\x9D", "\xF0\xAA\x98\x80"},  // U+2FA1D, a canonical one
    };
    for (const auto& [text, form] : cases) {
        CHECK(utf8::normal_form(text, utf8::NormalForm::nfkc) == form);
        CHECK(utf8::normal_form(text, utf8::NormalForm::nfkd) == form);
    }
}

TEST_CASE("merges, special tokens and both ends") {
    const auto tokenizer = letters();
    struct Case {
        const char* text;
        EncodeOptions options;
        std::vector<TokenId> ids;
    };
    const Case cases[] = {
        {"abcab", {false, false}, {4, 3}},    {"abcab", {true, false}, {5, 4, 3, 5}},
        {"", {true, true}, {5, 5}},           {"a<s>b", {false, true}, {0, 5, 1}},
        {"a<s>b", {false, false}, {0, 1}},     // '<', 's' and '>' are no tokens here
        {"a<u>b", {false, false}, {0, 6, 1}},  // user-defined: always
        {"zab", {false, false}, {3}},
    };
    for (const Case& c : cases) {
        CAPTURE(c.text);
        CHECK(tokenizer->encode(c.text, c.options) == c.ids);
    }
    CHECK(tokenizer->piece(5, false) == "");
    CHECK(tokenizer->piece(5, true) == "<s>");
    CHECK(tokenizer->piece(6, false) == "<u>");
    CHECK(tokenizer->piece(7, false) == "\xE2");
    CHECK(tokenizer->ends_generation(5));
    CHECK_FALSE(tokenizer->ends_generation(0));
    for (const TokenId bad : {-1, 8}) CHECK_THROWS_AS(tokenizer->piece(bad, true), Error);
}

TEST_CASE("SentencePiece merges by score, falls back to bytes, and across spaces if a token does") {
    struct Case {
        const char* text;
        std::vector<TokenId> ids;
    };
    GgufFile file;
    file.metadata = {
        {"tokenizer.ggml.model", "llama"},
        {"tokenizer.ggml.tokens",
         std::vector<std::string>{"<unk>", "\u2581", "a", "b", "ab", "ba", "<0xC3>", "a\u2581"}},
        {"tokenizer.ggml.token_type", std::vector<int32_t>{2, 1, 1, 1, 1, 1, 6, 1}},
        {"tokenizer.ggml.scores", std::vector<float>{0, -1, -2, -3, -5, -4, 0, -1}},
        {"tokenizer.ggml.unknown_token_id", 0u},
        {"tokenizer.ggml.add_bos_token", false},
        {"tokenizer.ggml.add_space_prefix", false},
    };
    const Case crossing[] = {
        {"aba", {2, 5}},  // "ba" scores above "ab"
        {"abab", {2, 5, 3}},
        {"b a b", {3, 1, 7, 3}},  // "a" joins the space behind it
        {"\u00E9", {6, 0}},       // bytes C3 A9, of which the vocabulary has one
        {"", {}},
    };
    const auto tokenizer = open_tokenizer(TemporaryFile(file.bytes()).path());
    for (const Case& c : crossing) {
        CAPTURE(c.text);
        CHECK(tokenizer->encode(c.text) == c.ids);
    }
    CHECK(tokenizer->piece(6, false) == "\xC3");
    file.metadata["tokenizer.ggml.scores"] = std::vector<float>(8, std::nanf(""));
    CHECK_THROWS_AS(open_tokenizer(TemporaryFile(file.bytes()).path()), Error);
    file.metadata.erase("tokenizer.ggml.scores");
    CHECK_THROWS_AS(open_tokenizer(TemporaryFile(file.bytes()).path()), Error);
}

TEST_CASE("BPE over text with space marks, by GGUF's name of the model alone") {
    GgufFile file;
    file.metadata = {
        {"tokenizer.ggml.model", "gemma4"},
        {"tokenizer.ggml.tokens",
         std::vector<std::string>{"<unk>", "\u2581", "a", "b", "ab", "\u2581ab", "<0xC3>", "<0xA9>"}},
        {"tokenizer.ggml.token_type", std::vector<int32_t>{2, 1, 1, 1, 1, 1, 6, 6}},
        {"tokenizer.ggml.merges", std::vector<std::string>{"a b", "\u2581 ab"}},
        {"tokenizer.ggml.unknown_token_id", 0u},
        {"tokenizer.ggml.add_bos_token", false},
    };
    const auto tokenizer = open_tokenizer(TemporaryFile(file.bytes()).path());
    CHECK(tokenizer->encode("ab abb") == std::vector<TokenId>{4, 5, 3});
    CHECK(tokenizer->encode("\u00E9") == std::vector<TokenId>{6, 7});
    CHECK(tokenizer->decode(std::vector<TokenId>{4, 5, 6, 7}, false) == "ab ab\u00E9");
}

TEST_CASE("RWKV: the longest token first, whatever its bytes") {
    GgufFile file;
    std::vector<std::string> tokens = {"<s>"};
    constexpr char digits[] = "0123456789abcdef";
    for (int byte = 0; byte < 256; ++byte)
        tokens.push_back(std::string("\\x") + digits[byte / 16] + digits[byte % 16]);
    const size_t bytes = tokens.size();
    for (const char* token : {"the", " the", "th", R"(\n\n)", R"(it\'s ")", R"(\xe6\x97\xa5\xe6\x9c\xac)",
                              R"(\xc3\xa9)", R"(\\n)", R"(\xe6\x97)", R"(\xa5\xe6)"})
        tokens.push_back(token);
    file.metadata["tokenizer.ggml.model"] = "rwkv";
    file.metadata["tokenizer.ggml.tokens"] = tokens;
    std::vector<int32_t> types(tokens.size(), 1);
    types[0] = 3;
    file.metadata["tokenizer.ggml.token_type"] = types;
    const auto tokenizer = open_tokenizer(TemporaryFile(file.bytes()).path());
    struct Case {
        std::string text;
        std::vector<TokenId> ids;  // of the tokenizer in the Python package rwkv, given these tokens
    };
    const Case cases[] = {
        {"the thethn", {257, 258, 259, 111}},
        {"a\n\n\nb", {98, 260, 11, 99}},
        {"it's \"so\"", {261, 116, 112, 35}},
        {"日本日é", {262, 265, 166, 263}},
        {"\\n\\", {264, 93}},
        {"日日", {265, 266, 152, 166}},
        {"", {}},
    };
    for (const Case& c : cases) {
        CAPTURE(c.text);
        CHECK(tokenizer->encode(c.text) == c.ids);
        CHECK(tokenizer->decode(c.ids, false) == c.text);
    }
    CHECK(tokenizer->encode("<s>", {.add_special = true, .parse_special = true}) == std::vector<TokenId>{0});
    for (const char* broken : {R"(\x)", R"(\x1)", R"(\x1g)"}) {
        tokens[bytes] = broken;
        file.metadata["tokenizer.ggml.tokens"] = tokens;
        CHECK_THROWS_AS(open_tokenizer(TemporaryFile(file.bytes()).path()), Error);
    }
}

TEST_CASE("a stream never shows half a character") {
    struct Bytes final : Tokenizer {  // token n is the byte n
        std::vector<TokenId> encode(std::string_view, const EncodeOptions&) const override { return {}; }
        std::string piece(TokenId id, bool) const override { return std::string(1, static_cast<char>(id)); }
        std::string decode(std::span<const TokenId>, bool) const override { return {}; }
        uint32_t size() const override { return 256; }
        TokenId bos() const override { return -1; }
        TokenId eos() const override { return -1; }
        bool adds_bos() const override { return false; }
        bool ends_generation(TokenId) const override { return false; }
        std::string_view kind() const override { return "bytes"; }
    } const bytes;
    struct Case {
        std::string bytes, text;
    };
    const std::string bad = "\xEF\xBF\xBD";
    const Case cases[] = {
        {"plain", "plain"},
        {"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"},
        {"a\xE2\x82", "a" + bad},         // cut at the end
        {"a\xE2\x82z", "a" + bad + "z"},  // cut in the middle: one mark for the whole part
        {"\x80\xFF", bad + bad},
        {"\xC0\xAF", bad + bad},                      // overlong
        {"\xED\xA0\x80", bad + bad + bad},            // surrogate
        {"\xF4\x90\x80\x80", bad + bad + bad + bad},  // above U+10FFFF
        {"\xF0\x9F\x98\xF0\x9F\x98\x80", bad + "\xF0\x9F\x98\x80"},
    };
    for (const Case& c : cases) {
        StreamDecoder decoder(bytes);
        std::string text;
        for (const char byte : c.bytes) {
            const std::string shown = decoder.push(static_cast<uint8_t>(byte));
            for (const char first : shown.substr(0, 1)) CHECK((static_cast<uint8_t>(first) & 0xC0) != 0x80);
            text += shown;
        }
        CHECK(text + decoder.finish() == c.text);
        CHECK(decoder.finish() == "");
    }
}

TEST_CASE("text that is not UTF-8, and text made to be slow" * needs_fixtures()) {
    const auto tokenizer = open_tokenizer(fixtures() + "/tokenizers/gpt-2.gguf");
    const auto broken = tokenizer->encode("a\xFF\xE2\x82", {});
    CHECK(tokenizer->decode(broken, true) == "a\xEF\xBF\xBD\xEF\xBF\xBD");
    CHECK(stream(*tokenizer, broken) == "a\xEF\xBF\xBD\xEF\xBF\xBD");

    std::string mixed;
    for (uint32_t i = 0; i < 250000; ++i) mixed += static_cast<char>('a' + i * i % 26);
    for (const std::string& text : {std::string(1 << 20, 'a'), std::string(1 << 20, ' '),
                                    std::string(1 << 20, '<'), std::string(1 << 19, '\n') + "x", mixed}) {
        const double start = thread_cpu_us();
        const auto ids = tokenizer->encode(text, {});
        const double took = thread_cpu_us() - start;
        CHECK(tokenizer->decode(ids, true) == text);
        CHECK_MESSAGE(took < 20e6, "a quadratic search would take minutes");
    }
}
