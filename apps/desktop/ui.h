// The window's contents, drawn anew every frame from the chat's state.
#pragma once

#include "attention_map.h"
#include "chat.h"
#include "file_picker.h"
#include "frame_times.h"
#include "settings.h"
#include "transcript.h"

#include <deque>
#include <string>
#include <utility>

union SDL_Event;

namespace scoria::desktop {

/// What the window says of the GPU.
struct DeviceInfo {
    std::string name;
    bool shares_queue = false;
};

class Ui {
  public:
    Ui(Settings& settings, Chat& chat) : settings_(settings), chat_(chat) {}

    /// Shortcuts; true if the event is not for ImGui any more.
    bool handle(const SDL_Event& event);
    /// Between NewFrame and Render.
    void draw(const ChatState& state, const DeviceInfo& device, const FrameTimes& times, AttentionMap& map);
    /// Shows a message until it is dismissed.
    void notify(const std::string& message) { messages_.push_back(message); }
    /// A text to be sent again, before what the user has typed since.
    void give_back(const std::string& text);
    /// The model that the user chose, once; "" if none.
    std::string take_chosen() { return std::exchange(chosen_, {}); }
    bool in_dialog() const { return blocked_; }  // or in a menu
    bool wants_quit() const { return quit_; }

  private:
    void draw_menu(const ChatState& state);
    void draw_chat(const ChatState& state, float map);
    void draw_progress(const ChatState& state);
    void draw_input(const ChatState& state);
    void draw_status(const ChatState& state, const DeviceInfo& device);
    void draw_controls(const ChatState& state, const FrameTimes& times);
    void draw_watch(const ChatState& state);
    void draw_attention(AttentionMap& map, const AttentionMap::Shown& shown);
    void draw_model(const ChatState& state);
    void draw_sampling();
    void draw_plots(const ChatState& state, const FrameTimes& times);
    void draw_message();
    void send();
    void set_input(const std::string& text);
    void new_chat();

    Settings& settings_;
    Chat& chat_;
    Transcript transcript_;
    FilePicker picker_;
    std::deque<std::string> messages_;
    std::string input_, chosen_;
    int input_id_ = 0;         // of the input field
    bool busy_ = false;        // loading, prompt or answer, as last drawn
    bool ready_ = false;       // a message can be sent
    bool typing_ = false;      // the input has the keyboard
    bool focus_input_ = true;  // give it in the next frame
    bool entered_ = false;     // Enter came since the last frame
    int focus_frames_ = 0;     // until it is asked for again
    bool blocked_ = false;     // a dialog is open
    bool quit_ = false;
};

}  // namespace scoria::desktop
