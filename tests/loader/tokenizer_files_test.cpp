// tokenizer.json, tokenizer.model and vocab.txt against the libraries that define them, case by case.
#include "fail.h"
#include "file.h"
#include "model.h"
#include "system.h"
#include "test_env.h"
#include "tokenizer/gguf_pre_tokenizers.h"
#include "tokenizer/sources.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>

using namespace scoria;
using namespace scoria::test;
using nlohmann::json;

namespace {

using Ids = std::vector<TokenId>;

std::string folder(const std::string& name) { return fixtures() + "/hf_tokenizers/" + name; }

json cases_of(const std::string& name) { return json::parse(read_file(folder(name) + "/cases.json")); }

}  // namespace

TEST_CASE("tokenizer.json gives the ids and texts of its library") {
    for (const std::string name : {"gpt2-style", "llama3-style", "qwen2-style", "llama2-style",
                                   "mistral-metaspace-style", "t5-unigram", "bert-wordpiece"}) {
        CAPTURE(name);
        const auto tokenizer = open_tokenizer(folder(name));
        const json fixture = cases_of(name);
        for (const json& entry : fixture["cases"]) {
            const std::string text = entry["text"];
            CAPTURE(text);
            const Ids ids = entry["ids"], plain = entry["ids_no_special"];
            CHECK(tokenizer->encode(text) == ids);
            CHECK(tokenizer->encode(text, {.add_special = false}) == plain);
            CHECK(tokenizer->decode(plain, true) == entry["decoded"]);
            CHECK(tokenizer->decode(ids, false) == entry["decoded_skip_special"]);
        }
        const json& pair = fixture["pair"];
        const EncodedPair encoded = tokenizer->encode_pair(std::string(pair["a"]), std::string(pair["b"]));
        CHECK(encoded.ids == pair["ids"].get<Ids>());
        CHECK(encoded.types == pair["type_ids"].get<std::vector<TokenId>>());
    }
}

TEST_CASE("tokenizer.model gives the ids and texts of SentencePiece") {
    for (const std::string name : {"spm-bpe", "spm-unigram", "spm-bpe-byte-fallback"}) {
        CAPTURE(name);
        const auto tokenizer = open_tokenizer(folder(name) + "/tokenizer.model");
        const json fixture = cases_of(name);
        CHECK(tokenizer->size() == fixture["vocab_size"]);
        CHECK(tokenizer->bos() == fixture["bos"]);
        CHECK(tokenizer->eos() == fixture["eos"]);
        for (const json& entry : fixture["cases"]) {
            const std::string text = entry["text"];
            CAPTURE(text);
            const Ids ids = entry["ids"];
            CHECK(tokenizer->encode(text, {.add_special = false, .parse_special = false}) == ids);
            CHECK(tokenizer->decode(ids, false) == entry["decoded"]);
        }
    }
}

namespace {

std::string json_with(const std::string& parts) {
    return R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "<u>": 3}, "merges": ["a b"]})" +
           parts + "}";
}

std::string problem_of(const std::function<void()>& read) {
    try {
        read();
    } catch (const Error& error) {
        return error.what();
    }
    return "none";
}

}  // namespace

TEST_CASE("tokenizer.json that lies or asks for what is not there is refused by name") {
    const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
    const std::pair<std::string, std::string> cases[] = {
        {"", "tokenizer.json"},
        {"[]", "expected an object"},
        {"{}", "model is missing"},
        {std::string(1 << 20, '['), "levels of nesting"},
        {json_with(R"(, "x": )" + nested(100)), "levels of nesting"},
        {json_with(R"(, "normalizer": {"type": "Odd"})"), "does not support Odd"},
        {json_with(R"(, "pre_tokenizer": {"type": "Odd"})"), "does not support Odd"},
        {json_with(R"(, "decoder": {"type": "Odd"})"), "does not support Odd"},
        {json_with(R"(, "post_processor": {"type": "Odd"})"), "does not support Odd"},
        {json_with(R"(, "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "("}})"), "cannot run \"(\""},
        {json_with(R"(, "pre_tokenizer": {"type": "Split", "pattern": {"String": ""}})"), "got none"},
        {json_with(R"(, "normalizer": {"type": "Precompiled", "precompiled_charsmap": "////fwAA"})"),
         "expected a table"},
        {json_with(R"(, "added_tokens": [{"id": 4000000000, "content": "x"}])"), "expected an id below"},
        {json_with(R"(, "added_tokens": [{"id": -1, "content": "x"}])"), "expected an id below"},
        {R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]}})", "got \"a b\" at 0"},
        {R"({"model": {"type": "BPE", "vocab": {"a": 99999999}, "merges": []}})", "expected an id below"},
        {R"({"model": {"type": "Odd"}})", "does not support Odd"},
        {R"({"model": {"type": "Unigram", "vocab": [["a", 0]], "unk_id": 1}})", "model.unk_id"},
    };
    for (const auto& [text, expected] : cases) {
        const std::string problem = problem_of([&, file = text] { read_tokenizer_json(file); });
        CHECK_MESSAGE(problem.find(expected) != problem.npos, problem);
    }
    CHECK(make_tokenizer(read_tokenizer_json(json_with("")), "test")->encode("abab") == Ids{2, 2});
}

