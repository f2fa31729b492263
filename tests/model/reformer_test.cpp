// Reformer: rotations that are given, sequences that are computed anew as they grow, and settings that the
// fixture does not have, for which the reference executor is the measure.
#include "fail.h"
#include "file.h"
#include "hash_rotations.h"
#include "loader/hf_builder.h"
#include "reference/executor.h"
#include "support/compare.h"
#include "support/device.h"
#include "support/golden.h"

using namespace scoria;
using namespace scoria::test;

namespace {

/// At one subgroup size, as the families.
doctest::skip needs_settings() { return doctest::skip(few_models() || !have_fixtures()); }

std::string reformer_folder() { return fixtures() + "/models/reformer"; }

/// The fixture with other settings; its weights fit whatever attention makes of them.
HfFolder reformer_with(const nlohmann::json& changes) {
    HfFolder folder = hf_folder(reformer_folder());
    folder.config.update(changes);
    return folder;
}

Model with_seed(uint32_t seed) {
    Model model = open_model(reformer_folder());
    const std::vector<uint64_t> shape{4, 16, 2, 4};
    set_rotations(model, shape, torch_normals(seed, 4 * 16 * 2 * 4));
    return model;
}

}  // namespace

TEST_CASE("reformer: the rotations of hash_seed are those of the golden" * needs_fixtures()) {
    const Safetensors golden(reformer_folder() + "/golden.safetensors");
    const std::vector<float> expected = golden.read<float>("rotations");
    CHECK(largest_error(expected, torch_normals(11, expected.size())) < 1e-6);
    CHECK(largest_error(expected, torch_normals(12, expected.size())) > 1);
    // torch.manual_seed(0); torch.randn(16)
    CHECK(torch_normals(0, 16)[0] == doctest::Approx(-1.1258398).epsilon(1e-6));
    CHECK(torch_normals(0, 16)[15] == doctest::Approx(-0.2473).epsilon(1e-3));
    // Of a count that is no multiple of 16 the last 16 are drawn anew.
    const std::vector<float> even = torch_normals(0, 16), odd = torch_normals(0, 20);
    CHECK(std::vector(odd.begin(), odd.begin() + 4) == std::vector(even.begin(), even.begin() + 4));
    CHECK(odd[4] != even[4]);
}

TEST_CASE("reformer: given rotations count, where there is hashing" * needs_fixtures()) {
    Model model = open_model(reformer_folder());
    const Safetensors golden(reformer_folder() + "/golden.safetensors");
    const std::vector<TokenId> ids = read_ids(golden, "long.input_ids");
    const auto logits = [](const Model& of, std::span<const TokenId> tokens) {
        return reference::Executor(of).forward(tokens).logits;
    };
    const std::vector<double> own = logits(model, ids), own_short = logits(model, std::span(ids).first(8));
    CHECK(largest_error(own, logits(with_seed(12), ids)) > 0.1);
    CHECK(logits(with_seed(12), std::span(ids).first(8)) == own_short);  // no more than a chunk
    set_rotations(model, golden.array("rotations").shape, golden.read<float>("rotations"));
    CHECK(largest_error(own, logits(model, ids)) < 1e-5);

    const std::vector<uint64_t> wrong{4, 16, 1, 8};
    CHECK_THROWS_WITH_AS(set_rotations(model, wrong, golden.read<float>("rotations")),
                         doctest::Contains("expected [4, 16, 2, 4], got [4, 16, 1, 8]"), Error);
    Model llama = open_model(fixtures() + "/models/llama1");
    CHECK_THROWS_WITH_AS(set_rotations(llama, wrong, {}), doctest::Contains("a model that hashes"), Error);
}

TEST_CASE("reformer: the first stream" * needs_fixtures()) {
    const Model model = open_model(reformer_folder());
    const Safetensors golden(reformer_folder() + "/golden.safetensors");
    size_t seen = 0;
    const auto observer = [&](const Graph& graph, const Op& op, std::span<const double> output) {
        for (const size_t layer : {size_t{0}, size_t{1}}) {
            if (graph.tensors[output_of(op).index].name != cat("layer ", layer, " attention residual"))
                continue;
            const std::vector<float> expected = golden.read<float>(cat("long.attn_stream.", layer + 1));
            CHECK(largest_error(expected, output) < 1e-5);
            ++seen;
        }
    };
    reference::Executor(model).forward(read_ids(golden, "long.input_ids"), reference::Outputs::all, observer);
    CHECK(seen == 2);
}

