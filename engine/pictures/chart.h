// Line charts with axes and a legend, drawn into a Picture.
#pragma once

#include "pictures/picture.h"

#include <utility>

namespace scoria {

struct ChartLine {
    std::string name;
    std::vector<std::pair<double, double>> points;
    Colour colour;
    bool joined = true;  // by lines; else points alone, each with `labels` beside it
    std::vector<std::string> labels = {};
};

struct Chart {
    std::string title, x_name, y_name;
    bool x_log = false, y_log = false;
    std::vector<ChartLine> lines;
};

/// Points that are not finite, or not positive on a logarithmic axis, are left out.
Picture draw(const Chart& chart, int width = 960, int height = 480);

/// Colours that are told apart, for lines in order.
Colour chart_colour(size_t index);

}  // namespace scoria
