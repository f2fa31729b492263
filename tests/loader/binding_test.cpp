// Weights gathered from other layouts, against plain loops over the stored elements.
#include "binding.h"
#include "fail.h"
#include "hf_builder.h"
#include "safetensors.h"
#include "weight_check.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>

using namespace scoria;
using namespace scoria::test;

namespace {

constexpr uint32_t heads = 6, kv_heads = 2, d = 4, hidden = 10, size = 7, experts = 3, expert_size = 5;

Architecture small() {
    Architecture a;
    a.vocab = 11;
    a.hidden = hidden;
    a.positions = 9;
    a.rows_before_positions = 3;
    a.norm.bias = true;
    Layer layer;
    layer.attention.heads = heads;
    layer.attention.kv_heads = kv_heads;
    layer.attention.head_dim = d;
    layer.attention.q_bias = layer.attention.k_bias = layer.attention.v_bias = true;
    layer.attention.qk_norm.group = QkNorm::Group::head;
    layer.attention.qk_norm.own_weights = true;
    layer.attention.bias = PositionBias::table;
    layer.attention.bias_span = 41;
    layer.feed_forward.size = size;
    layer.feed_forward.routing = {.experts = experts, .used = 1, .size = expert_size, .bias = true};
    a.layers.assign(2, layer);
    return a;
}

/// The same with latent attention: of 4 elements of a head 3 rotate.
Architecture small_latent() {
    Architecture a = small();
    for (Layer& layer : a.layers) {
        layer.attention.latent = {.kv_rank = 5, .q_rank = 0, .rope_dim = 3, .value_dim = 2, .epsilon = 1};
        layer.attention.bias = PositionBias::none;
    }
    return a;
}

/// The weights with `ref` bound from `tensors` by `row` and every other made up.
BoundWeights bind_one(const Architecture& architecture, WeightRef ref, const TensorRow& row, Catalog& catalog,
                      const GatheredTensors& source) {
    Synthesised others;
    for (const RoleRule& rule : role_rules())
        for (size_t i = 0; i < (rule.of_layer ? architecture.layers.size() : 1); ++i) {
            const RoleShape shape = rule.shape(architecture, architecture.layers[i], i);
            const WeightRef other{rule.role, rule.of_layer ? int32_t(i) : -1};
            if (shape.rows != 0 && other != ref) others[other] = repeated(shape.rows * shape.cols, 0);
        }
    const std::span<const TensorRow> rows(&row, 1);
    return bind_weights(architecture, std::span(&rows, 1), {}, others, catalog, source);
}

std::vector<float> gather(const TensorSource& source, const TensorView& view) {
    std::vector<float> values(size_t{view.rows} * view.cols);
    REQUIRE(view.type == TensorType::f32);
    source.read(view, 0, std::as_writable_bytes(std::span(values)));
    return values;
}

}  // namespace

