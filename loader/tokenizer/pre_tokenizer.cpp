#include "tokenizer/pre_tokenizer.h"

#include "fail.h"
#include "tokenizer/byte_characters.h"
#include "tokenizer/utf8.h"

#include <span>

namespace scoria {

const std::string_view gpt2_expression =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

namespace {

using Steps = std::span<const PreTokenizerStep>;

struct Piece {
    std::string_view text;
    bool first;  // begins where the whole text does
};
using Emit = std::function<void(const Piece&)>;

/// Puts matches and what lies between them together into pieces. Parts come in order and cover the text.
class Joiner {
  public:
    Joiner(const Piece& whole, Matches matches, const Emit& emit)
        : whole_(whole), matches_(matches), emit_(emit) {}
    ~Joiner() = default;

    void part(size_t first, size_t end, bool is_match) {
        switch (matches_) {
        case Matches::removed:
            if (!is_match) give({first, end});
            return;
        case Matches::isolated:
            return give({first, end});
        case Matches::merged_with_previous:
            if (is_match && !held_is_match_ && holds_) {
                held_.second = end;
                held_is_match_ = true;
                return;
            }
            break;
        case Matches::merged_with_next:
            if (!is_match && held_is_match_ && holds_) {
                held_.second = end;
                held_is_match_ = false;
                return;
            }
            break;
        case Matches::contiguous:
            if (is_match == held_is_match_ && holds_) {
                held_.second = end;
                return;
            }
            break;
        }
        finish();
        held_ = {first, end};
        held_is_match_ = is_match;
        holds_ = true;
    }
    void finish() {
        if (holds_) give(held_);
        holds_ = false;
    }

  private:
    void give(std::pair<size_t, size_t> range) const {
        if (range.first < range.second)
            emit_({whole_.text.substr(range.first, range.second - range.first),
                   whole_.first && range.first == 0});
    }
    const Piece& whole_;
    Matches matches_;
    const Emit& emit_;
    std::pair<size_t, size_t> held_{0, 0};
    bool holds_ = false, held_is_match_ = false;
};

void split(const Split& step, const Piece& piece, const Emit& emit) {
    Joiner joiner(piece, step.matches, emit);
    size_t done = 0;
    each_match(step.pattern, piece.text, [&](size_t first, size_t end) {
        if (first > done) joiner.part(done, first, step.inverted);
        joiner.part(first, end, !step.inverted);
        done = end;
        return true;
    });
    if (done < piece.text.size()) joiner.part(done, piece.text.size(), step.inverted);
    joiner.finish();
}

void split(const SplitCharacters& step, const Piece& piece, const Emit& emit) {
    Joiner joiner(piece, step.matches, emit);
    size_t done = 0;
    for (size_t i = 0; i < piece.text.size();) {
        const utf8::Step next = utf8::step(piece.text.substr(i));
        const size_t end = i + next.bytes;
        if (step.member(next.code)) {
            if (i > done) joiner.part(done, i, false);
            joiner.part(i, end, true);
            done = end;
        }
        i = end;
    }
    if (done < piece.text.size()) joiner.part(done, piece.text.size(), false);
    joiner.finish();
}

void split(const GroupDigits& step, const Piece& piece, const Emit& emit) {
    static const Regex runs(R"(\d+)"), runs_at_word_ends(R"(\d++\b)"), digit(R"(\d)");
    Joiner joiner(piece, Matches::isolated, emit);
    size_t done = 0;
    const auto until = [&](size_t end) {
        joiner.part(done, end, false);
        done = end;
    };
    RegexSearch search(step.word_end ? runs_at_word_ends : runs, piece.text);
    while (const auto run = search.next()) {
        std::vector<size_t> starts;
        const std::string_view digits = piece.text.substr(run->first, run->second - run->first);
        for (size_t i = 0; i < digits.size(); i += utf8::step(digits.substr(i)).bytes)
            starts.push_back(run->first + i);
        for (size_t i = 0; i < starts.size(); ++i) {
            if ((starts.size() - i) % 3 == 0 || (i == 0 && step.isolated)) until(starts[i]);
        }
        if (step.isolated) until(run->second);
    }
    until(piece.text.size());
}

void split(const Metaspace& step, const Piece& piece, const Emit& emit) {
    std::string text = replace_all(piece.text, " ", step.mark);
    const bool prefixed =
        step.prefix == Metaspace::Prefix::always || (step.prefix == Metaspace::Prefix::first && piece.first);
    if (prefixed && !text.starts_with(step.mark)) text.insert(0, step.mark);
    if (!step.split) return emit({text, piece.first});
    split(Split{{step.mark, {}}, Matches::merged_with_next, false}, {text, piece.first}, emit);
}

void split(const PrefixSpace&, const Piece& piece, const Emit& emit) {
    if (piece.text.starts_with(' ')) return emit(piece);
    emit({" " + std::string(piece.text), piece.first});
}

void split(const FixedLength& step, const Piece& piece, const Emit& emit) {
    size_t start = 0, characters = 0;
    for (size_t i = 0; i < piece.text.size();) {
        i += utf8::step(piece.text.substr(i)).bytes;
        if (++characters < step.characters && i < piece.text.size()) continue;
        emit({piece.text.substr(start, i - start), piece.first && start == 0});
        start = i;
        characters = 0;
    }
}

void split(const SplitScripts&, const Piece& piece, const Emit& emit) {
    size_t start = 0;
    uint8_t last = 0;
    for (size_t i = 0; i < piece.text.size();) {
        const utf8::Step next = utf8::step(piece.text.substr(i));
        if (const uint8_t script = utf8::script_of(next.code); script != 0 && script != last) {
            if (last != 0) emit({piece.text.substr(start, i - start), piece.first && start == 0});
            start = i;
            last = script;
        }
        i += next.bytes;
    }
    if (last != 0) emit({piece.text.substr(start), piece.first && start == 0});
}

void split(const SplitMarkedWords&, const Piece& piece, const Emit& emit) {
    for (size_t start = 0; start < piece.text.size();) {
        size_t word = start;
        while (piece.text.substr(word).starts_with(space_mark)) word += space_mark.size();
        const size_t end = std::min(piece.text.find(space_mark, word), piece.text.size());
        emit({piece.text.substr(start, end - start), piece.first && start == 0});
        start = end;
    }
}

void split(const SpellBytes&, const Piece& piece, const Emit& emit) {
    emit({to_byte_characters(piece.text), piece.first});
}

void run(Steps steps, const Piece& piece, const PieceSink& sink) {
    if (piece.text.empty()) return;
    if (steps.empty()) return sink(piece.text);
    const Emit next = [&](const Piece& part) { run(steps.subspan(1), part, sink); };
    std::visit([&](const auto& step) { split(step, piece, next); }, steps[0]);
}

}  // namespace

void pre_tokenize(const std::vector<PreTokenizerStep>& steps, std::string_view text, bool first,
                  const PieceSink& piece) {
    run(steps, {text, first}, piece);
}

PreTokenizerStep split_by(std::string_view expression, Matches matches, bool inverted) {
    const bool isolated = matches == Matches::isolated && !inverted;
    if (isolated && expression == R"(\d{1,3}(?=(?:\d{3})*\b))") return GroupDigits{true, true};
    if (isolated && expression == R"((?=(\d{3})+(?!\d)))") return GroupDigits{false, false};
    return Split{{{}, Regex(expression)}, matches, inverted};
}

}  // namespace scoria
