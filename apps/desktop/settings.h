// What the program keeps between runs: $XDG_CONFIG_HOME/scoria/desktop.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace scoria::desktop {

/// As the program's flags of these names; see scoria_generate_options.
struct Sampling {
    float temperature = 0.7f;  // 0: greedy
    int top_k = 40;            // 0: off
    float top_p = 0.95f;
    float min_p = 0.05f;
    float repeat_penalty = 1;
    uint64_t seed = 0;
    bool random_seed = true;
    int max_tokens = 1024;  // 0: until the model ends
};

struct Settings {
    Sampling sampling;
    std::string system;               // the system message; "": the template's own
    std::vector<std::string> recent;  // models, the last one first
    float submission_ms = 8;          // of GPU time: about half a frame
    uint32_t context = 0;             // positions; 0: by the library
    int width = 1200, height = 800;   // of the window
    bool show_controls = true;
    bool show_attention = true;
    uint32_t attention_layer = 0;
    std::optional<uint32_t> watched_layer() const {
        return show_attention ? std::optional(attention_layer) : std::nullopt;
    }
};

constexpr size_t most_recent = 10;

/// $XDG_CONFIG_HOME/scoria/desktop.json, else under $HOME/.config; "" where neither is an absolute path.
std::string settings_file();

/// A missing file gives the defaults; a member that is missing, of another type or out of range its own.
/// Errors: std::runtime_error, when the file is no JSON.
Settings read_settings(const std::string& file);

/// Makes the folder, writes beside `file` and renames. Errors: std::runtime_error.
void write_settings(const std::string& file, const Settings& settings);

/// Puts `model` first among the recent ones.
void remember(Settings& settings, const std::string& model);

/// Writes a file so that readers see the old text or the new. Errors: std::runtime_error.
void write_text(const std::string& file, const std::string& text);

}  // namespace scoria::desktop
