// See transcript.h. A message is a head, its lines, and an empty row.
#include "transcript.h"

#include <imgui.h>

#include <algorithm>
#include <cstdio>

namespace scoria::desktop {
namespace {

constexpr int rows_around = 2;  // head and empty row

size_t next_character(const std::string& text, size_t at) {
    do ++at;
    while (at < text.size() && (text[at] & 0xC0) == 0x80);
    return at;
}

}  // namespace

void Transcript::wrap(Wrapped& wrapped, const std::string& text, float width) const {
    const ImFont& font = *ImGui::GetFont();
    const float scale = ImGui::GetFontSize() / font.FontSize;
    wrapped = {text.size(), width, ImGui::GetFontSize(), {}};
    size_t begin = 0;
    while (begin < text.size()) {
        const size_t newline = std::min(text.find('\n', begin), text.size());
        do {
            const char* stop =
                font.CalcWordWrapPositionA(scale, text.data() + begin, text.data() + newline, width);
            size_t end = size_t(stop - text.data());
            if (end == begin && begin < newline) end = next_character(text, begin);
            wrapped.lines.push_back({begin, end});
            begin = end;
            if (begin < newline && text[begin] == ' ') ++begin;
        } while (begin < newline);
        begin = newline + 1;
    }
}

void Transcript::draw_head(const ChatMessage& message, size_t index) {
    const bool answer = message.role == "assistant";
    ImGui::TextColored(answer ? ImVec4(0.95f, 0.55f, 0.35f, 1) : ImVec4(0.55f, 0.70f, 0.95f, 1), "%s",
                       answer ? "Scoria" : "You");
    if (answer && !message.stop.empty()) {
        ImGui::SameLine();
        ImGui::TextDisabled("prompt %zu tokens in %.1f s, answer %zu at %.1f tok/s (%s)",
                            message.prompt_tokens, message.prompt_seconds, message.tokens,
                            double(message.tokens) / std::max(message.seconds, 1e-6), message.stop.c_str());
    }
    ImGui::SameLine();
    ImGui::PushID(int(index));
    ImGui::PushStyleColor(ImGuiCol_Button, ImGui::GetStyleColorVec4(ImGuiCol_FrameBg));
    if (ImGui::SmallButton("Copy")) ImGui::SetClipboardText(message.text.c_str());
    ImGui::PopStyleColor();
    ImGui::PopID();
}

void Transcript::draw(const std::vector<ChatMessage>& messages) {
    const float width = ImGui::GetContentRegionAvail().x;
    wrapped_.resize(messages.size());
    int rows = 0;
    for (size_t i = 0; i < messages.size(); ++i) {
        Wrapped& wrapped = wrapped_[i];
        if (wrapped.bytes != messages[i].text.size() || wrapped.width != width ||
            wrapped.font != ImGui::GetFontSize())
            wrap(wrapped, messages[i].text, width);
        rows += int(wrapped.lines.size()) + rows_around;
    }
    const bool at_end = ImGui::GetScrollY() >= ImGui::GetScrollMaxY() - 1;
    ImGuiListClipper clipper;
    clipper.Begin(rows, ImGui::GetTextLineHeightWithSpacing());
    while (clipper.Step()) {
        size_t message = 0;
        int row = clipper.DisplayStart;  // within the message, from here on
        while (message < messages.size() && row >= int(wrapped_[message].lines.size()) + rows_around)
            row -= int(wrapped_[message++].lines.size()) + rows_around;
        for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i) {
            const std::vector<Line>& lines = wrapped_[message].lines;
            const char* text = messages[message].text.data();
            if (row == 0)
                draw_head(messages[message], message);
            else if (row <= int(lines.size()))
                ImGui::TextUnformatted(text + lines[size_t(row) - 1].begin,
                                       text + lines[size_t(row) - 1].end);
            else
                ImGui::Dummy(ImVec2(0, ImGui::GetTextLineHeight()));
            if (++row < int(lines.size()) + rows_around) continue;
            row = 0;
            ++message;
        }
    }
    if (pages_)
        ImGui::SetScrollY(ImGui::GetScrollY() + float(pages_) * 0.9f * ImGui::GetWindowHeight());
    else if (at_end || to_end_)
        ImGui::SetScrollHereY(1);
    pages_ = 0;
    to_end_ = false;
}

}  // namespace scoria::desktop
