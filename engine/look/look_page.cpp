// See look_page.h. A map grows when its fragment is the page's target; labels are drawn once and used by all.
#include "look/look_page.h"

#include "fail.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

namespace scoria::look {
namespace {

constexpr std::string_view look_head = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>scoria look</title>
<style>
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --size: min(66vw, 72vh); }
body { font: 14px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 90rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.scroll { overflow: auto; max-height: 90vh; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .15rem .4rem; text-align: left; border-bottom: 1px solid var(--line); white-space: nowrap; }
thead th { position: sticky; top: 0; background: Canvas; z-index: 1; }
.maps td { padding: 1px; border: 0; } .maps th { font-weight: normal; }
.token { background: var(--soft); border: 1px solid var(--line); border-radius: 3px; padding: 0 .25rem; }
.lens td { max-width: 7rem; overflow: hidden; text-overflow: ellipsis; border-left: 1px solid var(--line); }
.lens tr:last-child td { font-weight: 600; border-top: 2px solid; }
figure { margin: 0; } figure img { image-rendering: pixelated; display: block; }
.map img { width: 56px; height: 56px; } .map svg, .map figcaption { display: none; }
.map:target { position: fixed; inset: 0; z-index: 2; background: Canvas; display: grid; place-content: center;
  grid-template: auto calc(var(--size) * .2) var(--size) / calc(var(--size) * .2) var(--size); }
.map:target figcaption { display: block; grid-area: 1 / 1 / 2 / 3; } .map:target svg { display: block; }
.map:target a.picture { grid-area: 3 / 2; } .map:target img { width: var(--size); height: var(--size); }
.map .keys { grid-area: 2 / 2; width: 100%; height: 100%; } .map .queries { grid-area: 3 / 1; width: 100%; height: 100%; }
svg text { fill: CanvasText; font-family: system-ui, sans-serif; }
img.chart { max-width: 100%; }
</style></head><body>
)";

std::string look_number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.4g", value);
    return text;
}

/// Queries stand at the right end of their line, keys are written upwards.
std::string labels(const char* id, const std::vector<TokenId>& tokens, const LookNames& names, bool upright) {
    std::string out = cat("<g id=\"", id, "\" font-size=\"",
                          look_number(std::clamp(800.0 / double(tokens.size()), 6.0, 24.0)), "\">");
    for (size_t i = 0; i < tokens.size(); ++i) {
        const std::string at = look_number((double(i) + 0.5) * 1000 / double(tokens.size()));
        out += cat("<text dominant-baseline=\"central\" ",
                   upright ? cat("transform=\"translate(", at, " 194) rotate(-90)\"")
                           : cat("text-anchor=\"end\" x=\"194\" y=\"", at, "\""),
                   ">", html_text(names.token(tokens[i])), "</text>");
    }
    return out + "</g>";
}

const std::vector<TokenId>& source_of(const Insight& insight) {
    return insight.source.empty() ? insight.ids : insight.source;
}

std::string map_figure(const AttentionMap& map) {
    const char* kind = seen_names[size_t(map.kind)];
    const std::string id = cat(kind, "-", map.layer, "-", map.head);
    const char *queries = map.kind == Seen::encoder ? "source-rows" : "token-rows",
               *keys = map.kind == Seen::self ? "token-columns" : "source-columns";
    return cat("<figure class=map id=\"", id, "\"><figcaption><b>layer ", map.layer, ", head ", map.head,
               "</b> (", kind, "): rows are queries, columns keys. <a href=\"#maps\">close</a></figcaption>",
               "<svg class=keys viewBox=\"0 0 1000 200\"><use href=\"#", keys,
               "\"/></svg><svg class=queries viewBox=\"0 0 200 1000\"><use href=\"#", queries,
               "\"/></svg><a class=picture href=\"#", id, "\"><img title=\"layer ", map.layer, ", head ",
               map.head, "\" alt=\"attention of layer ", map.layer, ", head ", map.head, "\" src=\"",
               data_uri(map_picture(map)), "\"></a></figure>");
}

