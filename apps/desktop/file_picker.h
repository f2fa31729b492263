// A dialog that finds models: GGUF files, and folders with a config.json. Folders are read by a thread of
// their own, since a disk may take its time.
#pragma once

#include <future>
#include <optional>
#include <string>
#include <vector>

namespace scoria::desktop {

/// Whether Esc was pressed, by which ImGui closes no modal dialog.
bool escaped();

class FilePicker {
  public:
    /// Shows it from the next frame on, in the folder of `model`, or at home.
    void open(const std::string& model);
    /// Draws it while it is open; the model that was chosen, once.
    std::optional<std::string> draw();

  private:
    struct Entry {
        std::string name;
        bool enters = false;  // a folder that is no model
        double mebibytes = 0;
    };
    struct Listing {
        std::vector<Entry> entries;
        std::string error;
    };
    static Listing list(const std::string& folder);
    void enter(const std::string& folder);
    std::optional<std::string> draw_entries();
    /// `typed`: "~" is home, and what is relative is within the folder shown.
    std::optional<std::string> take(const std::string& typed);

    bool open_ = false, opening_ = false, focus_ = false;
    std::string folder_, typed_;
    std::future<Listing> pending_;
    Listing listing_;
};

}  // namespace scoria::desktop
