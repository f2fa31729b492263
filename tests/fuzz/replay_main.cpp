// Stands in for libFuzzer where the compiler has none: runs the target on the files given, and on copies of
// each with bytes flipped (the same ones every time).
#include "file.h"

#include <cstdio>
#include <random>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int count, char** arguments) {
    constexpr int rounds = 200;
    for (int i = 1; i < count; ++i) {
        const std::string original = scoria::read_file(arguments[i]);
        std::mt19937 random(1);
        for (int round = 0; round <= rounds; ++round) {
            std::string bytes = original;
            for (int flips = 0; round > 0 && flips < 4 && !bytes.empty(); ++flips) {
                // Headers are short and lie in front.
                bytes[random() % std::min<size_t>(bytes.size(), 3000)] = static_cast<char>(random());
            }
            LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
        }
        std::printf("%s\n", arguments[i]);
    }
    return 0;
}
