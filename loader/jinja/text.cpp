#include "jinja/text.h"

#include <algorithm>

namespace scoria::jinja {

void Text::mark(size_t begin, size_t end) {
    if (begin == end) return;
    if (!input_.empty() && input_.back().end == begin)
        input_.back().end = end;
    else
        input_.push_back({begin, end});
}

void Text::append(std::string_view bytes, bool from_input) {
    const size_t begin = bytes_.size();
    bytes_ += bytes;
    if (from_input) mark(begin, bytes_.size());
}

void Text::append(const Text& text, size_t begin, size_t end) {
    const size_t at = bytes_.size();
    bytes_.append(text.bytes_, begin, end - begin);
    auto range = std::ranges::upper_bound(text.input_, begin, {}, &TextRange::end);
    for (; range != text.input_.end() && range->begin < end; ++range)
        mark(at + std::max(range->begin, begin) - begin, at + std::min(range->end, end) - begin);
}

Text Text::slice(size_t begin, size_t end) const {
    Text out;
    out.append(*this, begin, end);
    return out;
}

Text Text::with_bytes(std::string bytes) const {
    if (bytes.size() != size()) return Text(std::move(bytes), has_input());
    Text out(std::move(bytes));
    out.input_ = input_;
    return out;
}

}  // namespace scoria::jinja
