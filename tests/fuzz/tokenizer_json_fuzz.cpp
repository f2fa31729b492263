// Any bytes as tokenizer.json: reading must return or throw Error, whatever they are. What is read is used,
// on a text of the file's own.
#include "fail.h"
#include "tokenizer/sources.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace scoria;
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    try {
        const auto tokenizer = make_tokenizer(read_tokenizer_json(bytes), "tokenizer.json");
        for (const std::string_view text :
             {bytes.substr(0, 256), std::string_view("Plain text, \u4e2d\u6587 12345.")})
            tokenizer->decode(tokenizer->encode(text), true);
        tokenizer->encode_pair("a", "b");
    } catch (const Error&) {
        // Refused: as good an answer as any.
    }
    return 0;
}
