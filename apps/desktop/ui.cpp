// See ui.h. The controls at the right are in controls.cpp.
#include "ui.h"

#include <SDL.h>
#include <imgui.h>
#include <imgui_stdlib.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

namespace scoria::desktop {
namespace {

constexpr ImGuiWindowFlags tiled = ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove |
                                   ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoBringToFrontOnFocus;
constexpr float controls_width = 20;  // in font sizes
constexpr const char* message_title = "Scoria says";

float attention_height() { return 4 * ImGui::GetTextLineHeight(); }

std::string file_name(const std::string& path) { return std::filesystem::path(path).filename().string(); }

}  // namespace

bool Ui::handle(const SDL_Event& event) {
    if (event.type == SDL_DROPFILE) {
        chosen_ = event.drop.file;
        SDL_free(event.drop.file);
        return true;
    }
    if (event.type != SDL_KEYDOWN || blocked_) return false;
    const bool control = event.key.keysym.mod & (KMOD_CTRL | KMOD_GUI);
    switch (event.key.keysym.sym) {
    case SDLK_o:
        if (control) picker_.open(settings_.recent.empty() ? "" : settings_.recent.front());
        return control;
    case SDLK_n:
        if (control) new_chat();
        return control;
    case SDLK_q:
        if (control) quit_ = true;
        return control;
    case SDLK_l:
        if (control) focus_input_ = true;
        return control;
    case SDLK_F2:
        settings_.show_controls = !settings_.show_controls;
        return true;
    case SDLK_RETURN:
    case SDLK_KP_ENTER: {
        // Taken here, since versions of ImGui differ in what Enter does to a field that navigation has
        // reached.
        const bool sends = typing_ && !(event.key.keysym.mod & (KMOD_CTRL | KMOD_SHIFT | KMOD_ALT));
        entered_ = entered_ || sends;
        return sends;
    }
    case SDLK_ESCAPE:
        // ImGui would take back what was typed.
        if (busy_) chat_.stop();
        return busy_ || typing_;
    case SDLK_PAGEUP:
        transcript_.scroll_pages(-1);
        return typing_;
    case SDLK_PAGEDOWN:
        transcript_.scroll_pages(1);
        return typing_;
    default:
        return false;
    }
}

void Ui::draw(const ChatState& state, const DeviceInfo& device, const FrameTimes& times, AttentionMap& map) {
    busy_ = state.phase == Phase::loading || state.phase == Phase::prompt || state.phase == Phase::answer;
    ready_ = state.phase == Phase::ready;
    const ImVec2 screen = ImGui::GetIO().DisplaySize;
    const float right =
        settings_.show_controls ? std::min(controls_width * ImGui::GetFontSize(), 0.5f * screen.x) : 0;
    ImGui::SetNextWindowPos(ImVec2(0, 0));
    ImGui::SetNextWindowSize(ImVec2(screen.x - right, screen.y));
    ImGui::Begin("Chat", nullptr, tiled | ImGuiWindowFlags_MenuBar);
    draw_menu(state);
    const AttentionMap::Shown shown = map.shown();
    draw_chat(state, shown.heads ? attention_height() + ImGui::GetStyle().ItemSpacing.y : 0);
    if (shown.heads) draw_attention(map, shown);
    draw_progress(state);
    draw_input(state);
    draw_status(state, device);
    ImGui::End();
    if (right > 0) {
        ImGui::SetNextWindowPos(ImVec2(screen.x - right, 0));
        ImGui::SetNextWindowSize(ImVec2(right, screen.y));
        ImGui::PushStyleColor(ImGuiCol_WindowBg, ImGui::GetStyleColorVec4(ImGuiCol_PopupBg));
        ImGui::Begin("Controls", nullptr, tiled & ~ImGuiWindowFlags_NoScrollbar);
        ImGui::PopStyleColor();
        draw_controls(state, times);
        ImGui::End();
    }
    if (const auto model = picker_.draw()) chosen_ = *model;
    draw_message();
    const bool dialog = ImGui::IsPopupOpen("", ImGuiPopupFlags_AnyPopupId);
    if (blocked_ && !dialog) focus_input_ = true;
    blocked_ = dialog;
}

void Ui::draw_menu(const ChatState& state) {
    if (!ImGui::BeginMenuBar()) return;
    if (ImGui::BeginMenu("File")) {
        if (ImGui::MenuItem("Open model...", "Ctrl-O"))
            picker_.open(settings_.recent.empty() ? "" : settings_.recent.front());
        if (ImGui::BeginMenu("Recent models", !settings_.recent.empty())) {
            for (const std::string& model : settings_.recent)
                if (ImGui::MenuItem(model.c_str())) chosen_ = model;
            ImGui::EndMenu();
        }
        ImGui::Separator();
        if (ImGui::MenuItem("Quit", "Ctrl-Q")) quit_ = true;
        ImGui::EndMenu();
    }
    if (ImGui::BeginMenu("Chat")) {
        if (ImGui::MenuItem("New", "Ctrl-N")) new_chat();
        if (ImGui::MenuItem("Stop", "Esc", false, busy_)) chat_.stop();
        if (ImGui::MenuItem("Write", "Ctrl-L")) focus_input_ = true;
        ImGui::EndMenu();
    }
    if (ImGui::BeginMenu("View")) {
        ImGui::MenuItem("Controls", "F2", &settings_.show_controls);
        ImGui::EndMenu();
    }
    const std::string title = state.model.path.empty() ? "no model" : file_name(state.model.path);
    const float width = ImGui::CalcTextSize(title.c_str()).x + 2 * ImGui::GetStyle().ItemSpacing.x;
    ImGui::SameLine(std::max(ImGui::GetCursorPosX(), ImGui::GetWindowWidth() - width));
    ImGui::TextDisabled("%s", title.c_str());
    ImGui::EndMenuBar();
}

/// A row per head of the last token, its sequence from left to right.
void Ui::draw_attention(AttentionMap& map, const AttentionMap::Shown& shown) {
    const ImVec2 at = ImGui::GetCursorScreenPos(), ratio = ImGui::GetIO().DisplayFramebufferScale,
                 size(ImGui::GetContentRegionAvail().x, attention_height());
    ImGui::Dummy(size);
    if (ImGui::IsItemHovered())
        ImGui::SetTooltip("what the %u heads of the last token attend to, over %u tokens", shown.heads,
                          shown.positions);
    map.place(at.x * ratio.x, at.y * ratio.y, size.x * ratio.x, size.y * ratio.y);
    ImGui::GetWindowDrawList()->AddCallback(AttentionMap::draw, &map);
    ImGui::GetWindowDrawList()->AddCallback(ImDrawCallback_ResetRenderState, nullptr);
}

void Ui::draw_chat(const ChatState& state, float map) {
    const float input = 3 * ImGui::GetTextLineHeight() + 2 * ImGui::GetStyle().FramePadding.y;
    const float below = map + input + 2 * ImGui::GetTextLineHeight() + 3 * ImGui::GetStyle().ItemSpacing.y;
    ImGui::BeginChild("transcript", ImVec2(0, -below), false, ImGuiWindowFlags_NavFlattened);
    if (state.messages.empty()) {
        const char* text =
            state.phase == Phase::empty
                ? "Open a model to begin: Ctrl-O, or drop a GGUF file or a model's folder here."
                : "Ask something. Enter sends, Ctrl-Enter begins a new line, Esc stops.";
        const ImVec2 room = ImGui::GetContentRegionAvail(), size = ImGui::CalcTextSize(text);
        ImGui::SetCursorPos(ImVec2(std::max(0.5f * (room.x - size.x), 0.0f), 0.45f * room.y));
        ImGui::TextDisabled("%s", text);
    }
    transcript_.draw(state.messages);
    ImGui::EndChild();
}

/// A line that is there even when nothing runs, so that nothing jumps.
void Ui::draw_progress(const ChatState& state) {
    const float height = ImGui::GetTextLineHeight();
    char text[96] = "";
    if (state.phase == Phase::loading)
        std::snprintf(text, sizeof text, "loading: %.0f of %.0f MiB", double(state.done) / (1 << 20),
                      double(state.total) / (1 << 20));
    else if (state.phase == Phase::prompt)
        std::snprintf(text, sizeof text, "reading the prompt: %llu of %llu tokens",
                      static_cast<unsigned long long>(state.done),
                      static_cast<unsigned long long>(state.total));
    if (!*text) {
        ImGui::Dummy(ImVec2(0, height));
        return;
    }
    const float part = state.total ? float(double(state.done) / double(state.total)) : 0;
    ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, ImVec2(0, 0));
    ImGui::ProgressBar(part, ImVec2(-1, height), text);
    ImGui::PopStyleVar();
}

