// The choice of tokenizer by kind, and the decoder of token streams.
#include "tokenizer/tokenizer.h"

#include "fail.h"
#include "tokenizer/byte_bpe.h"
#include "tokenizer/spm_bpe.h"
#include "tokenizer/utf8.h"

namespace scoria {

std::shared_ptr<const Tokenizer> make_tokenizer(Vocabulary vocabulary) {
    if (vocabulary.model == "gpt2") return std::make_shared<ByteBpe>(std::move(vocabulary));
    if (vocabulary.model == "llama") return std::make_shared<SpmBpe>(std::move(vocabulary));
    fail(Status::unsupported, "gguf", "tokenizer.ggml.model: expected gpt2 or llama, got ", vocabulary.model);
}

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