std::string maps_section(const Insight& insight, Seen kind) {
    std::set<uint32_t> layers, heads;
    for (const AttentionMap& map : insight.maps)
        if (map.kind == kind) layers.insert(map.layer), heads.insert(map.head);
    if (layers.empty()) return {};
    constexpr const char* titles[] = {"In the encoder", "Among the tokens", "To the source"};
    std::string out = cat("<h3>", titles[size_t(kind)],
                          "</h3>\n<div class=scroll><table class=maps><thead><tr><th>layer</th>");
    for (const uint32_t head : heads) out += cat("<th>head ", head, "</th>");
    out += "</tr></thead>\n";
    for (const uint32_t layer : layers) {
        out += cat("<tr><th>", layer, "</th>");
        for (const uint32_t head : heads) {
            const auto map = std::ranges::find_if(insight.maps, [&](const AttentionMap& each) {
                return each.kind == kind && each.layer == layer && each.head == head;
            });
            out += cat("<td>", map == insight.maps.end() ? "" : map_figure(*map), "</td>");
        }
        out += "</tr>\n";
    }
    return out + "</table></div>\n";
}

std::string norms_section(const Insight& insight) {
    std::string out =
        "<h2>Norms</h2>\n<p>The length of the residual stream after each layer, over the tokens, "
        "and of what each sublayer adds to it. The scale is logarithmic: a token far above the "
        "mean is one that many heads rest on.</p>\n";
    for (const bool encoder : {true, false})
        if (std::ranges::find(insight.norms, encoder, &StreamNorm::encoder) != insight.norms.end())
            out += cat("<img class=chart alt=\"norms by layer\" src=\"",
                       data_uri(norms_picture(insight, encoder)), "\">\n");
    out += "<details><summary>numbers</summary><table><thead><tr><th>layer</th><th>what</th><th>mean</th>"
           "<th>max</th></tr></thead>\n";
    for (const StreamNorm& norm : insight.norms)
        out += cat("<tr><td>", norm.encoder ? "encoder " : "", norm.layer < 0 ? "embedding" : cat(norm.layer),
                   "</td><td>", html_text(norm.what), "</td><td>", look_number(norm.mean), "</td><td>",
                   look_number(norm.max), "</td></tr>\n");
    return out + "</table></details>\n";
}

std::string lens_section(const Insight& insight, const LookNames& names) {
    if (insight.lens.empty()) return {};
    std::string out =
        "<h2>Logit lens</h2>\n<p>What the model would say after each layer: its final norm and "
        "output head, run on the device on the stream as that layer left it. Shade is "
        "probability; the five likeliest tokens show under the pointer. The last row is the "
        "model's own answer.</p>\n<div class=scroll><table class=lens><thead><tr><th>after</th>";
    for (const TokenId id : insight.ids) out += cat("<th>", html_text(names.token(id)), "</th>");
    out += "</tr></thead>\n";
    for (const LensRow& row : insight.lens) {
        out += cat("<tr><th>", row.layer < 0 ? "embedding" : cat("layer ", row.layer), "</th>");
        for (const std::vector<Candidate>& position : row.positions) {
            std::string title;
            for (const Candidate& candidate : position)
                title += cat(title.empty() ? "" : ", ", html_text(names.token(candidate.token)), " ",
                             look_number(100 * double(candidate.probability)), " %");
            out += cat("<td title=\"", title, "\" style=\"background:rgb(0 114 178/",
                       look_number(0.8 * double(position.front().probability)), ")\">",
                       html_text(names.token(position.front().token)), "</td>");
        }
        out += "</tr>\n";
    }
    return out + "</table></div>\n";
}

