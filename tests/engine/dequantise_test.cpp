// The reference's dequantisation against gguf-py's values, bit for bit, edge
// blocks included.
#include "reference/dequantise.h"
#include "safetensors.h"
#include "test_env.h"

#include <doctest/doctest.h>

#include <bit>

using namespace scoria;

TEST_CASE("dequantise: every tensor type gives the recorded bits" * test::needs_fixtures()) {
    for (const char* const name : {"F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"}) {
        CAPTURE(name);
        const Safetensors file(test::fixtures() + "/quants/" + name + ".safetensors");
        const TensorTypeInfo* info = nullptr;
        for (uint32_t type = 0; type < 64 && !info; ++type)
            if (const TensorTypeInfo* row = tensor_type_info(type); row && row->name == std::string(name))
                info = row;
        REQUIRE(info);
        for (const auto& [raw, deq] : {std::pair("raw", "deq"), std::pair("edge_raw", "edge_deq")}) {
            const std::vector<uint8_t> blocks = file.read<uint8_t>(raw);
            const std::vector<float> expected = file.read<float>(deq);
            REQUIRE(blocks.size() / info->block_bytes * info->block == expected.size());
            std::vector<float> actual(expected.size());
            reference::dequantise(info->type, std::as_bytes(std::span(blocks)), actual);
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
