// scoria-desktop: a chat window in which Scoria runs on the renderer's own VkDevice.
#include "chat.h"
#include "frame_times.h"
#include "settings.h"
#include "ui.h"
#include "vulkan_window.h"

#include <CLI/CLI.hpp>
#include <SDL.h>
#include <imgui.h>
#if __has_include(<backends/imgui_impl_sdl2.h>)
#include <backends/imgui_impl_sdl2.h>
#else
#include <backends/imgui_impl_sdl.h>
#endif

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>
#include <vector>

namespace scoria::desktop {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<float, std::milli>;

struct Flags {
    std::string model, gpu, settings = settings_file(), log, frame_log;
    float scale = 0;
    uint32_t precision = SCORIA_BALANCED, context = 0, chunk = 0;
};

/// SDL and ImGui for as long as the program runs.
struct Libraries {
    SDL_Window* window = nullptr;

    Libraries(int width, int height) {
        SDL_SetMainReady();
        SDL_SetHint(SDL_HINT_IME_SHOW_UI, "1");
        if (SDL_Init(SDL_INIT_VIDEO)) throw std::runtime_error(std::string("[window] ") + SDL_GetError());
        constexpr uint32_t flags = SDL_WINDOW_VULKAN | SDL_WINDOW_RESIZABLE | SDL_WINDOW_ALLOW_HIGHDPI;
        window = SDL_CreateWindow("Scoria", SDL_WINDOWPOS_UNDEFINED, SDL_WINDOWPOS_UNDEFINED, width, height,
                                  flags);
        if (!window) {
            const std::string why = SDL_GetError();
            SDL_Quit();
            throw std::runtime_error("[window] " + why);
        }
        ImGui::CreateContext();
        ImGui::GetIO().IniFilename = nullptr;
        ImGui::GetIO().ConfigFlags |= ImGuiConfigFlags_NavEnableKeyboard;
#if IMGUI_VERSION_NUM >= 18700  // else what was typed would come frames after the Enter that Ui takes
        ImGui::GetIO().ConfigInputTrickleEventQueue = false;
#endif
    }
    ~Libraries() {
        ImGui::DestroyContext();
        SDL_DestroyWindow(window);
        SDL_Quit();
    }
    Libraries(const Libraries&) = delete;
};

class Program {
  public:
    Program(const Flags& flags, Settings& settings, SDL_Window* window)
        : flags_(flags), settings_(settings), sdl_(window), window_(window, flags.gpu, flags.scale),
          chat_(flags.log), ui_(settings, chat_) {}

    void run() {
        if (!flags_.model.empty()) load(flags_.model);
        while (!ui_.wants_quit() && !quit_) {
            handle_events();
            if (chat_.refresh(state_)) take_news();
            const std::string chosen = ui_.take_chosen();
            if (!chosen.empty()) load(chosen);
            if (SDL_GetWindowFlags(sdl_) & SDL_WINDOW_MINIMIZED) {
                last_present_ = Clock::now();  // of nothing, but the next is due as late as after a frame
                continue;
            }
            try {
                draw_frame();
            } catch (const VulkanError& error) {
                recover(error.what(), error.result != VK_ERROR_OUT_OF_DEVICE_MEMORY);
            }
        }
        chat_.close();
        if (!flags_.frame_log.empty()) write_text(flags_.frame_log, times_.report());
        SDL_GetWindowSize(sdl_, &settings_.width, &settings_.height);
    }

    void notify(const std::string& message) { ui_.notify(message); }

  private:
    bool busy() const { return state_.phase != Phase::empty && state_.phase != Phase::ready; }