TEST_CASE("layouts of stored tensors") {
    using enum Layout;
    struct Case {
        const char* name;
        Role role;
        Layout layout;
        std::vector<uint64_t> stored;  // of one tensor
        std::function<size_t(size_t r, size_t c)> element;
        size_t tensors = 1;
        float add = 0;
    };
    const size_t g = heads / kv_heads, group = (g + 2) * d, total = (heads + 2 * kv_heads) * d;
    const Case cases[] = {
        {"as is", Role::q, as_is, {heads * d, hidden}, [&](size_t r, size_t c) { return r * hidden + c; }},
        {"experts in one",
         Role::expert_up,
         as_is,
         {experts, expert_size, hidden},
         [&](size_t r, size_t c) { return r * hidden + c; }},
        {"a vector per head", Role::k_norm, as_is, {kv_heads, d}, [](size_t, size_t c) { return c; }},
        {"norm less one", Role::attention_norm, plus_one, {hidden}, [](size_t, size_t c) { return c; }, 1, 1},
        {"positions after three rows",
         Role::position_embedding,
         positions,
         {12, hidden},
         [&](size_t r, size_t c) { return (r + 3) * hidden + c; }},
        {"transposed",
         Role::down,
         transposed,
         {size, hidden},
         [&](size_t r, size_t c) { return c * hidden + r; }},
        {"q of qkv", Role::q, qkv, {total, hidden}, [&](size_t r, size_t c) { return r * hidden + c; }},
        {"k of qkv",
         Role::k,
         qkv,
         {total, hidden},
         [&](size_t r, size_t c) { return (heads * d + r) * hidden + c; }},
        {"v of qkv",
         Role::v,
         qkv,
         {total, hidden},
         [&](size_t r, size_t c) { return ((heads + kv_heads) * d + r) * hidden + c; }},
        {"v bias of qkv",
         Role::v_bias,
         qkv,
         {total},
         [&](size_t, size_t c) { return (heads + kv_heads) * d + c; }},
        {"k of qkv as columns",
         Role::k,
         qkv_transposed,
         {hidden, total},
         [&](size_t r, size_t c) { return c * total + heads * d + r; }},
        {"q per group",
         Role::q,
         qkv_grouped,
         {total, hidden},
         [&](size_t r, size_t c) { return (r / (g * d) * group + r % (g * d)) * hidden + c; }},
        {"k per group",
         Role::k,
         qkv_grouped,
         {total, hidden},
         [&](size_t r, size_t c) { return (r / d * group + g * d + r % d) * hidden + c; }},
        {"v bias per group",
         Role::v_bias,
         qkv_grouped,
         {total},
         [&](size_t, size_t c) { return c / d * group + (g + 1) * d + c % d; }},
        {"gate of gate and up",
         Role::gate,
         gate_up,
         {2 * size, hidden},
         [&](size_t r, size_t c) { return r * hidden + c; }},
        {"up of gate and up",
         Role::up,
         gate_up,
         {2 * size, hidden},
         [&](size_t r, size_t c) { return (size + r) * hidden + c; }},
        {"a tensor per expert",
         Role::expert_gate,
         per_expert,
         {expert_size, hidden},
         [&](size_t r, size_t c) { return r * hidden + c; },
         experts},
        {"experts transposed",
         Role::expert_down,
         experts_transposed,
         {experts, expert_size, hidden},
         [&](size_t r, size_t c) { return (r / hidden * expert_size + c) * hidden + r % hidden; }},
        {"up of experts",
         Role::expert_up,
         experts_gate_up,
         {experts, 2 * expert_size, hidden},
         [&](size_t r, size_t c) {
             return ((r / expert_size * 2 + 1) * expert_size + r % expert_size) * hidden + c;
         }},
        {"gate in even columns",
         Role::expert_gate,
         experts_gate_up_columns,
         {experts, hidden, 2 * expert_size},
         [&](size_t r, size_t c) {
             return (r / expert_size * hidden + c) * 2 * expert_size + r % expert_size * 2;
         }},
        {"up in odd columns",
         Role::expert_up,
         experts_gate_up_columns,
         {experts, hidden, 2 * expert_size},
         [&](size_t r, size_t c) {
             return (r / expert_size * hidden + c) * 2 * expert_size + r % expert_size * 2 + 1;
         }},
        {"up in the second half of columns",
         Role::expert_up,
         experts_gate_up_halves,
         {experts, hidden, 2 * expert_size},
         [&](size_t r, size_t c) {
             return (r / expert_size * hidden + c) * 2 * expert_size + expert_size + r % expert_size;
         }},
        {"a head's rotating elements first",
         Role::q,
         q_rope_last,
         {heads * d, hidden},
         [&](size_t r, size_t c) { return (r / d * d + (r % d + d - 3) % d) * hidden + c; }},
        {"keys of the latent, transposed per head",
         Role::latent_k,
         latent_kv_b,
         {heads * (1 + 2), 5},
         [](size_t r, size_t c) { return (r / 5 * 3 + c) * 5 + r % 5; }},
        {"values of the latent",
         Role::latent_v,
         latent_kv_b,
         {heads * (1 + 2), 5},
         [](size_t r, size_t c) { return (r / 2 * 3 + 1 + r % 2) * 5 + c; }},
        {"up bias at odd places",
         Role::expert_up_bias,
         experts_gate_up_columns,
         {experts, 2 * expert_size},
         [](size_t, size_t c) { return 2 * c + 1; }},
    };
    const Architecture ordinary = small(), latent = small_latent();
    for (const Case& c : cases) {
        CAPTURE(c.name);
        HfFolder folder;
        size_t elements = 1;
        for (const uint64_t each : c.stored) elements *= each;
        std::vector<StoredTensor> tensors;
        for (size_t e = 0; e < c.tensors; ++e) folder.add(cat("t.", e), c.stored, float(e * elements));
        const TemporaryFolder on_disk(folder);
        std::vector<File> files;
        files.emplace_back((on_disk.path() / "model.safetensors").string());
        const Safetensors arrays((on_disk.path() / "model.safetensors").string());
        for (const auto& [name, array] : arrays.arrays())
            tensors.push_back({name, TensorType::f32, Decode::none, array.shape, 0, array.offset});
        const bool is_latent = c.layout == q_rope_last || c.layout == latent_kv_b;
        const Architecture& architecture = is_latent ? latent : ordinary;
        Catalog catalog("test", tensors);
        GatheredTensors source(std::move(files));

        const bool of_layer = role_rules()[size_t(c.role)].of_layer;
        const WeightRef ref{c.role, of_layer ? 1 : -1};
        const TensorRow row{c.role, "t.@", c.layout};
        BoundWeights bound = bind_one(architecture, ref, row, catalog, source);
        source.set_recipes(std::move(bound.recipes));
        const TensorView& view = bound.weights.at(ref);
        const std::vector<float> values = gather(source, view);
        for (size_t r = 0; r < view.rows; ++r)
            for (size_t k = 0; k < view.cols; ++k) {
                CAPTURE(r);
                CAPTURE(k);
                REQUIRE(values[r * view.cols + k] == float(c.element(r, k)) + c.add);
            }
        for (size_t first = 0; first < values.size(); first += 3) {  // also across rows and strips
            std::vector<float> piece(std::min<size_t>(23, values.size() - first));
            source.read(view, first * 4, std::as_writable_bytes(std::span(piece)));
            CHECK(std::equal(piece.begin(), piece.end(), values.begin() + long(first)));
        }

        // The same tensor with one row more is another shape.
        std::vector<StoredTensor> wrong = tensors;
        ++wrong.back().shape[0];
        Catalog misshapen("test", wrong);
        CHECK_THROWS_WITH_AS(bind_one(architecture, ref, row, misshapen, source),
                             doctest::Contains("expected ["), Error);
    }
}