TEST_CASE("tokenizer.json: what its library does where several readings are possible") {
    struct Case {
        std::string name, file, text;
        Ids ids;
    };
    const Case cases[] = {
        {"the spaces that one added token takes with it may begin the next",
         json_with(R"(, "added_tokens": [{"id": 4, "content": "<x>", "rstrip": true, "normalized": false},
                                          {"id": 5, "content": "\n\n", "normalized": false}])"),
         "<x>\n\n a", Ids{4, 5, 0}},
        {"a token of spaces which the last one took is none",
         json_with(R"(, "added_tokens": [{"id": 4, "content": "  ", "normalized": false, "lstrip": true,
                                           "rstrip": true}])"),
         "a    b", Ids{0, 4, 1}},
        {"a script is no more than its own characters",
         R"({"model": {"type": "BPE", "vocab": {"\u3002": 0, "a": 1, "\u3002a": 2}, "merges": [["\u3002", "a"]]},
             "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "\\p{Han}+"}, "behavior": "Isolated"}})",
         "\u3002a", Ids{2}},
        {"ways that cost the same differ by the last bit of scores as the library reads them",
         R"({"model": {"type": "Unigram", "unk_id": 3, "vocab": [["_", -2.286328867065844], ["3", -7.654027318278073],
             ["33", -7.6548801300681735], ["<unk>", -20.0]]}})",
         "_333", Ids{0, 2, 1}},
        {"of equal tokens the last is found",
         R"({"model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["a", -1], ["a", -2]]}})", "a",
         Ids{2}},
        {"where a suffix is no token with its character, it is bytes too",
         R"({"model": {"type": "BPE", "byte_fallback": true, "end_of_word_suffix": "~",
             "vocab": {"a": 0, "<0x62>": 1, "<0x7E>": 2}, "merges": []}})",
         "ab", Ids{0, 1, 2}},
        {"bytes overtake the unknown character in front of them",
         R"({"model": {"type": "BPE", "byte_fallback": true, "unk_token": "?",
             "vocab": {"?": 0, "<0x62>": 1, "a": 2}, "merges": []}})",
         "xba", Ids{1, 0, 2}},
        {"a fraction is a word character, but in no class",
         R"({"model": {"type": "BPE", "vocab": {"a": 0, "\u00bd": 1}, "merges": []}, "pre_tokenizer": {
             "type": "Sequence", "pretokenizers": [
                 {"type": "Split", "pattern": {"Regex": "\\W"}, "behavior": "Removed"},
                 {"type": "Split", "pattern": {"Regex": "^[\\w]"}, "behavior": "Removed"}]}})",
         "\u00bda", Ids{1, 0}},
    };
    for (const Case& c : cases) {
        CAPTURE(c.name);
        CHECK(make_tokenizer(read_tokenizer_json(c.file), "test")->encode(c.text) == c.ids);
    }
    const auto first_only = [](const std::string& normalizers) {
        return R"({"model": {"type": "BPE", "unk_token": "?", "vocab": {"?": 0, "\u2581": 1, "a": 2, "\"": 3, "e": 4,
                    "\u0301": 5, "\u00e9": 6}, "merges": []},
                   "normalizer": {"type": "Sequence", "normalizers": [)" +
               normalizers + R"(]}, "pre_tokenizer": {"type": "Metaspace", "prepend_scheme": "first"}})";
    };
    const std::string strip = R"({"type": "Strip", "strip_left": true, "strip_right": true})";
    const std::string quotes = R"({"type": "Replace", "pattern": {"String": "``"}, "content": "\""})";
    const Case prefixes[] = {
        // "first": only where the text's first character was left, or took part
        {"nothing stripped", first_only(strip), "a ", {1, 2}},
        {"a space stripped", first_only(strip), " a", {2}},
        {"the last of several replaced", first_only(quotes), "``a", {3, 2}},
        {"a later one", first_only(quotes), "a``", {1, 2, 3}},
        {"removed",
         first_only(R"({"type": "Nmt"})"),
         "\x01"
         "a",
         {2}},
        {"composed", first_only(R"({"type": "NFC"}, {"type": "StripAccents"})"), "e\u0301a", {1, 6, 2}},
        {"decomposed", first_only(R"({"type": "NFD"}, {"type": "StripAccents"})"), "\u00e9a", {1, 4, 2}},
        {"prepended",
         first_only(R"({"type": "Prepend", "prepend": "a"}, {"type": "Replace", "pattern": {"String": "a"},
                                    "content": ""})"),
         "ea",
         {1, 4}},
    };
    for (const Case& c : prefixes) {
        CAPTURE(c.name);
        CHECK(make_tokenizer(read_tokenizer_json(c.file), "test")->encode(c.text) == c.ids);
    }
    // An added token has its id, whatever the model has there.
    const auto tokenizer =
        make_tokenizer(read_tokenizer_json(json_with(
                           R"(, "added_tokens": [{"id": 1, "content": "<x>", "normalized": false}])")),
                       "test");
    CHECK(tokenizer->decode(Ids{1}, true) == "<x>");
    // What it hides it knows by the spelling that it decodes to.
    const auto spelled = make_tokenizer(
        read_tokenizer_json(R"({"model": {"type": "Unigram", "vocab": [["<s>", 0], ["a", -1], ["<s>", -2]]},
            "normalizer": {"type": "Lowercase"}, "added_tokens": [
                {"id": 2, "content": "<s>", "special": true, "normalized": false},
                {"id": 3, "content": "<B>", "special": true, "normalized": true}]})"),
        "test");
    CHECK(spelled->decode(Ids{0, 1, 2, 3}, false) == "a <b>");
}

