// The conversation as rows of equal height, so that a frame costs what is visible and not what was said.
#pragma once

#include "chat.h"

#include <string>
#include <vector>

namespace scoria::desktop {

class Transcript {
  public:
    /// Draws into the current window, which scrolls. Stays at the end while the reader is there.
    void draw(const std::vector<ChatMessage>& messages);
    /// Of the next frame: by pages, or to the end.
    void scroll_pages(int pages) { pages_ += pages; }
    void scroll_to_end() { to_end_ = true; }

  private:
    struct Line {
        size_t begin, end;  // bytes of the message
    };
    struct Wrapped {  // for a text of this size at this width in this font
        size_t bytes = 0;
        float width = 0, font = 0;
        std::vector<Line> lines;
    };
    void wrap(Wrapped& wrapped, const std::string& text, float width) const;
    static void draw_head(const ChatMessage& message, size_t index);

    std::vector<Wrapped> wrapped_;
    int pages_ = 0;
    bool to_end_ = false;
};

}  // namespace scoria::desktop