void Ui::draw_input(const ChatState& state) {
    const float button = 5 * ImGui::GetFontSize();
    const float height = 3 * ImGui::GetTextLineHeight() + 2 * ImGui::GetStyle().FramePadding.y;
    if (focus_input_ && !blocked_ && --focus_frames_ < 0) {
        ImGui::SetKeyboardFocusHere();
        focus_frames_ = 4;  // the request takes up to three, and a second one would disturb it
    }
    const float width = ImGui::GetContentRegionAvail().x - button - ImGui::GetStyle().ItemSpacing.x;
    ImGui::PushID(input_id_);
    ImGui::InputTextMultiline("##input", &input_, ImVec2(width, height),
                              ImGuiInputTextFlags_CtrlEnterForNewLine);
    ImGui::PopID();
    typing_ = ImGui::IsItemActive();
    focus_input_ = focus_input_ && !typing_;
    if (std::exchange(entered_, false) && ready_) send();
    ImGui::SameLine();
    const bool stoppable = state.phase != Phase::ready && state.phase != Phase::empty;
    ImGui::BeginDisabled(!stoppable && (!ready_ || input_.empty()));
    if (ImGui::Button(stoppable ? "Stop" : "Send", ImVec2(button, height))) {
        if (stoppable)
            chat_.stop();
        else
            send();
    }
    ImGui::EndDisabled();
}

