// The GGUF writer against the reader, and importance matrices of both formats.
#include "gguf_writer.h"

#include "fail.h"
#include "gguf_builder.h"
#include "importance.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

using namespace scoria;
using namespace scoria::test;

namespace {

std::string text_of(const std::vector<std::byte>& bytes) {
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace

TEST_CASE("gguf writer: what is written is read") {
    const std::vector<std::string> words = {"one", "", "three"};
    const std::vector<int32_t> numbers = {-1, 2};
    const std::vector<float> reals = {0.5f};
    for (const uint32_t alignment : {32u, 64u, 4096u}) {
        CAPTURE(alignment);
        GgufWriter writer;
        writer.set("general.alignment", alignment);
        writer.set("a.flag", true);
        writer.set("a.real", 1.5f);
        writer.set("a.text", "first");
        writer.set("a.gone", 1u);
        writer.set("a.words", words);
        writer.set("a.numbers", numbers);
        writer.set("a.reals", reals);
        writer.set("a.text", "second");
        writer.remove("a.gone");
        writer.add("vector", {5}, TensorType::f32);
        writer.add("blocks", {64, 3}, TensorType::q8_0);
        writer.add("last", {32, 2, 2}, TensorType::iq4_nl);
        std::string file = text_of(writer.header(alignment));
        CHECK(file.size() % alignment == 0);
        CHECK(writer.file_bytes() % alignment == 0);
        file.resize(writer.file_bytes());
        const TemporaryFile written(file);
        const Gguf read = read_gguf(File(written.path()));
        CHECK(read.version == 3);
        REQUIRE(read.entries.size() == 7);
        CHECK(read.entries[3].key == "a.text");  // replaced in its place
        CHECK(read.metadata.boolean("a.flag") == true);
        CHECK(read.metadata.number("a.real") == 1.5);
        CHECK(*read.metadata.text("a.text") == "second");
        CHECK(*read.metadata.texts("a.words") == words);
        CHECK(read.metadata.integers("a.numbers") == std::vector<int64_t>{-1, 2});
        CHECK(read.metadata.numbers("a.reals") == std::vector<double>{0.5});
        REQUIRE(read.tensors.size() == 3);
        for (size_t i = 0; i < 3; ++i) {
            CHECK(read.tensors[i].name == writer.tensors()[i].name);
            CHECK(read.tensors[i].dimensions == writer.tensors()[i].dimensions);
            CHECK(read.tensors[i].type == static_cast<uint32_t>(writer.tensors()[i].type));
            CHECK(read.tensors[i].offset == writer.tensors()[i].offset);
        }
        CHECK(writer.tensors()[1].bytes == 2 * 34 * 3);
    }
}

TEST_CASE("gguf writer: raw values keep their widths") {
    GgufFile source = tiny_llama();
    source.metadata["x.list"] = std::vector<std::string>{"a", "bc"};
    const TemporaryFile in(source.bytes());
    const File file(in.path());
    const Gguf read = read_gguf(file);
    GgufWriter writer;
    for (const GgufEntry& entry : read.entries) {
        std::vector<std::byte> value(entry.bytes);
        file.read(entry.offset, value);
        writer.set_raw(entry.key, entry.type, value);
    }
    source.tensors.clear();
    CHECK(text_of(writer.header(32)) == source.bytes());
}

TEST_CASE("importance matrices: both formats, and what is refused") {
    GgufFile file;
    file.metadata["general.type"] = "imatrix";
    file.add("w.in_sum2", {4, 2}, 6.0f);
    file.add("w.counts", {1, 2}, 3.0f);
    const float none = 0;
    std::memcpy(file.tensors["w.counts"].data.data() + 4, &none, 4);  // no token reached the second expert
    const auto read_bytes = [](const std::string& bytes) {
        const TemporaryFile written(bytes);
        return read_importance(written.path());
    };
    CHECK(read_bytes(file.bytes()).at("w") == std::vector<float>{2, 2, 2, 2, 1, 1, 1, 1});

    std::string old;
    put(old, int32_t{1});
    put(old, int32_t{3});
    old += "abc";
    put(old, int32_t{2});  // calls
    put(old, int32_t{2});  // values
    put(old, 3.0f);
    put(old, 5.0f);
    CHECK(read_bytes(old).at("abc") == std::vector<float>{1.5f, 2.5f});
    CHECK_THROWS_AS(read_bytes(old.substr(0, old.size() - 1)), Error);
    CHECK_THROWS_AS(read_bytes(std::string(8, '\0')), Error);

    GgufFile lacking = file;
    lacking.tensors.erase("w.counts");
    CHECK_THROWS_AS(read_bytes(lacking.bytes()), Error);
    lacking.tensors.erase("w.in_sum2");
    CHECK_THROWS_AS(read_bytes(lacking.bytes()), Error);
    for (const float bad : {std::nanf(""), -1.0f, HUGE_VALF}) {
        GgufFile wrong = file;
        std::memcpy(wrong.tensors["w.in_sum2"].data.data(), &bad, 4);
        CHECK_THROWS_AS(read_bytes(wrong.bytes()), Error);
    }
}