TEST_CASE("UnicodeScripts splits where the library does") {
    struct Case {
        const char* text;
        std::vector<std::string_view> pieces;
    };
    const Case cases[] = {
        {"  hello ... world", {"hello ", "... ", "world"}},  // spaces in front are lost
        {"abc d\u00e9f \u65e5\u3072\u30ab\u30fc\ud55c x",
         {"abc d\u00e9f ", "\u65e5\u3072\u30ab\u30fc", "\ud55c ", "x"}},  // kana as Han
        {"e\u0301a", {"e", "\u0301", "a"}},
        {"a\u00a0b", {"a", "\u00a0", "b"}},
        {"a\U0001f970b\u20bf", {"a\U0001f970b\u20bf"}},                        // not yet in Unicode 9
        {"\u0561\u0589.\u0915\u0953", {"\u0561", "\u0589.", "\u0915\u0953"}},  // of other scripts since
        {" \U0001f970", {}},
        {"", {}},
    };
    const Pipeline p = read_tokenizer_json(json_with(R"(, "pre_tokenizer": {"type": "UnicodeScripts"})"));
    for (const Case& c : cases) {
        CAPTURE(c.text);
        std::vector<std::string_view> pieces;
        pre_tokenize(p.pre_tokenizer, c.text, true, [&](std::string_view piece) { pieces.push_back(piece); });
        CHECK(pieces == c.pieces);
    }
}

namespace {

enum class SpmType : char { normal = 1, unknown, user_defined = 4, byte = 6 };

/// A piece of a ModelProto; short.
std::string spm_piece(const std::string& text, SpmType type, float score = 0) {
    const auto field = [](char key, const std::string& bytes) {
        return std::string{key, static_cast<char>(bytes.size())} + bytes;
    };
    const char* const bytes = reinterpret_cast<const char*>(&score);
    return field('\x0A', field('\x0A', text) + '\x15' + std::string(bytes, sizeof score) +
                             std::string{'\x18', static_cast<char>(type)});
}

constexpr std::string_view no_prefix{"\x1A\x02\x18\x00", 4};

}  // namespace

TEST_CASE("SentencePiece: user-defined symbols count by their length, bytes are no words") {
    const std::string unigram =
        spm_piece("<unk>", SpmType::unknown) + spm_piece("abc", SpmType::user_defined) +
        spm_piece("ab", SpmType::user_defined) + spm_piece("d", SpmType::normal, -0.05f) +
        spm_piece("cd", SpmType::normal) + std::string(no_prefix);
    CHECK(make_tokenizer(read_sentencepiece(unigram), "test")->encode("abcd") == Ids{1, 3});
    std::string words = spm_piece("<unk>", SpmType::unknown);
    for (int code = 0; code < 256; ++code) {
        char spelling[8];
        std::snprintf(spelling, sizeof spelling, "<0x%02X>", code);
        words += spm_piece(spelling, SpmType::byte);
    }
    words += spm_piece("a", SpmType::normal) + "\x12\x05\x18\x03\x98\x02\x01" + std::string(no_prefix);
    const auto tokenizer = make_tokenizer(read_sentencepiece(words), "test");
    CHECK(tokenizer->encode("a") == Ids{257});
    Ids bytes;
    for (const char c : std::string("<0x41>")) bytes.push_back(1 + c);
    CHECK(tokenizer->encode("<0x41>") == bytes);
}

