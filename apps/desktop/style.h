// Fonts and colours, at the scale of the display.
#pragma once

struct SDL_Window;

namespace scoria::desktop {

/// How much larger than at 96 dots per inch things are drawn, in window units: 1 to 4 in quarters. Where
/// windows have more pixels than units (`pixel_ratio`), the units are scaled already.
float display_scale(SDL_Window* window, float pixel_ratio);

/// Sets ImGui's style, and its fonts for upload: `scale` in window units, `pixel_ratio` pixels per unit.
void apply_style(float scale, float pixel_ratio);

}  // namespace scoria::desktop
