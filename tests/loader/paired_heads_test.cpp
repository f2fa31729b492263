// Rows of heads in the order of pairs: beside a converter that stores them so, and by ranges of bytes.
#include "fail.h"
#include "paired_heads.h"

#include "support/golden.h"
#include "weight_check.h"

#include <doctest/doctest.h>

#include <cstring>

using namespace scoria;
using namespace scoria::test;

namespace {

std::shared_ptr<const Model> opened(const std::string& path) {
    return std::make_shared<const Model>(open_model(fixtures() + path));
}

std::vector<std::byte> bytes_of(const Model& model, const TensorView& view) {
    std::vector<std::byte> bytes(view.bytes());
    model.tensors->read(view, 0, bytes);
    return bytes;
}

}  // namespace

TEST_CASE("heads of a folder are paired as in the GGUF file of the same model" * needs_fixtures()) {
    const auto folder = opened("/models/llama3"), gguf = opened("/gguf/llama3.gguf");
    const auto paired = with_paired_heads(folder);
    check_weights(*paired);
    CHECK(paired->architecture.ropes[0].pairs == gguf->architecture.ropes[0].pairs);
    for (const Role role : {Role::q, Role::k, Role::v, Role::o, Role::down}) {
        CAPTURE(role_name(role));
        const WeightRef ref{role, 1};
        CHECK(floats_of(*paired, ref) == floats_of(*gguf, ref));
        CHECK((floats_of(*folder, ref) == floats_of(*gguf, ref)) == (role != Role::q && role != Role::k));
    }
    CHECK(with_paired_heads(gguf) == gguf);
    CHECK(with_paired_heads(paired) == paired);
}

TEST_CASE("any range of paired heads is read" * needs_fixtures()) {
    // Biases, and heads of which a part rotates.
    const auto model = opened("/models/gpt-neox"), paired = with_paired_heads(model);
    const uint32_t head_dim = model->architecture.layers[0].attention.head_dim,
                   width = model->architecture.ropes[0].width;
    REQUIRE(width < head_dim);
    for (const Role role : {Role::k, Role::k_bias}) {
        CAPTURE(role_name(role));
        const TensorView &stored = model->weights.at({role, 0}), &view = paired->weights.at({role, 0});
        const std::vector<std::byte> from = bytes_of(*model, stored), all = bytes_of(*paired, view);
        const size_t rows = role == Role::k ? stored.rows : stored.cols, row_bytes = all.size() / rows;
        for (size_t row = 0; row < rows; ++row) {
            CAPTURE(row);
            const size_t head = row / head_dim * head_dim, i = row % head_dim, half = width / 2;
            const size_t to = head + (i >= width ? i : i < half ? 2 * i : 2 * (i - half) + 1);
            CHECK(std::memcmp(&from[row * row_bytes], &all[to * row_bytes], row_bytes) == 0);
        }
        const size_t step = std::max<size_t>(1, row_bytes * head_dim / 3 - 1);
        for (size_t first = 0; first <= all.size(); first += step)
            for (size_t end = first; end <= all.size(); end += step) {
                std::vector<std::byte> part(end - first);
                paired->tensors->read(view, first, part);
                CHECK(std::equal(part.begin(), part.end(), all.begin() + std::ptrdiff_t(first)));
            }
        std::vector<std::byte> beyond(2);
        CHECK_THROWS_AS(paired->tensors->read(view, all.size() - 1, beyond), Error);
    }
}

TEST_CASE("heads that are more than rows of q and k stay as they are" * needs_fixtures()) {
    // Norms of heads and of projections, latent heads; keys of a layer without rotation; no rotation.
    for (const char* const family : {"qwen3", "gemma3-text", "olmo2", "deepseek-v3", "gpt2"}) {
        CAPTURE(family);
        const auto model = opened(std::string("/models/") + family);
        CHECK(with_paired_heads(model) == model);
    }
    Model shares = *opened("/models/llama3");
    shares.architecture.ropes.push_back(shares.architecture.ropes[0]);
    shares.architecture.layers[1].attention.kv_layer = 0;
    shares.architecture.layers[1].attention.rope = 1;
    const auto other = std::make_shared<const Model>(shares);
    CHECK(with_paired_heads(other) == other);
    Model latent = *opened("/models/llama3");
    latent.architecture.layers[1].attention.latent.kv_rank = 8;
    const auto compressed = std::make_shared<const Model>(latent);
    CHECK(with_paired_heads(compressed) == compressed);
    shares.architecture.layers[1].attention.rope = 0;
    const auto same = std::make_shared<const Model>(shares);
    CHECK(with_paired_heads(same) != same);
}
