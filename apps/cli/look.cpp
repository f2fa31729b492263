// look: attention maps, norms and the logit lens of one forward pass, as a page, pictures or numbers.
#include "common.h"
#include "io.h"
#include "messages.h"
#include "models.h"
#include "values.h"
#include "verbs.h"

#include "file.h"
#include "look/look_page.h"
#include "tokenizer/utf8.h"
#include "validate/report.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <cstdio>

namespace scoria::cli {
namespace {

constexpr size_t most_tokens = 256;  // a map has the square of it in pixels, and there are hundreds
constexpr uint32_t answer_tokens =
    24;  // of an encoder-decoder, if --answer does not say what its decoder sees

struct LookFlags {
    std::string text, file, ids, answer, answer_ids, layers, heads, page, pictures;
    bool special = false;
};

/// "0-3,7" as numbers. Errors: bad_argument.
std::vector<uint32_t> parse_ranges(const char* flag, const std::string& text) {
    std::vector<uint32_t> all;
    const char *at = text.data(), *const end = at + text.size();
    const auto number = [&] {
        uint16_t value = 0;
        const auto [stop, error] = std::from_chars(at, end, value);
        if (error != std::errc())
            fail(Status::bad_argument, "look", "expected ", flag, " such as 0-3,7, got '", text, "'");
        at = stop;
        return uint32_t{value};
    };
    while (at != end) {
        const uint32_t first = number();
        const uint32_t last = at != end && *at == '-' ? (++at, number()) : first;
        if (last < first || (at != end && (*at != ',' || at + 1 == end)))
            fail(Status::bad_argument, "look", "expected ", flag, " such as 0-3,7, got '", text, "'");
        for (uint32_t i = first; i <= last; ++i) all.push_back(i);
        if (at != end) ++at;
    }
    return all;
}

/// A token's bytes as text that can be seen: white space as signs, what is no UTF-8 in hexadecimal.
std::string visible(std::string_view bytes) {
    std::string out;
    for (size_t i = 0; i < bytes.size();) {
        const auto byte = uint8_t(bytes[i]);
        const utf8::Step step = utf8::step(bytes.substr(i));
        const bool whole = step.kind == utf8::Step::Kind::valid;
        if (byte == ' ') {
            out += "·";
        } else if (byte == '\n') {
            out += "↵";
        } else if (byte == '\t') {
            out += "⇥";
        } else if (whole && byte >= ' ' && byte != 0x7F) {
            out += bytes.substr(i, step.bytes);
        } else {
            char hex[8];
            std::snprintf(hex, sizeof hex, "<%02X>", byte);
            out += hex;
        }
        i += whole ? step.bytes : 1;
    }
    return out;
}

std::vector<TokenId> look_ids(const Model& model, const LookFlags& flags) {
    if (!flags.ids.empty()) {
        if (!flags.text.empty() || !flags.file.empty())
            fail(Status::bad_argument, "look", "expected one of -p, -f and --ids, got two");
        return parse_ids("look", flags.ids);
    }
    const std::string text = prompt_text("look", flags.text, flags.file);
    return tokenizer_of(model).encode(text, {.add_special = true, .parse_special = flags.special});
}

/// What an encoder-decoder's decoder sees: its start, and an answer, which is the model's own unless given.
std::vector<TokenId> answer_ids(Engine& engine, std::span<const TokenId> source, const LookFlags& flags) {
    const Model& model = engine.model();
    std::vector<TokenId> ids = decoder_begin(model);
    std::vector<TokenId> rest;
    if (!flags.answer_ids.empty()) {
        rest = parse_ids("look", flags.answer_ids);
    } else if (!flags.answer.empty()) {
        rest =
            tokenizer_of(model).encode(flags.answer, {.add_special = false, .parse_special = flags.special});
    } else {
        Session session(engine);
        session.encode(source);
        session.append(ids);
        rest = session.generate({.max_tokens = answer_tokens}).tokens;
        if (!rest.empty()) rest.pop_back();  // the last is an answer alone, never seen
    }
    ids.insert(ids.end(), rest.begin(), rest.end());
    return ids;
}

void write_pictures(const std::string& folder, const look::Insight& insight, const look::LookNames& names) {
    make_folders(folder);
    const auto write = [&](const std::string& name, const Picture& picture) {
        const std::string png = picture.png();
        write_file_atomic(folder + "/" + name + ".png", std::as_bytes(std::span(png)));
    };
    for (const look::Seen kind : {look::Seen::encoder, look::Seen::self, look::Seen::cross}) {
        const char* name = look::seen_names[size_t(kind)];
        if (std::ranges::find(insight.maps, kind, &look::AttentionMap::kind) == insight.maps.end()) continue;
        write(cat("attention-", name), look::maps_picture(insight, kind));
        for (const look::AttentionMap& map : insight.maps)
            if (map.kind == kind) {
                const Picture small = look::map_picture(map);
                const int scale = std::max(1, 512 / std::max(small.width(), small.height()));
                Picture large(small.width() * scale, small.height() * scale, {});
                large.paste(0, 0, small, scale);
                write(cat("attention-", name, "-layer", map.layer, "-head", map.head), large);
            }
    }
    for (const bool encoder : {true, false})
        if (std::ranges::find(insight.norms, encoder, &look::StreamNorm::encoder) != insight.norms.end())
            write(encoder ? "norms-encoder" : "norms", look::norms_picture(insight, encoder));
    if (!insight.lens.empty()) write("lens", look::lens_picture(insight, names));
}

void check_count(const char* what, size_t count) {
    if (count == 0 || count > most_tokens)
        fail(Status::bad_argument, "look", "expected 1 to ", most_tokens, " tokens of ", what, ", got ",
             count);
}

int look_at(const LookFlags& flags, const Common& common) {
    const look::LookOptions options{parse_ranges("--layers", flags.layers),
                                    parse_ranges("--heads", flags.heads)};
    check_no_model("look", common.model, flags.page);
    const std::shared_ptr<const Model> model = load_model(common);
    const bool encodes = !model->architecture.encoder.empty();
    if (!encodes && !(flags.answer.empty() && flags.answer_ids.empty()))
        fail(Status::bad_argument, "look", "expected an encoder-decoder beside --answer, got ",
             model->architecture.family);
    std::vector<TokenId> ids = look_ids(*model, flags), source;
    check_count("text", ids.size());
    const EngineOptions engine_flags = engine_options(common);
    const std::unique_ptr<Engine> engine = load_engine(model, engine_flags, common);
    if (encodes) {
        source = std::move(ids);
        ids = answer_ids(*engine, source, flags);
        check_count("answer", ids.size());
    }
    const look::Insight insight = look::look_into(*engine, ids, source, options);
    const nlohmann::ordered_json facts = validate::device_facts(engine->devices());
    const look::LookNames names{{{"model", model->name},
                                 {"family", model->architecture.family},
                                 {"device", facts["device"]},
                                 {"driver", facts["driver"]},
                                 {"precision", precision_name(engine_flags.precision)}},
                                [&](TokenId id) {
                                    const bool known =
                                        model->tokenizer && uint32_t(id) < model->tokenizer->size();
                                    return known ? visible(model->tokenizer->piece(id, true)) : cat("#", id);
                                }};
    if (!flags.pictures.empty()) write_pictures(flags.pictures, insight, names);
    const std::string page =
        flags.page.empty() && !common.json && flags.pictures.empty() ? "look.html" : flags.page;
    if (!page.empty()) {
        const std::string html = look::look_html(insight, names);
        write_file_atomic(page, std::as_bytes(std::span(html)));
    }
    if (common.json)
        print(json_text(look::look_json(insight, names)), '\n');
    else
        print(insight.ids.size(), " tokens, ", insight.maps.size(), " attention maps, ", insight.lens.size(),
              " rows of the logit lens -> ", page.empty() ? flags.pictures : page, '\n');
    for (const std::string& note_text : insight.notes) note(note_text);
    return finish(*engine);
}

}  // namespace

Action define_look(CLI::App& app, const Common& common) {
    auto flags = std::make_shared<LookFlags>();
    app.add_option("-p,--prompt", flags->text, "the text (-: stdin)");
    app.add_option("-f,--file", flags->file, "a file with the text");
    app.add_option("--ids", flags->ids, "token ids in its place, e.g. 1,2,3");
    app.add_flag("--special", flags->special, "text that spells a special token is that token");
    app.add_option("--answer", flags->answer,
                   "of an encoder-decoder: what the decoder sees (default: the model's own answer)");
    app.add_option("--answer-ids", flags->answer_ids, "the same as token ids");
    app.add_option("--layers", flags->layers, "which to show, e.g. 0-3,7 (default: all)");
    app.add_option("--heads", flags->heads, "likewise");
    app.add_option("-o,--output", flags->page, "the page to write (default: look.html)")->check(writable());
    app.add_option("--png", flags->pictures, "a folder for the pictures as files");
    app.footer("At most 256 tokens. --json writes the numbers to stdout.");
    return [flags, &app, &common] {
        check_alone(app, {{"--answer", {"--answer-ids"}}});
        return look_at(*flags, common);
    };
}

}  // namespace scoria::cli