TEST_CASE("a SentencePiece model that lies is refused by name") {
    const std::string whole = read_file(folder("spm-bpe-byte-fallback") + "/tokenizer.model");
    const std::pair<std::string, std::string> cases[] = {
        {"", "expected a vocabulary"},
        {"\x0A\xFF\xFF\xFF\xFF\x7F"
         "abc",
         "bytes, got 3"},  // a length past the end
        {std::string("\x0A\x02\x0A\x7F", 4), "expected 127 bytes, got 0"},
        {std::string(12, '\xFF'), "at most 10 bytes"},
        {"\x0B", "known wire type, got 3"},
        {"\x08\x01", "expected wire type 2, got 0"},
        {whole.substr(0, whole.size() / 2), "tokenizer.model"},
        {"\x0A\x03\x0A\x01"
         "a",
         "one of type unknown"},
        {"\x0A\x05\x0A\x01"
         "a\x18\x09",
         "expected 1 to 6, got 9"},
        {"\x0A\x05\x0A\x01"
         "a\x18\x02\x12\x02\x18\x05",
         "model_type: expected 1 to 4, got 5"},
    };
    for (const auto& [bytes, expected] : cases) {
        const std::string problem = problem_of([&, file = bytes] { read_sentencepiece(file); });
        CHECK_MESSAGE(problem.find(expected) != problem.npos, problem);
    }
}

TEST_CASE("a folder, its tokenizer_config.json and vocab.txt") {
    const std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("scoria-vocab-" + std::to_string(process_id()));
    std::filesystem::create_directory(path);
    const auto write = [&](const char* name, const std::string& text) {
        std::ofstream(path / name, std::ios::binary) << text;
    };
    CHECK(problem_of([&] { open_tokenizer(path); }).find("tokenizer.json") != std::string::npos);
    write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nhe\n##llo\r\nCafe\ncafe\n!\n");
    CHECK(open_tokenizer(path)->encode("Hello Café!") == Ids{2, 4, 5, 7, 8, 3});
    const EncodedPair pair = open_tokenizer(path)->encode_pair("he", "!");
    CHECK(pair.ids == Ids{2, 4, 3, 8, 3});
    CHECK(pair.types == std::vector<TokenId>{0, 0, 0, 1, 1});
    write("tokenizer_config.json", R"({"do_lower_case": false})");
    CHECK(open_tokenizer(path)->encode("hello Cafe!") == Ids{2, 4, 5, 6, 8, 3});
    write("tokenizer.json", json_with(""));
    write("tokenizer_config.json",
          R"({"bos_token": {"content": "<u>"}, "eos_token": "ab", "add_bos_token": true})");
    CHECK(open_tokenizer(path)->encode("ab") == Ids{3, 2});
    CHECK(open_tokenizer(path)->adds_bos());
    CHECK(open_tokenizer(path)->ends_generation(2));
    // Translators say the language of a text.
    struct Frame {
        const char* config;
        Ids ids;
    };
    const Frame frames[] = {{R"("NllbTokenizerFast", "src_lang": "<u>")", {3, 0, 2}},
                            {R"("NllbTokenizer", "src_lang": "<u>", "legacy_behaviour": true)", {0, 2, 3}},
                            {R"("MBart50Tokenizer", "src_lang": "<u>")", {3, 0, 2}},
                            {R"("MBartTokenizer", "src_lang": "<u>")", {0, 2, 3}}};
    for (const Frame& frame : frames) {
        write("tokenizer_config.json", cat(R"({"eos_token": "ab", "tokenizer_class": )", frame.config, "}"));
        CHECK_MESSAGE(open_tokenizer(path)->encode("a") == frame.ids, frame.config);
    }
    write("tokenizer_config.json", R"({"eos_token": "ab", "tokenizer_class": "NllbTokenizer"})");
    CHECK(problem_of([&] { open_tokenizer(path); }).find("expected a token, got eng_Latn") !=
          std::string::npos);
    write("tokenizer_config.json",
          R"({"bos_token": {"content": "<u>"}, "eos_token": "ab", "add_bos_token": true})");
    // What the model's own files say, the later one where the first says nothing.
    write("config.json", R"({"text_config": {"eos_token_id": 1}, "time_step_limit": [0.0, Infinity]})");
    write("generation_config.json", R"({"bos_token_id": 0})");
    CHECK(open_tokenizer(path)->ends_generation(1));
    CHECK(open_tokenizer(path)->ends_generation(2));
    write("generation_config.json", R"({"eos_token_id": [0, 12345]})");
    CHECK(open_tokenizer(path)->ends_generation(0));
    CHECK(!open_tokenizer(path)->ends_generation(1));
    write("generation_config.json", R"({"text_config": "none"})");  // says nothing either
    CHECK(open_tokenizer(path)->ends_generation(1));
    write("generation_config.json", R"({"eos_token_id": "two"})");
    CHECK(problem_of([&] { open_tokenizer(path); }).find("eos_token_id: expected an id") !=
          std::string::npos);
    std::filesystem::remove_all(path);
}

