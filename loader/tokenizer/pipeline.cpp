#include "tokenizer/pipeline.h"

#include "fail.h"
#include "tokenizer/merging.h"
#include "tokenizer/utf8.h"

#include <algorithm>

namespace scoria {
namespace {

constexpr std::string_view end_spellings[] = {
    "</s>",
    "<|endoftext|>",
    "<|im_end|>",
    "<|end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<end_of_turn>",
    "<EOT>",
    "<|end_of_text|>",
    "<reponame>",
    "<|repo_name|>",
    "<|file_sep|>",
    "<|fim_pad|>",
    "<|return|>",
    "<|call|>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<eos>",
    "<end_of_utterance>",
    "<turn|>",
    "<|flush|>",
    "<|calls|>",
    "<|tool_response>",
    "<｜end▁of▁sentence｜>",
    "[e~[",
    "<fim-pad>",
    "<fim_pad>",
    "<PAD>",
    "[PAD]",
};

class PipelineTokenizer final : public Tokenizer {
  public:
    PipelineTokenizer(Pipeline pipeline, std::string_view where)
        : p_(std::move(pipeline)), added_(std::move(p_.added), p_.normalizer, where) {
        std::ranges::sort(p_.ends);
        p_.hidden.resize(p_.tokens.size());
        pieces_.reserve(p_.tokens.size());
        for (const std::string& token : p_.tokens) pieces_.push_back(decode_piece(p_.decoder, token));
    }

    std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options) const override {
        std::vector<TokenId> out;
        if (!options.add_special) {
            encode_text(text, options, out);
            return out;
        }
        for (const FramePart& part : p_.single) {
            if (part.kind == FramePart::Kind::tokens)
                out.insert(out.end(), part.ids.begin(), part.ids.end());
            else
                encode_text(text, options, out);
        }
        return out;
    }

    EncodedPair encode_pair(std::string_view first, std::string_view second,
                            const EncodeOptions& options) const override {
        EncodedPair out;
        for (const FramePart& part : p_.pair) {
            if (part.kind == FramePart::Kind::tokens) {
                if (options.add_special) out.ids.insert(out.ids.end(), part.ids.begin(), part.ids.end());
            } else {
                const size_t text = part.kind == FramePart::Kind::first_text ? 0 : 1, begin = out.ids.size();
                encode_text(text == 0 ? first : second, options, out.ids);
                out.texts[text] = {begin, out.ids.size()};
            }
            out.types.resize(out.ids.size(), TokenId(part.type));
        }
        return out;
    }

    std::string piece(TokenId id, bool special) const override {
        check(id);
        return !special && p_.hidden[static_cast<size_t>(id)] ? std::string()
                                                              : pieces_[static_cast<size_t>(id)];
    }

    std::string decode(std::span<const TokenId> ids, bool special) const override {
        std::vector<std::string> tokens;
        tokens.reserve(ids.size());
        for (const TokenId id : ids) {
            check(id);
            const bool hidden = !special && p_.hidden[static_cast<size_t>(id)];
            if (!hidden)
                tokens.push_back(p_.tokens[static_cast<size_t>(id)]);
            else if (p_.hidden_count)
                tokens.emplace_back();
        }
        return scoria::decode(p_.decoder, std::move(tokens));
    }

    uint32_t size() const override { return static_cast<uint32_t>(p_.tokens.size()); }
    TokenId bos() const override { return p_.bos; }
    TokenId eos() const override { return p_.eos; }
    bool adds_bos() const override {
        const FramePart& first = p_.single.front();
        return p_.bos >= 0 && !first.ids.empty() && first.ids.front() == p_.bos;
    }
    bool ends_generation(TokenId id) const override { return std::ranges::binary_search(p_.ends, id); }
    std::string_view kind() const override { return p_.kind; }

  private:
    void check(TokenId id) const {
        if (id < 0 || static_cast<size_t>(id) >= p_.tokens.size())
            fail(Status::bad_argument, "tokenizer", "expected an id below ", p_.tokens.size(), ", got ", id);
    }

    void encode_text(std::string_view text, const EncodeOptions& options, std::vector<TokenId>& out) const {
        std::string repaired;
        if (!utf8::is_valid(text)) text = repaired = utf8::valid(text);
        SeenWords seen;
        const auto encode_new = [this](std::string_view word, std::vector<TokenId>& ids) {
            p_.model->encode(word, ids);
        };
        const PieceSink on_piece = [&](std::string_view piece) { seen.append(piece, out, encode_new); };
        const auto on_token = [&](TokenId id) { out.push_back(id); };
        const auto on_raw = [&](std::string_view stretch) {
            bool first = stretch.data() == text.data();
            const size_t begin = static_cast<size_t>(stretch.data() - text.data());
            const bool trusted =
                !added_.any(true) || std::ranges::none_of(options.literal, [&](const TextRange& range) {
                    return range.begin < begin + stretch.size() && begin < range.end;
                });
            std::string changed;
            if (!p_.normalizer.empty()) {
                size_t front = 0;
                stretch = changed =
                    normalize(p_.normalizer, stretch, first && marks_first_ ? &front : nullptr);
                first = front > 0;
            }
            const auto on_normal = [&](std::string_view part) {
                pre_tokenize(p_.pre_tokenizer, part, first && part.data() == stretch.data(), on_piece);
            };
            // Normalization moves bytes: where any of these were literal, all are.
            added_.find(stretch, true, options.parse_special && trusted, {}, on_normal, on_token);
        };
        added_.find(text, false, options.parse_special, options.literal, on_raw, on_token);
    }

    Pipeline p_;
    /// Whether a mark goes before the text's first character alone, and not where normalization removed it.
    const bool marks_first_ = std::ranges::any_of(p_.pre_tokenizer, [](const PreTokenizerStep& step) {
        const auto* metaspace = std::get_if<Metaspace>(&step);
        return metaspace && metaspace->prefix == Metaspace::Prefix::first;
    });
    AddedTokens added_;
    std::vector<std::string> pieces_;
};

}  // namespace

std::vector<TokenId> find_ends(const std::vector<std::string>& tokens) {
    std::vector<TokenId> ends;
    TokenId end = -1, result = -1, call = -1;  // of the harmony format, where <|end|> is only that of a part
    for (size_t i = 0; i < tokens.size(); ++i) {
        const TokenId id = static_cast<TokenId>(i);
        if (std::ranges::find(end_spellings, tokens[i]) != std::end(end_spellings)) ends.push_back(id);
        if (tokens[i] == "<|end|>") end = id;
        if (tokens[i] == "<|return|>" || tokens[i] == "<|calls|>") result = id;
        if (tokens[i] == "<|call|>" || tokens[i] == "<|flush|>") call = id;
    }
    if (result >= 0 && call >= 0) std::erase(ends, end);
    return ends;
}

std::shared_ptr<const Tokenizer> make_tokenizer(Pipeline pipeline, std::string_view where) {
    return std::make_shared<PipelineTokenizer>(std::move(pipeline), where);
}

EncodedPair Tokenizer::encode_pair(std::string_view, std::string_view, const EncodeOptions&) const {
    fail(Status::unsupported, "tokenizer", kind(), ": expected a kind that joins two texts");
}

}  // namespace scoria