    /// Waits for input or for the next frame's time; while nothing moves, a few frames a second will do.
    void handle_events() {
        const auto now = Clock::now();
        const bool lively = busy() || now < lively_until_ || !flags_.frame_log.empty();
        const auto next =
            last_present_ + std::chrono::microseconds(lively ? 1'000'000 / refresh_rate() : 250'000);
        SDL_Event event;
        bool got = held_.type != 0;
        if (got)
            event = std::exchange(held_, SDL_Event{});
        else if (!lively)
            got = SDL_WaitEventTimeout(&event, int(Milliseconds(next - now).count()) + 1);
        if (lively) std::this_thread::sleep_until(next);
        pressed_.clear();
        clicked_ = false;
        for (got = got || SDL_PollEvent(&event); got; got = SDL_PollEvent(&event)) {
            lively_until_ = Clock::now() + std::chrono::milliseconds(500);
            if (event.type == SDL_QUIT) quit_ = true;
            if (event.type == SDL_KEYDOWN) pressed_.push_back(event.key.keysym.sym);
            clicked_ = clicked_ || event.type == SDL_MOUSEBUTTONDOWN;
            if (released_too_soon(event)) {
                held_ = event;
                return;
            }
            if (!ui_.handle(event)) pass_on(event);
        }
    }

    void pass_on(SDL_Event event) const {
#if IMGUI_VERSION_NUM < 18700  // it asks what is held now, which a quick Ctrl-V no longer is
        const bool key = event.type == SDL_KEYDOWN || event.type == SDL_KEYUP;
        const unsigned held = event.key.keysym.mod;
        const bool enter = key && event.key.keysym.scancode == SDL_SCANCODE_RETURN;
        if (enter && event.type == SDL_KEYUP) ImGui::GetIO().KeysDown[SDL_SCANCODE_SPACE] = false;
        // Its buttons know the space bar only.
        if (enter && event.type == SDL_KEYDOWN && ui_.in_dialog() && !ImGui::GetIO().WantTextInput)
            event.key.keysym.scancode = SDL_SCANCODE_SPACE;
#endif
        ImGui_ImplSDL2_ProcessEvent(&event);
#if IMGUI_VERSION_NUM < 18700
        if (!key) return;
        ImGui::GetIO().KeyCtrl = held & KMOD_CTRL;
        ImGui::GetIO().KeyShift = held & KMOD_SHIFT;
        ImGui::GetIO().KeyAlt = held & KMOD_ALT;
#endif
    }

    /// ImGui sees only what is down when a frame begins: a key or button that was pressed since the last one
    /// is released in the next, and so is a modifier that a key was pressed with. Letters need not be, since
    /// text comes in events of its own.
    bool released_too_soon(const SDL_Event& event) const {
        if (event.type == SDL_MOUSEBUTTONUP) return clicked_;
        if (event.type != SDL_KEYUP) return false;
        const SDL_Keycode key = event.key.keysym.sym;
        const SDL_Scancode code = event.key.keysym.scancode;
        if (code >= SDL_SCANCODE_LCTRL && code <= SDL_SCANCODE_RGUI) return !pressed_.empty();
        const bool letter = key >= ' ' && key < 127 && !(event.key.keysym.mod & KMOD_CTRL);
        return std::ranges::find(pressed_, key) != pressed_.end() &&
               !(letter && ImGui::GetIO().WantTextInput);
    }

    int refresh_rate() const {
        SDL_DisplayMode mode{};
        SDL_GetDesktopDisplayMode(SDL_GetWindowDisplayIndex(sdl_), &mode);
        return mode.refresh_rate > 0 ? mode.refresh_rate : 60;
    }

    void draw_frame() {
        const auto begin = Clock::now();
        window_.new_frame();
        const VulkanDevice& device = window_.device();
        ui_.draw(state_, {device.name(), device.shares_queue()}, times_, window_.attention());
        ImGui::Render();
        const bool shown = window_.present(ImGui::GetDrawData());
        const auto end = Clock::now();
        if (shown)
            times_.add(state_.phase, Milliseconds(end - begin).count(),
                       Milliseconds(end - last_shown_).count());
        if (shown) last_shown_ = end;
        last_present_ = begin;
    }

    void take_news() {
        if (!state_.unsent.empty()) ui_.give_back(state_.unsent);
        if (state_.device_lost) {
            recover(state_.error, true);
        } else if (!state_.error.empty()) {
            ui_.notify(state_.error);
            chat_.dismiss_error();
        }
        if (state_.phase == Phase::ready && state_.model.path != remembered_) {
            remembered_ = state_.model.path;
            remember(settings_, remembered_);
            save();
        }
    }

    void save() {
        try {
            write_settings(flags_.settings, settings_);
        } catch (const std::exception& error) {
            ui_.notify(error.what());
        }
    }

    void load(const std::string& model) {
        ModelOptions options;
        options.path = model;
        options.context = flags_.context ? flags_.context : settings_.context;
        options.submission_ms = settings_.submission_ms;
        // Matrices and attention are cut to the budget by rows, the small kernels between them are not. On
        // lavapipe a prompt takes as long by 32 tokens as by 256 (`scoria bench -p 512 --chunk 32,128,256`).
        options.prompt_chunk = flags_.chunk ? flags_.chunk : window_.device().is_cpu() ? 32 : 256;
        options.precision = flags_.precision;
        options.vulkan = window_.device().for_engine();
        options.map = &window_.attention();
        model_ = model;
        chat_.watch(settings_.watched_layer());
        chat_.load(options);
    }

    /// Engine and VkDevice are made anew; the model is loaded again unless that is likely to fail again.
    void recover(const std::string& why, bool reload) {
        const bool again = Clock::now() < last_recovery_ + std::chrono::seconds(5);
        chat_.close();
        for (int attempt = 1;; ++attempt) {
            try {
                window_.rebuild();
                break;
            } catch (const std::exception&) {  // no device is listed meanwhile, say
                if (attempt == 5) throw;
                std::this_thread::sleep_for(std::chrono::milliseconds(500));  // a reset takes a while
            }
        }
        last_recovery_ = Clock::now();
        ui_.notify(why);
        if (reload && !again && !model_.empty()) load(model_);
    }

    const Flags& flags_;
    Settings& settings_;
    SDL_Window* sdl_;
    VulkanWindow window_;
    Chat chat_;  // after the window: its engine goes before the VkDevice does
    Ui ui_;
    ChatState state_;
    FrameTimes times_;
    std::string model_, remembered_;
    Clock::time_point last_present_, last_shown_ = Clock::now(), lively_until_, last_recovery_;
    std::vector<SDL_Keycode> pressed_;  // since the last frame
    bool clicked_ = false;              // the same
    SDL_Event held_{};                  // for the next frame; of type 0: none
    bool quit_ = false;
};

int run(const Flags& flags) {
    Settings settings;
    std::string problem;
    try {
        settings = read_settings(flags.settings);
    } catch (const std::exception& error) {
        problem = error.what();
    }
    try {
        const Libraries libraries(settings.width, settings.height);
        Program program(flags, settings, libraries.window);
        if (!problem.empty()) program.notify(problem);
        program.run();
        write_settings(flags.settings, settings);
        return 0;
    } catch (const std::exception& error) {  // no window, no GPU: nothing to show it in
        std::fprintf(stderr, "scoria-desktop: %s\n", error.what());
        SDL_ShowSimpleMessageBox(SDL_MESSAGEBOX_ERROR, "Scoria", error.what(), nullptr);
        return 1;
    }
}

}  // namespace
}  // namespace scoria::desktop

