#include "tokenizer/normalizer.h"

#include "tokenizer/byte_characters.h"
#include "tokenizer/utf8.h"

#include <algorithm>

namespace scoria {
namespace {

/// `change(code, character, out)` for every character.
template <class Change> std::string map_characters(std::string_view text, const Change& change) {
    std::string out;
    out.reserve(text.size());
    while (!text.empty()) {
        const utf8::Step step = utf8::step(text);
        change(step.code, text.substr(0, step.bytes), out);
        text.remove_prefix(step.bytes);
    }
    return out;
}

std::string run_step(NormalForm form, std::string_view text) { return utf8::normal_form(text, form); }

std::string run_step(Lowercase, std::string_view text) {
    return map_characters(
        text, [](char32_t code, std::string_view, std::string& out) { utf8::append_lower(out, code); });
}

template <bool (*removed)(char32_t)> std::string without(std::string_view text) {
    return map_characters(text, [](char32_t code, std::string_view character, std::string& out) {
        if (!removed(code)) out += character;
    });
}

std::string run_step(StripAccents, std::string_view text) { return without<utf8::is_mark>(text); }

std::string run_step(ByteCharacters, std::string_view text) { return to_byte_characters(text); }

std::string run_step(Nmt, std::string_view text) {
    return map_characters(text, [](char32_t code, std::string_view character, std::string& out) {
        const bool removed = (code >= 1 && code <= 8) || code == 0xB || (code >= 0xE && code <= 0x1F) ||
                             code == 0x7F || code == 0x8F || code == 0x9F;
        const bool spaces = code == 9 || code == 0xA || code == 0xC || code == 0xD || code == 0x1680 ||
                            (code >= 0x200B && code <= 0x200F) || code == 0x2028 || code == 0x2029 ||
                            code == 0x2581 || code == 0xFEFF || code == 0xFFFD;
        if (!removed) out += spaces ? " " : character;
    });
}

std::string run_step(const StripSpaces& sides, std::string_view text) {
    size_t first = 0, end = text.size();
    while (sides.left && first < end) {
        const utf8::Step step = utf8::step(text.substr(first));
        if (!utf8::is_space(step.code)) break;
        first += step.bytes;
    }
    while (sides.right && first < end) {
        size_t last = end - 1;
        while (last > first && utf8::continues(text[last])) --last;
        if (!utf8::is_space(utf8::step(text.substr(last)).code)) break;
        end = last;
    }
    return std::string(text.substr(first, end - first));
}

std::string run_step(const Prepend& prepend, std::string_view text) {
    return text.empty() ? std::string() : prepend.text + std::string(text);
}

std::string run_step(const Replace& replace, std::string_view text) {
    return replace_all(text, replace.pattern, replace.content);
}

std::string run_step(const Precompiled& precompiled, std::string_view text) {
    static const Regex cluster(R"(\X)");
    std::string out;
    out.reserve(text.size());
    const auto one_by_one = [&](std::string_view characters) {
        out += map_characters(characters, [&](char32_t, std::string_view character, std::string& mapped) {
            const Charsmap::Found found = precompiled.charsmap.shortest(character);
            mapped += found.bytes > 0 ? found.replacement : character;
        });
    };
    const auto is_ascii = [](char byte) { return static_cast<uint8_t>(byte) < 0x80; };
    while (!text.empty()) {
        // Between two ASCII characters a cluster ends, but in CR LF.
        size_t plain = 0;
        while (plain < text.size() && is_ascii(text[plain]) && text[plain] != '\r' &&
               (plain + 1 == text.size() || is_ascii(text[plain + 1])))
            ++plain;
        if (plain > 0) {
            one_by_one(text.substr(0, plain));
            text.remove_prefix(plain);
            continue;
        }
        size_t ahead = 0;  // up to the next plain stretch, which a cluster cannot reach into
        while (ahead < text.size() &&
               !(ahead > 0 && is_ascii(text[ahead - 1]) && is_ascii(text[ahead]) && text[ahead - 1] != '\r'))
            ++ahead;
        const std::string_view stretch = text.substr(0, ahead);
        RegexSearch search(cluster, stretch);
        while (const auto range = search.next()) {
            const std::string_view characters = stretch.substr(range->first, range->second - range->first);
            const Charsmap::Found found =
                characters.size() < 6 ? precompiled.charsmap.shortest(characters) : Charsmap::Found();
            if (found.bytes > 0)
                out += found.replacement;
            else
                one_by_one(characters);
        }
        text.remove_prefix(ahead);
    }
    return out;
}

bool is_chinese(char32_t code) {  // the blocks that BERT's tokenization.py lists
    return (code >= 0x4E00 && code <= 0x9FFF) || (code >= 0x3400 && code <= 0x4DBF) ||
           (code >= 0x20000 && code <= 0x2A6DF) || (code >= 0x2A700 && code <= 0x2B73F) ||
           (code >= 0x2B740 && code <= 0x2B81F) || (code >= 0x2B920 && code <= 0x2CEAF) ||
           (code >= 0xF900 && code <= 0xFAFF) || (code >= 0x2F800 && code <= 0x2FA1F);
}

std::string run_step(const BertRules& rules, std::string_view text) {
    std::string out =
        map_characters(text, [&](char32_t code, std::string_view character, std::string& cleaned) {
            const bool is_space = utf8::is_space(code);
            if (rules.clean_text) {
                const bool kept_control = code == '\t' || code == '\n' || code == '\r';
                if (code == 0 || code == utf8::replacement || (!kept_control && utf8::is_other(code))) return;
                if (is_space) {
                    cleaned += ' ';
                    return;
                }
            }
            if (rules.chinese_characters && is_chinese(code)) {
                cleaned += ' ';
                cleaned += character;
                cleaned += ' ';
            } else {
                cleaned += character;
            }
        });
    if (rules.strip_accents) out = without<utf8::is_nonspacing_mark>(utf8::normal_form(out, NormalForm::nfd));
    return rules.lowercase ? run_step(Lowercase(), out) : out;
}

std::string run_step(const SentencePieceRules& rules, std::string_view text) {
    const auto next = [&](std::string_view rest) -> Charsmap::Found {
        if (const size_t bytes = rules.user_defined.longest(rest).second; bytes > 0)
            return {rest.substr(0, bytes), bytes};
        const Charsmap::Found found = rules.charsmap.longest(rest);
        if (found.bytes > 0) return found;
        const size_t bytes = utf8::step(rest).bytes;
        return {rest.substr(0, bytes), bytes};
    };
    while (rules.remove_extra_spaces && !text.empty()) {
        const Charsmap::Found first = next(text);
        if (first.replacement != " ") break;
        text.remove_prefix(first.bytes);
    }
    std::string out;
    if (text.empty()) return out;
    out.reserve(text.size() + text.size() / 2);
    const std::string_view space = rules.escape_spaces ? space_mark : " ";
    if (rules.add_dummy_prefix && !rules.space_is_suffix) out += space;
    bool after_space = rules.remove_extra_spaces;
    while (!text.empty()) {
        auto [piece, bytes] = next(text);
        text.remove_prefix(bytes);
        while (after_space && piece.starts_with(' ')) piece.remove_prefix(1);
        if (piece.empty()) continue;
        for (const char byte : piece) {
            if (byte == ' ')
                out += space;
            else
                out += byte;
        }
        after_space = rules.remove_extra_spaces && piece.ends_with(' ');
    }
    while (rules.remove_extra_spaces && out.ends_with(space)) out.resize(out.size() - space.size());
    if (rules.add_dummy_prefix && rules.space_is_suffix) out += space;
    return out;
}

// What a step makes of the first `front` bytes of `text`, in bytes, as tokenizer.json's library keeps
// account.
template <class Step> size_t front_after(const Step& step, std::string_view text, size_t front) {
    return run_step(step, text.substr(0, front)).size();
}

// These take the place of characters one by one, whatever they compose or remove.
template <class Step>
constexpr bool in_place = std::is_same_v<Step, NormalForm> || std::is_same_v<Step, Precompiled>;

size_t front_after(const StripSpaces& sides, std::string_view text, size_t front) {
    return run_step(StripSpaces{sides.left, false}, text.substr(0, front)).size();
}

size_t front_after(const Prepend& prepend, std::string_view, size_t front) {
    return prepend.text.size() + front;
}

/// The replacement of a match comes from its last character.
size_t front_after(const Replace& replace, std::string_view text, size_t front) {
    size_t bytes = 0, done = 0;
    each_match(replace.pattern, text, [&](size_t first, size_t end) {
        if (first >= front) return false;
        bytes += first - done;
        done = end;
        if (end <= front) bytes += replace.content.size();
        return end < front;
    });
    return bytes + (done < front ? front - done : 0);
}

}  // namespace

std::string normalize(const std::vector<NormalizerStep>& steps, std::string_view text, size_t* front) {
    std::string out(text);
    if (front) *front = text.empty() ? 0 : utf8::step(text).bytes;
    const auto run = [&]<class Step>(const Step& step) {
        std::string next = run_step(step, out);
        if (front && *front > 0) {
            const size_t least = in_place<Step> && !next.empty() ? utf8::step(next).bytes : 0;
            *front = std::max(front_after(step, out, *front), least);
        }
        out = std::move(next);
    };
    for (const NormalizerStep& step : steps) std::visit(run, step);
    return out;
}

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
    std::string out;
    for (size_t found; (found = text.find(from)) != text.npos; text.remove_prefix(found + from.size())) {
        out += text.substr(0, found);
        out += to;
    }
    return out += text;
}

std::string replace_all(std::string_view text, const Pattern& pattern, std::string_view content) {
    std::string out;
    size_t done = 0;
    each_match(pattern, text, [&](size_t first, size_t end) {
        out += text.substr(done, first - done);
        out += content;
        done = end;
        return true;
    });
    return out += text.substr(done);
}

}  // namespace scoria
