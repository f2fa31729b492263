// A string of a template, which knows which of its bytes came from outside (messages, tools, variables):
// there, what spells a control token is only text. Every operation carries the knowledge along.
#pragma once

#include "text_range.h"

#include <string>
#include <string_view>
#include <vector>

namespace scoria::jinja {

class Text {
  public:
    Text() = default;
    explicit Text(std::string bytes, bool from_input = false) : bytes_(std::move(bytes)) {
        if (from_input && !bytes_.empty()) input_.push_back({0, bytes_.size()});
    }

    const std::string& bytes() const { return bytes_; }
    size_t size() const { return bytes_.size(); }
    bool empty() const { return bytes_.empty(); }
    /// Sorted, apart from each other, none empty.
    const std::vector<TextRange>& input() const { return input_; }
    bool has_input() const { return !input_.empty(); }
    size_t memory() const { return bytes_.capacity() + input_.capacity() * sizeof(TextRange); }

    void append(std::string_view bytes, bool from_input = false);
    void append(const Text& text) { append(text, 0, text.size()); }
    /// Bytes [begin, end) of another text.
    void append(const Text& text, size_t begin, size_t end);
    Text slice(size_t begin, size_t end) const;
    /// Other bytes in place of these: ranges stay where the length does, else any input makes all input.
    Text with_bytes(std::string bytes) const;

  private:
    void mark(size_t begin, size_t end);

    std::string bytes_;
    std::vector<TextRange> input_;
};

}  // namespace scoria::jinja