TEST_CASE("values are made when the tensors before them have proven the sizes") {
    const Architecture architecture = small();
    Synthesised made;
    bool early = false;
    made[{Role::position_embedding}] = [&] {
        early = true;
        return std::vector<float>();
    };
    const TensorRow row{Role::token_embedding, "t"};
    const std::span<const TensorRow> rows(&row, 1);
    Catalog catalog("test", {{"t", TensorType::f32, Decode::none, {11, hidden + 1}}});
    CHECK_THROWS_WITH_AS(bind_weights(architecture, std::span(&rows, 1), {}, made, catalog,
                                      GatheredTensors(std::vector<File>())),
                         doctest::Contains("tensor t: expected [11, 10]"), Error);
    CHECK(!early);
}

TEST_CASE("buckets are expanded by distance") {
    const Architecture architecture = small();
    HfFolder folder;
    folder.add("t.0", {16, heads});
    const TemporaryFolder on_disk(folder);
    const std::string path = (on_disk.path() / "model.safetensors").string();
    std::vector<File> files;
    files.emplace_back(path);
    GatheredTensors source(std::move(files));
    Catalog catalog(
        "test",
        {{"t.0", TensorType::f32, Decode::none, {16, heads}, 0, Safetensors(path).array("t.0").offset}});
    BoundWeights bound = bind_one(architecture, {Role::position_bias, 0},
                                  {Role::position_bias, "t.0", Layout::buckets}, catalog, source);
    source.set_recipes(std::move(bound.recipes));
    const std::vector<float> table = gather(source, bound.weights.at({Role::position_bias, 0}));
    for (uint32_t n = 0; n < 41; ++n) {
        const double share = std::log(n / 8.0) / std::log(40 / 8.0);
        const int bucket = n < 8 ? int(n) : std::min(15, 8 + int(std::floor(share * 8)));
        for (uint32_t head = 0; head < heads; ++head)
            CHECK(table[head * 41 + n] == float(bucket * int(heads) + int(head)));
    }
}

