// See picture.h. Text is drawn by stb_easy_font, whose letters are made of rectangles.
#include "pictures/picture.h"

#include "fail.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wunused-function"
#ifndef __clang_analyzer__  // which would look for faults in it
#define STB_IMAGE_WRITE_IMPLEMENTATION
#endif
#define STB_IMAGE_WRITE_STATIC
#define STBI_WRITE_NO_STDIO
#include <stb/stb_easy_font.h>
#include <stb/stb_image_write.h>
#pragma GCC diagnostic pop

namespace scoria {
namespace {

std::string printable_ascii(std::string_view text) {
    std::string out(text);
    for (char& c : out)
        if (c < ' ' || c > '~') c = '?';
    return out;
}

struct FontCorner {  // as stb_easy_font writes them
    float x, y, z;
    uint8_t colour[4];
};

/// Calls draw(x, y, width, height) for each rectangle of the text.
template <class Draw> void for_each_letter_part(std::string_view text, const Draw& draw) {
    std::string letters = printable_ascii(text);
    std::vector<FontCorner> corners(letters.size() * 4 * 16);  // no letter has more than 16 rectangles
    const int quads = stb_easy_font_print(0, 0, letters.data(), nullptr, corners.data(),
                                          static_cast<int>(corners.size() * sizeof(FontCorner)));
    for (size_t i = 0; i < static_cast<size_t>(quads) * 4; i += 4)
        draw(int(corners[i].x), int(corners[i].y), int(corners[i + 2].x - corners[i].x),
             int(corners[i + 2].y - corners[i].y));
}

}  // namespace

Colour mixed(const Colour& a, const Colour& b, double part) {
    Colour result;
    for (size_t i = 0; i < 3; ++i) result[i] = uint8_t(std::lround(a[i] + part * (b[i] - a[i])));
    return result;
}

Picture::Picture(int width, int height, const Colour& background)
    : width_(width), height_(height), pixels_(3 * size_t(width) * size_t(height)) {
    rectangle(0, 0, width, height, background);
}

void Picture::rectangle(int x, int y, int width, int height, const Colour& colour) {
    for (int row = std::max(y, 0); row < std::min(y + height, height_); ++row)
        for (int col = std::max(x, 0); col < std::min(x + width, width_); ++col)
            std::ranges::copy(colour, &pixels_[3 * (size_t(row) * size_t(width_) + size_t(col))]);
}

void Picture::line(double x0, double y0, double x1, double y1, const Colour& colour, int thickness) {
    const double steps = std::max({std::abs(x1 - x0), std::abs(y1 - y0), 1.0});
    for (double i = 0; i <= steps; ++i)
        rectangle(int(std::lround(x0 + i / steps * (x1 - x0))) - thickness / 2,
                  int(std::lround(y0 + i / steps * (y1 - y0))) - thickness / 2, thickness, thickness, colour);
}

void Picture::text(int x, int y, std::string_view text, const Colour& colour, int scale) {
    for_each_letter_part(text, [&](int left, int top, int width, int height) {
        rectangle(x + left * scale, y + top * scale, width * scale, height * scale, colour);
    });
}

void Picture::text_upwards(int x, int y, std::string_view text, const Colour& colour, int scale) {
    for_each_letter_part(text, [&](int left, int top, int width, int height) {
        rectangle(x + top * scale, y - (left + width) * scale, height * scale, width * scale, colour);
    });
}

void Picture::paste(int x, int y, const Picture& other, int scale) {
    for (int row = 0; row < other.height_; ++row)
        for (int col = 0; col < other.width_; ++col) {
            const uint8_t* from = &other.pixels_[3 * (size_t(row) * size_t(other.width_) + size_t(col))];
            rectangle(x + col * scale, y + row * scale, scale, scale, {from[0], from[1], from[2]});
        }
}

std::string Picture::png() const {
    std::string png;
    const auto append = [](void* to, void* data, int size) {
        static_cast<std::string*>(to)->append(static_cast<const char*>(data), size_t(size));
    };
    stbi_write_png_to_func(append, &png, width_, height_, 3, pixels_.data(), width_ * 3);
    return png;
}

int Picture::text_width(std::string_view text, int scale) {
    return stb_easy_font_width(printable_ascii(text).data()) * scale;
}

std::string_view Picture::fitting(std::string_view text, int width, int scale) {
    while (!text.empty() && text_width(text, scale) > width) text.remove_suffix(1);
    return text;
}

std::string base64(std::string_view bytes) {
    constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string out;
    for (size_t i = 0; i < bytes.size(); i += 3) {
        uint32_t group = 0;
        for (size_t k = 0; k < 3; ++k)
            group = group << 8 | (i + k < bytes.size() ? uint8_t(bytes[i + k]) : 0u);
        for (size_t k = 0; k < 4; ++k)
            out += i + k <= bytes.size() ? digits[group >> (18 - 6 * k) & 63] : '=';
    }
    return out;
}

std::string data_uri(const Picture& picture) { return cat("data:image/png;base64,", base64(picture.png())); }

std::string html_text(std::string_view text) {
    std::string out;
    for (const char c : text) {
        constexpr std::pair<char, const char*> special[] = {
            {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}};
        const auto* found = std::ranges::find(special, c, &std::pair<char, const char*>::first);
        if (found != std::end(special))
            out += found->second;
        else
            out += c;
    }
    return out;
}

}  // namespace scoria
