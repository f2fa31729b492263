// See chart.h.
#include "pictures/chart.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace scoria {
namespace {

/// Colours, and pixels around the plot.
struct ChartStyle {
    static constexpr Colour white{255, 255, 255}, ink{40, 44, 52}, grid{226, 229, 234};
    static constexpr int left = 88, right = 24, top = 40, bottom = 52, large = 2;
};

struct ChartAxis {
    bool log;
    double low = INFINITY, high = -INFINITY;  // as drawn: of a logarithmic axis the power of ten

    double place(double value) const { return log ? std::log10(value) : value; }
    bool shows(double value) const { return std::isfinite(value) && (!log || value > 0); }
    void reach(double value) {
        low = std::min(low, place(value));
        high = std::max(high, place(value));
    }
    /// Where lines of the grid stand: powers of ten (and 2 and 5 times that in a short range), or about six
    /// round steps.
    std::vector<double> marks() const {
        std::vector<double> marks;
        if (log) {
            for (int power = int(std::floor(low)); power <= int(std::ceil(high)); ++power)
                for (const double digit : {1.0, 2.0, 5.0})
                    if (digit == 1 || high - low < 3) marks.push_back(digit * std::pow(10, power));
        } else {
            const double rough = (high - low) / 6, power = std::pow(10, std::floor(std::log10(rough)));
            const double step = power * (rough / power > 5   ? 10
                                         : rough / power > 2 ? 5
                                         : rough / power > 1 ? 2
                                                             : 1);
            for (double i = std::ceil(low / step); i * step <= high + step / 1e6; ++i)
                marks.push_back(i * step + 0.0);  // no -0
        }
        std::erase_if(marks, [&](double m) { return place(m) < low - 1e-9 || place(m) > high + 1e-9; });
        return marks;
    }
};

std::string chart_mark_text(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.4g", value);
    return text;
}

class ChartDrawing : ChartStyle {
  public:
    ChartDrawing(const Chart& chart, int width, int height)
        : chart_(chart), picture_(width, height, white), x_{chart.x_log}, y_{chart.y_log} {
        for (const ChartLine& line : chart.lines)
            for (const auto& [x, y] : line.points)
                if (shown(x, y)) x_.reach(x), y_.reach(y);
        for (ChartAxis* axis : {&x_, &y_}) {
            if (axis->low > axis->high) axis->low = 0, axis->high = 1;  // nothing to show
            if (axis == &y_ && !axis->log) axis->low = std::min(axis->low, 0.0);
            const double room = axis->high > axis->low ? (axis->high - axis->low) / 25 : 0.5;
            if (axis == &x_ || axis->log) axis->low -= room;
            axis->high += room;
        }
    }

    Picture draw() {
        axes();
        int legend = left;
        for (const ChartLine& line : chart_.lines) {
            draw_line(line);
            if (line.name.empty()) continue;
            picture_.rectangle(legend, 24, 14, 8, line.colour);
            picture_.text(legend + 20, 24, line.name, ink);
            legend += 36 + Picture::text_width(line.name);
        }
        return std::move(picture_);
    }

  private:
    bool shown(double x, double y) const { return x_.shows(x) && y_.shows(y); }
    double to_x(double value) const {
        return left + (x_.place(value) - x_.low) / (x_.high - x_.low) * (picture_.width() - left - right);
    }
    double to_y(double value) const {
        return picture_.height() - bottom -
               (y_.place(value) - y_.low) / (y_.high - y_.low) * (picture_.height() - top - bottom);
    }
    void axes() {
        const int end_x = picture_.width() - right, end_y = picture_.height() - bottom;
        for (const double mark : x_.marks()) {
            picture_.line(to_x(mark), top, to_x(mark), end_y, grid);
            const std::string text = chart_mark_text(mark);
            picture_.text(int(to_x(mark)) - Picture::text_width(text) / 2, end_y + 6, text, ink);
        }
        for (const double mark : y_.marks()) {
            picture_.line(left, to_y(mark), end_x, to_y(mark), grid);
            const std::string text = chart_mark_text(mark);
            picture_.text(left - 8 - Picture::text_width(text), int(to_y(mark)) - 4, text, ink);
        }
        picture_.line(left, top, left, end_y, ink);
        picture_.line(left, end_y, end_x, end_y, ink);
        picture_.text(left, 4, chart_.title, ink, large);
        picture_.text((left + end_x - Picture::text_width(chart_.x_name, large)) / 2, end_y + 24,
                      chart_.x_name, ink, large);
        picture_.text_upwards(6, (top + end_y + Picture::text_width(chart_.y_name, large)) / 2, chart_.y_name,
                              ink, large);
    }
    void draw_line(const ChartLine& line) {
        const std::pair<double, double>* before = nullptr;
        for (size_t i = 0; i < line.points.size(); ++i) {
            const auto& [x, y] = line.points[i];
            if (!shown(x, y)) continue;
            if (line.joined && before)
                picture_.line(to_x(before->first), to_y(before->second), to_x(x), to_y(y), line.colour, 2);
            before = &line.points[i];
            if (!line.joined) picture_.rectangle(int(to_x(x)) - 3, int(to_y(y)) - 3, 6, 6, line.colour);
            if (i < line.labels.size())
                picture_.text(int(to_x(x)) + 6, int(to_y(y)) - 4, line.labels[i], line.colour);
        }
    }

    const Chart& chart_;
    Picture picture_;
    ChartAxis x_, y_;
};

}  // namespace

Picture draw(const Chart& chart, int width, int height) { return ChartDrawing(chart, width, height).draw(); }

Colour chart_colour(size_t index) {
    // Okabe and Ito 2008, without yellow, which is faint on white.
    constexpr Colour colours[] = {{0, 114, 178}, {213, 94, 0},   {0, 158, 115}, {204, 121, 167},
                                  {230, 159, 0}, {86, 180, 233}, {70, 70, 70}};
    return colours[index % std::size(colours)];
}

}  // namespace scoria