int main(int count, char** arguments) {
    scoria::desktop::Flags flags;
    CLI::App app("A chat window; Scoria runs on the renderer's own Vulkan device.", "scoria-desktop");
    app.add_option("-m,--model,model", flags.model, "a GGUF file or a Hugging Face folder to begin with");
    app.add_option("--device", flags.gpu, "part of a GPU's name (default: the best)");
    app.add_option("--ctx", flags.context, "positions of the context (default: by the settings)");
    app.add_option("--prompt-chunk", flags.chunk,
                   "tokens of a prompt computed at a time (default: by the GPU)");
    app.add_option("--precision", flags.precision, "strict, balanced or fast (default: balanced)")
        ->transform(CLI::CheckedTransformer(std::map<std::string, uint32_t>{
            {"strict", SCORIA_STRICT}, {"balanced", SCORIA_BALANCED}, {"fast", SCORIA_FAST}}));
    app.add_option("--scale", flags.scale, "of fonts and spacing (default: the display's)")
        ->check(CLI::Range(0.5, 4.0));
    app.add_option("--settings", flags.settings, "where settings are kept (default: XDG's folder)");
    app.add_option("--log", flags.log, "keeps the conversation in this file, as JSON");
    app.add_option("--frame-log", flags.frame_log,
                   "writes frame times at exit, as JSON; frames are then drawn also while nothing moves");
    CLI11_PARSE(app, count, arguments);
    return scoria::desktop::run(flags);
}
