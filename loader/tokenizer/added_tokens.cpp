#include "tokenizer/added_tokens.h"

#include "fail.h"
#include "tokenizer/utf8.h"

#include <algorithm>
#include <tuple>

namespace scoria {
namespace {

// A spelling is compared at every position of a text, so its length bounds that work.
constexpr size_t most_spelling_bytes = 1024;

char32_t last_character(std::string_view text) {
    size_t last = text.size() - 1;
    while (last > 0 && utf8::continues(text[last])) --last;
    return utf8::step(text.substr(last)).code;
}

/// Rust's \w, as tokenizer.json is read with it.
bool is_word(char32_t code) {
    if (code < 0x80) return utf8::is_number(code) || (code | 32) - 'a' < 26 || code == '_';
    static const Regex word(R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200c}\x{200d}])");
    std::string text;
    utf8::append(text, code);
    return RegexSearch(word, text).next().has_value();
}

size_t spaces_before(std::string_view text, size_t end) {
    while (end > 0 && utf8::is_space(last_character(text.substr(0, end)))) {
        do --end;
        while (end > 0 && utf8::continues(text[end]));
    }
    return end;
}

size_t spaces_after(std::string_view text, size_t first) {
    while (first < text.size()) {
        const utf8::Step step = utf8::step(text.substr(first));
        if (!utf8::is_space(step.code)) break;
        first += step.bytes;
    }
    return first;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const std::vector<NormalizerStep>& normalizer,
                         std::string_view where)
    : tokens_(std::move(tokens)) {
    std::vector<std::pair<std::string_view, TokenId>> raw, normalized;
    for (size_t i = 0; i < tokens_.size(); ++i) {
        AddedToken& token = tokens_[i];
        if (token.text.empty() || !utf8::is_valid(token.text)) continue;  // can be in no text
        if (token.text.size() > most_spelling_bytes) {
            fail(Status::bad_file, where, "expected special tokens of at most ", most_spelling_bytes,
                 " bytes, got ", token.text.size(), " in token ", token.id);
        }
        if (token.normalized) token.text = normalize(normalizer, token.text);
        (token.normalized ? normalized : raw).push_back({token.text, static_cast<TokenId>(i)});
    }
    raw_ = {Trie(raw), raw.empty()};
    normalized_ = {Trie(normalized), normalized.empty()};
}

void AddedTokens::find(std::string_view text, bool normalized, bool parse_special,
                       std::span<const TextRange> literal, const OnText& on_text,
                       const OnToken& on_token) const {
    const Set& set = normalized ? normalized_ : raw_;
    size_t done = 0;
    for (size_t i = 0; !set.empty && i < text.size();) {
        while (!literal.empty() && literal.front().end <= i) literal = literal.subspan(1);
        // What begins in trusted text may not reach into literal text to spell something longer.
        const size_t trusted_end = literal.empty() ? text.size() : std::max(literal.front().begin, i);
        bool trusted = parse_special && i < trusted_end;
        auto [index, bytes] = set.trie.longest(text.substr(i, trusted ? trusted_end - i : text.npos));
        if (index < 0 && trusted && trusted_end < text.size()) {
            std::tie(index, bytes) = set.trie.longest(text.substr(i));
            trusted = false;
        }
        if (index < 0) {
            ++i;
            continue;
        }
        const AddedToken& token = tokens_[static_cast<size_t>(index)];
        size_t first = i, end = i + bytes;
        if (token.special && !trusted) {
            i = parse_special ? i + 1 : end;
            continue;
        }
        i = end;
        if (token.single_word && ((first > 0 && is_word(last_character(text.substr(0, first)))) ||
                                  (end < text.size() && is_word(utf8::step(text.substr(end)).code))))
            continue;
        if (token.lstrip) first = std::max(spaces_before(text, first), done);
        if (token.rstrip) end = spaces_after(text, end);  // where the next token may begin yet
        if (first >= end) continue;                       // made of spaces, which the last token took
        if (first > done) on_text(text.substr(done, first - done));
        on_token(token.id);
        done = end;
    }
    if (done < text.size()) on_text(text.substr(done));
}

}  // namespace scoria
