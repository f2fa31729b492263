// tokenizer.json, tokenizer.model and vocab.txt against the libraries that define them, case by case.
#include "fail.h"
#include "file.h"
#include "model.h"
#include "test_env.h"
#include "tokenizer/sources.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <chrono>

using namespace scoria;
using namespace scoria::test;
using nlohmann::json;

namespace {

using Ids = std::vector<TokenId>;

std::string folder(const std::string& name) { return fixtures() + "/hf_tokenizers/" + name; }

json cases_of(const std::string& name) { return json::parse(read_file(folder(name) + "/cases.json")); }

}  // namespace

TEST_CASE("tokenizer.json gives the ids and texts of its library") {
    for (const std::string name : {"gpt2-style", "llama3-style", "qwen2-style", "llama2-style",
                                   "mistral-metaspace-style", "t5-unigram", "bert-wordpiece"}) {
        CAPTURE(name);
        const auto tokenizer = open_tokenizer(folder(name));
        const json fixture = cases_of(name);
        for (const json& entry : fixture["cases"]) {
            const std::string text = entry["text"];
            CAPTURE(text);
            const Ids ids = entry["ids"], plain = entry["ids_no_special"];
            CHECK(tokenizer->encode(text) == ids);
            CHECK(tokenizer->encode(text, {.add_special = false}) == plain);
            CHECK(tokenizer->decode(plain, true) == entry["decoded"]);
            CHECK(tokenizer->decode(ids, false) == entry["decoded_skip_special"]);
        }
        const json& pair = fixture["pair"];
        const EncodedPair encoded = tokenizer->encode_pair(std::string(pair["a"]), std::string(pair["b"]));
        CHECK(encoded.ids == pair["ids"].get<Ids>());
        CHECK(encoded.types == pair["type_ids"].get<std::vector<uint32_t>>());
    }
}

TEST_CASE("tokenizer.model gives the ids and texts of SentencePiece") {
    for (const std::string name : {"spm-bpe", "spm-unigram", "spm-bpe-byte-fallback"}) {
        CAPTURE(name);
        const auto tokenizer = open_tokenizer(folder(name) + "/tokenizer.model");
        const json fixture = cases_of(name);
        CHECK(tokenizer->size() == fixture["vocab_size"]);
        CHECK(tokenizer->bos() == fixture["bos"]);
        CHECK(tokenizer->eos() == fixture["eos"]);
        for (const json& entry : fixture["cases"]) {
            const std::string text = entry["text"];
            CAPTURE(text);
            const Ids ids = entry["ids"];
            CHECK(tokenizer->encode(text, {.add_special = false, .parse_special = false}) == ids);
            CHECK(tokenizer->decode(ids, false) == entry["decoded"]);
        }
    }
}
