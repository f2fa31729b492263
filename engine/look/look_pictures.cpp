// The pictures of look_page.h.
#include "look/look_page.h"

#include "fail.h"
#include "pictures/chart.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace scoria::look {
namespace {

constexpr Colour paper{255, 255, 255}, text_ink{40, 44, 52};

/// From black over purple and orange to light yellow, ever brighter, so that it also reads in grey.
Colour heat(double part) {
    constexpr Colour stops[] = {{0, 0, 4}, {87, 16, 110}, {188, 55, 84}, {249, 142, 9}, {252, 255, 164}};
    const double at = std::clamp(part, 0.0, 1.0) * (std::size(stops) - 1);
    const auto below = std::min(size_t(at), std::size(stops) - 2);
    return mixed(stops[below], stops[below + 1], at - double(below));
}

std::string ascii(std::string text) {
    // White space as the page shows it, back to what the font has.
    for (const auto& [from, to] : {std::pair("·", " "), std::pair("↵", "\\n"), std::pair("⇥", "\\t")})
        for (size_t at; (at = text.find(from)) != std::string::npos;)
            text.replace(at, std::string_view(from).size(), to);
    const size_t first = text.find_first_not_of(' ');
    return first == std::string::npos ? "_" : text.substr(first);
}

}  // namespace

Picture map_picture(const AttentionMap& map) {
    Picture picture(int(map.keys), int(map.queries), heat(0));
    for (uint32_t q = 0; q < map.queries; ++q)
        for (uint32_t k = 0; k < map.keys; ++k)
            picture.rectangle(int(k), int(q), 1, 1,
                              heat(std::sqrt(double(map.weights[size_t{q} * map.keys + k]))));
    return picture;
}

Picture maps_picture(const Insight& insight, Seen kind) {
    // Places of layers and heads that are shown, and the largest map.
    std::map<uint32_t, int> layers, heads;
    int width = 1, height = 1;
    for (const AttentionMap& map : insight.maps)
        if (map.kind == kind) {
            layers[map.layer], heads[map.head];
            width = std::max(width, int(map.keys)), height = std::max(height, int(map.queries));
        }
    const auto number = [](std::map<uint32_t, int>& places) {
        int next = 0;
        for (auto& [index, place] : places) place = next++;
    };
    number(layers), number(heads);
    constexpr int wanted = 56, gap = 4, left = 56, top = 20;
    const int scale = std::max(1, wanted / std::max(width, height));
    const int step_x = std::max(width * scale, 24) + gap, step_y = std::max(height * scale, 12) + gap;
    Picture picture(left + step_x * int(heads.size()), top + step_y * int(layers.size()), paper);
    for (const auto& [head, place] : heads)
        picture.text(left + place * step_x, 6, cat(place == 0 ? "head " : "", head), text_ink);
    for (const auto& [layer, place] : layers)
        picture.text(4, top + place * step_y + 2, cat(place == 0 ? "layer " : "", layer), text_ink);
    for (const AttentionMap& map : insight.maps)
        if (map.kind == kind)
            picture.paste(left + heads[map.head] * step_x, top + layers[map.layer] * step_y, map_picture(map),
                          scale);
    return picture;
}

Picture norms_picture(const Insight& insight, bool encoder) {
    Chart chart{.title = encoder ? "Encoder: lengths of the residual stream and of what is added to it"
                                 : "Lengths of the residual stream and of what is added to it",
                .x_name = "after layer (-1: embedding)",
                .y_name = "2-norm of a token",
                .y_log = true,
                .lines = {}};
    const auto add = [&](const std::string& name, double layer, double value) {
        auto line = std::ranges::find(chart.lines, name, &ChartLine::name);
        if (line == chart.lines.end())
            line = chart.lines.insert(line, {name, {}, chart_colour(chart.lines.size())});
        line->points.emplace_back(layer, value);
    };
    for (const StreamNorm& norm : insight.norms)
        if (norm.encoder == encoder) {
            add(norm.what + ", mean", norm.layer, norm.mean);
            if (norm.what == "stream") add("stream, max", norm.layer, norm.max);
        }
    return draw(chart);
}

Picture lens_picture(const Insight& insight, const LookNames& names) {
    constexpr int left = 64, row_height = 15, cell = 76, top = 20;
    Picture picture(left + cell * int(insight.ids.size()), top + row_height * int(insight.lens.size() + 1),
                    paper);
    const auto write = [&](int row, int col, const std::string& text, const Colour& colour) {
        picture.text(left + col * cell + 4, row * row_height + 5, Picture::fitting(text, cell - 6), colour);
    };
    for (size_t t = 0; t < insight.ids.size(); ++t)
        write(0, int(t), ascii(names.token(insight.ids[t])), text_ink);
    picture.line(0, 17, picture.width(), 17, text_ink);
    for (size_t i = 0; i < insight.lens.size(); ++i) {
        const LensRow& row = insight.lens[i];
        const int y = int(i) + 1;
        const std::string name = row.layer < 0                  ? "embedding"
                                 : i + 1 == insight.lens.size() ? "answer"
                                                                : cat("layer ", row.layer);
        picture.text(4, y * row_height + 5, name, text_ink);
        for (size_t t = 0; t < row.positions.size(); ++t) {
            const Candidate& best = row.positions[t].front();
            const Colour shade = mixed(paper, chart_colour(0), double(best.probability));
            picture.rectangle(left + int(t) * cell, y * row_height + 2, cell - 1, row_height - 1, shade);
            write(y, int(t), ascii(names.token(best.token)), best.probability > 0.5f ? paper : text_ink);
        }
    }
    return picture;
}

}  // namespace scoria::look
