// tokenizer.model: the ModelProto of sentencepiece_model.proto, whose field numbers these are.
#include "tokenizer/sources.h"

#include "tokenizer/protobuf.h"
#include "tokenizer/utf8.h"

#include <algorithm>
#include <cmath>

namespace scoria {
namespace {

constexpr std::string_view where = "tokenizer.model";

enum class PieceType : uint8_t { normal = 1, unknown, control, user_defined, unused, byte };

constexpr const char* kind_names[] = {"unigram", "BPE", "word", "character"};  // from 1 on

struct SpmModel {
    std::vector<std::string> pieces;
    std::vector<float> scores;
    std::vector<PieceType> types;
    enum class Kind : uint8_t { unigram = 1, bpe, word, character } kind = Kind::unigram;  // of TrainerSpec
    bool space_is_suffix = false, byte_fallback = false;
    bool add_dummy_prefix = true, remove_extra_spaces = true, escape_spaces = true;
    std::string charsmap, unknown_text = " \u2047 ";
    int64_t bos = 1, eos = 2;
};

void read_piece(std::string_view bytes, SpmModel& model) {
    std::string text;
    float score = 0;
    PieceType type = PieceType::normal;
    for (ProtobufReader reader(bytes, where); reader.next();) {
        if (reader.field() == 1) text = reader.bytes();
        if (reader.field() == 2) score = reader.number();
        if (reader.field() != 3) continue;
        const uint64_t value = reader.integer();
        if (value < 1 || value > 6)
            fail(Status::bad_file, where, "pieces.type: expected 1 to 6, got ", value);
        type = static_cast<PieceType>(value);
    }
    if (std::isnan(score)) fail(Status::bad_file, where, "pieces.score: expected a number, got a NaN");
    model.pieces.push_back(std::move(text));
    model.scores.push_back(score);
    model.types.push_back(type);
}

void read_trainer_spec(std::string_view bytes, SpmModel& model) {
    for (ProtobufReader reader(bytes, where); reader.next();) {
        switch (reader.field()) {
        case 3: {
            const uint64_t kind = reader.integer();
            if (kind < 1 || kind > std::size(kind_names))
                fail(Status::unsupported, where, "trainer_spec.model_type: expected 1 to 4, got ", kind);
            model.kind = static_cast<SpmModel::Kind>(kind);
            break;
        }
        case 24:
            model.space_is_suffix = reader.integer() != 0;
            break;
        case 35:
            model.byte_fallback = reader.integer() != 0;
            break;
        case 41:
            model.bos = static_cast<int32_t>(reader.integer());
            break;
        case 42:
            model.eos = static_cast<int32_t>(reader.integer());
            break;
        case 44:
            model.unknown_text = reader.bytes();
            break;
        default:
            break;
        }
    }
}

void read_normalizer_spec(std::string_view bytes, SpmModel& model) {
    for (ProtobufReader reader(bytes, where); reader.next();) {
        switch (reader.field()) {
        case 2:
            model.charsmap = reader.bytes();
            break;
        case 3:
            model.add_dummy_prefix = reader.integer() != 0;
            break;
        case 4:
            model.remove_extra_spaces = reader.integer() != 0;
            break;
        case 5:
            model.escape_spaces = reader.integer() != 0;
            break;
        default:
            break;
        }
    }
}

SpmModel read_model(std::string_view bytes) {
    SpmModel model;
    for (ProtobufReader reader(bytes, where); reader.next();) {
        switch (reader.field()) {
        case 1:
            read_piece(reader.bytes(), model);
            break;
        case 2:
            read_trainer_spec(reader.bytes(), model);
            break;
        case 3:
            read_normalizer_spec(reader.bytes(), model);
            break;
        case 5: {  // denormalizer_spec
            SpmModel denormalizer;
            read_normalizer_spec(reader.bytes(), denormalizer);
            if (!denormalizer.charsmap.empty())
                fail(Status::unsupported, where,
                     "denormalizer_spec: this build does not support a charsmap there");
            break;
        }
        default:
            break;
        }
    }
    if (model.pieces.empty()) fail(Status::bad_file, where, "pieces: expected a vocabulary, got none");
    return model;
}

void set_model(const SpmModel& spm, TokenId unknown, Pipeline& p) {
    std::vector<std::string> spellings = spm.pieces;
    std::vector<bool> unused, user_defined;
    std::vector<double> scores(spm.scores.begin(), spm.scores.end());
    float least = 0;
    bool any = false;
    using Kind = SpmModel::Kind;
    const bool characters = spm.kind == Kind::character;
    for (size_t i = 0; i < spellings.size(); ++i) {
        const PieceType type = spm.types[i];
        unused.push_back(type == PieceType::unused);
        user_defined.push_back(type == PieceType::user_defined);
        const bool reserved = type == PieceType::unknown || type == PieceType::control ||
                              (type == PieceType::byte && !spm.byte_fallback);
        const bool longer = utf8::step(spellings[i]).bytes < spellings[i].size();
        if (reserved || (spm.kind == Kind::unigram && type == PieceType::unused) ||
            (characters && longer && type != PieceType::byte && type != PieceType::user_defined))
            spellings[i].clear();
        if (type != PieceType::normal) continue;
        least = any ? std::min(least, spm.scores[i]) : spm.scores[i];
        any = true;
    }
    if (spm.kind == Kind::word) {
        p.model = std::make_unique<MarkedWords>(std::move(spellings), unknown, spm.byte_fallback);
    } else if (spm.kind == Kind::bpe || characters) {  // of characters alone nothing joins
        auto model = std::make_unique<ScoreBpe>(
            std::move(spellings), spm.scores, unused, user_defined,
            ScoreBpe::Options{.unknown = unknown, .byte_fallback = spm.byte_fallback, .fuse_unknown = true});
        if (model->spellings().words_are_apart()) p.pre_tokenizer.emplace_back(SplitMarkedWords());
        p.model = std::move(model);
    } else {
        p.model = std::make_unique<Unigram>(
            std::move(spellings), std::move(scores), user_defined, least,
            Unigram::Options{.unknown = unknown, .byte_fallback = spm.byte_fallback});
    }
}

}  // namespace

Pipeline read_sentencepiece(std::string_view bytes) {
    const SpmModel spm = read_model(bytes);
    Pipeline p;
    p.kind = cat("SentencePiece (", kind_names[static_cast<size_t>(spm.kind) - 1], ")");
    TokenId unknown = -1;
    std::vector<std::pair<std::string_view, TokenId>> user_defined;
    for (size_t i = 0; i < spm.pieces.size(); ++i) {
        const TokenId id = static_cast<TokenId>(i);
        const PieceType type = spm.types[i];
        std::string text = spm.pieces[i];
        if (type == PieceType::byte) {
            if (!spelled_byte(text))
                fail(Status::bad_file, where, "pieces: expected a byte <0xXX>, got \"", text.substr(0, 80),
                     '"');
        } else if (type == PieceType::unknown) {
            unknown = id;
            text = spm.unknown_text;
        } else if (type == PieceType::control) {
            p.added.push_back({.text = text, .id = id, .special = true});
        } else if (type == PieceType::user_defined && utf8::is_valid(text)) {
            user_defined.push_back({spm.pieces[i], id});
        }
        p.tokens.push_back(std::move(text));
        p.hidden.push_back(type == PieceType::control);
    }
    if (unknown < 0) fail(Status::bad_file, where, "pieces: expected one of type unknown, got none");
    p.normalizer.emplace_back(SentencePieceRules{{spm.charsmap, where},
                                                 spm.add_dummy_prefix,
                                                 spm.remove_extra_spaces,
                                                 spm.escape_spaces,
                                                 spm.space_is_suffix,
                                                 Trie(user_defined)});
    set_model(spm, unknown, p);
    p.decoder.emplace_back(
        DecodeSpaceMarks{spm.add_dummy_prefix || spm.remove_extra_spaces, spm.remove_extra_spaces});
    p.decoder.emplace_back(DecodeByteFallback{false});
    const auto checked = [&](int64_t id) {
        return id >= 0 && static_cast<size_t>(id) < p.tokens.size() ? static_cast<TokenId>(id) : -1;
    };
    p.bos = checked(spm.bos);
    p.eos = checked(spm.eos);
    p.ends = find_ends(spm.pieces);
    if (p.eos >= 0 && std::ranges::find(p.ends, p.eos) == p.ends.end()) p.ends.push_back(p.eos);
    return p;
}

Pipeline read_vocab_txt(std::string_view text, bool lowercase) {
    constexpr std::string_view file = "vocab.txt";
    Pipeline p;
    p.kind = "vocab.txt (WordPiece)";
    while (!text.empty()) {
        const size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (line.ends_with('\r')) line.remove_suffix(1);
        p.tokens.emplace_back(line);
    }
    const auto id_of = [&](std::string_view token) {
        const auto found = std::ranges::find(p.tokens, token);
        return found == p.tokens.end() ? -1 : static_cast<TokenId>(found - p.tokens.begin());
    };
    p.hidden.resize(p.tokens.size());
    for (const std::string_view token : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}) {
        const TokenId id = id_of(token);
        if (id < 0) continue;
        p.added.push_back({.text = std::string(token), .id = id, .special = true});
        p.hidden[static_cast<size_t>(id)] = true;
    }
    p.bos = id_of("[CLS]");
    p.eos = id_of("[SEP]");
    const TokenId unknown = id_of("[UNK]");
    if (p.bos < 0 || p.eos < 0 || unknown < 0)
        fail(Status::bad_file, file, "expected BERT's [CLS], [SEP] and [UNK] among ", p.tokens.size(),
             " lines");
    p.normalizer.emplace_back(BertRules{true, true, lowercase, lowercase});
    p.pre_tokenizer.emplace_back(SplitCharacters{utf8::is_space, Matches::removed});
    p.pre_tokenizer.emplace_back(SplitCharacters{utf8::is_punctuation, Matches::isolated});
    p.model = std::make_unique<WordPiece>(p.tokens, WordPiece::Options{.unknown = unknown});
    p.decoder.emplace_back(DecodeWordPiece());
    using Kind = FramePart::Kind;
    p.single = {{Kind::tokens, {p.bos}, 0}, {Kind::first_text, {}, 0}, {Kind::tokens, {p.eos}, 0}};
    p.pair = p.single;
    p.pair.push_back({Kind::second_text, {}, 1});
    p.pair.push_back({Kind::tokens, {p.eos}, 1});
    return p;
}

}  // namespace scoria
