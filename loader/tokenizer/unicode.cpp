#include "tokenizer/unicode.h"

#include "tokenizer/utf8.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <vector>

namespace scoria::utf8 {
namespace {

struct CombiningRun {
    char32_t first, last;
    uint8_t combining_class;
};
struct Decomposition {
    uint64_t code : 21, first : 21, second : 21;  // second is 0: a singleton
    uint64_t composes : 1;
};
struct CompatibilityDecomposition {
    uint32_t code : 18, first : 14;  // of compatibility_codes, up to the next row's; the last is an end
};
struct LowerRun {
    char32_t first, last;
    uint8_t step;
    int32_t distance;  // to the lower case of each
};
struct CodeRange {
    char32_t first, last;
};
struct ScriptStart {  // up to the next row
    uint32_t first : 24, script : 8;
};
#include "tokenizer/unicode_table.inc"

// Hangul syllables are composed by arithmetic: The Unicode Standard, section 3.12.
constexpr char32_t syllables = 0xAC00, leads = 0x1100, vowels = 0x1161, tails = 0x11A7;
constexpr char32_t lead_count = 19, vowel_count = 21, tail_count = 28, syllable_count = 11172;

uint8_t combining_class(char32_t code) {
    const auto* run = std::ranges::lower_bound(combining_runs, code, {}, &CombiningRun::last);
    return run != std::end(combining_runs) && run->first <= code ? run->combining_class : 0;
}

template <size_t n> bool contains(const CodeRange (&ranges)[n], char32_t code) {
    const auto* range = std::ranges::lower_bound(ranges, code, {}, &CodeRange::last);
    return range != std::end(ranges) && range->first <= code;
}

/// The first row whose code is not below this one.
template <class Row, size_t n> const Row* row_of(const Row (&rows)[n], char32_t code) {
    return std::ranges::lower_bound(rows, code, {}, [](const Row& row) { return char32_t(row.code); });
}

void decompose(char32_t code, bool compatibility, std::vector<char32_t>& out) {
    if (code < 0xA0) return out.push_back(code);
    if (const char32_t index = code - syllables; code >= syllables && index < syllable_count) {
        out.push_back(leads + index / (vowel_count * tail_count));
        out.push_back(vowels + index / tail_count % vowel_count);
        if (index % tail_count != 0) out.push_back(tails + index % tail_count);
        return;
    }
    if (compatibility) {
        const auto* whole = row_of(compatibility_decompositions, code);
        if (whole + 1 < std::end(compatibility_decompositions) && whole->code == code) {
            out.insert(out.end(), compatibility_codes + whole[0].first, compatibility_codes + whole[1].first);
            return;
        }
    }
    const auto* found = row_of(decompositions, code);
    if (found == std::end(decompositions) || found->code != code) return out.push_back(code);
    decompose(found->first, compatibility, out);  // the table's depth is at most 3
    if (found->second != 0) out.push_back(found->second);
}

/// The character that two characters compose to, or 0.
char32_t compose(char32_t first, char32_t second) {
    if (first - leads < lead_count && second - vowels < vowel_count) {
        return syllables + ((first - leads) * vowel_count + (second - vowels)) * tail_count;
    }
    if (first - syllables < syllable_count && (first - syllables) % tail_count == 0 && second > tails &&
        second < tails + tail_count) {
        return first + (second - tails);
    }
    static const std::unordered_map<uint64_t, char32_t> pairs = [] {
        std::unordered_map<uint64_t, char32_t> map;
        for (const Decomposition& d : decompositions) {
            if (d.composes) map.emplace(uint64_t{d.first} << 32 | d.second, char32_t(d.code));
        }
        return map;
    }();
    const auto found = pairs.find(uint64_t{first} << 32 | second);
    return found == pairs.end() ? 0 : found->second;
}

std::vector<char32_t> compose_all(const std::vector<char32_t>& codes) {
    std::vector<char32_t> composed;
    size_t starter = 0;
    bool has_starter = false;
    for (const char32_t code : codes) {
        const uint8_t own = combining_class(code);
        // Blocked if anything since the starter has this class or a higher one, or is a starter itself.
        const bool adjacent = has_starter && composed.size() == starter + 1;
        const bool blocked =
            !adjacent && (own == 0 || (has_starter && combining_class(composed.back()) >= own));
        if (has_starter && !blocked) {
            if (const char32_t joined = compose(composed[starter], code); joined != 0) {
                composed[starter] = joined;
                continue;
            }
        }
        if (own == 0) {
            starter = composed.size();
            has_starter = true;
        }
        composed.push_back(code);
    }
    return composed;
}

}  // namespace

std::string normal_form(std::string_view text, NormalForm form) {
    // U+0300 is CC 80: below it, no lead byte exceeds CB, and nothing is to be composed.
    const uint8_t plain = form == NormalForm::nfc ? 0xCC : 0x80;
    if (std::ranges::all_of(text, [&](char byte) { return static_cast<uint8_t>(byte) < plain; }))
        return std::string(text);

    const bool compatibility = form == NormalForm::nfkc || form == NormalForm::nfkd;
    std::vector<char32_t> codes;
    for (std::string_view rest = text; !rest.empty();) {
        const Step next = step(rest);
        decompose(next.kind == Step::Kind::valid ? next.code : replacement, compatibility, codes);
        rest.remove_prefix(next.bytes);
    }
    // Canonical order: marks between two starters, sorted by class, equal ones in place.
    for (auto run = codes.begin(); run != codes.end();) {
        const auto is_starter = [](char32_t code) { return combining_class(code) == 0; };
        const auto first = std::find_if_not(run, codes.end(), is_starter);
        run = std::find_if(first, codes.end(), is_starter);
        std::ranges::stable_sort(first, run, {}, combining_class);
    }
    if (form == NormalForm::nfc || form == NormalForm::nfkc) codes = compose_all(codes);
    std::string out;
    out.reserve(text.size());
    for (const char32_t code : codes) append(out, code);
    return out;
}

bool is_space(char32_t code) {
    return (code >= 9 && code <= 13) || code == ' ' || code == 0x85 || code == 0xA0 || code == 0x1680 ||
           (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F ||
           code == 0x205F || code == 0x3000;
}

bool is_punctuation(char32_t code) {
    if (code < 0x80) {
        return (code >= '!' && code <= '/') || (code >= ':' && code <= '@') || (code >= '[' && code <= '`') ||
               (code >= '{' && code <= '~');
    }
    return contains(punctuation, code);
}

bool is_number(char32_t code) { return code < 0x80 ? code >= '0' && code <= '9' : contains(numbers, code); }
bool is_mark(char32_t code) { return code >= 0x300 && contains(marks, code); }
bool is_nonspacing_mark(char32_t code) { return code >= 0x300 && contains(marks_nonspacing, code); }
bool is_other(char32_t code) { return contains(others, code); }

uint8_t script_of(char32_t code) {
    const auto first = [](const ScriptStart& start) { return char32_t{start.first}; };
    return std::ranges::upper_bound(script_starts, code, {}, first)[-1].script;
}

void append_lower(std::string& out, char32_t code) {
    if (code < 0x80) {
        out += static_cast<char>(code >= 'A' && code <= 'Z' ? code + 32 : code);
        return;
    }
    if (code == 0x130) {  // the one character whose lower case is two
        out += "i\u0307";
        return;
    }
    const auto* run = std::ranges::lower_bound(lower_runs, code, {}, &LowerRun::last);
    const bool in_run =
        run != std::end(lower_runs) && run->first <= code && (code - run->first) % run->step == 0;
    append(out, in_run ? static_cast<char32_t>(static_cast<int32_t>(code) + run->distance) : code);
}

}  // namespace scoria::utf8
