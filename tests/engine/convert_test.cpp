// Whole files rewritten in other types: what is kept, what changes, and what is left when it goes wrong.
#include "loader/gguf_builder.h"

#include "fail.h"
#include "file.h"
#include "model.h"
#include "on_system.h"
#include "quantise/convert.h"
#include "reference/weights.h"
#include "system.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>

namespace fs = std::filesystem;
using namespace scoria;
using namespace scoria::test;

namespace {

/// A folder of its own that goes with the object.
struct Folder {
    fs::path path;
    Folder() : path(fs::temp_directory_path() / cat("scoria-convert-", process_id())) {
        fs::create_directories(path);
    }
    ~Folder() { fs::remove_all(path); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    std::string file(const std::string& name) const { return (path / name).string(); }
    size_t files() const {
        return static_cast<size_t>(std::distance(fs::directory_iterator(path), fs::directory_iterator()));
    }
};

void write(const std::string& path, const std::string& bytes) {
    std::ofstream out(path, std::ios::binary);
    out << bytes;
    REQUIRE(out.flush());
}

void randomise(GgufFile& file) {
    uint32_t state = 5;
    for (auto& [name, tensor] : file.tensors)
        for (size_t i = 0; i < tensor.data.size(); i += sizeof(float)) {
            state = state * 1664525u + 1013904223u;
            const float value = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-33f;
            std::memcpy(tensor.data.data() + i, &value, sizeof value);
        }
}

/// A llama whose rows hold blocks of 256.
GgufFile wide_llama() {
    constexpr uint32_t hidden = 256, kv = 128, size = 512, vocab = 64, layers = 8;
    GgufFile file;
    file.metadata = {
        {"general.architecture", "llama"},
        {"llama.block_count", layers},
        {"llama.context_length", 64u},
        {"llama.embedding_length", hidden},
        {"llama.feed_forward_length", size},
        {"llama.attention.head_count", 4u},
        {"llama.attention.head_count_kv", 2u},
        {"llama.attention.layer_norm_rms_epsilon", 1e-5f},
        {"llama.rope.freq_base", 10000.0f},
        {"general.name", "kept"},
        {"test.list", std::vector<float>{1, 2, 3}},
    };
    file.add("token_embd.weight", {hidden, vocab});
    file.add("output.weight", {hidden, vocab});
    file.add("output_norm.weight", {hidden});
    for (uint32_t i = 0; i < layers; ++i) {
        const std::string layer = cat("blk.", i, ".");
        for (const char* norm : {"attn_norm.weight", "ffn_norm.weight"}) file.add(layer + norm, {hidden});
        file.add(layer + "attn_q.weight", {hidden, hidden});
        file.add(layer + "attn_k.weight", {hidden, kv});
        file.add(layer + "attn_v.weight", {hidden, kv});
        file.add(layer + "attn_output.weight", {hidden, hidden});
        file.add(layer + "ffn_gate.weight", {hidden, size});
        file.add(layer + "ffn_up.weight", {hidden, size});
        file.add(layer + "ffn_down.weight", {size, hidden});
    }
    randomise(file);
    return file;
}

ConvertReport convert_file(const std::string& in, const std::string& out, const char* type,
                           uint32_t threads = 2) {
    return convert(*open_conversion_source(in), out, {.recipe = find_recipe(type), .threads = threads});
}

std::string message_of(const std::function<void()>& work) {
    try {
        work();
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

/// Names, shapes and facts without data.
class ShapesOnly final : public ConversionSource {
  public:
    ShapesOnly(std::vector<Tensor> tensors, Facts facts) {
        tensors_ = std::move(tensors);
        facts_ = facts;
    }
    std::vector<std::string> paths() const override { return {}; }
    void metadata(GgufWriter&) const override {}
    void read_rows(size_t, uint64_t, std::span<std::byte>) const override {}
};

/// The tensors of a llama.
ShapesOnly llama_shapes(uint64_t layers, uint64_t hidden, uint64_t size, uint64_t heads, uint64_t kv_heads) {
    std::vector<ConversionSource::Tensor> tensors = {{"token_embd.weight", {hidden, 1000}},
                                                     {"output_norm.weight", {hidden}}};
    const uint64_t kv = hidden / heads * kv_heads;
    for (uint64_t i = 0; i < layers; ++i) {
        const std::string layer = cat("blk.", i, ".");
        tensors.push_back({layer + "attn_norm.weight", {hidden}});
        tensors.push_back({layer + "attn_q.weight", {hidden, hidden}});
        tensors.push_back({layer + "attn_k.weight", {hidden, kv}});
        tensors.push_back({layer + "attn_v.weight", {hidden, kv}});
        tensors.push_back({layer + "attn_output.weight", {hidden, hidden}});
        tensors.push_back({layer + "ffn_gate.weight", {hidden, size}});
        tensors.push_back({layer + "ffn_up.weight", {hidden, size}});
        tensors.push_back({layer + "ffn_down.weight", {size, hidden}});
    }
    return {std::move(tensors), {.layers = layers, .heads = heads, .kv_heads = kv_heads}};
}

/// Those of T5 that the rules are about, of an encoder and a decoder with so many layers each.
ShapesOnly t5_shapes(uint64_t layers) {
    std::vector<ConversionSource::Tensor> tensors = {{"token_embd.weight", {256, 1000}}};
    for (const char* stack : {"enc.blk.", "dec.blk."})
        for (uint64_t i = 0; i < layers; ++i) {
            const std::string layer = cat(stack, i, ".");
            tensors.push_back({layer + "attn_v.weight", {256, 256}});
            if (*stack == 'd') tensors.push_back({layer + "cross_attn_v.weight", {256, 256}});
            tensors.push_back({layer + "ffn_down.weight", {256, 256}});
        }
    return {std::move(tensors), {.layers = layers, .heads = 4, .kv_heads = 4}};
}

/// Of layers by turns a recurrence, attention and a feed-forward, as Nemotron-H has them.
ShapesOnly turns_shapes(uint64_t layers) {
    std::vector<ConversionSource::Tensor> tensors = {{"token_embd.weight", {256, 1000}}};
    for (uint64_t i = 0; i < layers; ++i)
        tensors.push_back({cat("blk.", i,
                               i % 3 == 0   ? ".ssm_in.weight"
                               : i % 3 == 1 ? ".attn_v.weight"
                                            : ".ffn_down.weight"),
                           {256, 256}});
    return {std::move(tensors), {.layers = layers, .heads = 4, .kv_heads = 4}};
}

/// Of eight experts.
ShapesOnly experts_shapes(uint64_t layers) {
    std::vector<ConversionSource::Tensor> tensors = {{"token_embd.weight", {256, 1000}}};
    for (uint64_t i = 0; i < layers; ++i) {
        tensors.push_back({cat("blk.", i, ".attn_output.weight"), {256, 256}});
        tensors.push_back({cat("blk.", i, ".ffn_down_exps.weight"), {256, 256, 8}});
    }
    return {std::move(tensors), {.layers = layers, .heads = 4, .kv_heads = 4, .experts = 8}};
}

}  // namespace

TEST_CASE("convert: every type, with all metadata, and near the original") {
    const Folder folder;
    const GgufFile source = wide_llama();
    write(folder.file("in.gguf"), source.bytes());
    const Model original = open_model(folder.file("in.gguf"));
    struct Bound {
        const char* recipe;
        double relative;  // root mean square of the error over that of the weights, uniform on [-1/4, 1/4]
    };
    constexpr Bound bounds[] = {
        {"F32", 0},       {"F16", 0.0003},  {"BF16", 0.0023}, {"Q8_0", 0.005}, {"INT8", 0.005},
        {"Q6_K", 0.02},   {"Q5_K_M", 0.03}, {"Q5_K_S", 0.03}, {"Q5_1", 0.04},  {"Q5_0", 0.04},
        {"Q4_K_M", 0.06}, {"Q4_K_S", 0.06}, {"Q4_1", 0.065},  {"Q4_0", 0.08},  {"IQ4_NL", 0.09},
        {"Q3_K_L", 0.17}, {"Q3_K_M", 0.17}, {"Q3_K_S", 0.17}, {"Q2_K", 0.3},
    };
    REQUIRE(std::size(bounds) == recipes().size());
    for (const Bound& bound : bounds) {
        CAPTURE(std::string(bound.recipe));
        const std::string out = folder.file(cat(bound.recipe, ".gguf"));
        const ConvertReport report = convert_file(folder.file("in.gguf"), out, bound.recipe);
        CHECK(report.fallbacks == 0);
        CHECK(report.file_bytes == fs::file_size(out));
        const Gguf header = read_gguf(File(out));
        CHECK(header.version == 3);
        CHECK(header.metadata.integer("general.file_type") == find_recipe(bound.recipe)->file_type);
        CHECK(header.metadata.integer("general.quantization_version") == 2);
        CHECK(*header.metadata.text("general.name") == "kept");
        CHECK(header.metadata.numbers("test.list") == std::vector<double>{1, 2, 3});
        const Model model = open_model(out);
        REQUIRE(model.weights.size() == original.weights.size());
        for (const auto& [ref, view] : model.weights) {
            const TensorView& from = original.weights.at(ref);
            CAPTURE(from.name);
            const std::vector<double> x = reference::values_of(*original.tensors, from);
            const std::vector<double> y = reference::values_of(*model.tensors, view);
            double error = 0, total = 0;
            for (size_t i = 0; i < x.size(); ++i) {
                error += (x[i] - y[i]) * (x[i] - y[i]);
                total += x[i] * x[i];
            }
            const bool vector = view.rows == 1;
            if (vector) CHECK(view.type == TensorType::f32);
            CHECK(std::sqrt(error / total) <= (vector ? 0 : bound.relative));
        }
    }
}

TEST_CASE("convert: factors that NVFP4 has apart are in its numbers afterwards") {
    const Folder folder;
    GgufFile source = wide_llama();
    const std::string name = "blk.3.ffn_up";
    GgufFile::Tensor& blocks = source.tensors.at(name + ".weight");
    const size_t weights = blocks.data.size() / sizeof(float);
    blocks.type = static_cast<uint32_t>(TensorType::nvfp4);
    blocks.data.clear();
    for (size_t i = 0; i < weights / 64 * 36; ++i)
        blocks.data += char(i % 36 < 4 ? 0x30 + i / 36 % 9 : i * 37);
    write(folder.file("plain.gguf"), source.bytes());
    source.add(name + ".scale", {1}, 0.375f);
    source.add(name + ".input_scale", {1});
    write(folder.file("in.gguf"), source.bytes());
    convert_file(folder.file("in.gguf"), folder.file("out.gguf"), "F32");
    const Model plain = open_model(folder.file("plain.gguf")), out = open_model(folder.file("out.gguf"));
    CHECK(out.unused.empty());
    const TensorView& view = out.weights.at({Role::up, 3});
    CHECK(view.type == TensorType::f32);
    const std::vector<double> before = reference::values_of(*plain.tensors, plain.weights.at({Role::up, 3}));
    const std::vector<double> after = reference::values_of(*out.tensors, view);
    CHECK(std::ranges::equal(before, after, [](double x, double y) { return 0.375 * x == y; }));
}

TEST_CASE("convert: the same bytes for any number of threads") {
    const Folder folder;
    write(folder.file("in.gguf"), wide_llama().bytes());
    for (const char* type : {"Q4_K_M", "Q3_K_S", "IQ4_NL"}) {
        convert_file(folder.file("in.gguf"), folder.file("1.gguf"), type, 1);
        convert_file(folder.file("in.gguf"), folder.file("4.gguf"), type, 4);
        CHECK(read_file(folder.file("1.gguf")) == read_file(folder.file("4.gguf")));
    }
}

TEST_CASE("convert: a killed or interrupted run leaves nothing under the name" * doctest::skip(!can_kill)) {
    const Folder folder;
    const std::string in = folder.file("in.gguf"), out = folder.file("out.gguf");
    write(in, wide_llama().bytes());
    write(out, "old");
    const auto source = open_conversion_source(in);
    int calls = 0;
    ConvertOptions options{.recipe = find_recipe("Q4_K_M"), .threads = 1};

    options.progress = [&](uint64_t, uint64_t) { return ++calls < 3; };
    CHECK(message_of([&] { convert(*source, out, options); }).find("interrupted") != std::string::npos);
    CHECK(calls == 3);
    CHECK(read_file(out) == "old");
    CHECK(folder.files() == 2);

    options.progress = [&](uint64_t, uint64_t) {
        if (++calls > 6) end_process();
        return true;
    };
    REQUIRE(ends_process([&] { convert(*source, out, options); }));
    CHECK(read_file(out) == "old");
    CHECK(folder.files() == 3);  // the stale partial file, which the next run takes over

    options.progress = nullptr;
    convert(*source, out, options);
    CHECK(folder.files() == 2);
    convert_file(in, folder.file("again.gguf"), "Q4_K_M");
    CHECK(read_file(out) == read_file(folder.file("again.gguf")));
}

TEST_CASE("convert: a file that two processes write") {
    const Folder folder;
    const std::string path = folder.file("out");
    NewFile first(path, 4);
    CHECK(message_of([&] { NewFile second(path, 4); }).find("another process") != std::string::npos);
    const std::vector<std::byte> bytes(4, std::byte{'x'});
    first.write(0, bytes);
    first.commit();
    CHECK(read_file(path) == "xxxx");
    CHECK(folder.files() == 1);
    CHECK(message_of([&] { NewFile huge(path, 1ull << 60); }).find("cannot be reserved") !=
          std::string::npos);
    CHECK(message_of([&] { NewFile lost(folder.file("none/out"), 4); }).find("cannot be created") !=
          std::string::npos);
    CHECK(folder.files() == 1);
}

TEST_CASE("convert: what is refused") {
    const Folder folder;
    const std::string in = folder.file("in.gguf"), out = folder.file("out.gguf");
    const auto with = [&](size_t at, float value) {
        GgufFile file = wide_llama();
        std::memcpy(file.tensors["blk.3.attn_k.weight"].data.data() + at * sizeof value, &value,
                    sizeof value);
        write(in, file.bytes());
    };
    struct Case {
        float value;
        const char* type;
        std::string expected;
    };
    const float infinity = std::numeric_limits<float>::infinity();
    const Case cases[] = {
        {std::nanf(""), "Q4_K_M", "tensor blk.3.attn_k.weight, row 2, column 5: expected a number"},
        {infinity, "Q8_0", "blk.3.attn_k.weight, row 2, column 5"},
        {-infinity, "F16", "blk.3.attn_k.weight, row 2, column 5"},
        {65505.0f, "F16", "up to 65504 for F16, got 65505"},
        {40000.0f, "Q4_0", "up to 32768 for Q4_0"},
        {40000.0f, "F16", "no error"},
        {1e30f, "BF16", "no error"},
    };
    for (const Case& c : cases) {
        CAPTURE(c.value);
        CAPTURE(std::string(c.type));
        with(2 * 256 + 5, c.value);
        const std::string message = message_of([&] { convert_file(in, out, c.type); });
        CAPTURE(message);
        CHECK(message.find(c.expected) != std::string::npos);
        CHECK(fs::exists(out) == (c.expected == "no error"));
        fs::remove(out);
        CHECK(folder.files() == 1);
    }
    CHECK(message_of([&] { convert_file(in, in, "Q8_0"); }).find("expected another file") !=
          std::string::npos);

    GgufFile file = wide_llama();
    file.add("v.patch.weight", {256, 4, 2, 3});  // six matrices
    write(in, file.bytes());
    const std::tuple<const char*, size_t, const char*> wrong[] = {
        {"blk.0.attn_q.weight", 255, "expected 256 numbers, got 255"},
        {"v.patch.weight", 512, "expected 1536 numbers, got 512"},
    };
    for (const auto& [name, numbers, expected] : wrong) {
        const ImportanceMatrix importance = {{name, std::vector<float>(numbers, 1)}};
        const ConvertOptions options{.recipe = find_recipe("Q8_0"), .importance = &importance};
        const std::string message = message_of([&] { convert(*open_conversion_source(in), out, options); });
        CAPTURE(message);
        CHECK(message.find(expected) != std::string::npos);
    }
}

TEST_CASE("convert: types of tensors are the field's") {
    struct Count {
        TensorType type;
        uint32_t count;
    };
    struct Case {
        const char* name;
        ShapesOnly source;
        const char* recipe;
        std::vector<Count> counts;  // of the matrices
    };
    // SmolLM2's shape, counted in llama-quantize's files: only ffn_down divides by 256.
    const ShapesOnly small = llama_shapes(30, 576, 1536, 9, 3);
    using enum TensorType;
    const Case cases[] = {
        {"SmolLM2", small, "Q8_0", {{q8_0, 211}}},
        {"SmolLM2", small, "Q6_K", {{q8_0, 181}, {q6_k, 30}}},
        {"SmolLM2", small, "Q5_K_M", {{q5_1, 166}, {q8_0, 15}, {q5_k, 16}, {q6_k, 14}}},
        {"SmolLM2", small, "Q5_K_S", {{q5_1, 180}, {q8_0, 1}, {q5_k, 30}}},
        {"SmolLM2", small, "Q5_1", {{q5_1, 210}, {q8_0, 1}}},
        {"SmolLM2", small, "Q5_0", {{q5_0, 210}, {q8_0, 1}}},
        {"SmolLM2", small, "Q4_K_M", {{q5_0, 166}, {q8_0, 15}, {q4_k, 16}, {q6_k, 14}}},
        {"SmolLM2", small, "Q4_K_S", {{q5_0, 176}, {q5_1, 4}, {q8_0, 1}, {q4_k, 27}, {q5_k, 3}}},
        {"SmolLM2", small, "Q4_1", {{q4_1, 210}, {q8_0, 1}}},
        {"SmolLM2", small, "Q4_0", {{q4_0, 210}, {q8_0, 1}}},
        {"SmolLM2", small, "IQ4_NL", {{q8_0, 1}, {q5_k, 3}, {iq4_nl, 207}}},
        {"SmolLM2", small, "Q3_K_L", {{q4_0, 120}, {q5_1, 60}, {q8_0, 1}, {q5_k, 30}}},
        {"SmolLM2", small, "Q3_K_M", {{q4_0, 120}, {q5_0, 58}, {q5_1, 2}, {q8_0, 1}, {q4_k, 29}, {q5_k, 1}}},
        {"SmolLM2", small, "Q3_K_S", {{q4_0, 180}, {q8_0, 1}, {q3_k, 30}}},
        {"SmolLM2", small, "Q2_K", {{q4_0, 180}, {q8_0, 1}, {q3_k, 30}}},
        {"SmolLM2", small, "BF16", {{bf16, 211}}},
        {"SmolLM2", small, "F16", {{f16, 211}}},
        {"SmolLM2", small, "INT8", {{q8_0, 211}}},
        // Tensors of one kind are counted through, the decoder's before the encoder's; ffn_down by the layers
        // of one stack.
        {"T5", t5_shapes(8), "Q4_K_M", {{q6_k, 1 + 12 + 12}, {q4_k, 12 + 4}}},
        {"T5", t5_shapes(8), "Q4_K_S", {{q6_k, 1}, {q5_k, 4 + 1}, {q4_k, 20 + 15}}},
        // Of 24 layers 8 have attention, of which 0, 3, 6 and 7 are better, and 8 a feed-forward: 0, 1, 2, 5.
        {"Nemotron-H", turns_shapes(24), "Q4_K_M", {{q6_k, 1 + 4 + 4}, {q4_k, 8 + 4 + 4}}},
        {"Mixtral", experts_shapes(16), "Q3_K_L", {{q6_k, 1}, {q3_k, 16}, {q5_k, 16}}},
        {"Mixtral", experts_shapes(16), "Q3_K_M", {{q6_k, 1}, {q5_k, 16 + 1}, {q4_k, 15}}},
    };
    for (const Case& c : cases) {
        CAPTURE(std::string(c.name));
        CAPTURE(std::string(c.recipe));
        std::map<TensorType, uint32_t> counts;
        const std::vector<TensorType> types = choose_types(c.source, *find_recipe(c.recipe), false, false);
        for (size_t i = 0; i < types.size(); ++i) {
            if (c.source.tensors()[i].dimensions.size() > 1)
                ++counts[types[i]];
            else
                CHECK(types[i] == f32);
        }
        for (const Count& count : c.counts) {
            CAPTURE(std::string(tensor_type_info(count.type).name));
            CHECK(counts[count.type] == count.count);
            counts.erase(count.type);
        }
        for (const auto& left : counts) {
            CAPTURE(std::string(tensor_type_info(left.first).name));
            CHECK(left.second == 0);
        }
    }
}

TEST_CASE("convert: split files become one") {
    const Folder folder;
    const GgufFile whole = wide_llama();
    std::vector<GgufFile> parts(2);
    parts[0].metadata = whole.metadata;
    size_t turn = 0;
    for (const auto& [name, tensor] : whole.tensors) parts[turn++ % 2].tensors[name] = tensor;
    for (uint32_t no = 0; no < 2; ++no) {
        parts[no].metadata["split.no"] = no;
        parts[no].metadata["split.count"] = 2u;
        parts[no].metadata["split.tensors.count"] = static_cast<uint32_t>(whole.tensors.size());
        write(folder.file(cat("m-0000", no + 1, "-of-00002.gguf")), parts[no].bytes());
    }
    convert_file(folder.file("m-00002-of-00002.gguf"), folder.file("out.gguf"), "F32");
    const File file(folder.file("out.gguf"));
    const Gguf merged = read_gguf(file);
    CHECK(!merged.metadata.has("split.no"));
    CHECK(!merged.metadata.has("split.count"));
    REQUIRE(merged.tensors.size() == whole.tensors.size());
    for (const GgufTensor& tensor : merged.tensors) {
        std::string data(tensor_view(tensor).bytes(), '\0');
        file.read(tensor.offset, std::as_writable_bytes(std::span(data)));
        CHECK(data == whole.tensors.at(tensor.name).data);
    }
    CHECK(message_of([&] {
              convert_file(folder.file("m-00001-of-00002.gguf"), folder.file("m-00002-of-00002.gguf"), "F32");
          }).find("expected another file") != std::string::npos);
}
