// Any bytes as a JSON schema, whose grammar is followed for a few tokens.
#include "fail.h"
#include "grammar/json_schema.h"
#include "grammar_walk.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    try {
        scoria::test::walk(scoria::grammar::json_schema_grammar(input), input);
    } catch (const scoria::Error&) {
        // Refused: as good an answer as any.
    }
    return 0;
}
