#include "tokenizer/regex.h"

#include "fail.h"
#include "tokenizer/regex_syntax.h"
#include "tokenizer/utf8.h"

#include <mutex>
#include <new>
#include <string>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace scoria {
namespace {

// A match works inside one piece of text; these bound a pathological one without touching any real text.
constexpr uint32_t most_match_steps = 100'000'000;
constexpr uint32_t most_heap_kibibytes = 256 << 10;
constexpr size_t jit_stack_start = 32 << 10, jit_stack_most = 8 << 20;

// An expression may look at the rest of the text from everywhere, which PCRE2 does not count. Real ones split
// 10 MB/s and more; texts below the first bound cannot take long.
constexpr size_t short_text_bytes = 32 << 10;
constexpr double grace_seconds = 5, slowest_bytes_per_second = 200e3;

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

/// What matching writes to: each search takes one and gives it back, since making one costs more than a
/// match. Not a thread's own: what threads destroy when they end outlives the library in a host that unloads
/// it, and MinGW frees it first.
struct Regex::Scratch {
    std::unique_ptr<Scratch> next;
    MatchContext context{pcre2_match_context_create(nullptr)};
    MatchData data{pcre2_match_data_create(1, nullptr)};
    JitStack stack{pcre2_jit_stack_create(jit_stack_start, jit_stack_most, nullptr)};

    Scratch() {
        uint32_t has_jit = 0;  // without it there is no such stack either
        pcre2_config(PCRE2_CONFIG_JIT, &has_jit);
        if (!context || !data || (has_jit && !stack)) throw std::bad_alloc();
        pcre2_set_match_limit(context.get(), most_match_steps);
        pcre2_set_heap_limit(context.get(), most_heap_kibibytes);
        pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
    }
};

struct Regex::Compiled {
    Code code;

    std::unique_ptr<Scratch> take() {
        const std::lock_guard lock(mutex_);
        std::unique_ptr<Scratch> taken = std::move(spare_);
        if (!taken) return std::make_unique<Scratch>();
        spare_ = std::move(taken->next);
        return taken;
    }
    void give(std::unique_ptr<Scratch> scratch) noexcept {
        const std::lock_guard lock(mutex_);
        scratch->next = std::move(spare_);
        spare_ = std::move(scratch);
    }

  private:
    std::mutex mutex_;
    std::unique_ptr<Scratch> spare_;
};

namespace {

Code compile(std::string_view pattern, std::string_view written) {
    int error = 0;
    PCRE2_SIZE where = 0;
    // Oniguruma's ^ and $ look at every line.
    Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                            PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &where,
                            nullptr));
    if (!code) {
        fail(Status::unsupported, "regular expression", "cannot run \"", written.substr(0, 200),
             "\": ", message(error));
    }
    pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // where there is no JIT, matching interprets
    return code;
}

/// Of the match at or after `from`, which is in the scratch then; negative: an error, or none.
template <class Scratch>
int match(const pcre2_code* code, const Scratch& work, std::string_view text, size_t from) {
    const auto run = [&](uint32_t options) {
        return pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                           PCRE2_NO_UTF_CHECK | options, work.data.get(), work.context.get());
    };
    const int result = run(0);
    // A repeated group keeps a frame for each round; the interpreter's lie on the heap.
    return result == PCRE2_ERROR_JIT_STACKLIMIT ? run(PCRE2_NO_JIT) : result;
}

template <class Scratch> std::pair<size_t, size_t> matched(const Scratch& work) {
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(work.data.get());
    // \K may put the first behind the end.
    return {std::min(range[0], range[1]), range[1]};
}

}  // namespace

Regex::Regex(std::string_view pattern) : compiled_(std::make_unique<Compiled>()) {
    // Which characters a class holds is asked of PCRE2 itself, by its matches in a text of them all.
    const auto each_member = [&](std::string_view expression, std::string_view text,
                                 const std::function<void(size_t)>& found) {
        const Code code = compile(expression, pattern);
        const Scratch work;
        for (size_t from = 0; from < text.size() && match(code.get(), work, text, from) >= 0;
             from = matched(work).second)
            found(matched(work).first);
    };
    compiled_->code = compile(pcre2_pattern(pattern, each_member), pattern);
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

RegexSearch::RegexSearch(const Regex& regex, std::string_view text)
    : regex_(regex), scratch_(regex.compiled_->take()), text_(text), last_end_(text.npos) {
    if (text.size() > short_text_bytes) started_ = std::chrono::steady_clock::now();
}

RegexSearch::~RegexSearch() { regex_.compiled_->give(std::move(scratch_)); }

std::optional<std::pair<size_t, size_t>> RegexSearch::next() {
    while (from_ <= text_.size()) {
        if (text_.size() > short_text_bytes) {
            const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started_;
            if (took.count() > grace_seconds + static_cast<double>(text_.size()) / slowest_bytes_per_second) {
                fail(Status::failed, "pre-tokenizer",
                     "expected an expression that splits text in linear time, gave up at byte ", from_,
                     " of ", text_.size());
            }
        }
        const int result = match(regex_.compiled_->code.get(), *scratch_, text_, from_);
        if (result == PCRE2_ERROR_NOMATCH) break;
        if (result < 0) fail(Status::failed, "pre-tokenizer", "cannot split the text: ", message(result));
        const auto [first, end] = matched(*scratch_);
        if (first == end) {
            from_ = end < text_.size() ? end + utf8::step(text_.substr(end)).bytes : text_.size() + 1;
            if (end == last_end_) continue;
        } else {
            from_ = end;
        }
        last_end_ = end;
        return std::pair(first, end);
    }
    from_ = text_.size() + 1;
    return std::nullopt;
}

}  // namespace scoria