std::string tokens_line(const char* title, const std::vector<TokenId>& tokens, const LookNames& names) {
    std::string out = cat("<p>", title, ": ");
    for (const TokenId id : tokens)
        out += cat("<span class=token title=\"", id, "\">", html_text(names.token(id)), "</span> ");
    return out + "</p>\n";
}

}  // namespace

std::string look_html(const Insight& insight, const LookNames& names) {
    std::string out(look_head);
    out += "<h1>scoria look</h1>\n<p>One forward pass, seen from inside: captured from the Vulkan kernels as "
           "they "
           "ran. Attention weights alone are computed on the host, in double precision, from the captured "
           "queries and the cached keys, since no kernel stores them.</p>\n<table>\n";
    for (const auto& [name, value] : names.facts)
        out += cat("<tr><td>", html_text(name), "</td><td>", html_text(value), "</td></tr>\n");
    out += "</table>\n";
    if (!insight.source.empty()) out += tokens_line("Source", insight.source, names);
    out += tokens_line("Tokens", insight.ids, names);
    for (const std::string& note : insight.notes) out += cat("<p><b>", html_text(note), "</b></p>\n");
    out += cat("<svg width=0 height=0 style=\"position:absolute\"><defs>",
               labels("token-rows", insight.ids, names, false),
               labels("token-columns", insight.ids, names, true),
               labels("source-rows", source_of(insight), names, false),
               labels("source-columns", source_of(insight), names, true), "</defs></svg>\n");
    if (!insight.maps.empty()) {
        out += "<h2 id=maps>Attention</h2>\n<p>Of each head, what a token (row) takes from which token "
               "(column); brightness is the square root of the weight. Click a map to enlarge it.</p>\n";
        for (const Seen kind : {Seen::encoder, Seen::self, Seen::cross}) out += maps_section(insight, kind);
    }
    out += lens_section(insight, names) + norms_section(insight);
    return out + "</body></html>\n";
}

nlohmann::ordered_json look_json(const Insight& insight, const LookNames& names) {
    using Json = nlohmann::ordered_json;
    Json json;
    for (const auto& [name, value] : names.facts) json[name] = value;
    const auto tokens = [&](const std::vector<TokenId>& ids) {
        Json texts = Json::array();
        for (const TokenId id : ids) texts.push_back({{"id", id}, {"text", names.token(id)}});
        return texts;
    };
    json["tokens"] = tokens(insight.ids);
    if (!insight.source.empty()) json["source"] = tokens(insight.source);
    json["notes"] = insight.notes;
    Json maps = Json::array(), norms = Json::array(), lens = Json::array();
    for (const AttentionMap& map : insight.maps) {
        Json rows = Json::array();
        for (uint32_t q = 0; q < map.queries; ++q) {
            const auto row = map.weights.begin() + std::ptrdiff_t(size_t{q} * map.keys);
            rows.push_back(std::vector<float>(row, row + map.keys));
        }
        maps.push_back({{"kind", seen_names[size_t(map.kind)]},
                        {"layer", map.layer},
                        {"head", map.head},
                        {"weights", std::move(rows)}});
    }
    for (const StreamNorm& norm : insight.norms)
        norms.push_back({{"stack", norm.encoder ? "encoder" : "model"},
                         {"layer", norm.layer},
                         {"what", norm.what},
                         {"mean", norm.mean},
                         {"max", norm.max}});
    for (const LensRow& row : insight.lens) {
        Json positions = Json::array();
        for (const std::vector<Candidate>& position : row.positions) {
            Json cell = Json::array();
            for (const Candidate& candidate : position)
                cell.push_back({{"id", candidate.token},
                                {"text", names.token(candidate.token)},
                                {"probability", candidate.probability}});
            positions.push_back(std::move(cell));
        }
        lens.push_back({{"layer", row.layer}, {"positions", std::move(positions)}});
    }
    json["attention"] = std::move(maps);
    json["norms"] = std::move(norms);
    json["lens"] = std::move(lens);
    return json;
}

}  // namespace scoria::look