TEST_CASE("reformer: a sequence that grows is computed anew" * needs_fixtures()) {
    const auto model = std::make_shared<const Model>(open_model(reformer_folder()));
    const Safetensors golden(reformer_folder() + "/golden.safetensors");
    const std::vector<TokenId> ids = read_ids(golden, "long.input_ids");
    EngineOptions options = engine_options(Precision::strict);
    options.deterministic = true;  // else other lengths may run other variants
    Engine engine(model, options);
    CHECK(engine.memory_plan().kv == 0);
    CHECK(engine.memory_plan().context == 128);
    Session whole(engine), parts(engine);
    const ForwardResult expected = whole.forward(ids, true);
    CHECK(expected.last_hidden_size() == 128);
    parts.append(std::span(ids).first(60));
    parts.append(std::span(ids).subspan(60, 1));
    const ForwardResult rest = parts.forward(std::span(ids).subspan(61), true);
    const auto last_rows = [&](const std::vector<float>& values) {
        return std::vector<float>(values.begin() + std::ptrdiff_t(values.size() / ids.size() * 61),
                                  values.end());
    };
    CHECK(rest.logits == last_rows(expected.logits));
    CHECK(rest.hidden[2] == last_rows(expected.hidden[2]));
    const std::vector<float> last(expected.logits.end() - 256, expected.logits.end());
    CHECK(parts.logits() == last);
    parts.append(std::span(ids).first(20));
    parts.truncate(100);
    CHECK(parts.logits() == last);
    CHECK_THROWS_WITH_AS(parts.append(std::vector<TokenId>(29, 3)),
                         doctest::Contains("expected at most 28 more tokens"), Error);
    CHECK(engine.device().validation_errors() == 0);
}

TEST_CASE("reformer: settings that the fixture does not have" * needs_settings()) {
    const nlohmann::json rows[] = {
        {{"num_buckets", nullptr}},
        {{"num_buckets", {4, 6}},
         {"num_hashes", 3},
         {"lsh_attn_chunk_length", 4},
         {"lsh_num_chunks_after", 1}},
        {{"is_decoder", false}, {"lsh_num_chunks_before", 0}, {"local_num_chunks_after", 1}},
        {{"local_attn_chunk_length", 12}, {"local_num_chunks_before", 7}, {"hash_seed", nullptr}},
    };
    const Safetensors golden(reformer_folder() + "/golden.safetensors");
    const std::vector<TokenId> ids = read_ids(golden, "long.input_ids");
    const std::vector<double> plain = reference::Executor(open_model(reformer_folder())).forward(ids).logits;
    for (const nlohmann::json& row : rows) {
        CAPTURE(row.dump());
        const TemporaryFolder folder(reformer_with(row));
        const auto model = std::make_shared<const Model>(open_model(folder.path()));
        Engine engine(model, engine_options(Precision::strict));
        for (const size_t length : {5u, 11u, 48u, 100u}) {
            CAPTURE(length);
            const std::span<const TokenId> some = std::span(ids).first(length);
            const std::vector<double> expected = reference::Executor(*model).forward(some).logits;
            CHECK(largest_error(expected, Session(engine).forward(some, false).logits) <= strict_error);
            if (length == ids.size()) CHECK(largest_error(plain, expected) > 0.1);
        }
        CHECK(engine.device().validation_errors() == 0);
    }
}

TEST_CASE("reformer: what cannot be computed is refused by name" * needs_fixtures()) {
    const std::pair<nlohmann::json, const char*> rows[] = {
        {{{"num_buckets", nullptr},
          {"num_attention_heads", 1},
          {"attention_head_size", 8},
          {"num_hashes", 1}},
         "num_buckets: expected a number, or heads"},
        {{{"num_buckets", 7}}, "num_buckets: expected even numbers"},
        {{{"num_buckets", {2, 2, 2, 2, 2}}}, "num_buckets: expected 1 to 4 factors"},
        {{{"num_buckets", {16777216, 16}}}, "num_buckets: expected 1 to 4 factors"},
        {{{"attn_layers", {"local", "full"}}}, "attn_layers: expected local or lsh, got full"},
        {{{"attn_layers", {"local"}}}, "attn_layers: expected 2 layers"},
        {{{"axial_pos_shape", {2, 4, 16}}}, "axial_pos_shape: expected two axes, got 3"},
        {{{"axial_pos_embds_dim", {24, 24}}}, "axial_pos_embds_dim: expected a sum of 64"},
        {{{"axial_pos_shape", {16, 8}}}, "weights.0: expected [16, 24], got [8, 1, 24]"},
        {{{"axial_pos_embds", false}}, "position_embeddings.embedding.weight is missing"},
        {{{"num_hashes", 0}}, "num_hashes: expected 1 to 256"},
        {{{"lsh_attn_chunk_length", 16777213}}, "lsh_attn_chunk_length: expected chunks"},
        {{{"attention_head_size", 1025}}, "attention_head_size: expected 1 to 1024"},
        {{{"hash_seed", -1}}, "hash_seed: expected 0 to 4294967295"},
    };
    for (const auto& row : rows) {
        CAPTURE(row.first.dump());
        const TemporaryFolder folder(reformer_with(row.first));
        CHECK_THROWS_WITH_AS(open_model(folder.path()), doctest::Contains(row.second), Error);
    }
}
