// See error_map.h.
#include "error_map.h"

#include <algorithm>
#include <cmath>

namespace scoria::validate {
namespace {

struct Stop {
    uint8_t level;
    Colour colour;
};
// Between two stops colours are mixed. Beyond the bound the hue changes at once, so that it is seen.
constexpr Stop palette[] = {{0, {0, 0, 0}},
                            {1, {12, 24, 64}},
                            {ErrorMap::at_bound, {220, 235, 255}},
                            {ErrorMap::at_bound + 1, {255, 214, 0}},
                            {ErrorMap::largest, {200, 0, 0}},
                            {253, {200, 0, 0}},
                            {ErrorMap::not_finite, {255, 0, 255}},
                            {ErrorMap::never_written, {0, 200, 80}}};

Colour colour_of(uint8_t level) {
    const auto* upper = std::ranges::find_if(palette, [&](const Stop& stop) { return stop.level >= level; });
    if (upper->level == level) return upper->colour;
    const Stop& lower = upper[-1];
    return mixed(lower.colour, upper->colour,
                 double(level - lower.level) / double(upper->level - lower.level));
}

}  // namespace

ErrorMap::ErrorMap(size_t rows_, size_t cols_)
    : rows(rows_), cols(cols_), cell_rows(std::min(rows, most)), cell_cols(std::min(cols, most)),
      cells(cell_rows * cell_cols) {}

void ErrorMap::add(size_t row, size_t col, uint8_t level) {
    uint8_t& cell = cells[row * cell_rows / rows * cell_cols + col * cell_cols / cols];
    cell = std::max(cell, level);
}

uint8_t ErrorMap::level_of(double share) {
    if (share == 0) return 0;
    const double octaves = std::log2(share);
    if (octaves <= 0)
        return uint8_t(std::clamp<double>(at_bound + octaves / 16 * (at_bound - 1), 1, at_bound));
    return uint8_t(
        std::clamp<double>(at_bound + 1 + octaves / 24 * (largest - at_bound - 1), at_bound + 1, largest));
}

Picture error_map_picture(const ErrorMap& map) {
    Picture picture(int(map.cell_cols), int(map.cell_rows), {});
    for (size_t i = 0; i < map.cells.size(); ++i)
        picture.rectangle(int(i % map.cell_cols), int(i / map.cell_cols), 1, 1, colour_of(map.cells[i]));
    return picture;
}

}  // namespace scoria::validate
