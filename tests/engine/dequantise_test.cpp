// The reference's dequantisation against gguf-py's values, bit for bit, edge
// blocks included.
#include "reference/dequantise.h"
#include "safetensors.h"
#include "test_env.h"

#include <doctest/doctest.h>

#include <bit>

using namespace scoria;

TEST_CASE("dequantise: every tensor type gives the recorded bits" * test::needs_fixtures()) {
    for (const TensorTypeInfo& info : gguf_types()) {
        CAPTURE(info.name);
        const Safetensors file(test::fixtures() + "/quants/" + info.name + ".safetensors");
        for (const auto& [raw, deq] : {std::pair("raw", "deq"), std::pair("edge_raw", "edge_deq")}) {
            const std::vector<uint8_t> blocks = file.read<uint8_t>(raw);
            const std::vector<float> expected = file.read<float>(deq);
            REQUIRE(blocks.size() / info.block_bytes * info.block == expected.size());
            std::vector<float> actual(expected.size());
            reference::dequantise(info.type, std::as_bytes(std::span(blocks)), actual);
            size_t different = 0, first = expected.size();
            for (size_t i = 0; i < expected.size(); ++i)
                if (std::bit_cast<uint32_t>(expected[i]) != std::bit_cast<uint32_t>(actual[i]) &&
                    different++ == 0)
                    first = i;
            CAPTURE(first);
            CHECK(different == 0);
        }
    }
}
