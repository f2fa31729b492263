// Any bytes as a safetensors file: opening must return or throw Error.
#include "fail.h"
#include "memory_file.h"
#include "safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace scoria;
    const test::MemoryFile file(data, size);
    try {
        const Safetensors opened(file.path());
        for (const auto& [name, array] : opened.arrays()) {
            if (array.type == "F32") opened.read<float>(name);
        }
    } catch (const Error&) {
        // Refused: as good an answer as any.
    }
    return 0;
}
