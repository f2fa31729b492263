// Models split over several GGUF files: opened by any part, and refused with the fault's name.
#include "gguf_split.h"

#include "fail.h"
#include "file.h"
#include "gguf_builder.h"
#include "model.h"
#include "system.h"

#include <doctest/doctest.h>

#include <fstream>
#include <functional>

using namespace scoria;
using namespace scoria::test;

namespace {

/// tiny_llama in three parts, dealt out in turn; the first also has the metadata.
std::vector<GgufFile> three_parts() {
    GgufFile whole = tiny_llama();
    float value = 0;  // every tensor its own
    for (auto& [name, tensor] : whole.tensors) {
        const std::vector<uint64_t> dimensions = tensor.dimensions;
        whole.add(name, dimensions, value += 0.25f);
    }
    std::vector<GgufFile> parts(3);
    parts[0].metadata = whole.metadata;
    size_t turn = 0;
    for (const auto& [name, tensor] : whole.tensors) parts[turn++ % 3].tensors[name] = tensor;
    for (uint32_t no = 0; no < 3; ++no) {
        parts[no].metadata["split.no"] = no;
        parts[no].metadata["split.count"] = 3u;
        parts[no].metadata["split.tensors.count"] = static_cast<uint32_t>(whole.tensors.size());
    }
    return parts;
}

/// A folder of its own that goes with the object.
struct Folder {
    std::filesystem::path path;
    explicit Folder(const std::vector<GgufFile>& parts)
        : path(std::filesystem::temp_directory_path() / path_of(cat("scoria-spl\u0131t-", process_id()))) {
        std::filesystem::create_directories(path);
        for (size_t no = 0; no < parts.size(); ++no)
            std::ofstream(part(no), std::ios::binary) << parts[no].bytes();
    }
    ~Folder() { std::filesystem::remove_all(path); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    std::filesystem::path part(size_t no) const {
        return path / ("m-0000" + std::to_string(no + 1) + "-of-00003.gguf");
    }
};

std::vector<float> values_of(const Model& model, const TensorView& view) {
    std::vector<float> values(uint64_t{view.rows} * view.cols);
    model.tensors->read(view, 0, std::as_writable_bytes(std::span(values)));
    return values;
}

}  // namespace

TEST_CASE("a split model opens by any of its parts") {
    const Folder folder(three_parts());
    std::vector<bool> seen(3);
    for (const size_t opened : {0u, 1u, 2u}) {
        const Model model = open_model(folder.part(opened));
        CHECK(model.architecture.layers.size() == 1);
        float expected = 0;  // names in order, as they were filled
        std::map<std::string, TensorView> by_name;
        for (const auto& [ref, view] : model.weights) by_name[view.name] = view;
        CHECK(by_name.size() == tiny_llama().tensors.size());
        for (const auto& each : by_name) {
            const TensorView& view = each.second;
            CAPTURE(view.name);
            expected += 0.25f;
            const std::vector<float> values = values_of(model, view);
            CHECK(values.front() == expected);
            CHECK(values.back() == expected);
            seen[view.file] = true;
        }
    }
    CHECK(seen == std::vector<bool>(3, true));
}

TEST_CASE("a split model with a fault is refused") {
    struct Case {
        const char* name;
        std::function<void(std::vector<GgufFile>&)> change;
        const char* expected;
    };
    const Case cases[] = {
        {"part missing", [](auto& parts) { parts.pop_back(); }, "m-00003-of-00003.gguf"},
        {"wrong number", [](auto& parts) { parts[2].metadata["split.no"] = 1u; }, "expected split.no 2 of 3"},
        {"no number", [](auto& parts) { parts[1].metadata.erase("split.no"); }, "expected split.no 1 of 3"},
        {"wrong count", [](auto& parts) { parts[1].metadata["split.count"] = 4u; }, "got 1 of 4"},
        {"too many", [](auto& parts) { parts[0].metadata["split.count"] = 5000u; }, "split.count: expected"},
        {"past the count", [](auto& parts) { parts[0].metadata["split.no"] = 3u; }, "split.count: expected"},
        {"another name", [](auto& parts) { parts[0].metadata["split.no"] = 1u; }, "-00002-of-00003.gguf"},
        {"twice",
         [](auto& parts) {
             parts[2].add("token_embd.weight", {8, 16});
         },
         "expected in one part"},
        {"fewer tensors",
         [](auto& parts) {
             for (GgufFile& part : parts) part.metadata["split.tensors.count"] = 99u;
         },
         "split.tensors.count: expected 99"},
    };
    for (const Case& c : cases) {
        CAPTURE(c.name);
        std::vector<GgufFile> parts = three_parts();
        c.change(parts);
        const Folder folder(parts);
        std::string error;
        try {
            open_model(folder.part(0));
        } catch (const Error& e) {
            error = e.what();
        }
        CAPTURE(error);
        CHECK(error.find(c.expected) != std::string::npos);
    }
}