void Ui::draw_status(const ChatState& state, const DeviceInfo& device) {
    ImGui::TextDisabled("%s%s", device.name.c_str(),
                        device.shares_queue ? ", one queue" : ", a queue of its own");
    if (state.model.context) {
        ImGui::SameLine();
        ImGui::TextDisabled("| context %zu of %u", state.used, state.model.context);
    }
    if (!state.note.empty()) {
        ImGui::SameLine();
        ImGui::TextDisabled("| %s", state.note.c_str());
    }
}

void Ui::draw_message() {
    if (messages_.empty()) return;
    if (!ImGui::IsPopupOpen(message_title)) ImGui::OpenPopup(message_title);
    const ImVec2 screen = ImGui::GetIO().DisplaySize;
    const float width = std::min(32 * ImGui::GetFontSize(), 0.9f * screen.x);
    ImGui::SetNextWindowPos(ImVec2(0.5f * screen.x, 0.45f * screen.y), ImGuiCond_Always, ImVec2(0.5f, 0.5f));
    ImGui::SetNextWindowSize(ImVec2(width, 0));
    if (!ImGui::BeginPopupModal(message_title, nullptr, ImGuiWindowFlags_NoResize | ImGuiWindowFlags_NoMove))
        return;
    ImGui::TextWrapped("%s", messages_.front().c_str());
    ImGui::Dummy(ImVec2(0, 0.3f * ImGui::GetTextLineHeight()));
    if (ImGui::IsWindowAppearing()) ImGui::SetKeyboardFocusHere();
    const bool done = ImGui::Button("OK", ImVec2(6 * ImGui::GetFontSize(), 0)) || escaped();
    if (done) {
        messages_.pop_front();
        ImGui::CloseCurrentPopup();
    }
    ImGui::EndPopup();
}

void Ui::give_back(const std::string& text) { set_input(input_.empty() ? text : text + "\n" + input_); }

void Ui::set_input(const std::string& text) {
    input_ = text;
    ++input_id_;  // a field that is being typed in would not take it
    focus_input_ = true;
    focus_frames_ = 0;
}

void Ui::send() {
    const size_t end = input_.find_last_not_of(" \t\n");
    if (end == std::string::npos) return;
    chat_.send(input_.substr(0, end + 1), settings_.system, settings_.sampling);
    set_input("");
    transcript_.scroll_to_end();
}

void Ui::new_chat() {
    chat_.clear();
    focus_input_ = true;
}

}  // namespace scoria::desktop
