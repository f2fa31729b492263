// JSON objects in their order, read in time that does not grow with the square of their keys.
#include "tokenizer/json.h"

#include <doctest/doctest.h>

#include <chrono>

using namespace scoria;
using nlohmann::ordered_json;

TEST_CASE("JSON: objects in their order are what nlohmann's own parser reads") {
    for (
        const char* text :
        {R"({"b":1,"a":[{},[],null,true,-3,18446744073709551615,2.5e-3,"\u00e9\ud83d\ude00"],"c":{"z":{"y":0}}})",
         R"({"a":1,"b":2,"a":{"x":[1]},"b":[{"c":1,"c":2}]})", R"({"a":{"b":[1]},"c":0,"a":3})", "[[[]],{}]",
         "3", "\"text\"", " null "})
        CHECK(parse_ordered(text, "test").dump() == ordered_json::parse(text).dump());
}

TEST_CASE("JSON: what is none is refused, by where it ends") {
    for (const char* text :
         {"", "{", "[1,]", R"({"a" 1})", R"({"a":1}x)", "nul", "1e999", "\"\xff\"", R"({1:2})"})
        CHECK_THROWS_WITH_AS(parse_ordered(text, "test"),
                             doctest::Contains("[test] expected JSON, got: [json.exception."), Error);
    const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
    CHECK(parse_ordered(nested(5), "test", Status::failed, 5).is_array());
    CHECK_THROWS_WITH_AS(parse_ordered(nested(6), "test", Status::failed, 5),
                         "[test] expected at most 5 levels of nesting, got more", Error);
}

TEST_CASE("JSON: many keys take no longer than as many bytes of other kinds") {
    std::string text = "{";
    for (int i = 0; i < 200'000; ++i)
        text += (i ? ",\"k" : "\"k") + std::to_string(i) + "\":" + std::to_string(i);
    const auto start = std::chrono::steady_clock::now();
    const ordered_json read = parse_ordered(text + "}", "test");
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));  // pairs of keys take a minute
    CHECK(read.size() == 200'000);
    CHECK(read.back() == 199'999);
}
