// Any bytes as a GGUF file: opening must return or throw Error, whatever they are. What opens is used: the
// first bytes of every weight, the tokenizer on a text of the file's own.
#include "fail.h"
#include "memory_file.h"
#include "model.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace scoria;
    const test::MemoryFile file(data, size);
    try {
        const Model model = open_model(file.path());
        std::byte first[4];
        for (const auto& [role, view] : model.weights) {
            if (view.bytes() >= sizeof first) model.tensors->read(view, view.bytes() - sizeof first, first);
        }
        if (model.tokenizer) {
            const std::string_view text(reinterpret_cast<const char*>(data), std::min<size_t>(size, 256));
            const std::vector<TokenId> ids = model.tokenizer->encode(text);
            model.tokenizer->decode(ids, true);
        }
    } catch (const Error&) {
        // Refused: as good an answer as any.
    }
    return 0;
}
