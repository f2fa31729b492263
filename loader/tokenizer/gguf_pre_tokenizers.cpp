#include "tokenizer/gguf_pre_tokenizers.h"

#include <algorithm>
#include <span>

namespace scoria {
namespace {

#define TAIL R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"
#define CONTRACTIONS R"((?i:'s|'t|'re|'ve|'m|'ll|'d))"
#define LETTERS R"([^\r\n\p{L}\p{N}]?\p{L}+)"
#define SYMBOLS R"( ?[^\s\p{L}\p{N}]+[\r\n]*)"
// Radford et al. 2019, encoder.py of GPT-2.
#define GPT2 R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"
// tokenizer.json of Llama 3 and of Qwen2: they differ in how many digits go together.
#define LLAMA3 CONTRACTIONS "|" LETTERS R"(|\p{N}{1,3}|)" SYMBOLS TAIL
#define QWEN2 CONTRACTIONS "|" LETTERS R"(|\p{N}|)" SYMBOLS TAIL
// Words by case (GPT-4o): what may stand before lower case, what may stand behind upper case.
#define UPPER R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define LOWER R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
#define CASED(end) \
    R"([^\r\n\p{L}\p{N}]?)" UPPER "*" LOWER "+" end R"(|[^\r\n\p{L}\p{N}]?)" UPPER "+" LOWER "*" end
#define CASED_SYMBOLS R"( ?[^\s\p{L}\p{N}]+[\r\n/]*)"
#define GPT4O CASED(CONTRACTIONS "?") R"(|\p{N}{1,3}|)" CASED_SYMBOLS TAIL
// DeepSeek V3.
#define KANA_HAN "[一-龥぀-ゟ゠-ヿ]+"
#define ASCII_WORD R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+)"
#define MARKED_LETTERS R"([^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
#define MARKED R"(| ?[\p{P}\p{S}]+)"
#define DEEPSEEK3 ASCII_WORD "|" MARKED_LETTERS MARKED R"([\r\n]*)" TAIL
#define SPACED_WORD " ?[^(\\s|.,!?…。，、।۔،)]+"
#define LINES R"([^\n]+|[\n]+)"
#define HAN_FREE(set) "[" set R"(&&[^\p{Han}]])"
#define HAN_FREE_UPPER HAN_FREE(R"(\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M})")
#define HAN_FREE_LOWER HAN_FREE(R"(\p{Ll}\p{Lm}\p{Lo}\p{M})")

// DeepSeek's first tokenizers list the letters of cased scripts one by one.
constexpr std::string_view deepseek_letters =
    "\\s?[A-Za-z"
    "µÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-"
    "ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙ"
    "ὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩ"
    "ℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-"
    "ꞎꭰ"
    "-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"
    "]+";

/// A function, since loading the library must run nothing.
std::span<const GgufPreTokenizer> table() {
    static const GgufPreTokenizer rows[] = {
        {.names = {"default"}, .expressions = {R"([\p{P}$+<=>^~|]+)", GPT2, R"(\p{N}+)", "[0-9][0-9][0-9]"}},
        {.names = {"gpt-2", "phi-2", "jina-es", "jina-de", "gigachat", "jina-v2-es", "jina-v2-de", "a.x-4.0",
                   "mellum", "jais", "trillion", "granite-docling", "exaone4"},
         .expressions = {GPT2}},
        {.names = {"mpt", "olmo", "modern-bert"}, .expressions = {GPT2}, .nfc = true},
        {.names = {"jina-v1-en", "jina-v2-code", "roberta-bpe"}, .expressions = {GPT2}, .adds_sep = true},
        {.names = {"smollm", "starcoder", "refact", "codeshell", "exaone", "minerva-7b", "mellum2"},
         .expressions = {R"(\p{N})", GPT2}},
        {.names = {"command-r"}, .expressions = {R"(\p{N})", GPT2}, .nfc = true},
        {.names = {"falcon"}, .expressions = {R"([\p{P}$+<=>^~|`]+)", GPT2, "[0-9][0-9][0-9]"}},
        {.names = {"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2",
                   "jina-v5-nano"},
         .expressions = {LLAMA3},
         .adds_bos = true,
         .whole_words = true},
        {.names = {"dbrx", "smaug-bpe", "chatglm-bpe"}, .expressions = {LLAMA3}},
        {.names = {"glm4", "glm5"}, .expressions = {LLAMA3}, .whole_words = true},
        {.names = {"minicpm5"},
         .expressions = {R"(\p{N}{1,3})", CONTRACTIONS "|" LETTERS R"(|\p{N}+|)" SYMBOLS TAIL},
         .whole_words = true},
        {.names = {"qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez"},
         .expressions = {QWEN2},
         .nfc = true},
        {.names = {"stablelm2", "hunyuan", "solar-open", "grok-2"}, .expressions = {QWEN2}},
        {.names = {"qwen35"},
         .expressions = {CONTRACTIONS
                         R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)" TAIL},
         .nfc = true},
        {.names = {"ufakzeka"}, .expressions = {LETTERS R"(|\p{N}|)" SYMBOLS TAIL}},
        {.names = {"laguna"}, .expressions = {LINES, QWEN2}},
        {.names = {"seed-coder"},
         .expressions = {CONTRACTIONS "|" LETTERS R"(|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+)" TAIL}},
        {.names = {"bailingmoe", "bailingmoe2", "llada-moe"},
         .expressions = {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*)"
                         R"(|\s*[\r\n]|\s+(?!\S)|\s+)"}},
        {.names = {"exaone-moe"},
         // Possessive where nothing else could match: a long word must not fill the stack.
         .expressions = {CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*+(?: \p{L}\p{M}*+)*+)++|\p{N})"
                                      R"(| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)"}},
        // The makers' \s*[\r\n]+ looks at the whole of a long run again from each part of it, in vain where a
        // part has been taken: then there was no line end ahead.
        {.names = {"jais-2"},
         .expressions = {CONTRACTIONS
                         "|" LETTERS R"(|\p{N}{1,3}|)" SYMBOLS
                         R"(|(?<![^\S\r\n])\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S))"
                         R"(|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})"}},
        {.names = {"deepseek-llm"},
         .expressions = {R"([\r\n])", deepseek_letters, "\\s?[!-/:-~！-／：-～‘-‟　-。]+", R"(\s+$)",
                         "[一-龥ࠀ-一가-퟿]+", R"(\p{N})"}},
        {.names = {"deepseek-coder"},
         .expressions = {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", "[一-龥ࠀ-一가-퟿]+",
                         R"(\p{N})"}},
        {.names = {"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"},
         .expressions = {R"(\p{N}{1,3})", KANA_HAN, DEEPSEEK3}},
        {.names = {"spark2_5"},
         .expressions = {R"(\p{N}{1,3})", KANA_HAN,
                         ASCII_WORD "|" MARKED_LETTERS MARKED R"(|[\r\n]|\s+(?!\S)|\s+)", R"(\p{N})"}},
        {.names = {"afmoe"},
         .expressions =
             {R"(\d{1,3}(?=(?:\d{3})*\b))",
              "[一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-"
              "꧿가-"
              "힯ᄀ-"
              "ᇿ]"
              "+",
              DEEPSEEK3}},
        {.names = {"youtu"},
         .expressions =
             {"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-"
              "ゟ゠-"
              "ヿ]"
              "+",
              CASED(CONTRACTIONS "?") R"(|\p{N}|)" CASED_SYMBOLS TAIL},
         .whole_words = true},
        {.names = {"poro-chat", "bloom", "gpt3-finnish"}, .expressions = {SPACED_WORD}},
        {.names = {"viking"}, .expressions = {SPACED_WORD, R"(\p{N})"}},
        {.names = {"tekken"},
         .expressions = {CASED("") R"(|\p{N}|)" CASED_SYMBOLS TAIL},
         .adds_bos = true,
         .whole_words = true},
        {.names = {"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"}, .expressions = {GPT4O}},
        {.names = {"granite-embed-multi-97m"}, .expressions = {GPT4O}, .whole_words = true},
        {.names = {"tiny_aya", "cohere2moe"}, .expressions = {R"(\d{1,3}(?=(?:\d{3})*\b))", GPT4O}},
        {.names = {"superbpe"}, .expressions = {R"(\p{N}+)", R"((?=(\d{3})+(?!\d)))"}},
        {.names = {"kimi-k2"},
         .expressions = {R"([\p{Han}]+|[^\r\n\p{L}\p{N}]?)" HAN_FREE_UPPER "*" HAN_FREE_LOWER "+" CONTRACTIONS
                         R"(?|[^\r\n\p{L}\p{N}]?)" HAN_FREE_UPPER "+" HAN_FREE_LOWER "*" CONTRACTIONS
                         R"(?|\p{N}{1,3}|)" SYMBOLS TAIL}},
        {.names = {"chameleon"},
         .expressions = {"<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", R"([\t\n]|    |  )",
                         R"(\p{N})", R"([\p{P}!-/:-@\[-`{-~])", GPT2},
         .adds_bos = true},
        {.names = {"gemma4", "granite-embed-multi-311m", "sarvam-moe"}, .expressions = {}, .plain = true},
    };
    return rows;
}

}  // namespace

const GgufPreTokenizer* gguf_pre_tokenizer(std::string_view name) {
    for (const GgufPreTokenizer& row : table()) {
        if (std::ranges::find(row.names, name) != row.names.end()) return &row;
    }
    return nullptr;
}

std::vector<std::string_view> gguf_pre_tokenizer_names() {
    std::vector<std::string_view> names;
    for (const GgufPreTokenizer& row : table()) names.push_back(row.names.front());
    return names;
}

}  // namespace scoria
