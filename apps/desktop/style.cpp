// See style.h.
#include "style.h"

#include <SDL.h>
#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

namespace scoria::desktop {
namespace {

constexpr float font_size = 16;

// Where Linux systems keep a font of many scripts; without one, ImGui's own Latin letters.
constexpr const char* font_files[] = {
    "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
    "/usr/share/fonts/TTF/DejaVuSans.ttf",
    "/usr/share/fonts/dejavu-sans-fonts/DejaVuSans.ttf",
    "/usr/share/fonts/truetype/noto/NotoSans-Regular.ttf",
    "/usr/share/fonts/truetype/liberation/LiberationSans-Regular.ttf",
};

// Pairs, inclusive: Latin, Greek, Cyrillic; punctuation to currency; arrows to box drawing and shapes.
constexpr ImWchar glyph_ranges[] = {0x0020, 0x024F, 0x0370, 0x052F, 0x1E00, 0x20BF, 0x2100,
                                    0x22FF, 0x2500, 0x26FF, 0xFFFD, 0xFFFD, 0};

struct Color {
    ImGuiCol which;
    float r, g, b, a;
};
constexpr Color colors[] = {
    {ImGuiCol_Text, 0.90f, 0.90f, 0.92f, 1},
    {ImGuiCol_TextDisabled, 0.56f, 0.57f, 0.62f, 1},
    {ImGuiCol_WindowBg, 0.09f, 0.09f, 0.11f, 1},
    {ImGuiCol_ChildBg, 0.09f, 0.09f, 0.11f, 1},
    {ImGuiCol_PopupBg, 0.12f, 0.12f, 0.15f, 1},
    {ImGuiCol_MenuBarBg, 0.12f, 0.12f, 0.15f, 1},
    {ImGuiCol_Border, 0.22f, 0.22f, 0.27f, 1},
    {ImGuiCol_FrameBg, 0.15f, 0.15f, 0.19f, 1},
    {ImGuiCol_FrameBgHovered, 0.20f, 0.20f, 0.25f, 1},
    {ImGuiCol_FrameBgActive, 0.24f, 0.24f, 0.30f, 1},
    {ImGuiCol_TitleBgActive, 0.15f, 0.15f, 0.19f, 1},
    {ImGuiCol_Button, 0.72f, 0.30f, 0.16f, 1},
    {ImGuiCol_ButtonHovered, 0.82f, 0.38f, 0.22f, 1},
    {ImGuiCol_ButtonActive, 0.62f, 0.24f, 0.12f, 1},
    {ImGuiCol_Header, 0.30f, 0.19f, 0.16f, 1},
    {ImGuiCol_HeaderHovered, 0.38f, 0.23f, 0.18f, 1},
    {ImGuiCol_HeaderActive, 0.46f, 0.27f, 0.20f, 1},
    {ImGuiCol_SliderGrab, 0.72f, 0.30f, 0.16f, 1},
    {ImGuiCol_SliderGrabActive, 0.90f, 0.45f, 0.27f, 1},
    {ImGuiCol_CheckMark, 0.90f, 0.45f, 0.27f, 1},
    {ImGuiCol_PlotLines, 0.90f, 0.50f, 0.30f, 1},
    {ImGuiCol_PlotHistogram, 0.72f, 0.30f, 0.16f, 1},
    {ImGuiCol_ModalWindowDimBg, 0, 0, 0, 0.55f},
    {ImGuiCol_NavHighlight, 0.95f, 0.65f, 0.45f, 1},
};

void add_font(ImFontAtlas& fonts, float pixels) {
    ImFontConfig config;
    config.OversampleH = 2;
    for (const char* file : font_files) {
        std::error_code missing;
        if (std::filesystem::is_regular_file(file, missing) &&
            fonts.AddFontFromFileTTF(file, pixels, &config, glyph_ranges))
            return;
    }
    config.SizePixels = pixels;
    fonts.AddFontDefault(&config);
}

}  // namespace

float display_scale(SDL_Window* window, float pixel_ratio) {
    float dots = 0;
    if (pixel_ratio > 1 || SDL_GetDisplayDPI(SDL_GetWindowDisplayIndex(window), nullptr, &dots, nullptr))
        return 1;
    return std::clamp(std::round(dots / 96 * 4) / 4, 1.0f, 4.0f);
}

void apply_style(float scale, float pixel_ratio) {
    ImGuiIO& io = ImGui::GetIO();
    io.Fonts->Clear();
    add_font(*io.Fonts, std::floor(font_size * scale * pixel_ratio));
    io.FontGlobalScale = 1 / pixel_ratio;

    ImGuiStyle style;
    ImGui::StyleColorsDark(&style);
    for (const Color& color : colors) style.Colors[color.which] = ImVec4(color.r, color.g, color.b, color.a);
    style.WindowPadding = ImVec2(12, 10);
    style.FramePadding = ImVec2(9, 5);
    style.ItemSpacing = ImVec2(8, 7);
    style.WindowRounding = 0;
    style.ChildRounding = style.FrameRounding = style.PopupRounding = style.GrabRounding = 4;
    style.WindowBorderSize = 0;
    style.ScaleAllSizes(scale);
    ImGui::GetStyle() = style;
}

}  // namespace scoria::desktop
