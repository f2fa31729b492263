#include "tokenizer/pre_tokenizer.h"

#include "fail.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace scoria {
namespace {

// White_Space of Unicode. PCRE2's own \s also takes U+180E, which Unicode removed and the tokenizers never
// had.
#define WS R"(\x09-\x0d\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})"
// Runs of white space; the last one before a word stays with the word.
#define WS_RUNS "[" WS "]+(?![^" WS "])|[" WS "]+"

// Radford et al. 2019, encoder.py of GPT-2.
constexpr std::string_view gpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^)" WS R"(\p{L}\p{N}]+|)" WS_RUNS;

#define CONTRACTIONS "'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]"
#define LETTERS R"([^\r\n\p{L}\p{N}]?\p{L}+)"
#define SYMBOLS " ?[^" WS R"(\p{L}\p{N}]+[\r\n]*)"
#define LINE_ENDS "[" WS R"(]*[\r\n]+)"
// As tokenizer.json of Llama 3 and of Qwen2: they differ in how many digits go together.
constexpr std::string_view llama3 =
    CONTRACTIONS "|" LETTERS R"(|\p{N}{1,3}|)" SYMBOLS "|" LINE_ENDS "|" WS_RUNS;
constexpr std::string_view qwen2 = CONTRACTIONS "|" LETTERS R"(|\p{N}|)" SYMBOLS "|" LINE_ENDS "|" WS_RUNS;

const PreTokenizerKind kinds[] = {
    {.name = "gpt-2", .expressions = {gpt2}},
    {.name = "smollm", .expressions = {R"(\p{N})", gpt2}},
    {.name = "falcon", .expressions = {R"([\p{P}$+<=>^~|`]+)", gpt2, "[0-9][0-9][0-9]"}},
    {.name = "llama-bpe", .expressions = {llama3}, .adds_bos = true, .whole_words = true},
    {.name = "qwen2", .expressions = {qwen2}, .nfc = true},
};

// A match works inside one piece; these bound a pathological one without touching any real text.
constexpr uint32_t most_match_steps = 100'000'000;
constexpr size_t jit_stack_start = 32 << 10, jit_stack_most = 8 << 20;

template <auto free_function> struct Freed {
    template <class T> void operator()(T* object) const { free_function(object); }
};
using Code = std::unique_ptr<pcre2_code, Freed<pcre2_code_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Freed<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Freed<pcre2_match_context_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, Freed<pcre2_jit_stack_free>>;

std::string message(int error) {
    PCRE2_UCHAR text[256];
    pcre2_get_error_message(error, text, sizeof text);
    return reinterpret_cast<const char*>(text);
}

}  // namespace

const PreTokenizerKind* pre_tokenizer_kind(std::string_view name) {
    for (const PreTokenizerKind& kind : kinds) {
        if (kind.name == name) return &kind;
    }
    return nullptr;
}

struct PreTokenizer::Expression {
    Code code;

    explicit Expression(std::string_view pattern) {
        int error = 0;
        PCRE2_SIZE where = 0;
        code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                 PCRE2_UTF | PCRE2_UCP, &error, &where, nullptr));
        if (!code)
            fail(Status::failed, "pre-tokenizer", "expression does not compile at ", where, ": ",
                 message(error));
        pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // where there is no JIT, matching interprets
    }
};

PreTokenizer::PreTokenizer(const PreTokenizerKind& kind) {
    for (const std::string_view pattern : kind.expressions)
        expressions_.push_back(std::make_unique<Expression>(pattern));
}

PreTokenizer::~PreTokenizer() = default;

void PreTokenizer::split(std::string_view text, const std::function<void(std::string_view)>& piece) const {
    const MatchContext context(pcre2_match_context_create(nullptr));
    const MatchData match(pcre2_match_data_create(1, nullptr));
    const JitStack stack(pcre2_jit_stack_create(jit_stack_start, jit_stack_most, nullptr));
    if (!context || !match || !stack) throw std::bad_alloc();
    pcre2_set_match_limit(context.get(), most_match_steps);
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());

    const auto split_with = [&](const auto& self, size_t index, std::string_view part) -> void {
        if (index == expressions_.size()) return piece(part);
        size_t done = 0;
        while (done < part.size()) {
            const int result = pcre2_match(expressions_[index]->code.get(),
                                           reinterpret_cast<PCRE2_SPTR>(part.data()), part.size(), done,
                                           PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, match.get(), context.get());
            if (result == PCRE2_ERROR_NOMATCH) break;
            if (result < 0) fail(Status::failed, "pre-tokenizer", "cannot split the text: ", message(result));
            const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match.get());
            const size_t first = range[0], end = range[1];
            if (first > done) self(self, index + 1, part.substr(done, first - done));
            self(self, index + 1, part.substr(first, end - first));
            done = end;
        }
        if (done < part.size()) self(self, index + 1, part.substr(done));
    };
    split_with(split_with, 0, text);
}

}  // namespace scoria
