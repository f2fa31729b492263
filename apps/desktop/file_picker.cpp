// See file_picker.h.
#include "file_picker.h"

#include <imgui.h>
#include <imgui_stdlib.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>

namespace fs = std::filesystem;

namespace scoria::desktop {
namespace {

constexpr const char* title = "Open a model";

bool is_model_folder(const fs::path& path) {
    std::error_code error;
    return fs::exists(path / "config.json", error);
}

}  // namespace

bool escaped() {
#if IMGUI_VERSION_NUM < 18700
    return ImGui::IsKeyPressed(ImGui::GetKeyIndex(ImGuiKey_Escape));
#else
    return ImGui::IsKeyPressed(ImGuiKey_Escape);
#endif
}

FilePicker::Listing FilePicker::list(const std::string& folder) {
    Listing listing;
    std::error_code error;
    for (fs::directory_iterator at(folder, fs::directory_options::skip_permission_denied, error), end;
         !error && at != end; at.increment(error)) {
        std::error_code ignored;
        const std::string name = at->path().filename().string();
        if (name.starts_with('.')) continue;
        if (at->is_directory(ignored))
            listing.entries.push_back({name, !is_model_folder(at->path())});
        else if (at->path().extension() == ".gguf") {
            const auto bytes = at->file_size(ignored);  // of a link to nothing: an error
            listing.entries.push_back({name, false, ignored ? 0 : double(bytes) / (1 << 20)});
        }
    }
    std::ranges::sort(listing.entries, {}, [](const Entry& e) { return std::pair(!e.enters, e.name); });
    if (fs::path(folder).has_relative_path()) listing.entries.insert(listing.entries.begin(), {"..", true});
    if (error) listing.error = error.message();
    return listing;
}

void FilePicker::enter(const std::string& folder) {
    folder_ = fs::path(folder).lexically_normal().string();
    typed_ = folder_;
    listing_ = {};
    pending_ = std::async(std::launch::async, list, folder_);
    focus_ = true;
}

void FilePicker::open(const std::string& model) {
    const char* home = std::getenv("HOME");
    fs::path folder = fs::path(model).parent_path();
    std::error_code error;
    if (folder.empty() || !fs::is_directory(folder, error)) folder = home && *home ? home : "/";
    enter(folder.string());
    opening_ = true;
}

std::optional<std::string> FilePicker::take(const std::string& typed) {
    const char* home = std::getenv("HOME");
    const bool from_home = home && (typed == "~" || typed.starts_with("~/"));
    const std::string path = (fs::path(folder_) / (from_home ? home + typed.substr(1) : typed)).string();
    std::error_code error;
    if (fs::is_directory(path, error) && !is_model_folder(path)) {
        enter(path);
        return std::nullopt;
    }
    ImGui::CloseCurrentPopup();
    open_ = false;
    return path;
}

std::optional<std::string> FilePicker::draw_entries() {
    std::optional<std::string> chosen;
    if (pending_.valid() && pending_.wait_for(std::chrono::seconds(0)) == std::future_status::ready)
        listing_ = pending_.get();
    if (pending_.valid()) ImGui::TextDisabled("Reading...");
    if (!listing_.error.empty()) ImGui::TextWrapped("%s", listing_.error.c_str());
    std::string next;
    for (const Entry& entry : listing_.entries) {
        const std::string label = entry.name + (entry.enters ? "/" : "");
        if (ImGui::Selectable(label.c_str(), false, ImGuiSelectableFlags_DontClosePopups))
            next = (fs::path(folder_) / entry.name).string();
        if (entry.mebibytes > 0) {
            ImGui::SameLine(ImGui::GetWindowWidth() - 7 * ImGui::GetFontSize());
            ImGui::TextDisabled("%8.0f MiB", entry.mebibytes);
        }
    }
    if (!next.empty()) chosen = take(next);
    return chosen;
}

std::optional<std::string> FilePicker::draw() {
    if (opening_) {
        ImGui::OpenPopup(title);
        open_ = true;
    }
    const ImVec2 screen = ImGui::GetIO().DisplaySize;
    ImGui::SetNextWindowSize(ImVec2(0.7f * screen.x, 0.75f * screen.y), ImGuiCond_Appearing);
    ImGui::SetNextWindowPos(ImVec2(0.5f * screen.x, 0.5f * screen.y), ImGuiCond_Appearing,
                            ImVec2(0.5f, 0.5f));
    std::optional<std::string> chosen;
    if (ImGui::BeginPopupModal(title, &open_, ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoResize)) {
        ImGui::TextDisabled("Type or paste a path, choose below, or drop a file onto the window.");
        if (std::exchange(focus_, false)) ImGui::SetKeyboardFocusHere();
        ImGui::SetNextItemWidth(-1);
        const bool entered = ImGui::InputText("##path", &typed_, ImGuiInputTextFlags_EnterReturnsTrue);
        const float buttons = ImGui::GetFrameHeightWithSpacing();
        ImGui::BeginChild("entries", ImVec2(0, -buttons), true, ImGuiWindowFlags_NavFlattened);
        chosen = draw_entries();
        ImGui::EndChild();
        if (entered || ImGui::Button("Open")) chosen = take(typed_);
        ImGui::SameLine();
        if ((ImGui::Button("Cancel") || escaped()) && open_) {
            ImGui::CloseCurrentPopup();
            open_ = false;
        }
        ImGui::EndPopup();
    }
    opening_ = false;
    return chosen;
}

}  // namespace scoria::desktop
