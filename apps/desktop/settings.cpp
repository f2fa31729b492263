// See settings.h. Members and their ranges are one list, which reads and writes.
#include "settings.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <type_traits>

namespace scoria::desktop {
namespace {

using Json = nlohmann::ordered_json;

template <class Visit> void each_member(Settings& s, const Visit& visit) {
    Sampling& a = s.sampling;
    visit("temperature", a.temperature, 0.0f, 5.0f);
    visit("top_k", a.top_k, 0, 1'000'000);
    visit("top_p", a.top_p, 0.01f, 1.0f);
    visit("min_p", a.min_p, 0.0f, 1.0f);
    visit("repeat_penalty", a.repeat_penalty, 0.01f, 100.0f);
    visit("seed", a.seed, uint64_t{0}, UINT64_MAX);
    visit("random_seed", a.random_seed, false, true);
    visit("max_tokens", a.max_tokens, 0, 1'000'000);
    visit("submission_ms", s.submission_ms, 0.5f, 1000.0f);
    visit("context", s.context, 0u, 1u << 30);
    visit("width", s.width, 320, 16384);
    visit("height", s.height, 240, 16384);
    visit("show_controls", s.show_controls, false, true);
    visit("show_attention", s.show_attention, false, true);
    visit("attention_layer", s.attention_layer, 0u, 1u << 16);
}

template <class T> bool fits(const Json& value) {
    if constexpr (std::is_same_v<T, bool>) return value.is_boolean();
    if constexpr (std::is_floating_point_v<T>) return value.is_number();
    return value.is_number_integer() && (std::is_signed_v<T> || value.is_number_unsigned());
}

}  // namespace

std::string settings_file() {
    const auto absolute = [](const char* name) -> std::filesystem::path {
        const char* value = std::getenv(name);
        return value && *value == '/' ? value : "";
    };
    std::filesystem::path folder = absolute("XDG_CONFIG_HOME");
    if (folder.empty() && !absolute("HOME").empty()) folder = absolute("HOME") / ".config";
    return folder.empty() ? "" : (folder / "scoria/desktop.json").string();
}

Settings read_settings(const std::string& file) {
    Settings settings;
    std::ifstream in(file);
    if (file.empty() || !in) return settings;
    const Json json = Json::parse(in, nullptr, false);
    if (!json.is_object()) throw std::runtime_error("[settings] expected a JSON object in " + file);
    each_member(settings, [&](const char* name, auto& member, auto least, auto most) {
        using T = std::remove_reference_t<decltype(member)>;
        const auto found = json.find(name);
        if (found != json.end() && fits<T>(*found)) {
            const T value = found->template get<T>();
            if (value >= least && value <= most) member = value;
        }
    });
    if (const auto found = json.find("system"); found != json.end() && found->is_string())
        settings.system = found->get<std::string>();
    if (const auto found = json.find("recent"); found != json.end() && found->is_array())
        for (const Json& model : *found)
            if (model.is_string() && settings.recent.size() < most_recent)
                settings.recent.push_back(model.get<std::string>());
    return settings;
}

void write_settings(const std::string& file, const Settings& settings) {
    if (file.empty()) return;
    Json json;
    Settings copy = settings;
    each_member(copy, [&](const char* name, auto& member, auto, auto) { json[name] = member; });
    json["system"] = settings.system;
    json["recent"] = settings.recent;
    std::error_code error;
    std::filesystem::create_directories(std::filesystem::path(file).parent_path(), error);
    write_text(file, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

void remember(Settings& settings, const std::string& model) {
    std::erase(settings.recent, model);
    settings.recent.insert(settings.recent.begin(), model);
    if (settings.recent.size() > most_recent) settings.recent.resize(most_recent);
}

void write_text(const std::string& file, const std::string& text) {
    const std::string partial = file + ".partial";
    std::ofstream out(partial, std::ios::binary);
    out << text;
    out.close();
    std::error_code error;
    if (out) std::filesystem::rename(partial, file, error);
    if (!out || error)
        throw std::runtime_error("[file] expected to write " + file + ", got " +
                                 (error ? error.message() : "an error"));
}

}  // namespace scoria::desktop
