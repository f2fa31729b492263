#include "jinja/unicode.h"

#include "tokenizer/utf8.h"

#include <algorithm>
#include <iterator>
#include <span>

namespace scoria::jinja {
namespace {

struct Run {
    char32_t first, last;
};
struct CaseRun {
    char32_t first, last;
    uint32_t stride;
    int32_t delta;
};
struct SpecialCase {
    char32_t code;
    const char* text;
};

#include "jinja/unicode_table.inc"

constexpr std::span<const Run> properties[] = {printable_runs, alpha_runs,         decimal_runs, digit_runs,
                                               numeric_runs,   upper_runs,         lower_runs,   title_runs,
                                               cased_runs,     case_ignorable_runs};

struct CaseTable {
    std::span<const CaseRun> runs;
    std::span<const SpecialCase> specials;
};
constexpr CaseTable uppers{upper_cases, upper_specials}, lowers{lower_cases, lower_specials},
    titles{title_cases, title_specials};

void append_case(std::string& out, const CaseTable& table, char32_t code) {
    const auto special = std::ranges::lower_bound(table.specials, code, {}, &SpecialCase::code);
    if (special != table.specials.end() && special->code == code) {
        out += special->text;
        return;
    }
    // Runs with a stride interleave, so a code may lie in the run before the nearest one.
    auto run = std::ranges::upper_bound(table.runs, code, {}, &CaseRun::first);
    for (int back = 0; back < 3 && run != table.runs.begin(); ++back) {
        --run;
        if (code <= run->last && (code - run->first) % run->stride == 0) {
            utf8::append(out, static_cast<char32_t>(static_cast<int32_t>(code) + run->delta));
            return;
        }
    }
    utf8::append(out, code);
}

/// Whether the capital sigma at [begin, end) closes a word (Unicode's Final_Sigma condition).
bool is_final_sigma(std::string_view text, size_t begin, size_t end) {
    char32_t code = 0;
    do {
        if (begin == 0) return false;
        code = previous_code(text, begin);
    } while (has(Property::case_ignorable, code));
    if (!has(Property::cased, code)) return false;
    do {
        if (end == text.size()) return true;
        code = next_code(text, end);
    } while (has(Property::case_ignorable, code));
    return !has(Property::cased, code);
}

void append_lower(std::string& out, std::string_view text, size_t begin, size_t end, char32_t code) {
    constexpr char32_t capital_sigma = 0x3A3, final_sigma = 0x3C2;
    if (code == capital_sigma && is_final_sigma(text, begin, end))
        utf8::append(out, final_sigma);
    else
        append_case(out, lowers, code);
}

}  // namespace

bool has(Property property, char32_t code) {
    const std::span<const Run> runs = properties[static_cast<size_t>(property)];
    const auto after = std::ranges::upper_bound(runs, code, {}, &Run::first);
    return after != runs.begin() && code <= std::prev(after)->last;
}

bool is_space(char32_t code) {
    return (code >= 0x09 && code <= 0x0D) || (code >= 0x1C && code <= 0x20) || code == 0x85 || code == 0xA0 ||
           code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
           code == 0x202F || code == 0x205F || code == 0x3000;
}

char32_t next_code(std::string_view text, size_t& at) {
    const utf8::Step step = utf8::step(text.substr(at));
    at += step.bytes;
    return step.code;
}

char32_t previous_code(std::string_view text, size_t& at) {
    do {
        --at;
    } while (at > 0 && utf8::continues(text[at]));
    size_t end = at;
    return next_code(text, end);
}

size_t count_codes(std::string_view text) {
    return static_cast<size_t>(
        std::ranges::count_if(text, [](char byte) { return (static_cast<uint8_t>(byte) & 0xC0) != 0x80; }));
}

bool is_ascii(std::string_view text) {
    return std::ranges::all_of(text, [](char byte) { return static_cast<uint8_t>(byte) < 0x80; });
}

std::string upper(std::string_view text) {
    std::string out;
    for (size_t at = 0; at < text.size();) append_case(out, uppers, next_code(text, at));
    return out;
}

std::string lower(std::string_view text) {
    std::string out;
    for (size_t at = 0; at < text.size();) {
        const size_t begin = at;
        const char32_t code = next_code(text, at);
        append_lower(out, text, begin, at, code);
    }
    return out;
}

std::string title(std::string_view text) {
    std::string out;
    bool in_word = false;
    for (size_t at = 0; at < text.size();) {
        const size_t begin = at;
        const char32_t code = next_code(text, at);
        if (in_word)
            append_lower(out, text, begin, at, code);
        else
            append_case(out, titles, code);
        in_word = has(Property::cased, code);
    }
    return out;
}

std::string capitalize(std::string_view text) {
    std::string out;
    for (size_t at = 0; at < text.size();) {
        const size_t begin = at;
        const char32_t code = next_code(text, at);
        if (begin == 0)
            append_case(out, titles, code);
        else
            append_lower(out, text, begin, at, code);
    }
    return out;
}

std::string swap_case(std::string_view text) {
    std::string out;
    for (size_t at = 0; at < text.size();) {
        const size_t begin = at;
        const char32_t code = next_code(text, at);
        if (has(Property::upper, code))
            append_lower(out, text, begin, at, code);
        else
            append_case(out, has(Property::lower, code) ? uppers : CaseTable{}, code);
    }
    return out;
}

}  // namespace scoria::jinja
