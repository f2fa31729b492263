#include "tokenizer/nfc.h"

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
    char32_t code, first, second;  // second is 0: a singleton
    bool composes;
};
#include "tokenizer/nfc_table.inc"

// Hangul syllables are composed by arithmetic: The Unicode Standard, section 3.12.
constexpr char32_t syllables = 0xAC00, leads = 0x1100, vowels = 0x1161, tails = 0x11A7;
constexpr char32_t lead_count = 19, vowel_count = 21, tail_count = 28, syllable_count = 11172;

uint8_t combining_class(char32_t code) {
    const auto* run = std::ranges::lower_bound(combining_runs, code, {}, &CombiningRun::last);
    return run != std::end(combining_runs) && run->first <= code ? run->combining_class : 0;
}

void decompose(char32_t code, std::vector<char32_t>& out) {
    if (code < 0xC0) return out.push_back(code);
    if (const char32_t index = code - syllables; code >= syllables && index < syllable_count) {
        out.push_back(leads + index / (vowel_count * tail_count));
        out.push_back(vowels + index / tail_count % vowel_count);
        if (index % tail_count != 0) out.push_back(tails + index % tail_count);
        return;
    }
    const auto* found = std::ranges::lower_bound(decompositions, code, {}, &Decomposition::code);
    if (found == std::end(decompositions) || found->code != code) return out.push_back(code);
    decompose(found->first, out);  // the table's depth is at most 3
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
            if (d.composes) map.emplace(uint64_t{d.first} << 32 | d.second, d.code);
        }
        return map;
    }();
    const auto found = pairs.find(uint64_t{first} << 32 | second);
    return found == pairs.end() ? 0 : found->second;
}

}  // namespace

std::string nfc(std::string_view text) {
    // U+0300 is CC 80: below it, no lead byte exceeds CB.
    if (std::ranges::all_of(text, [](char byte) { return static_cast<uint8_t>(byte) < 0xCC; }))
        return std::string(text);

    std::vector<char32_t> codes;
    for (std::string_view rest = text; !rest.empty();) {
        const Step next = step(rest);
        decompose(next.kind == Step::Kind::valid ? next.code : replacement, codes);
        rest.remove_prefix(next.bytes);
    }
    // Canonical order: marks between two starters, sorted by class, equal ones in place.
    for (auto run = codes.begin(); run != codes.end();) {
        const auto is_starter = [](char32_t code) { return combining_class(code) == 0; };
        const auto first = std::find_if_not(run, codes.end(), is_starter);
        run = std::find_if(first, codes.end(), is_starter);
        std::ranges::stable_sort(first, run, {}, combining_class);
    }
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
    std::string out;
    out.reserve(text.size());
    for (const char32_t code : composed) append(out, code);
    return out;
}

}  // namespace scoria::utf8
