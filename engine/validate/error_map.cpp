// See error_map.h.
#include "error_map.h"

#include <algorithm>
#include <array>
#include <cmath>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wunused-function"
#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#define STBI_WRITE_NO_STDIO
#include <stb/stb_image_write.h>
#pragma GCC diagnostic pop

namespace scoria::validate {
namespace {

using Colour = std::array<uint8_t, 3>;

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
    const double part = double(level - lower.level) / double(upper->level - lower.level);
    Colour mixed;
    for (size_t i = 0; i < 3; ++i)
        mixed[i] = uint8_t(std::lround(lower.colour[i] + part * (upper->colour[i] - lower.colour[i])));
    return mixed;
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

std::string error_map_png(const ErrorMap& map) {
    std::vector<uint8_t> pixels;
    for (const uint8_t level : map.cells) {
        const Colour colour = colour_of(level);
        pixels.insert(pixels.end(), colour.begin(), colour.end());
    }
    std::string png;
    const auto append = [](void* to, void* data, int size) {
        static_cast<std::string*>(to)->append(static_cast<const char*>(data), size_t(size));
    };
    stbi_write_png_to_func(append, &png, int(map.cell_cols), int(map.cell_rows), 3, pixels.data(),
                           int(map.cell_cols * 3));
    return png;
}

}  // namespace scoria::validate
