// The panel at the right: model, sampling, plots.
#include "ui.h"

#include <imgui.h>
#include <imgui_stdlib.h>

#include <algorithm>
#include <cstdio>

namespace scoria::desktop {
namespace {

/// A slider under its label; Ctrl-click or Enter types a number.
void slider(const char* label, float& value, float least, float most, const char* format) {
    ImGui::TextDisabled("%s", label);
    ImGui::SetNextItemWidth(-1);
    ImGui::PushID(label);
    ImGui::SliderFloat("##value", &value, least, most, format, ImGuiSliderFlags_AlwaysClamp);
    ImGui::PopID();
}

void slider(const char* label, int& value, int least, int most) {
    ImGui::TextDisabled("%s", label);
    ImGui::SetNextItemWidth(-1);
    ImGui::PushID(label);
    ImGui::SliderInt("##value", &value, least, most, value ? "%d" : "off", ImGuiSliderFlags_AlwaysClamp);
    ImGui::PopID();
}

void plot(const char* id, const std::vector<float>& values, const char* text) {
    const float top = values.empty() ? 1 : 1.3f * *std::ranges::max_element(values);
    ImGui::SetNextItemWidth(-1);
    ImGui::PlotLines(id, values.data(), int(values.size()), 0, text, 0, std::max(top, 1e-3f),
                     ImVec2(0, 3.6f * ImGui::GetTextLineHeight()));
}

}  // namespace

void Ui::draw_controls(const ChatState& state, const FrameTimes& times) {
    draw_model(state);
    ImGui::Separator();
    draw_sampling();
    ImGui::Separator();
    draw_plots(state, times);
    ImGui::Separator();
    draw_watch(state);
}

void Ui::draw_model(const ChatState& state) {
    ImGui::TextUnformatted("Model");
    const std::string current = state.model.name.empty() ? state.model.path : state.model.name;
    ImGui::TextWrapped("%s", current.empty() ? "none" : current.c_str());
    ImGui::SetNextItemWidth(-1);
    if (ImGui::BeginCombo("##recent", "Recent models")) {
        for (const std::string& model : settings_.recent)
            if (ImGui::Selectable(model.c_str())) chosen_ = model;
        if (settings_.recent.empty()) ImGui::TextDisabled("none yet");
        ImGui::EndCombo();
    }
    if (ImGui::Button("Open...")) picker_.open(settings_.recent.empty() ? "" : settings_.recent.front());
    ImGui::SameLine();
    ImGui::BeginDisabled(state.model.path.empty());
    if (ImGui::Button("Load again")) chosen_ = state.model.path;
    ImGui::EndDisabled();
    if (ImGui::TreeNode("Next time it loads")) {
        slider("GPU time of a submission", settings_.submission_ms, 1, 50, "%.0f ms");
        ImGui::TextDisabled("Context in tokens (0: by itself)");
        ImGui::SetNextItemWidth(-1);
        ImGui::InputScalar("##context", ImGuiDataType_U32, &settings_.context);
        ImGui::TreePop();
    }
}

void Ui::draw_sampling() {
    Sampling& s = settings_.sampling;
    slider("Temperature (0: greedy)", s.temperature, 0, 2, "%.2f");
    slider("Top-k", s.top_k, 0, 200);
    slider("Top-p (1: off)", s.top_p, 0.01f, 1, "%.2f");
    slider("Min-p (0: off)", s.min_p, 0, 1, "%.2f");
    slider("Repeat penalty (1: off)", s.repeat_penalty, 1, 2, "%.2f");
    slider("Most tokens", s.max_tokens, 0, 4096);
    ImGui::Checkbox("Another seed each time", &s.random_seed);
    ImGui::BeginDisabled(s.random_seed);
    ImGui::SetNextItemWidth(-1);
    ImGui::InputScalar("##seed", ImGuiDataType_U64, &s.seed);
    ImGui::EndDisabled();
    ImGui::TextDisabled("System message");
    ImGui::SetNextItemWidth(-1);
    ImGui::InputTextWithHint("##system", "the model's own", &settings_.system);
}

void Ui::draw_plots(const ChatState& state, const FrameTimes& times) {
    char text[64] = "no tokens yet";
    if (!state.speeds.empty()) std::snprintf(text, sizeof text, "%.1f tokens/s", double(state.speeds.back()));
    plot("##speed", state.speeds, text);
    const std::vector<float>& frames = times.recent();
    std::snprintf(text, sizeof text, "frame %.1f ms, p95 %.1f", frames.empty() ? 0 : double(frames.back()),
                  double(times.recent_p95()));
    plot("##frames", frames, text);
}

void Ui::draw_watch(const ChatState& state) {
    bool changed = ImGui::Checkbox("Attention of layer", &settings_.show_attention);
    if (settings_.show_attention) {
        const uint32_t least = 0, most = std::max(state.model.layers, 1u) - 1;
        if (state.model.layers) settings_.attention_layer = std::min(settings_.attention_layer, most);
        ImGui::SameLine();
        ImGui::SetNextItemWidth(-1);
        ImGui::SliderScalar("##layer", ImGuiDataType_U32, &settings_.attention_layer, &least, &most);
        changed = changed || ImGui::IsItemDeactivatedAfterEdit();
    }
    if (changed) chat_.watch(settings_.watched_layer());
}

}  // namespace scoria::desktop
