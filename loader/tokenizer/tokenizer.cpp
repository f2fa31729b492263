// The decoder of token streams.
#include "tokenizer/tokenizer.h"

#include "tokenizer/utf8.h"

namespace scoria {

std::string StreamDecoder::push(TokenId id) {
    held_ += tokenizer_->piece(id, special_);
    std::string out;
    std::string_view rest = held_;
    while (!rest.empty()) {
        const utf8::Step step = utf8::step(rest);
        if (step.kind == utf8::Step::Kind::incomplete) break;
        if (step.kind == utf8::Step::Kind::valid)
            out += rest.substr(0, step.bytes);
        else
            utf8::append(out, utf8::replacement);
        rest.remove_prefix(step.bytes);
    }
    held_.erase(0, held_.size() - rest.size());
    return out;
}

std::string StreamDecoder::finish() {
    std::string out;
    if (!held_.empty()) utf8::append(out, utf8::replacement);
    held_.clear();
    return out;
}

}  // namespace scoria
