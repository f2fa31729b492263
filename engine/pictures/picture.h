// A picture in memory: what reports draw into, and PNG of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace scoria {

using Colour = std::array<uint8_t, 3>;  // red, green, blue

/// `part` of the way from a to b.
Colour mixed(const Colour& a, const Colour& b, double part);

/// Pixels row by row from the top; what is drawn outside is left out.
class Picture {
  public:
    Picture(int width, int height, const Colour& background);
    int width() const { return width_; }
    int height() const { return height_; }
    void rectangle(int x, int y, int width, int height, const Colour& colour);
    void line(double x0, double y0, double x1, double y1, const Colour& colour, int thickness = 1);
    /// Of printable ASCII; anything else shows as '?'. x, y: the top left corner. A line is
    /// 9 * scale high.
    void text(int x, int y, std::string_view text, const Colour& colour, int scale = 1);
    void text_upwards(int x, int y, std::string_view text, const Colour& colour, int scale = 1);
    /// `other`, each of its pixels `scale` wide and high.
    void paste(int x, int y, const Picture& other, int scale = 1);
    std::string png() const;

    static int text_width(std::string_view text, int scale = 1);
    /// What of `text` fits into `width` pixels.
    static std::string_view fitting(std::string_view text, int width, int scale = 1);

  private:
    int width_, height_;
    std::vector<uint8_t> pixels_;  // 3 bytes each
};

/// RFC 4648.
std::string base64(std::string_view bytes);
/// An <img> source that needs no file.
std::string data_uri(const Picture& picture);
/// Escaped for text and quoted attributes.
std::string html_text(std::string_view text);

}  // namespace scoria
