#include "safetensors.h"

#include "fail.h"
#include "gguf_builder.h"
#include "test_env.h"

#include <doctest/doctest.h>

using namespace scoria;
using namespace scoria::test;

namespace {

std::string with_header(const std::string& header, size_t data_bytes) {
    const uint64_t length = header.size();
    std::string file(reinterpret_cast<const char*>(&length), sizeof length);
    return file + header + std::string(data_bytes, '\1');
}

}  // namespace

TEST_CASE("arrays written are read back") {
    const std::vector<float> matrix = {1, 2, 3, 4, 5, 6};
    const std::vector<int64_t> ids = {-7};
    const std::vector<double> none;
    const TemporaryFile file("", ".safetensors");
    const NamedArray arrays[] = {{"m", {2, 3}, matrix}, {"ids", {}, ids}, {"none", {0, 4}, none}};
    write_safetensors(file.path(), arrays);
    const Safetensors read(file.path());
    CHECK(read.arrays().size() == 3);
    CHECK(read.array("m").shape == std::vector<uint64_t>{2, 3});
    CHECK(read.array("m").elements() == 6);
    CHECK(read.read<float>("m") == matrix);
    CHECK(read.read<int64_t>("ids") == ids);
    CHECK(read.read<double>("none").empty());
    CHECK_THROWS_AS(read.read<double>("m"), Error);
    CHECK_THROWS_AS(read.read<float>("absent"), Error);
    CHECK_THROWS_AS((NamedArray("m", {4}, matrix)), Error);
    const NamedArray twice[] = {{"m", {2, 3}, matrix}, {"m", {6}, matrix}};
    CHECK_THROWS_AS(write_safetensors(file.path(), twice), Error);
}

TEST_CASE("a header that lies is refused") {
    struct Case {
        const char* name;
        std::string file;
        const char* expected;
    };
    const std::string a = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
    const Case cases[] = {
        {"valid", with_header("{" + a + "}", 8), ""},
        {"metadata", with_header(R"({"__metadata__":{"format":"pt"},)" + a + "}", 8), ""},
        {"empty", "", "expected 8 bytes"},
        {"past the end", with_header("{}", 0).substr(0, 9), "header: expected at most 1 bytes, got 2"},
        {"not JSON", with_header("{" + a, 8), "parse error"},
        {"not an object", with_header("[1]", 0), "expected a JSON object"},
        {"nested", with_header("{\"a\":" + std::string(100000, '['), 0), "nested deeper"},
        {"twice", with_header("{" + a + "," + a + "}", 8), "a: expected once, got twice"},
        {"hole at the end", with_header("{" + a + "}", 9), "expected 8 bytes of data, got 9"},
        {"too little data", with_header("{" + a + "}", 7), "expected 8 bytes of data, got 7"},
        {"hole", with_header(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2), "a hole"},
        {"overlap", with_header("{" + a + R"(,"b":{"dtype":"U8","shape":[2],"data_offsets":[6,8]}})", 8),
         "overlap"},
        {"shape", with_header(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8),
         "a: expected 12 bytes by its shape"},
        {"overflow",
         with_header(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0),
         "overflows"},
        {"negative", with_header(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8),
         "an integer of 0 or more"},
        {"backwards", with_header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8),
         "got offsets 8 to 0"},
        {"type", with_header(R"({"a":{"dtype":"F3","shape":[2],"data_offsets":[0,8]}})", 8),
         "element type F3 is not supported"},
    };
    for (const Case& c : cases) {
        CAPTURE(c.name);
        const TemporaryFile file(c.file, ".safetensors");
        std::string error;
        try {
            Safetensors read(file.path());
        } catch (const Error& caught) {
            error = caught.what();
        }
        if (*c.expected == 0)
            CHECK(error == "");
        else
            CHECK_MESSAGE(error.find(c.expected) != error.npos, error);
    }
}

TEST_CASE("goldens are readable" * needs_fixtures()) {
    const Safetensors golden(fixtures() + "/smollm2/golden.safetensors");
    CHECK_FALSE(golden.arrays().empty());
}