TEST_CASE("numbers that no device reads are decoded") {
    struct Case {
        const char* type;
        std::string bytes;
        std::vector<float> expected;
        TensorType read_as;
    };
    const auto bytes_of = [](auto... values) {
        std::string bytes;
        (bytes.append(reinterpret_cast<const char*>(&values), sizeof values), ...);
        return bytes;
    };
    const auto tiny = [](uint8_t bits) { return char(bits); };
    const Case cases[] = {
        {"F64", bytes_of(1.5, -2e-3), {1.5f, -2e-3f}, TensorType::f32},
        {"F32", bytes_of(1.5f, -2e-3f), {1.5f, -2e-3f}, TensorType::f32},
        {"BF16", bytes_of(uint16_t{0x3FC0}, uint16_t{0xC000}), {1.5f, -2}, TensorType::bf16},
        // Largest, smallest, subnormal: Micikevicius et al. 2022, table 1.
        {"F8_E4M3",
         {tiny(0x7E), tiny(0x08), tiny(0x81), tiny(0x38)},
         {448, 0x1p-6f, -0x1p-9f, 1},
         TensorType::bf16},
        {"F8_E5M2",
         {tiny(0x7B), tiny(0x04), tiny(0x81), tiny(0x3C)},
         {57344, 0x1p-14f, -0x1p-16f, 1},
         TensorType::bf16},
        {"I8", bytes_of(int8_t{-3}, int8_t{100}), {-3, 100}, TensorType::f32},
        {"U16", bytes_of(uint16_t{65535}, uint16_t{1}), {65535, 1}, TensorType::f32},
        {"I64", bytes_of(int64_t{-5}, int64_t{7}), {-5, 7}, TensorType::f32},
    };
    for (const Case& c : cases) {
        CAPTURE(c.type);
        HfFolder folder = tiny_hf_llama();
        HfFolder::Tensor& weights = folder.tensors["model.layers.0.mlp.up_proj.weight"];
        weights.type = c.type;
        weights.bytes.clear();
        for (size_t i = 0; i < 12 * 8 / c.expected.size(); ++i) weights.bytes += c.bytes;
        const TemporaryFolder on_disk(folder);
        const Model model = open_model(on_disk.path());
        CHECK(model.weights.at({Role::up, 0}).type == c.read_as);
        const std::vector<float> values = floats_of(model, {Role::up, 0});
        for (size_t i = 0; i < values.size(); ++i) CHECK(values[i] == c.expected[i % c.expected.size()]);
    }
    HfFolder folder = tiny_hf_llama();  // vectors enter sums: F32
    folder.tensors["model.norm.weight"] = {"F16", {8}, {}};
    for (int i = 0; i < 2; ++i)
        folder.tensors["model.norm.weight"].bytes +=
            bytes_of(uint16_t{0x3C00}, uint16_t{0xC100}, uint16_t{0x0001}, uint16_t{0x7BFF});
    const TemporaryFolder on_disk(folder);
    const Model model = open_model(on_disk.path());
    CHECK(model.weights.at({Role::output_norm}).type == TensorType::f32);
    CHECK(floats_of(model, {Role::output_norm}) ==
          std::vector<float>{1, -2.5f, 0x1p-24f, 65504, 1, -2.5f, 0x1p-24f, 65504});
}