TEST_CASE("added tokens take spaces, keep to words and compare normalized text") {
    const auto tokenizer = make_tokenizer(read_tokenizer_json(R"({
        "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "WhitespaceSplit"},
        "model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1, "?": 2}, "unk_token": "?"},
        "added_tokens": [
            {"id": 3, "content": "<m>", "lstrip": true, "normalized": false, "special": true},
            {"id": 4, "content": "<r>", "rstrip": true, "normalized": false},
            {"id": 5, "content": "zed", "single_word": true, "normalized": true}]})"),
                                          "test");
    struct Case {
        const char* text;
        Ids ids, unparsed;
    };
    const Case cases[] = {
        {"A  <m> b", {0, 3, 1}, {0, 2, 1}},
        {"a<r>  b", {0, 4, 1}, {0, 4, 1}},
        {"ZED a", {5, 0}, {5, 0}},
        {"azed zeds", {2, 2}, {2, 2}},
        {"<M>", {2}, {2}},
        {"", {}, {}},
    };
    for (const Case& c : cases) {
        CAPTURE(c.text);
        CHECK(tokenizer->encode(c.text) == c.ids);
        CHECK(tokenizer->encode(c.text, {.parse_special = false}) == c.unparsed);
    }
    CHECK(tokenizer->decode(Ids{0, 3, 1}, false) == "a b");
    CHECK(tokenizer->decode(Ids{0, 3, 1}, true) == "a <m> b");
}

TEST_CASE("no text takes more than n log n") {
    std::vector<std::string> texts = {std::string(1 << 20, 'a'), std::string(1 << 20, ' ') + "x",
                                      std::string(1 << 20, '7'), std::string(1 << 20, '\n'), ""};
    for (int i = 0; i < 100000; ++i) texts.back() += "\u4e2d\u0301A\u3000 ";
    texts.push_back(std::string(1 << 20, '\xFF'));
    const auto check = [&](const Tokenizer& tokenizer, const std::string& name) {
        for (const std::string& text : texts) {
            const double start = thread_cpu_us();
            tokenizer.encode(text);
            CHECK_MESSAGE(thread_cpu_us() - start < 20e6, name);
        }
    };
    for (const std::string name : {"llama2-style", "llama3-style", "t5-unigram", "bert-wordpiece"})
        check(*open_tokenizer(folder(name)), name);
    for (const std::string name : {"spm-bpe", "spm-unigram"})
        check(*open_tokenizer(folder(name) + "/tokenizer.model"), name);
    // Every expression of the table; an expression that is not linear is stopped.
    for (const std::string_view name : gguf_pre_tokenizer_names()) {
        std::vector<PreTokenizerStep> steps;
        for (const std::string_view expression : gguf_pre_tokenizer(name)->expressions)
            steps.emplace_back(split_by(expression));
        for (const std::string& text : texts) {
            if (text[0] == '\xFF') continue;
            const double start = thread_cpu_us();
            size_t bytes = 0;
            pre_tokenize(steps, text, true, [&](std::string_view piece) { bytes += piece.size(); });
            CHECK(bytes == text.size());
            CHECK_MESSAGE(thread_cpu_us() - start < 5e6, name);
        }
    }
    const std::vector<PreTokenizerStep> slow = [] {
        std::vector<PreTokenizerStep> steps;
        steps.emplace_back(split_by("(?:a+)+$(?<!a)|a"));
        return steps;
    }();
    CHECK_THROWS_AS(pre_tokenize(slow, std::string(1 << 16, 'a'), true, [](std::string_view) {}), Error);
}
